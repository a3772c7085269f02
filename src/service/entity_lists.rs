//! Which lists an entity has: of all features that the caller may read.
//!
//! The candidates are the versions in the catalog. If the item store can, it names the lists that it holds anything of,
//! and only those are read. Otherwise each candidate is read, a bounded number for each page.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::Instant;

use super::bag::{EntityName, HeldList};
use super::{Caller, Listed, Service, ServiceError};
use crate::access::{ANSWER_BYTES_MIN, Permission, Resource, decide};
use crate::actors::ListPool;
use crate::domain::page::ListWalk;
use crate::domain::{FeatureKey, Limit, ListKey, Order, Timestamp, Value};
use crate::items::{Bounds, Range};
use crate::metadata::catalog::{CatalogVersion, Snapshot};

/// Lists in one question to the item store.
const CHECKED_AT_ONCE: usize = 8_192;
/// Lists that are read for a page.
const READS_MAX: usize = 1_000;
/// Lists that are read at once.
const READS_AT_ONCE: usize = 16;

/// The values of the newest items have room in any budget.
const _: () = assert!(READS_AT_ONCE * Value::BYTES_MAX <= ANSWER_BYTES_MIN);

impl Service {
    /// A page of the lists of an entity, by feature and version.
    pub(crate) async fn lists_of_entity(
        &self,
        caller: &Caller,
        entity: &EntityName,
        page_size: Limit,
        page_token: Option<&str>,
    ) -> Result<Listed<HeldList>, ServiceError> {
        caller.take_items(1)?;
        let began = Instant::now();
        let deadline = self.deadline(caller);
        let walk = ListWalk { entity_type: &entity.entity_type, entity_id: &entity.entity_id };
        let after =
            page_token.map(|token| walk.resume(token)).transpose().map_err(ServiceError::invalid("page_token"))?;
        let snapshot = self.metadata.catalog().snapshot().ok_or_else(|| ServiceError::CatalogUnavailable {
            reason: "the definitions are not loaded yet".to_owned(),
        })?;
        let mut candidates = candidates(&snapshot, caller, entity);
        candidates.retain(|version| after.as_deref().is_none_or(|after| version.feature_key.as_str() > after));
        let is_more = candidates.len() > CHECKED_AT_ONCE;
        candidates.truncate(CHECKED_AT_ONCE);
        let Some(mut last) = candidates.last().map(|version| &version.feature_key) else {
            return Ok((Vec::new(), None));
        };
        let list_of = |version: &CatalogVersion| ListKey::new(version.feature_key.clone(), entity.entity_id.clone());
        let pool = &*self.lists_of(caller);
        let held = pool.held(candidates.iter().copied().map(list_of).collect(), deadline).await?;
        let is_held = |place: usize| held.as_ref().is_none_or(|held| held.get(place).is_some_and(|is_held| *is_held));
        let all = candidates.iter().enumerate().filter(|(place, _)| is_held(*place)).map(|(_, version)| *version);
        let mut waiting: Vec<_> = all.take(READS_MAX + 1).collect();
        let mut is_more = is_more || waiting.len() > READS_MAX;
        if waiting.len() > READS_MAX {
            waiting.truncate(READS_MAX);
            last = waiting.last().map_or(last, |version| &version.feature_key);
        }
        self.reserve(caller, READS_AT_ONCE.min(waiting.len()) * Value::BYTES_MAX)?;
        // A page ends early rather than late.
        let halfway = began + deadline.saturating_duration_since(began) / 2;
        let reads = waiting.iter().map(|version| newest(pool, list_of(version), version, deadline));
        let (mut reads, mut found) = (stream::iter(reads).buffered(READS_AT_ONCE), Vec::new());
        for (place, version) in waiting.iter().enumerate() {
            let Some(read) = reads.next().await else { break };
            found.extend(read?.and_then(|newest| HeldList::of(version, newest)));
            if (found.len() >= page_size.get() || Instant::now() >= halfway) && place + 1 < waiting.len() {
                (last, is_more) = (&version.feature_key, true);
                break;
            }
        }
        caller.charge_items(found.len().saturating_sub(1));
        Ok((found, is_more.then(|| walk.token_after(last))))
    }
}

/// The versions of the entity's type that the caller may read, in the order of their keys.
fn candidates<'s>(snapshot: &'s Arc<Snapshot>, caller: &Caller, entity: &EntityName) -> Vec<&'s CatalogVersion> {
    let entity_type = entity.entity_type.as_str();
    let is_readable = |version: &&CatalogVersion| {
        feature_of(&version.feature_key, entity_type).is_some_and(|feature| {
            decide(&caller.principal, Permission::ListsRead, Resource::Feature { entity_type, feature }).is_ok()
        })
    };
    let mut found: Vec<_> = snapshot.versions().filter(is_readable).collect();
    found.sort_unstable_by(|a, b| a.feature_key.cmp(&b.feature_key));
    found
}

/// The feature of a key of this entity type. `None` for another type and for bags.
fn feature_of<'k>(key: &'k FeatureKey, entity_type: &str) -> Option<&'k str> {
    let rest = key.as_str().strip_prefix(entity_type)?.strip_prefix('#')?;
    Some(rest.split_once('|')?.0).filter(|name| !name.is_empty())
}

/// When the newest visible item of a list happened, if it has any.
async fn newest(
    pool: &ListPool,
    list: ListKey,
    version: &CatalogVersion,
    deadline: Instant,
) -> Result<Option<Timestamp>, ServiceError> {
    let Bounds { min_timestamp, max_timestamp } = Bounds::ALL;
    let range = Range {
        min_timestamp,
        max_timestamp,
        after: None,
        limit: 1,
        value_bytes_max: Value::BYTES_MAX,
        order: Order::Newest,
    };
    let (page, _) = pool.get(&list, version.properties.retention(), range, deadline).await?;
    Ok(page.items.first().map(|item| item.timestamp))
}
