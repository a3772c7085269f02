//! Repairs one bag, or one entry.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::metrics::Repair;
use super::queue::Wrong;
use crate::actors::{ListError, ListPool, MetadataHandle};
use crate::background::entries::{entry_changes, has_entry};
use crate::domain::index::ENTRIES_MAX;
use crate::domain::{EntityId, FeatureId, FeatureKey, Item, ListKey, NewItem, Timestamp, Ttl};
use crate::items::{BagAfter, BagSwap, Bounds, EntryChange, ReadBag, Swapped};
use crate::metadata::MetadataError;
use crate::metadata::catalog::CatalogVersion;

/// The time limit of one read, or one swap.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a repair must wait.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotNow {
    #[error(transparent)]
    Lists(#[from] ListError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// There may be indexes that this server does not have.
    #[error("the definitions have not been refreshed for too long")]
    OutOfStep,
}

pub(in crate::background) struct Repairer {
    pub metadata: MetadataHandle,
    pub lists: ListPool,
}

/// The definitions of the bags of a type.
struct Definitions {
    id: FeatureId,
    bags: FeatureKey,
    indexes: Vec<CatalogVersion>,
}

impl Repairer {
    /// Repairs a disagreement that still exists. Returns the repair, if there was one.
    pub(super) async fn repair(&self, wrong: &Wrong) -> Result<Option<Repair>, NotNow> {
        match wrong {
            Wrong::Bag { list, entries, noted } => {
                let last = noted.as_ref().filter(|noted| noted.is_last);
                // Checked before the definitions are looked up: an index that is created from now on is built after
                // this.
                if last.is_some() && !self.metadata.is_in_step() {
                    return Err(NotNow::OutOfStep);
                }
                let entered_in = noted.as_ref().and_then(|noted| noted.entered_in.as_deref());
                let is_whole = entered_in.is_some_and(|entered_in| self.has_no_other_index(list, entered_in));
                let repaired = !is_whole && self.bag(list, entries).await?;
                if let Some(noted) = last {
                    self.lists.finish_swap(noted.swap.clone(), deadline()).await?;
                }
                Ok(repaired.then_some(Repair::Bag))
            }
            Wrong::Entry { list, place, entity } => {
                let removed = self.entry(list, *place, entity).await?;
                Ok(removed.then_some(Repair::Entry))
            }
        }
    }

    /// Whether a bag that was entered in these indexes is in all there are.
    fn has_no_other_index(&self, list: &ListKey, entered_in: &[FeatureKey]) -> bool {
        let found = self.definitions(&list.feature_key);
        found.is_none_or(|found| found.indexes.iter().all(|index| entered_in.contains(&index.feature_key)))
    }

    /// Writes the entries of the present bag, and removes the entries that a change took out.
    async fn bag(&self, list: &ListKey, changes: &[EntryChange]) -> Result<bool, NotNow> {
        let Some(Definitions { id, bags, indexes }) = self.definitions(&list.feature_key) else { return Ok(false) };
        if bags != list.feature_key || indexes.is_empty() {
            return Ok(false);
        }
        let Some(bags) = self.metadata.feature(id).await? else { return Ok(false) };
        loop {
            let deadline = deadline();
            // Regardless of the present TTL: a bag that it hides can become visible again.
            let ReadBag { bag, row } = self.lists.bag_to_swap(list.clone(), Ttl::ENDLESS, deadline).await?;
            let current = bag.as_ref().map(|bag| NewItem {
                timestamp: bag.timestamp,
                value: bag.value.clone(),
                expires_at: bags.ttl_max.expiry_of(bag.timestamp),
            });
            // Such a bag is older than its index, or was put by a server without all of them.
            let entries = entry_changes(indexes.iter(), &list.entity_id, None, current.as_ref()).unwrap_or_else(|_| {
                tracing::warn!(
                    bags = list.feature_key.as_str(),
                    "a bag would have more than {ENTRIES_MAX} entries in the indexes of its type: it is left out of \
                     the indexes it is not in yet"
                );
                Vec::new()
            });
            let entries = with_removals(entries, changes, &indexes, bag.as_ref());
            if entries.is_empty() {
                return Ok(false);
            }
            if changed(&self.lists, list, ReadBag { bag, row }, entries, deadline).await? == Swapped::Done {
                return Ok(true);
            }
        }
    }

    /// Removes an entry, if it exists and its bag does not have it.
    pub async fn entry(&self, list: &ListKey, place: Timestamp, entity: &EntityId) -> Result<bool, ListError> {
        let Some(Definitions { bags, indexes, .. }) = self.definitions(&list.feature_key) else { return Ok(false) };
        let index = indexes.iter().find(|index| index.feature_key == list.feature_key);
        let Some(index) = index.and_then(|version| version.index.as_ref()) else { return Ok(false) };
        let bag_list = ListKey::new(bags, entity.clone());
        let value = Bytes::copy_from_slice(entity.as_str().as_bytes());
        let at_place = Bounds::of(Some(place), Some(place));
        loop {
            let deadline = deadline();
            let ReadBag { bag, row } = self.lists.bag_to_swap(bag_list.clone(), Ttl::ENDLESS, deadline).await?;
            if bag.as_ref().is_some_and(|bag| has_entry(index, bag, &list.entity_id, place)) {
                return Ok(false);
            }
            let wanted = vec![value.clone()];
            let found = self.lists.contains(list.clone(), Ttl::ENDLESS, at_place, wanted, deadline).await?;
            if found.iter().all(Option::is_none) {
                return Ok(false);
            }
            let removed = vec![(place, value.clone())];
            let entries = vec![EntryChange { list: list.clone(), removed, added: Vec::new() }];
            if changed(&self.lists, &bag_list, ReadBag { bag, row }, entries, deadline).await? == Swapped::Done {
                return Ok(true);
            }
        }
    }

