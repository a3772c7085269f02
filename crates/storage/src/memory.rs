//! The plain model of an item store, in memory: for tests, and the yardstick of the conformance and
//! property tests. Nothing survives the process.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use liststore_contract::domain::{
    FeatureKey, Identity, Item, ItemKey, Keep, ListKey, MaxItems, NewItem, Order, Timestamp, ValueDigest,
};
use tokio::time::Instant;

use super::{
    Abilities, AggregateOutcome, Aggregation, BagAfter, BagEntries, BagScan, BagSwap, BagSwaps, Bounds, ByteErasure,
    Count, Done, EntityPage, EntityPlace, EntryChange, Erased, ItemPage, ItemSession, ItemStore, JoinedAdds, OpContext,
    Range, ReadBag, Removal, RemovalTurns, StoreError, SwapJournal, Swapped, ToAwait, aggregate_pages,
    enter_one_by_one,
};

#[derive(Debug, Clone)]
struct Row {
    value: Bytes,
    expires_at: u64,
}

type List = BTreeMap<ItemKey, Row>;

/// A map of lists behind one lock, shared by all sessions.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    lists: Arc<Mutex<HashMap<ListKey, List>>>,
}

impl MemoryStore {
    fn lists(&self) -> MutexGuard<'_, HashMap<ListKey, List>> {
        // No operation leaves the map half changed, so a panic elsewhere does not spoil it.
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, op: &OpContext, list: ListKey, items: Vec<NewItem>) {
        let identity = list.identity();
        let mut lists = self.lists();
        let rows = lists.entry(list).or_default();
        for NewItem { timestamp, value, expires_at } in items {
            let key = ItemKey::new(timestamp, ValueDigest::of(&value));
            if identity.keep().is_none_or(|keep| make_place(op, rows, identity, keep, &key, &value)) {
                rows.insert(key, Row { value, expires_at });
            }
        }
    }
}

fn put(rows: &mut List, NewItem { timestamp, value, expires_at }: NewItem) {
    rows.insert(ItemKey::new(timestamp, ValueDigest::of(&value)), Row { value, expires_at });
}

/// Where the item of a member is, visible or not.
fn place_of(rows: &List, identity: Identity, member: &[u8]) -> Option<ItemKey> {
    rows.iter().find(|(_, row)| identity.member(&row.value) == member).map(|(key, _)| *key)
}

/// Whether a new item of a set is stored. Then the previous item of its member is removed.
fn make_place(op: &OpContext, rows: &mut List, identity: Identity, keep: Keep, new: &ItemKey, stored: &[u8]) -> bool {
    let Some(present) = place_of(rows, identity, identity.member(stored)) else { return true };
    let stays = !keep.replaces(new, &present) && op.sees(present.timestamp.as_nanos(), rows[&present].expires_at);
    if !stays {
        rows.remove(&present);
    }
    !stays
}

/// The items of a list that an operation sees, newest first.
fn visible<'a>(op: &'a OpContext, rows: &'a List) -> impl Iterator<Item = (&'a ItemKey, &'a Row)> {
    let unexpired = rows.iter().rev().filter(|(key, row)| op.sees(key.timestamp.as_nanos(), row.expires_at));
    unexpired.take(op.max_items.map_or(usize::MAX, MaxItems::get))
}

/// A page of rows, which come in the requested order.
fn page<'a>(range: &Range, rows: impl Iterator<Item = (&'a ItemKey, &'a Row)>) -> ItemPage {
    let mut page = ItemPage::default();
    let mut value_bytes = 0;
    let follows = |key: &ItemKey| match (range.after, range.order) {
        (None, _) => true,
        (Some(after), Order::Newest) => *key < after,
        (Some(after), Order::Oldest) => *key > after,
    };
    for (key, row) in rows {
        if !range.bounds().contain(key.timestamp) || !follows(key) {
            continue;
        }
        value_bytes += row.value.len();
        if page.items.len() == range.limit || (!page.items.is_empty() && value_bytes > range.value_bytes_max) {
            page.more = true;
            break;
        }
        page.items.push(Item { timestamp: key.timestamp, value: row.value.clone() });
    }
    page
}

#[async_trait(?Send)]
impl ItemStore for MemoryStore {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        Ok(Rc::new(self.clone()))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            memory: None,
            permits: None,
            bag_swaps: BagSwaps::Atomic,
            reclaim: None,
            backup: Err("items.store is memory: there is nothing to back up"),
            erasure: Some(self),
            migration: None,
        }
    }

    /// Nothing survives the process in any case.
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn idle(&self) {}

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_only(&self) -> Option<String> {
        None
    }

    fn warning(&self) -> Option<String> {
        None
    }
}

/// Removed items are dropped at once.
impl ByteErasure for MemoryStore {
    fn held(&self, _: &[ListKey], _: Instant) -> Result<Option<Vec<bool>>, StoreError> {
        Ok(None)
    }

    fn erase_removed(&self) -> Result<Erased, StoreError> {
        Ok(Erased::Now)
    }

    fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }
}

