//! The newest items of lists, packed, in a bounded cache that any thread reads directly.
//!
//! Heads change in two ways. The log's thread applies every change to them, once it is as durable as the store promises
//! and before it is acknowledged. So a head never shows a change that a crash could undo, and always shows acknowledged
//! ones. A reader that had to read beyond the head fills in its result, unless the list has changed since.
//!
//! Some reads use the head and others the data behind it, so a change must appear in both at one moment. Otherwise a
//! read of one kind would show it and a later read of the other kind would not. Readers of heads take no lock. For them
//! the moment is the replacement of the head. All other readers read only between changes.
//!
//! Changes are also counted, in more places than there are locks. An even, unchanged count means that nothing was
//! written to the list in between.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use liststore_contract::domain::Order;
use liststore_storage::{ItemPage, OpContext, PageInMemory, Range, StateToken, Validity};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::change_counts::ChangeCounts;
use super::head::Head;
use super::member_index::{MemberIndex, Worth};
use super::member_indexes::MemberIndexes;
use crate::collect::page;
use crate::list_id::{BorrowedListId, ListId};
use crate::log::change::{Change, ListChange};
use crate::row::Entry;

/// The smallest number of items of a filled head, if the list has them.
const ITEMS_MIN: usize = 64;
/// Larger pages are not answered from heads.
const LIMIT_MAX: usize = 512;
/// The estimated memory of a head in addition to its bytes.
const OVERHEAD: usize = 320;
/// The allocator rounds bytes up by this part of them, on average.
const ROUNDED_UP: usize = 8;
const STRIPES: usize = 1024;
/// The number of equal parts in which memory moves between heads and tables of members.
const STEPS: u64 = 64;
/// Memory of heads for each count of changes, the largest number of counts, and the smallest. A write to a list also
/// invalidates readers of the lists that share its count.
const BYTES_PER_COUNT: u64 = 1024;
const COUNTS_MAX: u64 = 1 << 20;

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<ListId, Arc<Head>> for ByBytes {
    fn weight(&self, list: &ListId, head: &Arc<Head>) -> u64 {
        let bytes = list.bytes().len() + head.row.len();
        (bytes + bytes / ROUNDED_UP + OVERHEAD) as u64
    }
}

#[derive(Debug)]
pub struct Heads {
    /// Readers share a head as a whole, so its removal counts once.
    cache: Cache<ListId, Arc<Head>, ByBytes>,
    /// Serialize changes and fills of one list.
    stripes: Box<[Mutex<()>]>,
    /// Twice the number of changes to the lists that share a count; odd during a change. The number of counts is a
    /// multiple of the stripes, and a power of two. Lists that share a count share a stripe.
    changes: ChangeCounts,
    /// Lists that have no heads for now.
    barred: Mutex<HashSet<ListId>>,
    /// Sets by member. They follow changes as heads do.
    members: MemberIndexes,
    /// The capacity of both together, in bytes, and the part that tables of members have.
    capacity: AtomicU64,
    given: AtomicU64,
}

/// The number of items that a head must hold for a get; `None` if the get does not begin at the newest item or wants
/// too many.
pub fn wanted_for(range: &Range, op: &OpContext) -> Option<usize> {
    let from_the_top = range.after.is_none() && range.max_timestamp >= op.now;
    (from_the_top && range.limit <= LIMIT_MAX).then(|| (range.limit + range.limit / 4 + 1).max(ITEMS_MIN))
}

/// Whether a head can answer a get.
fn is_for_heads(range: &Range) -> bool {
    range.limit <= LIMIT_MAX && range.order == Order::Newest
}

