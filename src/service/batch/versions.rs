//! The feature versions of the lists of one call. Each is looked up, and its permission decided, once.

use std::collections::HashMap;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::super::requests::ListName;
use super::super::{Caller, Service, ServiceError};
use crate::access::{Permission, Resource, decide};
use crate::metadata::catalog::CatalogVersion;

/// Entity type, feature, version.
type VersionNames<'r> = (&'r str, &'r str, &'r str);

pub(super) struct BatchVersions {
    found: Vec<Result<CatalogVersion, ServiceError>>,
    /// For each list, the position of its version.
    of_lists: Vec<usize>,
}

impl BatchVersions {
    /// The version of a list, by the position of its request.
    pub fn of(&self, index: usize) -> &Result<CatalogVersion, ServiceError> {
        &self.found[self.of_lists[index]]
    }
}

impl Service {
    /// Looks up the versions of lists concurrently, because a lookup may wait for the metadata store.
    pub(super) async fn versions<'r>(
        &self,
        caller: &Caller,
        permission: Permission,
        lists: impl Iterator<Item = &'r ListName<'r>>,
        deadline: Instant,
    ) -> BatchVersions {
        let (mut distinct, mut places) = (Vec::<&ListName<'_>>::new(), HashMap::new());
        let (mut of_lists, mut last) = (Vec::with_capacity(lists.size_hint().0), None);
        for list in lists {
            let names = names(list);
            // Most requests name the feature of the previous request.
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
        BatchVersions { found: join_all(found).await, of_lists }
    }
}

fn names<'r>(list: &'r ListName<'r>) -> VersionNames<'r> {
    (list.entity_type, list.feature, &list.version)
}
