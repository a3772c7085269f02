//! Remove List Items, and Remove All List Items.
//!
//! A deletion hides all writes with an equal or smaller write timestamp, including later ones. So each item is deleted
//! with the larger of the operation's timestamp and its own. A writer with a fast clock cannot prevent its removal, and
//! the removal hides no later adds of other items.
//!
//! What lies between two moments is deleted by one range tombstone, of the operation's own timestamp: one
//! for each row would have to be read past for as long as they are kept, and Cassandra refuses a read of
//! too many. Only rows with a larger timestamp are deleted one by one besides. Where it takes all that a partition can
//! have, it is a tombstone of the partition: reads skip files that are older than it, and pass hidden rows one by one
//! behind any other tombstone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::buckets;
use super::deletes::{Delete, clear, delete, delete_slice, wait_out};
use super::keys::{rows_of_value, slice};
use super::layout::last_shown;
use crate::domain::{ItemKey, ListKey, Order, Timestamp, ValueDigest};
use crate::items::cql::call::{Call, Pages};
use crate::items::cql::error::after_unknown;
use crate::items::cql::partitions::Page;
use crate::items::cql::statements::lists::{KEYS_MAX, ListStatement};
use crate::items::cql::statements::sets::SetStatement;
use crate::items::cql::statements::{Name, Query};
use crate::items::{Bounds, StoreError};

/// Partitions of a list in which a removal is in progress at once.
const PARTITIONS_MAX: usize = 8;
/// Keys that are found before they are deleted: a removal's memory does not grow with its list.
const FIND_ROWS: usize = 1_000;
/// Searches of one removal by value, where a search can miss rows.
const SEARCHES_MAX: usize = 16;

/// Removes the items with a value, and returns how many visible ones there were.
pub async fn value(call: &mut Call, value: &[u8]) -> Result<u64, StoreError> {
    call.core.prepare_search(call.op.deadline).await?;
    let find = Find::Value(value, ValueDigest::of(value));
    let lists = buckets::partitions(call, &Bounds::ALL).await?;
    remove(call, lists.into_iter().map(|list| (list, find.clone())).collect(), None).await
}

/// Removes some items, and returns how many visible ones there were.
pub async fn items(call: &mut Call, keys: &[ItemKey]) -> Result<u64, StoreError> {
    let list = call.list.clone();
    let mut by_partition: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for key in keys {
        let name = list.bucket().map(|bucket| bucket.name_of(key.timestamp));
        by_partition.entry(name).or_default().push(key.to_string());
    }
    let of_partition = |(name, keys): (Option<String>, Vec<String>)| {
        (name.map_or_else(|| list.clone(), |name| buckets::partition(&list, &name)), Find::Keys(keys))
    };
    remove(call, by_partition.into_iter().map(of_partition).collect(), None).await
}

/// Removes what lies between two moments, and returns how many visible items there were.
pub async fn between(call: &mut Call, within: &Bounds) -> Result<u64, StoreError> {
    let (lower, upper) = slice(within);
    let lists = buckets::partitions(call, within).await?;
    let emptied_before = buckets::emptied_before(&call.list, &lists, within);
    let of_partition = |partition: ListKey| {
        let is_whole = buckets::is_covered(&call.list, &partition, within);
        (partition, Find::Slice { lower: &lower, upper: &upper, is_whole })
    };
    let work = lists.into_iter().map(of_partition).collect();
    remove(call, work, emptied_before.as_deref()).await
}

/// The rows to find in a partition.
#[derive(Clone)]
enum Find<'a> {
    Value(&'a [u8], ValueDigest),
    Keys(Vec<String>),
    /// All that lies between two keys, which may be all that the partition can have.
    Slice {
        lower: &'a str,
        upper: &'a str,
        is_whole: bool,
    },
}

