//! The tables of sets by member, within bounds.
//!
//! A set gets its table once looking its members up has cost about as much as reading the set. It retains the table
//! while it is used. The table follows each change of the set at the same moment as the set's head. Its readers block
//! the set's changes, as [`Heads`](super::heads::Heads) describes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use super::member_index::{MemberIndex, Worth};
use crate::list_id::{BorrowedListId, ListId};
use crate::log::change::Change;
use crate::row::Malformed;

/// The number of sets that are read for a table at the same time. The memory budget does not include unfinished tables.
const BUILDERS: usize = 2;
/// A table that has grown by this factor since its construction is dropped.
const GROWTH_MAX: u64 = 4;
/// The largest part of the heads' memory for tables of members.
const SHARE: u64 = 4;
/// The expected number of tables for the cache. The cache divides itself into segments of at least 32 entries, and
/// drops a table larger than a segment. So this makes it use one segment.
const ONE_PART: usize = 32;
/// Sets with the same place here share their account. It only determines when a table is made.
const ACCOUNTS: usize = 4096;
/// Finding a member on disk takes about as long as reading this many adjacent items.
const ITEMS_PER_LOOKUP: u64 = 32;
/// The smallest number of lookups before a table is made.
const LOOKUPS_MIN: u32 = 64;
/// After this many lookups another attempt is due, regardless of the outcome of the previous ones.
const DUE_MAX: u32 = 1 << 26;

/// The lookups without a table since the last one, and the number that makes the next attempt due.
#[derive(Debug, Clone, Copy)]
struct Account {
    lookups: u32,
    due: u32,
}

impl Account {
    const NEW: Self = Self { lookups: 0, due: LOOKUPS_MIN };

    fn pack(self) -> u64 {
        u64::from(self.due) << 32 | u64::from(self.lookups)
    }

    fn unpack(bits: u64) -> Self {
        Self { lookups: bits as u32, due: (bits >> 32) as u32 }
    }
}

/// A table, its weight when it was stored, and the time of its construction.
#[derive(Debug, Clone)]
struct Kept {
    index: Arc<Mutex<MemberIndex>>,
    weight: u64,
    first_weight: u64,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<ListId, Kept> for ByBytes {
    fn weight(&self, set: &ListId, kept: &Kept) -> u64 {
        kept.weight + set.bytes().len() as u64
    }
}

/// All tables, within bounds. One thread at a time uses the table of a set.
#[derive(Debug)]
pub struct MemberIndexes {
    kept: Cache<ListId, Kept, ByBytes>,
    /// Whether there was ever a table. Without sets, changes cost nothing here.
    any: AtomicBool,
    accounts: Box<[AtomicU64]>,
    turns: Arc<Semaphore>,
}

impl MemberIndexes {
    /// `heads_bytes` is the memory that they share with list heads.
    pub fn new(heads_bytes: u64) -> Self {
        let kept = Cache::with_weighter(ONE_PART, heads_bytes / SHARE, ByBytes);
        let accounts = (0..ACCOUNTS).map(|_| AtomicU64::new(Account::NEW.pack())).collect();
        Self { kept, any: AtomicBool::new(false), accounts, turns: Arc::new(Semaphore::new(BUILDERS)) }
    }

    pub fn set_capacity(&self, heads_bytes: u64) {
        self.kept.set_capacity(heads_bytes / SHARE);
    }

    /// Bytes in use.
    pub fn weight(&self) -> u64 {
        self.kept.weight()
    }

    pub fn get<T>(&self, set: BorrowedListId<'_>, read: impl FnOnce(&MemberIndex) -> T) -> Option<T> {
        let kept = self.kept.get(&set)?;
        let index = lock(&kept.index);
        Some(read(&index))
    }

    pub fn insert(&self, set: &ListId, index: MemberIndex) {
        self.account(set.hash()).store(Account::NEW.pack(), Ordering::Relaxed);
        self.any.store(true, Ordering::Release);
        let weight = index.bytes() as u64;
        let index = Arc::new(Mutex::new(index));
        self.kept.insert(set.clone(), Kept { index, weight, first_weight: weight });
    }

    pub fn remove(&self, set: &ListId) {
        self.kept.remove(set);
    }

    /// Removes members without items from the table of a set, if there is one.
    pub fn forget(&self, set: &ListId, members: &[Bytes]) {
        if let Some(kept) = self.kept.peek(set) {
            let mut index = lock(&kept.index);
            members.iter().for_each(|member| index.forget(member));
        }
    }

