//! Erases an entity: all of its lists and its bag, over all features, versions and generations that ever were.
//!
//! The metadata store, not the catalog, names the possible lists. So an erasure includes a feature that another server
//! has just created, and a deleted feature whose items have not expired. If the item store can, it reduces them to the
//! lists that it holds anything of.
//!
//! The audit trail has two entries of each erasure: one before the first list is cleared, and one with the outcome. So
//! an erasure that a crash interrupts is in the trail, too.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::bag::EntityName;
use super::bag_conditions::BagConditions;
use super::begun::{StepFailure, to_its_end};
use super::receipt::{ErasedList, Receipt};
use super::{Caller, Changes, Service, ServiceError, within};
use crate::actors::{ListError, ListPool};
use crate::domain::{EntityId, FeatureKey, Generation, ListKey, Timestamp, Ttl};
use crate::metadata::keys::erasures::{Erasure, ErasureAction, ErasureEntry};
use crate::metadata::{LastGeneration, MetadataError};

/// The longest wait of the caller. There may be thousands of lists.
const ERASE_TIMEOUT: Duration = Duration::from_secs(50);
/// Lists that are cleared concurrently. Few enough that the call does not use up the permits of an actor.
const CLEARED_AT_ONCE: usize = 16;
/// Lists in one question to the item store.
const CHECKED_AT_ONCE: usize = 8_192;
/// The maximum of lists that the audit trail names as not cleared. It also has their number.
const NAMED_FAILURES_MAX: usize = 100;

impl Service {
    pub(crate) async fn erase_entity(
        &self,
        caller: &Caller,
        entity: EntityName,
        conditions: BagConditions,
    ) -> Result<Receipt, ServiceError> {
        let deadline = Instant::now() + caller.patience(ERASE_TIMEOUT);
        // For the bag, and for the search of the lists.
        caller.take_items(1)?;
        let found = self.metadata.generations(entity.entity_type.clone());
        let found = within(caller, Changes::Nothing, found).await?;
        let newest_bag = found.iter().find(|last| last.id.is_of_bags() && last.version.is_default());
        let newest_bag = newest_bag.map(|last| FeatureKey::new(&last.id, &last.version, last.generation));
        let lists = self.held_lists(caller, found, &entity.entity_id, deadline).await?;
        caller.charge_items(lists.len());
        let (metadata, by) = (self.metadata.clone(), caller.author());
        let target = format!("entity:{}/{}", entity.entity_type, entity.entity_id.as_str());
        let note = move |details| Erasure { action: ErasureAction::EraseEntity, target: target.clone(), details };
        let noting = {
            let begun = begun(lists.len(), !conditions.is_none());
            let (metadata, begun, by) = (metadata.clone(), note(begun), by.clone());
            async move { metadata.note_erasure(begun, by).await.map_err(StepFailure::AtFirst) }
        };
        within(caller, Changes::Definitions, to_its_end(noting)).await?;
        // The bag is removed first, by a swap, because the caller may have set a condition on it. It is removed with
        // its entries in indexes, or stays.
        let kept = match self.erase_bag(caller, &entity, &conditions).await {
            Err(ServiceError::Bag(refused)) => {
                let ended = note(json!({"state": "refused"}));
                let noting = async move { metadata.note_erasure(ended, by).await.map_err(StepFailure::AtFirst) };
                if let Err(error) = to_its_end(noting).await {
                    tracing::warn!(%error, "cannot write the audit entry of a refused erasure");
                }
                return Err(refused.into());
            }
            Err(error) if !conditions.is_none() => return Err(error),
            Ok(Some(bags)) if newest_bag.as_ref().is_some_and(|newest| *newest != bags) => Some(created_again()),
            erased => erased.err(),
        };
        let EntityName { entity_type, entity_id } = entity;
        let (pool, timeout) = (self.lists_of(caller).into_owned(), self.options.operation_timeout);
        let erasing = async move {
            let clearing = lists.into_iter().map(|list| {
                let is_kept = newest_bag.as_ref() == Some(&list.key());
                let kept = kept.clone().filter(|_| is_kept);
                // Each has the time of one removal, within the remaining time.
                let deadline = move || deadline.min(Instant::now() + timeout);
                clear(&pool, list, &entity_id, kept, deadline)
            });
            let mut lists: Vec<_> = stream::iter(clearing).buffered(CLEARED_AT_ONCE).collect().await;
            // The receipt survives a loss of power, and so must the removals.
            let synced: Result<(), ServiceError> =
                pool.sync().await.map_err(|error| ListError::from(error.with_outcome_unknown()).into());
            if let Err(error) = &synced {
                lists.iter_mut().for_each(|list| list.outcome = Err(error.clone()));
            }
            let bytes_erased_by = erase_in_time(&pool).await;
            let noted = metadata.note_erasure(note(ended(&lists, &synced)), by).await.map_err(StepFailure::Begun)?;
            let ErasureEntry { at, by, .. } = noted;
            Ok(Receipt { entity_type, entity_id, at, by, lists, synced, bytes_erased_by })
        };
        Ok(to_its_end(erasing).await?)
    }

