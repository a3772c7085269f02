//! Writes of bags: each swaps the bag that was read for the next one.

use bytes::Bytes;
use tokio::time::Instant;
use uuid::{NoContext, Uuid};

use super::super::bag::{Bag, EntityName, StoredBag};
use super::super::bag_conditions::{BagConditions, BagError, BagTags};
use super::super::{Caller, Service, ServiceError};
use crate::actors::ListError;
use crate::background::entry_changes;
use crate::domain::document::DOCUMENT_BYTES_MAX;
use crate::domain::{
    Document, EntityId, EntityType, FeatureId, FeatureKey, Invalid, Item, ListKey, NewItem, Timestamp, Ttl,
};
use crate::items::{BagAfter, BagSwap, EntryChange, ReadBag, Swapped};
use crate::metadata::MetadataError;
use crate::metadata::catalog::CatalogVersion;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A write that was made.
struct WrittenBag {
    /// Whether there was a bag before.
    replaced: bool,
    /// `None` if it was removed.
    after: Option<NewItem>,
    /// The key of the bag's generation.
    bags: FeatureKey,
}

impl Service {
    pub(crate) async fn put_bag(
        &self,
        caller: &Caller,
        entity: EntityName,
        document: Document,
        conditions: BagConditions,
    ) -> Result<StoredBag, ServiceError> {
        let document = bounded(document.to_bytes())?;
        let put = |_: Option<&Item>| Ok(Some(document.clone()));
        let WrittenBag { replaced, after, .. } = self.write_bag(caller, &entity, &conditions, put).await?;
        let updated_at = after.map_or(Timestamp::MIN, |after| after.timestamp);
        Ok(StoredBag { entity, updated_at, is_created: !replaced })
    }

    pub(crate) async fn patch_bag(
        &self,
        caller: &Caller,
        entity: EntityName,
        patch: Document,
        conditions: BagConditions,
    ) -> Result<Bag, ServiceError> {
        let merge = |before: Option<&Item>| {
            let before = before.ok_or(BagError::NotFound)?;
            let document = Document::stored(&before.value).map_err(damaged)?;
            bounded(document.merged(patch.clone()).to_bytes()).map(Some)
        };
        let WrittenBag { after, .. } = self.write_bag(caller, &entity, &conditions, merge).await?;
        let NewItem { timestamp, value, .. } = after.ok_or(BagError::NotFound)?;
        let (lists, aggregates) = (Vec::new(), Vec::new());
        Ok(Bag { entity, updated_at: timestamp, document: value, lists, aggregates })
    }

    pub(crate) async fn delete_bag(
        &self,
        caller: &Caller,
        entity: EntityName,
        conditions: BagConditions,
    ) -> Result<(), ServiceError> {
        let take_out = |before: Option<&Item>| match before {
            Some(_) => Ok(None),
            None => Err(BagError::NotFound.into()),
        };
        self.write_bag(caller, &entity, &conditions, take_out).await?;
        Ok(())
    }

    pub(crate) async fn create_bag(
        &self,
        caller: &Caller,
        entity_type: EntityType,
        document: Document,
    ) -> Result<StoredBag, ServiceError> {
        let unless_exists = BagConditions { matching: None, none_matching: Some(BagTags::Any) };
        let entity = EntityName { entity_type, entity_id: new_id(self.clock.now())? };
        // An ID in use is refused, so that no bag is lost.
        self.put_bag(caller, entity, document, unless_exists).await
    }

    /// Removes the bag of an entity that is erased, with its entries, and under the condition if there is one. Returns
    /// the key of the bag's generation, if there are bags.
    pub(in crate::service) async fn erase_bag(
        &self,
        caller: &Caller,
        entity: &EntityName,
        conditions: &BagConditions,
    ) -> Result<Option<FeatureKey>, ServiceError> {
        // A bag that the present TTL hides is also removed, with its entries.
        let sees = conditions.is_none().then_some(Ttl::ENDLESS);
        match self.write_bag_seen(caller, entity, conditions, sees, |_| Ok(None)).await {
            // Without bags there is nothing to erase, and no bag that could meet a condition.
            Err(ServiceError::Metadata(MetadataError::EntityTypeNotFound(_))) => {
                Ok(conditions.check(None).map(|()| None)?)
            }
            written => written.map(|written| Some(written.bags)),
        }
    }

