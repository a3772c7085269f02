//! The feature versions that the lists of one call belong to, each looked up and decided on once.

use std::collections::HashMap;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::super::requests::ListName;
use super::super::{Caller, Service, ServiceError};
use crate::access::{Permission, Resource, decide};
use crate::metadata::catalog::CatalogVersion;

/// Entity type, feature, version.
type Names<'r> = (&'r str, &'r str, &'r str);

pub(super) struct Versions {
    found: Vec<Result<CatalogVersion, ServiceError>>,
    /// Of each list, which of these it belongs to.
    of_lists: Vec<usize>,
}

impl Versions {
    /// That of a list, by the place of its request.
    pub fn of(&self, index: usize) -> &Result<CatalogVersion, ServiceError> {
        &self.found[self.of_lists[index]]
    }
}

impl Service {
    /// Looks the versions of lists up, all at once: a look-up may have to wait for the metadata store.
    pub(super) async fn versions<'r>(
        &self,
        caller: &Caller,
        permission: Permission,
        lists: impl Iterator<Item = &'r ListName<'r>>,
        deadline: Instant,
    ) -> Versions {
        let (mut distinct, mut places) = (Vec::<&ListName<'_>>::new(), HashMap::new());
        let (mut of_lists, mut last) = (Vec::with_capacity(lists.size_hint().0), None);
        for list in lists {
            let names = names(list);
            // Most are about the feature of the one before.
            let place = match last {
                Some((known, place)) if known == names => place,
                _ => *places.entry(names).or_insert_with(|| {
                    distinct.push(list);
                    distinct.len() - 1
                }),
            };
            last = Some((names, place));
            of_lists.push(place);
        }
        let found = distinct.into_iter().map(|list| async move {
            let resource = Resource::Feature { entity_type: list.entity_type, feature: list.feature };
            decide(&caller.principal, permission, resource)?;
            self.resolve(list, deadline).await
        });
        Versions { found: join_all(found).await, of_lists }
    }
}

fn names<'r>(list: &'r ListName<'r>) -> Names<'r> {
    (list.entity_type, list.feature, &list.version)
}