impl Heads {
    pub fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / 1024).unwrap_or(usize::MAX).max(16);
        let counts = (bytes / BYTES_PER_COUNT).clamp(STRIPES as u64, COUNTS_MAX).next_power_of_two();
        Self {
            cache: Cache::with_weighter(items, bytes, ByBytes),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            changes: ChangeCounts::new(usize::try_from(counts).unwrap_or(STRIPES)),
            barred: Mutex::default(),
            members: MemberIndexes::new(bytes),
            capacity: AtomicU64::new(bytes),
            given: AtomicU64::new(0),
        }
    }

    /// Sets the capacity of heads and tables of members together.
    pub fn set_capacity(&self, bytes: u64) {
        self.capacity.store(bytes, Ordering::Relaxed);
        self.members.set_capacity(bytes);
        let given = self.wanted_by_members(bytes);
        self.given.store(given, Ordering::Relaxed);
        self.cache.set_capacity(bytes.saturating_sub(given));
    }

    /// The capacity for tables of members, in steps, because each change of a cache's capacity evicts some of its
    /// content.
    fn wanted_by_members(&self, bytes: u64) -> u64 {
        self.members.weight().next_multiple_of((bytes / STEPS).max(1))
    }

    /// Gives heads the capacity that tables of members leave.
    fn make_room_for_members(&self) {
        let bytes = self.capacity.load(Ordering::Relaxed);
        let given = self.wanted_by_members(bytes);
        if self.given.swap(given, Ordering::Relaxed) != given {
            self.cache.set_capacity(bytes.saturating_sub(given));
        }
    }

    /// Bytes in use.
    pub fn weight(&self) -> u64 {
        self.cache.weight() + self.members.weight()
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.lock_stripe((hash as usize) % STRIPES)
    }

    fn lock_stripe(&self, i: usize) -> MutexGuard<'_, ()> {
        self.stripes[i].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stripes of several lists, each once, and in one order, which avoids deadlocks.
    fn stripes_of<'a>(&self, lists: impl Iterator<Item = &'a ListId>) -> Vec<MutexGuard<'_, ()>> {
        let mut stripes: Vec<_> = lists.map(|list| (list.hash() as usize) % STRIPES).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.into_iter().map(|i| self.lock_stripe(i)).collect()
    }

    /// The state of a list by its hash; `None` during a change.
    pub fn state(&self, hash: u64) -> Option<StateToken> {
        let changes = self.changes.get(self.changes.place(hash));
        changes.is_multiple_of(2).then_some(StateToken::new(changes))
    }

    /// The page, if the list's head contains all of it.
    pub fn page(&self, list: BorrowedListId<'_>, op: &OpContext, range: &Range) -> Option<ItemPage> {
        let head = if is_for_heads(range) { self.cache.get(&list)? } else { return None };
        head.page(op, range)
    }

    /// The same page with its validity.
    pub fn page_in_memory(&self, list: BorrowedListId<'_>, op: &OpContext, range: &Range) -> Option<PageInMemory> {
        let before = self.state(list.hash());
        let head = if is_for_heads(range) { self.cache.get(&list)? } else { return None };
        let (page, until) = page::from_row(op, range, head.row.clone(), head.complete)?;
        // If nothing was written in between, the head belongs to this state.
        let state = before.filter(|before| self.state(list.hash()) == Some(*before));
        Some(PageInMemory { page, validity: state.map(|state| Validity { state, from: op.now, until }) })
    }

    /// The current head of a list, if there is one.
    pub fn head(&self, list: BorrowedListId<'_>) -> Option<Arc<Head>> {
        self.cache.get(&list)
    }

    /// The whole content of a list, if its head contains it.
    pub fn whole(&self, list: BorrowedListId<'_>) -> Option<Bytes> {
        let head = self.cache.get(&list)?;
        head.complete.then(|| head.row.clone())
    }

    /// Takes the data that a reader beyond the head needs. `read` sees each change completely, in the head and behind
    /// it, or not at all. It must not wait.
    pub fn between_changes<T>(&self, list: &ListId, read: impl FnOnce() -> T) -> (Option<StateToken>, T) {
        let _no_change = self.stripe(list.hash());
        (self.state(list.hash()), read())
    }

    /// Does the same for several lists: `read` sees each change to them in all of them or in none.
    pub fn between_changes_of<T>(&self, lists: &[&ListId], read: impl FnOnce() -> T) -> T {
        let _no_change = self.stripes_of(lists.iter().copied());
        read()
    }

    /// Reads the table of a set by member, between two changes, if it is in memory. `read` must not wait.
    pub fn members<T>(&self, set: BorrowedListId<'_>, read: impl FnOnce(&MemberIndex) -> T) -> Option<T> {
        let _no_change = self.stripe(set.hash());
        self.members.get(set, read)
    }

    /// Records lookups of members in a set without a table. Returns how much of the set is worth reading for a table,
    /// if any.
    pub fn members_due(&self, set: &ListId, members: usize) -> Option<Worth> {
        self.members.due_after(set.hash(), members)
    }

    /// Stores the table of a set that was read in the state `seen`, unless the set has changed since.
    pub fn keep_members(&self, set: &ListId, seen: Option<StateToken>, index: MemberIndex) {
        let _no_change = self.stripe(set.hash());
        if seen.is_some() && self.state(set.hash()) == seen && !self.barred().contains(set) {
            self.members.insert(set, index);
            self.make_room_for_members();
        }
    }

    /// Drops removed members from a set's table, which may contain expired items of theirs that compactions have
    /// dropped.
    pub fn forget_some_members(&self, set: &ListId, members: &[Bytes]) {
        let _no_change = self.stripe(set.hash());
        self.members.forget(set, members);
    }

    /// Drops the table of a set after a removal of items with unknown members. It may contain expired items that
    /// compactions have dropped.
    pub fn forget_members(&self, set: &ListId) {
        let _no_change = self.stripe(set.hash());
        self.members.remove(set);
    }

    /// Stores a head that was read in the state `seen`, unless the list has changed since.
    pub fn fill(&self, list: &ListId, seen: Option<StateToken>, head: Head) {
        let _no_change = self.stripe(list.hash());
        if seen.is_some() && self.state(list.hash()) == seen && !self.barred().contains(list) {
            self.cache.insert(list.clone(), Arc::new(head));
        }
    }

    fn barred(&self) -> MutexGuard<'_, HashSet<ListId>> {
        self.barred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `apply`, which removes items behind the heads of lists that no longer show them. The heads may still
    /// contain them, so the lists have no heads during this, and start without one.
    pub fn without<T>(&self, lists: &[ListId], apply: impl FnOnce() -> T) -> T {
        self.barred().extend(lists.iter().cloned());
        let forget = |list: &ListId| {
            self.between(list, || {
                self.cache.remove(list);
                self.members.remove(list);
            });
        };
        lists.iter().for_each(forget);
        let applied = apply();
        // A head that was read before is invalid now.
        lists.iter().for_each(forget);
        let mut barred = self.barred();
        lists.iter().for_each(|list| _ = barred.remove(list));
        applied
    }

    /// Drops the head of a list that contains an item of a removal, and all rendered pages of the list.
    ///
    /// A removal finds its items behind the head, where compactions have dropped expired ones. After a step back of the
    /// clock, an old head would show such an item again.
    pub fn forget_removed(&self, list: &ListId, takes: impl Fn(&Entry, &[u8]) -> bool) {
        self.forget_head_if(list, |head| head.holds_any(takes).unwrap_or(true));
    }

    /// Does the same for an add to a set, which replaces expired items of its members; `now` is in nanoseconds since
    /// the Unix epoch. `takes` is built only if an item has expired.
    pub fn forget_expired<T: Fn(&[u8]) -> bool>(&self, set: &ListId, now: u64, takes: impl FnOnce() -> T) {
        let takes_expired = || {
            let takes = takes();
            move |entry: &Entry, value: &[u8]| entry.expires_at <= now && takes(value)
        };
        self.forget_head_if(set, |head| head.may_hold_expired(now) && head.holds_any(takes_expired()).unwrap_or(true));
    }

    fn forget_head_if(&self, list: &ListId, is_to_go: impl FnOnce(&Head) -> bool) {
        self.between(list, || {
            if self.cache.peek(list).is_some_and(|head| is_to_go(&head)) {
                self.cache.remove(list);
            }
        });
    }

    /// Runs a change between two states of a list. Concurrent readers get no state.
    fn between(&self, list: &ListId, change: impl FnOnce()) {
        let _no_other = self.stripe(list.hash());
        let place = self.changes.place(list.hash());
        self.changes.increment(place);
        let _ended = scopeguard::guard((), |()| self.changes.increment(place));
        change();
    }

    /// Makes a change: `apply` changes the data behind the list's head, and the head follows before any reader can look
    /// behind it or fill it again.
    pub fn change(&self, list: &ListId, change: &Change, apply: impl FnOnce()) {
        self.between(list, || {
            apply();
            if self.members.follow(list, change) {
                self.make_room_for_members();
            }
            if let Some(head) = self.cache.peek(list) {
                self.follow(list, &head, change);
            }
        });
    }

    /// Replaces a head with its state after a change.
    fn follow(&self, list: &ListId, head: &Head, change: &Change) {
        match head.after(change) {
            // Not `insert`, because a list that is only written must not look popular.
            Ok(Some(head)) => {
                let _no_longer_there = self.cache.replace(list.clone(), Arc::new(head), true);
            }
            Ok(None) | Err(_) => {
                self.cache.remove(list);
            }
        }
    }

    /// Makes changes to several different lists, which appear at one moment.
    pub fn change_together(&self, changes: &[ListChange], apply: impl FnOnce()) {
        let _no_others = self.stripes_of(changes.iter().map(|one| &one.list));
        let mut counts: Vec<_> = changes.iter().map(|one| self.changes.place(one.list.hash())).collect();
        counts.sort_unstable();
        // Two increments would be even, and hide the running change.
        counts.dedup();
        let count = || counts.iter().for_each(|place| self.changes.increment(*place));
        count();
        let _ended = scopeguard::guard((), |()| count());
        let with_heads = changes.iter().filter_map(|one| Some((one, self.cache.peek(&one.list)?)));
        let with_heads: Vec<_> = with_heads.collect();
        let apply = || {
            apply();
            let moved = changes.iter().filter(|one| self.members.follow(&one.list, &one.change)).count();
            if moved > 0 {
                self.make_room_for_members();
            }
        };
        if let [(one, head)] = &with_heads[..] {
            apply();
            return self.follow(&one.list, head, &one.change);
        }
        // Readers of heads take no lock, and could see one head changed and then another unchanged. So all are removed
        // before the first one returns.
        with_heads.iter().for_each(|(one, _)| _ = self.cache.remove(&one.list));
        apply();
        for (one, head) in with_heads {
            if let Ok(Some(head)) = head.after(&one.change) {
                self.cache.insert(one.list.clone(), Arc::new(head));
            }
        }
    }
}
