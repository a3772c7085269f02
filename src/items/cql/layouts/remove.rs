//! Remove List Items, and Remove All List Items.
//!
//! A deletion hides what has an equal or smaller write timestamp, also what comes later. So each item
//! that is found is deleted with the larger of the operation's own timestamp and its own: a writer with
//! a fast clock cannot make its removal a no-op, and does not hide what is added to the others later.
//!
//! What lies between two moments is deleted by one range tombstone, of the operation's own timestamp: one
//! for each row would have to be read past for as long as they are kept, and Cassandra refuses a read of
//! too many. Only rows with a larger timestamp are deleted one by one besides. Where it takes all that a partition can
//! have, it is a tombstone of the partition: reads skip files that are older than it, and pass hidden rows one by one
//! behind any other tombstone.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scylla::response::query_result::QueryRowsResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;

use super::buckets;
use super::deletes::{Delete, clear, delete, delete_slice, wait_out};
use super::keys::{read, rows_of_value, slice};
use super::lanes::in_lanes;
use super::layout::last_shown;
use crate::domain::{ItemKey, ListKey, Order, Timestamp, ValueDigest};
use crate::items::cql::core::Core;
use crate::items::cql::error::{after_unknown, damaged_row};
use crate::items::cql::pressure::permits::Permit;
use crate::items::cql::statements::lists::{KEYS_MAX, Statement};
use crate::items::{Bounds, Operation, StoreError};

/// Partitions of a list in which a removal is under way at once.
const PARTITIONS_MAX: usize = 8;
/// Keys that are found before they are deleted: a removal's memory does not grow with its list.
const FIND_ROWS: i32 = 1_000;
/// Searches of one removal by value, where a search can miss rows.
const SEARCHES_MAX: usize = 16;

/// Removes the items with a value, and returns how many visible ones there were.
pub async fn value(core: &Arc<Core>, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
    let find = core.find(op.deadline).await?;
    let find = Find { prepared: &find, of: Of::Value(value, ValueDigest::of(value)) };
    let lists = buckets::partitions(core, op, list, &Bounds::ALL).await?;
    remove(core, op, list, lists.into_iter().map(|list| (list, find.clone())).collect()).await
}

/// Removes some items, and returns how many visible ones there were.
pub async fn items(core: &Arc<Core>, op: &Operation, list: &ListKey, keys: &[ItemKey]) -> Result<u64, StoreError> {
    let mut by_partition: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for key in keys {
        let name = list.bucket().map(|bucket| bucket.name_of(key.timestamp));
        by_partition.entry(name).or_default().push(key.to_string());
    }
    let find = |keys| Find { prepared: &core.prepared.find_keys, of: Of::Keys(keys) };
    let of_partition = |(name, keys): (Option<String>, Vec<String>)| {
        (name.map_or_else(|| list.clone(), |name| buckets::partition(list, &name)), find(keys))
    };
    remove(core, op, list, by_partition.into_iter().map(of_partition).collect()).await
}

/// Removes what lies between two moments, and returns how many visible items there were.
pub async fn between(core: &Arc<Core>, op: &Operation, list: &ListKey, within: &Bounds) -> Result<u64, StoreError> {
    let (lower, upper) = slice(within);
    let lists = buckets::partitions(core, op, list, within).await?;
    let of_partition = |partition: ListKey| {
        let is_whole = buckets::is_covered(list, &partition, within);
        let of = Of::Slice { lower: &lower, upper: &upper, is_whole };
        (partition, Find { prepared: &core.prepared.find_between, of })
    };
    remove(core, op, list, lists.into_iter().map(of_partition).collect()).await
}

/// What is to be found in a partition, and by which statement.
#[derive(Clone)]
struct Find<'a> {
    prepared: &'a PreparedStatement,
    of: Of<'a>,
}

#[derive(Clone)]
enum Of<'a> {
    Value(&'a [u8], ValueDigest),
    Keys(Vec<String>),
    /// All that lies between two keys, which may be all that the partition can have.
    Slice {
        lower: &'a str,
        upper: &'a str,
        is_whole: bool,
    },
}