    /// Applies a change to the table of a set. Returns whether the tables' part of memory has changed.
    pub fn follow(&self, set: &ListId, change: &Change) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let Some(Kept { index, weight, first_weight }) = self.kept.peek(set) else { return false };
        let bytes = {
            let mut index = lock(&index);
            let followed = match change {
                Change::Row(row) => index.apply(row.clone()),
                Change::Clear => {
                    *index = MemberIndex::new(index.identity);
                    Ok(true)
                }
                // Only bags have such changes.
                Change::Replace(_) => Err(Malformed),
            };
            followed.map(|is_known| if index.is_too_long() || !is_known { u64::MAX } else { index.bytes() as u64 })
        };
        match bytes {
            Err(Malformed) => self.remove(set),
            // It may be full of expired items. If it is not, building another costs little compared with the adds that
            // made it so long.
            Ok(bytes) if bytes > GROWTH_MAX * first_weight => self.remove(set),
            // The cache has a table's earlier weight, which is updated when it is inaccurate.
            Ok(bytes) if bytes.abs_diff(weight) > weight / 8 => {
                let _no_longer_there =
                    self.kept.replace(set.clone(), Kept { index, weight: bytes, first_weight }, true);
            }
            Ok(_) => return false,
        }
        true
    }

    fn account(&self, hash: u64) -> &AtomicU64 {
        &self.accounts[(hash as usize) % ACCOUNTS]
    }

    /// Counts lookups of members in a set without a table. Returns how much of the set to read for one, if that is
    /// due.
    ///
    /// Each attempt may read several times as much as the previous one, up to [`DUE_MAX`]. All of them together cost
    /// little more than the lookups.
    pub fn due_after(&self, hash: u64, members: usize) -> Option<Worth> {
        let place = self.account(hash);
        let Account { lookups, due } = Account::unpack(place.load(Ordering::Relaxed));
        let lookups = lookups.saturating_add(u32::try_from(members).unwrap_or(u32::MAX));
        let is_due = lookups >= due;
        let turn = if is_due { Arc::clone(&self.turns).try_acquire_owned().ok() } else { None };
        let next = match turn {
            None => Account { lookups, due },
            // Such a set is too long for a table, but it may become shorter, and other sets share the place.
            Some(_) if lookups >= DUE_MAX => Account { lookups: 0, due: DUE_MAX },
            Some(_) => Account { lookups, due: lookups.saturating_mul(4).min(DUE_MAX) },
        };
        // Two at once may count as one.
        place.store(next.pack(), Ordering::Relaxed);
        let bytes_max = usize::try_from(self.kept.capacity() / 2).unwrap_or(usize::MAX);
        Some(Worth { items_max: u64::from(lookups) * ITEMS_PER_LOOKUP, bytes_max, turn: turn? })
    }
}