    /// This server's definitions of a key.
    fn definitions(&self, key: &FeatureKey) -> Option<Definitions> {
        let (id, ..) = FeatureKey::parse(key.as_str())?;
        let snapshot = self.metadata.catalog().snapshot()?;
        let bags = snapshot.version(id.entity_type.as_str(), id.name.as_str(), "").ok()?.feature_key.clone();
        let indexes = snapshot.versions_of(&id).filter(|version| version.index.is_some()).cloned().collect();
        Some(Definitions { id, bags, indexes })
    }
}

/// Changes entries if the bag is unchanged since its read, or does not exist.
pub(in crate::background) async fn changed(
    lists: &ListPool,
    list: &ListKey,
    ReadBag { bag, row }: ReadBag,
    entries: Vec<EntryChange>,
    deadline: Instant,
) -> Result<Swapped, ListError> {
    let after = if bag.is_some() { BagAfter::Same } else { BagAfter::Gone };
    let swap = BagSwap { before: bag.map(|bag| bag.timestamp), row, after, entries, entered_in: None };
    lists.swap_bag(list.clone(), Ttl::ENDLESS, swap, deadline).await
}

fn deadline() -> Instant {
    Instant::now() + OPERATION_TIMEOUT
}

/// The needed entries, and the removal of entries that a change took out of existing indexes.
fn with_removals(
    mut entries: Vec<EntryChange>,
    changes: &[EntryChange],
    indexes: &[CatalogVersion],
    bag: Option<&Item>,
) -> Vec<EntryChange> {
    for EntryChange { list, removed, .. } in changes {
        let index = indexes.iter().find(|index| index.feature_key == list.feature_key);
        let Some(index) = index.filter(|_| !removed.is_empty()) else { continue };
        // Also where nothing is added, since the bag would have too many entries in all indexes together.
        let is_had = |at: Timestamp| {
            let index = index.index.as_ref();
            bag.zip(index).is_some_and(|(bag, index)| has_entry(index, bag, &list.entity_id, at))
        };
        let at = entries.iter().position(|change| change.list == *list).unwrap_or_else(|| {
            entries.push(EntryChange { list: list.clone(), removed: Vec::new(), added: Vec::new() });
            entries.len() - 1
        });
        let change = &mut entries[at];
        let is_added = |at: Timestamp, value: &Bytes| {
            change.added.iter().any(|entry| entry.timestamp == at && entry.value == *value)
        };
        let gone: Vec<_> =
            removed.iter().filter(|(at, value)| !is_added(*at, value) && !is_had(*at)).cloned().collect();
        change.removed.extend(gone);
    }
    entries.retain(|change| !change.removed.is_empty() || !change.added.is_empty());
    entries
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::definition::VersionProperties;
    use crate::domain::index::{Index, IndexEntry, IndexSpec, Pointer, ShallowDocument};
    use crate::domain::{EntityType, Generation, ValueType, VersionLabel};

    fn index(name: &str) -> CatalogVersion {
        let id = FeatureId::of_bags(EntityType::new("t").unwrap());
        let feature_key = FeatureKey::new(&id, &VersionLabel::new(name).unwrap(), Generation::FIRST);
        CatalogVersion {
            feature_key,
            value_type: ValueType::Json,
            properties: VersionProperties { ttl: Ttl::MIN, ..VersionProperties::default() },
            index: None,
        }
    }

    #[test]
    fn entries_of_the_bag_and_of_no_index_are_not_removed() {
        let (index, dropped) = (index("by"), self::index("dropped"));
        let list =
            |of: &CatalogVersion, values: &str| ListKey::new(of.feature_key.clone(), EntityId::new(values).unwrap());
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let value = Bytes::from_static(b"e");
        let change = |list: ListKey, removed: &[u64], added: &[u64]| EntryChange {
            list,
            removed: removed.iter().map(|nanos| (at(*nanos), value.clone())).collect(),
            added: added
                .iter()
                .map(|nanos| NewItem { timestamp: at(*nanos), value: value.clone(), expires_at: 9 })
                .collect(),
        };
        let present = vec![change(list(&index, "[1]"), &[], &[5])];
        let taken_out = [
            change(list(&index, "[1]"), &[4, 5], &[6]),
            change(list(&index, "[2]"), &[3], &[]),
            change(list(&index, "[3]"), &[], &[6]),
            change(list(&dropped, "[1]"), &[3], &[]),
        ];
        assert_eq!(
            with_removals(present, &taken_out, std::slice::from_ref(&index), None),
            [change(list(&index, "[1]"), &[4], &[5]), change(list(&index, "[2]"), &[3], &[])]
        );

        // It would have too many entries, so that none is added.
        let spec = Arc::new(IndexSpec::new(vec![Pointer::new("/a").unwrap()], None).unwrap());
        let bag = Item { timestamp: at(7), value: Bytes::from_static(br#"{"a":1}"#) };
        let document = ShallowDocument::parse(&bag.value).unwrap();
        let [IndexEntry { values, place }] = &spec.entries(&document, bag.timestamp).unwrap()[..] else {
            panic!("one")
        };
        let index = CatalogVersion { index: Some(Index { spec: Arc::clone(&spec), is_ready: true }), ..index };
        let list = ListKey::new(index.feature_key.clone(), values.clone());
        let taken_out = [change(list.clone(), &[4, place.as_nanos()], &[])];
        let of = |bag| with_removals(Vec::new(), &taken_out, std::slice::from_ref(&index), bag);
        assert_eq!(of(Some(&bag)), [change(list.clone(), &[4], &[])]);
        assert_eq!(of(None), taken_out);
    }
}