/// Removes what is found in some partitions of a list.
async fn remove<'a>(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    work: Vec<(ListKey, Find<'a>)>,
) -> Result<u64, StoreError> {
    let last_shown = last_shown(core, op, list).await?;
    let permit = core.permit(op.deadline).await?;
    let (own, visible_from) = (core.write_clock.next(), op.ttl.visible_from(op.now));
    let (several, begun) = (work.len() > 1, AtomicBool::new(false));
    let each = |(list, find): (ListKey, Find<'a>), permit| {
        let begun = &begun;
        async move {
            let (permit, removed, largest) = (Some(permit), 0, None);
            let removing = Removing { core, op, list, own, visible_from, last_shown, permit, removed, begun, largest };
            removing.all(find).await
        }
    };
    let removed = in_lanes(core, permit, work, PARTITIONS_MAX, each).await;
    let begun_elsewhere = several && begun.load(Ordering::Relaxed);
    let (removed, permit) = removed.map_err(|error| after_unknown(error, begun_elsewhere))?;
    // It may be acknowledged once this is waited out.
    drop(permit);
    if let Some(largest) = removed.iter().filter_map(|(_, largest)| *largest).max() {
        wait_out(core, largest).await;
    }
    Ok(removed.iter().map(|(count, _)| count).sum())
}

/// A removal that is under way in a partition.
struct Removing<'a> {
    core: &'a Arc<Core>,
    op: &'a Operation,
    list: ListKey,
    /// Its own write timestamp.
    own: i64,
    visible_from: Timestamp,
    /// The last item that the list shows, if it has more.
    last_shown: Option<ItemKey>,
    permit: Option<Permit>,
    removed: u64,
    /// Whether something may have been deleted, in any partition.
    begun: &'a AtomicBool,
    /// The largest timestamp that something was deleted with.
    largest: Option<i64>,
}