fn lock(index: &Mutex<MemberIndex>) -> MutexGuard<'_, MemberIndex> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use liststore_contract::domain::{Identity, Keep, ValueDigest};
    use proptest::prelude::*;

    use super::*;
    use crate::options::ListHash;
    use crate::row::RowBuilder;

    const IDENTITY: Identity = Identity::Value(Keep::Newest);
    const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);

    fn name(member: u8) -> Bytes {
        format!("member-{member}").into()
    }

    /// A row of a write to a set: if a member moves, a deleted item and a new one.
    fn row(mut items: Vec<(u64, bool, u8)>) -> Bytes {
        items.sort_by(|a, b| b.cmp(a));
        let mut builder = RowBuilder::default();
        items.iter().for_each(|(time, deleted, member)| builder.push(*time, 1_000 + time, *deleted, &name(*member)));
        builder.finish()
    }

    fn found(index: &MemberIndex) -> BTreeMap<u8, u64> {
        let time = |member| Some((member, index.find(&name(member))?.timestamp()?.as_nanos()));
        (0..8).filter_map(time).collect()
    }

    fn made_of(items: &BTreeMap<u8, u64>) -> MemberIndex {
        let mut index = MemberIndex::new(IDENTITY);
        index.apply(row(items.iter().map(|(member, time)| (*time, false, *member)).collect())).unwrap();
        index
    }

    proptest! {
        /// Members move, disappear and return, several in a row. The table must equal a newly built one.
        #[test]
        fn a_table_is_the_set_after_every_change(
            writes in prop::collection::vec(prop::collection::btree_map(0_u8..8, prop::option::of(1_u64..50), 1..6), 1..40),
        ) {
            let (set, indexes) = (ListId::from_bytes(b"s", HASH), MemberIndexes::new(1 << 20));
            indexes.insert(&set, MemberIndex::new(IDENTITY));
            let mut model = BTreeMap::new();
            for write in writes {
                let mut items = Vec::new();
                for (member, time) in write {
                    let before = model.remove(&member);
                    items.extend(before.filter(|before| Some(*before) != time).map(|before| (before, true, member)));
                    items.extend(time.map(|time| (time, false, member)));
                    time.into_iter().for_each(|time| _ = model.insert(member, time));
                }
                indexes.follow(&set, &Change::Row(row(items)));
                let (entries, bytes) = lock(&indexes.kept.peek(&set).unwrap().index).entries_and_bytes();
                prop_assert_eq!(&entries, &model);
                prop_assert_eq!(bytes, made_of(&model).value_bytes);
            }
            indexes.follow(&set, &Change::Clear);
            prop_assert_eq!(lock(&indexes.kept.peek(&set).unwrap().index).entries_and_bytes(), (BTreeMap::new(), 0));
        }
    }

    #[test]
    fn a_digest_replaces_the_item_of_its_member_or_ends_the_table() {
        let (set, indexes) = (ListId::from_bytes(b"s", HASH), MemberIndexes::new(1 << 20));
        let value = [b'm'; 40];
        let row = |put: Option<u64>, deleted: u64| {
            let mut builder = RowBuilder::default();
            put.into_iter().for_each(|time| builder.push(time, 1_000, false, &value));
            builder.push_deleted(deleted, &value, || ValueDigest::of(&value));
            Change::Row(builder.finish())
        };
        let mut first = RowBuilder::default();
        first.push(1, 1_000, false, &value);
        let mut index = MemberIndex::new(IDENTITY);
        assert_eq!(index.apply(first.finish()), Ok(true));
        indexes.insert(&set, index);
        indexes.follow(&set, &row(Some(5), 1));
        let kept = indexes.kept.peek(&set).unwrap();
        assert_eq!(lock(&kept.index).find(&value).unwrap().timestamp().unwrap().as_nanos(), 5);
        indexes.follow(&set, &row(None, 5));
        assert!(indexes.kept.peek(&set).is_none());
    }

    impl MemberIndex {
        fn entries_and_bytes(&self) -> (BTreeMap<u8, u64>, usize) {
            (found(self), self.value_bytes)
        }
    }

    #[test]
    fn tables_are_built_once_lookups_have_cost_as_much() {
        let indexes = MemberIndexes::new(8 << 20);
        let due_after = |members| indexes.due_after(7, members).map(|worth| (worth.items_max, worth.bytes_max));
        let items = |lookups: u64| Some((lookups * ITEMS_PER_LOOKUP, 1 << 20));
        assert_eq!((due_after(63), due_after(1)), (None, items(64)));
        // The set was longer than that. The next attempt may read four times as much.
        assert_eq!((due_after(100), due_after(91), due_after(1)), (None, None, items(256)));
        indexes.insert(&ListId::from_bytes(b"1234567", HASH), MemberIndex::new(IDENTITY));
        let turns: Vec<_> = (0..BUILDERS as u64).map(|other| indexes.due_after(other, 64).unwrap()).collect();
        assert_eq!(due_after(64), None, "others are at work");
        drop(turns);
        assert_eq!(due_after(0), items(64));
        // Any lookups in a permanently too long set.
        let attempts_in = |calls| (0..calls).filter(|_| due_after(DUE_MAX as usize / 32).is_some()).count();
        assert!(attempts_in(100) < 10);
        assert_eq!([attempts_in(320), attempts_in(320)], [10, 10], "it may have become shorter");
    }

    #[test]
    fn memory_of_tables_is_bounded_and_a_grown_table_is_rebuilt() {
        let (indexes, bytes) = (MemberIndexes::new(64 << 10), 64 << 10 >> 2);
        let sets: Vec<_> = (0..100).map(|n| ListId::from_bytes(format!("s{n}").as_bytes(), HASH)).collect();
        for set in &sets {
            indexes.insert(set, made_of(&(0..8).map(|member| (member, 1)).collect()));
            assert!(indexes.weight() <= bytes);
        }
        assert!(indexes.weight() > bytes / 2);
        let last = sets.last().unwrap();
        assert!(indexes.kept.peek(last).is_some());
        let long = vec![b'x'; 8 << 10];
        let mut builder = RowBuilder::default();
        builder.push(2, 9, false, &long);
        indexes.follow(last, &Change::Row(builder.finish()));
        assert!(indexes.kept.peek(last).is_none());
    }

    #[test]
    fn a_table_that_nearly_fills_the_memory_for_tables_is_kept() {
        let (indexes, set) = (MemberIndexes::new(64 << 10), ListId::from_bytes(b"s", HASH));
        let mut builder = RowBuilder::default();
        builder.push(2, 9, false, &vec![b'x'; 14 << 10]);
        let mut index = MemberIndex::new(IDENTITY);
        index.apply(builder.finish()).unwrap();
        indexes.insert(&set, index);
        assert!(indexes.kept.peek(&set).is_some());
    }
}