    /// Reads a bag, decides by it, and swaps it. Starts again if another write came first, as long as the caller waits.
    async fn write_bag(
        &self,
        caller: &Caller,
        entity: &EntityName,
        conditions: &BagConditions,
        decide: impl Fn(Option<&Item>) -> Result<Option<Bytes>, ServiceError>,
    ) -> Result<WrittenBag, ServiceError> {
        caller.take_items(1)?;
        self.write_bag_seen(caller, entity, conditions, None, decide).await
    }

    /// The same for the bag that another TTL shows, for a caller whose items are already counted.
    async fn write_bag_seen(
        &self,
        caller: &Caller,
        entity: &EntityName,
        conditions: &BagConditions,
        sees: Option<Ttl>,
        decide: impl Fn(Option<&Item>) -> Result<Option<Bytes>, ServiceError>,
    ) -> Result<WrittenBag, ServiceError> {
        let deadline = self.deadline(caller);
        let found = self.bags_of(&entity.entity_type, deadline).await?;
        let bags = found.feature_key;
        let list = ListKey::new(bags.clone(), entity.entity_id.clone());
        let ttl = sees.unwrap_or(found.properties.ttl);
        let (lists, id) = (self.lists_of(caller), FeatureId::of_bags(entity.entity_type.clone()));
        loop {
            // Before indexes are looked up: an index that is created from now on is built after this write.
            let is_in_step = self.metadata.is_in_step();
            let indexes = self.indexes_of(&id);
            let ReadBag { bag: before, row } = lists.bag_to_swap(list.clone(), ttl, deadline).await?;
            conditions.check(before.as_ref().map(|before| before.timestamp))?;
            let document = decide(before.as_ref())?;
            let after = document.map(|document| stamped(self.clock.now(), ttl, before.as_ref(), document));
            let replaced = before.is_some();
            if !replaced && after.is_none() {
                return Ok(WrittenBag { replaced, after, bags });
            }
            let entries = entry_changes(indexes.iter(), &entity.entity_id, before.as_ref(), after.as_ref())?;
            let stamp = before.as_ref().map(|before| before.timestamp);
            let known = || indexes.iter().map(|index| index.feature_key.clone()).collect();
            let entered_in = (!is_in_step).then(known);
            let swap = BagSwap { before: stamp, row, after: BagAfter::from(after.clone()), entries, entered_in };
            let swapped = lists.swap_bag(list.clone(), ttl, swap, deadline).await;
            let changed = || entry_changes(indexes.iter(), &entity.entity_id, before.as_ref(), after.as_ref());
            match swapped.inspect_err(|error| self.repair_after(error, &list, || changed().unwrap_or_default()))? {
                Swapped::Lost if Instant::now() < deadline => {}
                Swapped::Lost => return Err(ServiceError::DeadlineExceeded { outcome_unknown: false }),
                Swapped::Done => {
                    if let Some(after) = &after {
                        let newer = self.newer_indexes_of(&id, &indexes);
                        let entries = entry_changes(newer.iter(), &entity.entity_id, before.as_ref(), Some(after));
                        let entries = entries.unwrap_or_default();
                        if !entries.is_empty() {
                            let missing = entries.clone();
                            let (before, after) = (Some(after.timestamp), BagAfter::Same);
                            let swap = BagSwap { before, row: None, after, entries, entered_in: None };
                            // A later writer knows the index, and has entered the present bag.
                            let entered = lists.swap_bag(list.clone(), ttl, swap, deadline).await;
                            // The bag is already written, with any outcome of this swap.
                            let _done_or_lost = entered.map_err(|error| {
                                self.cleaner.bag(list.clone(), missing);
                                error.with_outcome_unknown()
                            })?;
                        }
                    }
                    return Ok(WrittenBag { replaced, after, bags });
                }
            }
        }
    }