/// Removes the rows to find in some partitions of a list. Afterwards the list has no items in buckets before the name.
async fn remove<'a>(
    call: &mut Call,
    work: Vec<(ListKey, Find<'a>)>,
    emptied_before: Option<&str>,
) -> Result<u64, StoreError> {
    let last_shown = last_shown(call).await?;
    call.begin().await?;
    let (own, visible_from) = (call.core.write_clock.next(), call.op.ttl.visible_from(call.op.now));
    let (several, begun) = (work.len() > 1, AtomicBool::new(false));
    let each = |mut call: Call, (list, find): (ListKey, Find<'a>)| {
        let begun = &begun;
        async move {
            call.turn_to(list);
            let (removed, largest) = (0, None);
            Removing { call, own, visible_from, last_shown, removed, begun, largest }.all(find).await
        }
    };
    let removed = call.in_lanes(work, PARTITIONS_MAX, each).await;
    let begun_elsewhere = several && begun.load(Ordering::Relaxed);
    let removed = removed.map_err(|error| after_unknown(error, begun_elsewhere))?;
    if emptied_before.is_some() {
        let forgotten = buckets::forget(call, emptied_before, own).await;
        forgotten.map_err(|error| after_unknown(error, begun.load(Ordering::Relaxed)))?;
    }
    // It may be acknowledged once this is waited out.
    call.release();
    if let Some(largest) = removed.iter().filter_map(|(_, largest)| *largest).max() {
        wait_out(&call.core, largest).await;
    }
    Ok(removed.iter().map(|(count, _)| count).sum())
}

/// A removal that is in progress in a partition.
struct Removing<'a> {
    call: Call,
    /// Its own write timestamp.
    own: i64,
    visible_from: Timestamp,
    /// The last item that the list shows, if it has more.
    last_shown: Option<ItemKey>,
    removed: u64,
    /// Whether something may have been deleted, in any partition.
    begun: &'a AtomicBool,
    /// The largest timestamp that something was deleted with.
    largest: Option<i64>,
}

