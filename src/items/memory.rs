//! The plain model of an item store, in memory: for tests, and the yardstick of the conformance and
//! property tests. Nothing survives the process.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::{Done, ItemPage, ItemSession, ItemStore, Operation, Range, StoreError, ToAwait};
use crate::domain::{Item, ItemKey, ListKey, NewItem, Timestamp, ValueDigest};

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

    fn insert(&self, list: ListKey, items: Vec<NewItem>) {
        let mut lists = self.lists();
        let rows = lists.entry(list).or_default();
        for NewItem { timestamp, value, expires_at } in items {
            rows.insert(ItemKey::new(timestamp, ValueDigest::of(&value)), Row { value, expires_at });
        }
    }
}

fn is_visible(op: &Operation, timestamp: Timestamp, row: &Row) -> bool {
    timestamp >= op.ttl.visible_from(op.now) && op.now.as_nanos() < row.expires_at
}

#[async_trait(?Send)]
impl ItemStore for MemoryStore {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        Ok(Rc::new(self.clone()))
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait(?Send)]
impl ItemSession for MemoryStore {
    async fn get(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        op.begin()?;
        let lists = self.lists();
        let mut page = ItemPage::default();
        let mut value_bytes = 0;
        for (key, row) in lists.get(list).into_iter().flat_map(|list| list.iter().rev()) {
            let wanted = (range.min_timestamp..=range.max_timestamp).contains(&key.timestamp)
                && range.after.is_none_or(|after| *key < after)
                && is_visible(op, key.timestamp, row);
            if !wanted {
                continue;
            }
            value_bytes += row.value.len();
            if page.items.len() == range.limit || (!page.items.is_empty() && value_bytes > range.value_bytes_max) {
                page.more = true;
                break;
            }
            page.items.push(Item { timestamp: key.timestamp, value: row.value.clone() });
        }
        Ok(page)
    }

    fn start_add(self: Rc<Self>, op: Operation, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        done(op.begin().map(|()| self.insert(list, items)));
        None
    }

    async fn remove_value(&self, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
        op.begin()?;
        let mut lists = self.lists();
        let mut removed = 0;
        if let Some(rows) = lists.get_mut(list) {
            rows.retain(|key, row| {
                let hit = row.value == value;
                removed += u64::from(hit && is_visible(op, key.timestamp, row));
                !hit
            });
        }
        Ok(removed)
    }

    async fn remove_all(&self, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
        op.begin()?;
        self.lists().remove(list);
        Ok(())
    }
}