    /// If a bag may have been swapped without its entries, reports it to the Cleaner.
    fn repair_after(&self, error: &ListError, bag: &ListKey, changes: impl FnOnce() -> Vec<EntryChange>) {
        if error.outcome_unknown() {
            self.cleaner.bag(bag.clone(), changes());
        }
    }

    /// The indexes of the bags of a type that this server knows.
    fn indexes_of(&self, bags: &FeatureId) -> Vec<CatalogVersion> {
        let Some(snapshot) = self.metadata.catalog().snapshot() else { return Vec::new() };
        snapshot.versions_of(bags).filter(|version| version.index.is_some()).cloned().collect()
    }

    /// The indexes that were created after these were looked up. Their builds may have passed the bag before it was
    /// written.
    fn newer_indexes_of(&self, bags: &FeatureId, known: &[CatalogVersion]) -> Vec<CatalogVersion> {
        let Some(snapshot) = self.metadata.catalog().snapshot() else { return Vec::new() };
        let is_new = |index: &&CatalogVersion| known.iter().all(|known| known.feature_key != index.feature_key);
        let indexes = snapshot.versions_of(bags).filter(|version| version.index.is_some());
        indexes.filter(is_new).cloned().collect()
    }
}

/// The bag to write now. Its stamp is greater than the previous one, and it expires as late as its TTL allows.
fn stamped(now: Timestamp, ttl: Ttl, before: Option<&Item>, document: Bytes) -> NewItem {
    let following = |before: &Item| Timestamp::saturating_from_nanos(u128::from(before.timestamp.as_nanos()) + 1);
    let timestamp = before.map_or(now, |before| now.max(following(before)));
    let expires_at = ttl.expiry_of(timestamp).min(Ttl::MAX.expiry_of(now));
    NewItem { timestamp, value: document, expires_at }
}

fn bounded(document: Bytes) -> Result<Bytes, ServiceError> {
    if document.len() > DOCUMENT_BYTES_MAX { Err(BagError::TooLarge.into()) } else { Ok(document) }
}

fn damaged(invalid: Invalid) -> ServiceError {
    ServiceError::Damaged(format!("a stored bag: {invalid}"))
}

/// A UUID of version 7 (RFC 9562, section 5.7): IDs of later moments are greater.
fn new_id(now: Timestamp) -> Result<EntityId, ServiceError> {
    let nanos = now.as_nanos();
    let moment = uuid::Timestamp::from_unix(NoContext, nanos / NANOS_PER_SEC, (nanos % NANOS_PER_SEC) as u32);
    EntityId::new(&Uuid::new_v7(moment).to_string()).map_err(ServiceError::invalid("entity_id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_always_exceeds_the_previous_one() {
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let before = |nanos| Item { timestamp: at(nanos), value: Bytes::new() };
        let (minute, secs) = (Ttl::parse("60s").unwrap(), NANOS_PER_SEC);
        for (now, present, expected) in [(5, None, 5), (5, Some(4), 5), (5, Some(5), 6), (5, Some(9), 10)] {
            let present: Option<Item> = present.map(before);
            let made = stamped(at(now), minute, present.as_ref(), Bytes::new());
            assert_eq!((made.timestamp.as_nanos(), made.expires_at), (expected, expected + 60 * secs));
        }
        // No store accepts an expiry more than 20 years from now.
        let ahead = before(9 * secs);
        let made = stamped(at(5), Ttl::MAX, Some(&ahead), Bytes::new());
        assert_eq!((made.timestamp.as_nanos(), made.expires_at), (9 * secs + 1, Ttl::MAX.expiry_of(at(5))));
    }

    #[test]
    fn new_ids_are_uuids_in_the_order_of_time() {
        let id = |millis: u64| new_id(Timestamp::from_nanos(millis * 1_000_000).unwrap()).unwrap();
        let ids = [id(1_724_949_845_430), id(1_724_949_845_431), id(1_800_000_000_000)];
        assert!(ids.is_sorted() && ids[0] != id(1_724_949_845_430));
        assert!(ids.iter().all(|id| Uuid::parse_str(id.as_str()).unwrap().get_version_num() == 7));
    }
}