impl Removing<'_> {
    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Removes the rows that it finds. Returns the number of visible items, and the largest timestamp of a deletion.
    async fn all(mut self, find: Find<'_>) -> Result<((u64, Option<i64>), Call), StoreError> {
        match &find {
            // The index may lag behind its rows. Only the key proves which value it has.
            Find::Value(_, digest) => {
                let has_value = |key: &ItemKey| key.digest == *digest;
                match self.search(&find, has_value).await {
                    // The index has separate tombstones for each value.
                    Err(StoreError::TooManyTombstones { .. }) => {
                        let (lower, upper) = slice(&Bounds::ALL);
                        let all = Find::Slice { lower: &lower, upper: &upper, is_whole: false };
                        self.all_of(&all, has_value, |_| true).await?;
                    }
                    searched => searched?,
                }
            }
            Find::Keys(keys) => {
                for keys in keys.chunks(KEYS_MAX) {
                    self.all_of(&Find::Keys(keys.to_vec()), |_| true, |_| true).await?;
                }
            }
            Find::Slice { lower, upper, is_whole } => {
                let own = self.own;
                if self.all_of(&find, |_| true, |writetime| writetime > own).await? > 0 {
                    self.delete_between(lower, upper, *is_whole).await?;
                }
            }
        }
        Ok(((self.removed, self.largest), self.call))
    }

    /// Removes all that a search by the index finds.
    async fn search(&mut self, find: &Find<'_>, wanted: impl Fn(&ItemKey) -> bool) -> Result<(), StoreError> {
        let searches = if self.call.core.dialect().may_miss_rows() { SEARCHES_MAX } else { 1 };
        for _ in 0..searches {
            if self.all_of(find, &wanted, |_| true).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Finds rows, page by page, and deletes each of them whose timestamp `is_due`. Counts the `wanted` rows. Returns
    /// their number, including hidden rows.
    async fn all_of(
        &mut self,
        find: &Find<'_>,
        wanted: impl Fn(&ItemKey) -> bool,
        is_due: impl Fn(i64) -> bool,
    ) -> Result<u64, StoreError> {
        let (mut pages, mut count, mut at) = (Pages::new(), 0, None::<String>);
        while let Some(rows) = self.find(find, &mut pages, at.as_deref()).await? {
            let mut found = Found { own: self.own, keys: BTreeMap::new() };
            for row in rows.rows::<(&str, i64)>()? {
                let (text, writetime) = row?;
                text.clone_into(at.get_or_insert_default());
                let Some(key) = ItemKey::parse(text).ok().filter(|key| wanted(key)) else { continue };
                self.call.core.write_clock.observe(writetime);
                count += 1;
                let is_shown = self.last_shown.is_none_or(|last| key >= last);
                self.removed += u64::from(is_shown && key.timestamp >= self.visible_from);
                if is_due(writetime) {
                    found.push(text, writetime);
                }
            }
            self.delete(found).await?;
        }
        Ok(count)
    }

    /// One page; `at` is the last key before it.
    async fn find(&mut self, find: &Find<'_>, pages: &mut Pages, at: Option<&str>) -> Result<Option<Page>, StoreError> {
        let found = match find {
            Find::Value(value, _) => {
                let query = Query::of_partition(ListStatement::Find, [(*value).into()]);
                pages.next(&mut self.call, &query, rows_of_value(value)).await
            }
            Find::Keys(keys) => {
                let query = Query::of_partition(ListStatement::FindKeys, [keys.as_slice().into()]);
                pages.next(&mut self.call, &query, FIND_ROWS).await
            }
            Find::Slice { lower, upper, .. } => {
                let query = Query::of_partition(ListStatement::FindBetween, [(*lower).into(), (*upper).into()]);
                let found = pages.next(&mut self.call, &query, FIND_ROWS).await;
                let place = (&self.call.list, at.unwrap_or(upper), Order::Newest);
                self.call.core.to_sweep.check(found, place)
            }
        };
        found.map_err(|error| after_unknown(error, self.has_begun()))
    }

    async fn delete(&mut self, found: Found) -> Result<(), StoreError> {
        self.largest = self.largest.max(found.largest());
        let deletes = found.into_deletes();
        if deletes.is_empty() {
            return Ok(());
        }
        // Other deletes of this removal may have been carried out.
        let several = self.has_begun() || deletes.len() > 1;
        self.begun.store(true, Ordering::Relaxed);
        delete(&mut self.call, deletes).await.map_err(|error| after_unknown(error, several))
    }

    /// Deletes a slice of the partition, or all of it, by one tombstone.
    async fn delete_between(&mut self, lower: &str, upper: &str, is_whole: bool) -> Result<(), StoreError> {
        let several = self.has_begun();
        self.begun.store(true, Ordering::Relaxed);
        let written = if is_whole {
            clear(&mut self.call, self.own).await
        } else {
            delete_slice(&mut self.call, (lower, upper), self.own).await
        };
        written.map_err(|error| after_unknown(error, several))?;
        self.largest = self.largest.max(Some(self.own));
        Ok(())
    }
}

/// The items to delete, by the needed timestamps.
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

/// Removes the partition, or those of all buckets. Writes with a larger write timestamp survive, which come from a
/// server whose clock is further ahead than allowed. For a set, the partition of the list of items is removed too: no
/// server may know whether a deleted feature was a set, or had buckets.
pub async fn all(call: &mut Call) -> Result<(), StoreError> {
    call.begin().await?;
    let core = Arc::clone(&call.core);
    let timestamp = core.write_clock.next_for_all();
    let (is_set, has_buckets) = (call.list.identity().is_set(), call.list.bucket().is_some());
    let of_set = is_set.then_some(Name::Set(SetStatement::Clear));
    let of_items = (!has_buckets || is_set).then_some(Name::List(ListStatement::Clear));
    let mut begun = false;
    for statement in of_set.into_iter().chain(of_items) {
        let cleared = call.write(&Query::deletion(statement, timestamp, [])).await;
        cleared.map_err(|error| after_unknown(error, begun))?;
        begun = true;
    }
    if has_buckets {
        buckets::all(call, timestamp).await.map_err(|error| after_unknown(error, begun))?;
    }
    call.release();
    wait_out(&core, timestamp).await;
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