    /// The lists of an entity, of these versions, that the item store may hold anything of.
    async fn held_lists(
        &self,
        caller: &Caller,
        versions: Vec<LastGeneration>,
        entity_id: &EntityId,
        deadline: Instant,
    ) -> Result<Vec<ErasedList>, ServiceError> {
        // The other versions of bags are indexes, whose lists belong to values, not to entities.
        let of_entities = |last: &LastGeneration| !last.id.is_of_bags() || last.version.is_default();
        let pool = self.lists_of(caller).into_owned();
        let mut possible = versions.into_iter().filter(of_entities).flat_map(|last| self.lists_up_to(last));
        let mut found = Vec::new();
        loop {
            let part: Vec<_> = possible.by_ref().take(CHECKED_AT_ONCE).collect();
            if part.is_empty() {
                return Ok(found);
            }
            caller.charge_items(part.len() / CHECKED_AT_ONCE);
            let keys = part.iter().map(|list| ListKey::new(list.key(), entity_id.clone())).collect();
            match pool.held(keys, deadline).await? {
                Some(held) => found.extend(part.into_iter().zip(held).filter_map(|(list, held)| held.then_some(list))),
                None => found.extend(part),
            }
        }
    }

    /// The lists of all generations of a version, before they are cleared.
    fn lists_up_to(&self, last: LastGeneration) -> impl Iterator<Item = ErasedList> + use<> {
        let LastGeneration { id, version, generation } = last;
        let names = (id.entity_type.as_str(), id.name.as_str(), version.as_str());
        let present = self.metadata.catalog().version(names.0, names.1, names.2).map(|found| found.feature_key).ok();
        std::iter::successors(Generation::new(1).ok(), |before| Some(before.next()))
            .take_while(move |number| *number <= generation)
            .map(move |generation| {
                let is_present = present.as_ref() == Some(&FeatureKey::new(&id, &version, generation));
                let (id, version) = (id.clone(), version.clone());
                ErasedList { id, version, generation, is_present, outcome: Ok(()) }
            })
    }
}

/// The date from which no file holds the cleared items. `None` also if the store currently cannot promise one.
async fn erase_in_time(lists: &ListPool) -> Option<Timestamp> {
    let pool = lists.clone();
    match tokio::task::spawn_blocking(move || pool.erase_in_time()).await {
        Ok(Ok(by)) => by,
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot determine when erased bytes will leave the files");
            None
        }
        Err(_) => None,
    }
}

/// Clears a list, unless it is the list of a bag that cannot be removed together with its entries.
async fn clear(
    lists: &ListPool,
    list: ErasedList,
    entity_id: &EntityId,
    kept: Option<ServiceError>,
    deadline: impl FnOnce() -> Instant,
) -> ErasedList {
    if let Some(error) = kept {
        return ErasedList { outcome: Err(error), ..list };
    }
    let key = ListKey::new(list.key(), entity_id.clone());
    // Regardless of the TTL: all items are removed.
    let cleared = lists.remove_all(key, Ttl::MAX, deadline()).await;
    ErasedList { outcome: cleared.map_err(ListError::into), ..list }
}

/// The outcome for the newest bag if the bag of another generation was removed instead.
fn created_again() -> ServiceError {
    let reason = "the entity type was created again during the erasure".to_owned();
    MetadataError::Unavailable { reason, outcome_unknown: false }.into()
}

/// The details of the first entry of an erasure in the audit trail.
fn begun(lists: usize, is_conditional: bool) -> Json {
    json!({"state": "begun", "lists": lists, "conditional": is_conditional})
}

/// The details of its last entry.
fn ended(lists: &[ErasedList], synced: &Result<(), ServiceError>) -> Json {
    let failed: Vec<_> = lists.iter().filter(|list| list.outcome.is_err()).map(|list| list.key().to_string()).collect();
    let (cleared, not_cleared) = (lists.len() - failed.len(), failed.len());
    let named: Vec<_> = failed.into_iter().take(NAMED_FAILURES_MAX).collect();
    let mut details =
        json!({"state": "done", "lists_cleared": cleared, "lists_not_cleared": not_cleared, "not_cleared": named});
    if synced.is_err() {
        details["durable"] = false.into();
    }
    details
}