#[async_trait(?Send)]
impl ItemSession for MemoryStore {
    async fn get(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        op.begin()?;
        let lists = self.lists();
        let rows = lists.get(list).into_iter().flat_map(|rows| visible(op, rows));
        let page = match range.order {
            Order::Newest => page(range, rows),
            Order::Oldest => page(range, rows.collect::<Vec<_>>().into_iter().rev()),
        };
        Ok(page)
    }

    async fn contains(
        &self,
        op: &OpContext,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        op.begin()?;
        let lists = self.lists();
        let identity = list.identity();
        let newest = |value: &Bytes| {
            let mut rows = lists.get(list).into_iter().flat_map(|rows| visible(op, rows));
            let found = rows.find(|(key, row)| identity.value(&row.value) == value && within.contain(key.timestamp));
            found.map(|(key, _)| key.timestamp)
        };
        Ok(values.iter().map(newest).collect())
    }

    async fn lookup(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
        op.begin()?;
        let lists = self.lists();
        let item = |member: &Bytes| {
            let (key, Row { value, .. }) =
                visible(op, lists.get(list)?).find(|(_, row)| list.identity().member(&row.value) == member)?;
            Some(Item { timestamp: key.timestamp, value: value.clone() })
        };
        Ok(members.iter().map(item).collect())
    }

    async fn count(&self, op: &OpContext, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        op.begin()?;
        let lists = self.lists();
        let rows = lists.get(list).into_iter().flat_map(|rows| visible(op, rows));
        let items = rows.filter(|(key, _)| within.contain(key.timestamp)).count() as u64;
        Ok(Count { items: items.min(max), exact: items <= max })
    }

    async fn aggregate(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError> {
        aggregate_pages(self, op, list, aggregation).await
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        done(op.begin().map(|()| self.insert(&op, list, items)));
        None
    }

    async fn remove(&self, op: &OpContext, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        op.begin()?;
        let mut lists = self.lists();
        let Some(rows) = lists.get_mut(list) else { return Ok(0) };
        let taken = |key: &ItemKey, row: &Row| removal.takes(list.identity(), key.timestamp, &row.value);
        let removed = visible(op, rows).filter(|(key, row)| taken(key, row)).count() as u64;
        rows.retain(|key, row| !taken(key, row));
        Ok(removed)
    }

    async fn remove_all(&self, op: &OpContext, list: &ListKey) -> Result<(), StoreError> {
        op.begin()?;
        self.lists().remove(list);
        Ok(())
    }

    async fn bag(&self, op: &OpContext, list: &ListKey) -> Result<ReadBag, StoreError> {
        op.begin()?;
        let lists = self.lists();
        let newest = lists.get(list).and_then(|rows| visible(op, rows).next());
        let bag = newest.map(|(key, row)| Item { timestamp: key.timestamp, value: row.value.clone() });
        Ok(ReadBag { bag, row: None })
    }

    async fn swap_bag(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        op.begin()?;
        let BagSwap { before, after, entries, row: _, entered_in: _ } = swap;
        let mut lists = self.lists();
        let present = lists.get(list).and_then(|rows| visible(op, rows).next()).map(|(key, _)| key.timestamp);
        if present != before {
            return Ok(Swapped::Lost);
        }
        if after != BagAfter::Same {
            lists.remove(list);
        }
        if let BagAfter::Put(after) = after {
            put(lists.entry(list.clone()).or_default(), after);
        }
        for EntryChange { list, removed, added } in entries {
            let rows = lists.entry(list).or_default();
            for (timestamp, value) in removed {
                rows.remove(&ItemKey::new(timestamp, ValueDigest::of(&value)));
            }
            added.into_iter().for_each(|entry| put(rows, entry));
        }
        Ok(Swapped::Done)
    }

    async fn enter_bags(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        enter_one_by_one(self, op, bags).await
    }

    async fn entities(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        op.begin()?;
        let lists = self.lists();
        let place = |list: &ListKey| (list.token().as_i64().cast_unsigned(), Some(list.entity_id.clone()));
        let is_due = |list: &ListKey| from.is_none_or(|from| place(list) > (from.hash, from.after.clone()));
        let has_items = |rows: &List| visible(op, rows).next().is_some();
        let found =
            lists.iter().filter(|(list, rows)| list.feature_key == *feature_key && is_due(list) && has_items(rows));
        let mut places: Vec<_> = found.map(|(list, _)| place(list)).collect();
        places.sort_unstable();
        let last = limit.checked_sub(1).and_then(|last| places.get(last)).filter(|_| places.len() > limit);
        let next = last.map(|(hash, after)| EntityPlace { hash: *hash, after: after.clone() });
        Ok(EntityPage { entities: places.into_iter().take(limit).filter_map(|(_, entity)| entity).collect(), next })
    }

    fn removal_turns(&self) -> RemovalTurns {
        RemovalTurns::BetweenRemovals
    }

    fn joined_adds(self: Rc<Self>) -> Option<Rc<dyn JoinedAdds>> {
        None
    }

    fn bag_scan(&self) -> Option<&dyn BagScan> {
        None
    }

    fn swap_journal(&self) -> Option<&dyn SwapJournal> {
        None
    }
}