impl Removing<'_> {
    async fn permit(&mut self) -> Result<Permit, StoreError> {
        match self.permit.take() {
            Some(permit) => Ok(permit),
            None => self.core.permit(self.op.deadline).await,
        }
    }

    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Removes what is found. Returns how many visible items that were, and the largest timestamp that something was
    /// deleted with.
    async fn all(mut self, find: Find<'_>) -> Result<((u64, Option<i64>), Permit), StoreError> {
        match &find.of {
            // The index may lag behind its rows; the key says for certain which value it has.
            Of::Value(_, digest) => {
                let has_value = |key: &ItemKey| key.digest == *digest;
                match self.search(&find, has_value).await {
                    // The index keeps the tombstones of a value apart from those of its list.
                    Err(StoreError::TooManyTombstones { .. }) => {
                        let (lower, upper) = slice(&Bounds::ALL);
                        let all = Find {
                            prepared: &self.core.prepared.find_between,
                            of: Of::Slice { lower: &lower, upper: &upper, is_whole: false },
                        };
                        self.all_of(&all, has_value, |_| true).await?;
                    }
                    searched => searched?,
                }
            }
            Of::Keys(keys) => {
                for keys in keys.chunks(KEYS_MAX) {
                    let find = Find { prepared: find.prepared, of: Of::Keys(keys.to_vec()) };
                    self.all_of(&find, |_| true, |_| true).await?;
                }
            }
            Of::Slice { lower, upper, is_whole } => {
                let own = self.own;
                if self.all_of(&find, |_| true, |writetime| writetime > own).await? > 0 {
                    self.delete_between(lower, upper, *is_whole).await?;
                }
            }
        }
        let permit = self.permit().await?;
        Ok(((self.removed, self.largest), permit))
    }

    /// Removes all that a search by the index finds.
    async fn search(&mut self, find: &Find<'_>, wanted: impl Fn(&ItemKey) -> bool) -> Result<(), StoreError> {
        let searches = if self.core.dialect().may_miss_rows() { SEARCHES_MAX } else { 1 };
        for _ in 0..searches {
            if self.all_of(find, &wanted, |_| true).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Finds rows, page by page, and deletes each of them whose timestamp `is_due`. Counts those that are
    /// `wanted`; returns how many these were, hidden ones too.
    async fn all_of(
        &mut self,
        find: &Find<'_>,
        wanted: impl Fn(&ItemKey) -> bool,
        is_due: impl Fn(i64) -> bool,
    ) -> Result<u64, StoreError> {
        let (mut state, mut count, mut at) = (PagingState::start(), 0, None::<String>);
        loop {
            let (rows, next) = self.find(find, &state, at.as_deref()).await?;
            let mut found = Found { own: self.own, keys: BTreeMap::new() };
            for row in rows.rows::<(&str, i64)>().map_err(|_| damaged_row())? {
                let (text, writetime) = row.map_err(|_| damaged_row())?;
                text.clone_into(at.get_or_insert_default());
                let Some(key) = ItemKey::parse(text).ok().filter(|key| wanted(key)) else { continue };
                self.core.write_clock.observe(writetime);
                count += 1;
                let is_shown = self.last_shown.is_none_or(|last| key >= last);
                self.removed += u64::from(is_shown && key.timestamp >= self.visible_from);
                if is_due(writetime) {
                    found.push(text, writetime);
                }
            }
            self.delete(found).await?;
            match next.into_paging_control_flow() {
                ControlFlow::Continue(next) => state = next,
                ControlFlow::Break(()) => return Ok(count),
            }
        }
    }

    /// One page; `at` is the last key before it.
    async fn find(
        &mut self,
        find: &Find<'_>,
        state: &PagingState,
        at: Option<&str>,
    ) -> Result<(QueryRowsResult, PagingStateResponse), StoreError> {
        let (core, permit) = (self.core, self.permit().await?);
        let (feature_key, entity_id) = (self.list.feature_key.as_str(), self.list.entity_id.as_str());
        let within = core.prepared.within(self.op.deadline);
        let bind = |statement: PreparedStatement| match (&find.of, within) {
            (Of::Value(value, _), None) => statement.bind(&(feature_key, entity_id, value)),
            (Of::Value(value, _), Some(timeout)) => statement.bind(&(feature_key, entity_id, value, timeout)),
            (Of::Keys(keys), None) => statement.bind(&(feature_key, entity_id, keys)),
            (Of::Keys(keys), Some(timeout)) => statement.bind(&(feature_key, entity_id, keys, timeout)),
            (Of::Slice { lower, upper, .. }, None) => statement.bind(&(feature_key, entity_id, lower, upper)),
            (Of::Slice { lower, upper, .. }, Some(timeout)) => {
                statement.bind(&(feature_key, entity_id, lower, upper, timeout))
            }
        };
        let found = core
            .attempts
            .run(core.request(Statement::Find, self.op), permit, |route| {
                let mut statement = find.prepared.clone();
                statement.set_page_size(match &find.of {
                    Of::Value(value, _) => rows_of_value(value),
                    Of::Keys(_) | Of::Slice { .. } => FIND_ROWS,
                });
                statement.set_load_balancing_policy(Some(route));
                read(Arc::clone(core), bind(statement), state.clone())
            })
            .await;
        let found = match &find.of {
            Of::Slice { upper, .. } => core.to_sweep.check(found, (&self.list, at.unwrap_or(upper), Order::Newest)),
            Of::Value(..) | Of::Keys(_) => found,
        };
        let ((result, next), kept) = found.map_err(|error| after_unknown(error, self.has_begun()))?;
        self.permit = Some(kept);
        Ok((result.into_rows_result().map_err(|_| damaged_row())?, next))
    }

    async fn delete(&mut self, found: Found) -> Result<(), StoreError> {
        self.largest = self.largest.max(found.largest());
        let deletes = found.into_deletes();
        // Other deletes of this removal may have been carried out.
        let several = self.has_begun() || deletes.len() > 1;
        if !deletes.is_empty() {
            self.begun.store(true, Ordering::Relaxed);
        }
        let permit = self.permit().await?;
        let deleted = delete(self.core, self.op, &self.list, deletes, permit).await;
        self.permit = Some(deleted.map_err(|error| after_unknown(error, several))?);
        Ok(())
    }

    /// Deletes a slice of the partition, or all of it, by one tombstone.
    async fn delete_between(&mut self, lower: &str, upper: &str, is_whole: bool) -> Result<(), StoreError> {
        let permit = self.permit().await?;
        let several = self.has_begun();
        self.begun.store(true, Ordering::Relaxed);
        let (core, op, list) = (self.core, self.op, &self.list);
        let written = if is_whole {
            clear(core, op, &core.prepared.clear, list, self.own, permit).await
        } else {
            delete_slice(core, op, list, (lower, upper), self.own, permit).await
        };
        self.permit = Some(written.map_err(|error| after_unknown(error, several))?);
        self.largest = self.largest.max(Some(self.own));
        Ok(())
    }
}

/// The items that are to be deleted, by the timestamps that it takes.
struct Found {
    /// The timestamp of the removal.
    own: i64,
    keys: BTreeMap<i64, Vec<String>>,
}

impl Found {
    /// An equal timestamp is enough, since deletions win ties.
    fn push(&mut self, key: &str, writetime: i64) {
        self.keys.entry(self.own.max(writetime)).or_default().push(key.to_owned());
    }

    fn largest(&self) -> Option<i64> {
        self.keys.last_key_value().map(|(timestamp, _)| *timestamp)
    }

    fn into_deletes(self) -> Vec<Delete> {
        let chunks = |(timestamp, keys): (i64, Vec<String>)| -> Vec<Delete> {
            keys.chunks(KEYS_MAX).map(|keys| (timestamp, keys.to_vec())).collect()
        };
        self.keys.into_iter().flat_map(chunks).collect()
    }
}

/// Removes the partition, or those of all buckets. What was written with a larger write timestamp, by a server whose
/// clock is further ahead than allowed, survives. Of a set that of the list of items goes, too: of what was deleted
/// nobody may know which of both it was, nor whether it was kept in buckets.
pub async fn all(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
    let mut permit = core.permit(op.deadline).await?;
    let timestamp = core.write_clock.next_for_all();
    let of_set = list.identity().is_set().then_some(&core.for_sets.clear);
    let is_whole = list.bucket().is_none() || of_set.is_some();
    let of_items = is_whole.then_some(&core.prepared.clear);
    let mut begun = false;
    for statement in of_set.into_iter().chain(of_items) {
        let cleared = clear(core, op, statement, list, timestamp, permit).await;
        permit = cleared.map_err(|error| after_unknown(error, begun))?;
        begun = true;
    }
    if list.bucket().is_some() {
        let cleared = buckets::all(core, op, list, timestamp, permit).await;
        permit = cleared.map_err(|error| after_unknown(error, begun))?;
    }
    drop(permit);
    wait_out(core, timestamp).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_deleted_with_the_larger_of_the_two_timestamps() {
        let mut found = Found { own: 100, keys: BTreeMap::new() };
        for n in 0..12 {
            found.push(&format!("old-{n}"), n);
        }
        found.push("fast-1", 900);
        found.push("equal", 100);
        found.push("fast-2", 900);
        found.push("faster", 901);
        assert_eq!(found.largest(), Some(901));
        let deletes = found.into_deletes();
        let sizes: Vec<_> = deletes.iter().map(|(timestamp, keys)| (*timestamp, keys.len())).collect();
        assert_eq!(sizes, [(100, 10), (100, 3), (900, 2), (901, 1)]);
        assert_eq!(deletes[1].1, ["old-10", "old-11", "equal"]);
        assert_eq!(deletes[2].1, ["fast-1", "fast-2"]);
    }
}
