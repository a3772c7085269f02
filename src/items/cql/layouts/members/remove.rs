//! Remove List Items of a set.
//!
//! Each item is deleted with its own write timestamp, in its row and in its entry. This hides the stored item and no
//! later one. A current item is deleted with all other items of its member's entry, so that none of them becomes
//! visible.
//!
//! Of what lies between two moments, items whose writes are settled go many at once: their entries by a few statements,
//! and their rows by one range tombstone at the end. Until then their rows show nothing. That needs reads that meet
//! every acknowledged write.

use std::collections::{HashMap, HashSet};

use super::entry::{Held, ReverseEntry, place_of};
use super::queries::{last_shown, last_shown_of};
use super::read::{self, AllEntries, Rows};
use super::walk::keep_of;
use super::write::{self, MemberChange};
use crate::domain::{IdentityKind, ItemKey, Order};
use crate::items::cql::call::Call;
use crate::items::cql::error::after_unknown;
use crate::items::cql::layouts::deletes::wait_out;
use crate::items::cql::layouts::keys::slice;
use crate::items::cql::layouts::settled::settled;
use crate::items::cql::layouts::walk::Slice;
use crate::items::cql::statements::Statement;
use crate::items::cql::statements::sets::ENTRIES_MAX;
use crate::items::{Bounds, Removal, StoreError};

/// Items of one batch, and entries of a batch that deletes whole entries.
const BATCH_ITEMS: usize = 100;
const BATCH_ENTRIES: usize = 5 * ENTRIES_MAX;
/// Batches of one removal in progress at once.
const BATCHES_MAX: usize = 8;
/// Rows that are found before they are deleted: a removal's memory does not grow with its set.
const FIND_ROWS: usize = 1_000;

/// Carries a removal out, and returns the number of visible items that it removed.
pub async fn remove(call: &mut Call, removal: &Removal) -> Result<u64, StoreError> {
    let identity = call.list.identity();
    let (last_shown, removed, begun, largest, settled) = (None, 0, false, None, None);
    let mut removing = Removing { call, removal, last_shown, removed, begun, largest, settled };
    match removal {
        Removal::Members(members) => removing.named(members.iter().map(|member| place_of(member))).await?,
        Removal::Value(value) if identity.kind() == IdentityKind::Value => {
            removing.named([place_of(value)]).await?;
        }
        Removal::Value(_) => removing.all_entries().await?,
        Removal::Items(items) => {
            let members = items.iter().map(|(_, stored)| place_of(identity.member(stored)));
            removing.named(members).await?;
        }
        Removal::Between(within) => removing.between(within).await?,
    }
    Ok(removing.end().await)
}

/// A removal that is in progress.
struct Removing<'a> {
    call: &'a mut Call,
    removal: &'a Removal,
    /// The last item that the set shows, if it has more.
    last_shown: Option<ItemKey>,
    removed: u64,
    /// Whether something may have been deleted.
    begun: bool,
    /// The largest timestamp that something was deleted with.
    largest: Option<i64>,
    /// Where all rows of a slice go in the end: by which timestamp writes are settled.
    settled: Option<i64>,
}

impl Removing<'_> {
    async fn entries(&mut self, members: impl IntoIterator<Item = String>) -> Result<Vec<ReverseEntry>, StoreError> {
        let members: HashSet<_> = members.into_iter().collect();
        let read = read::entries(self.call, members.into_iter().collect()).await;
        Ok(read.map_err(|error| after_unknown(error, self.begun))?.into_values().collect())
    }

    /// Removes the matching items of some members, when no other member can match.
    async fn named(&mut self, members: impl IntoIterator<Item = String>) -> Result<(), StoreError> {
        let entries = self.entries(members).await?;
        let current: Vec<_> = entries.iter().filter_map(|entry| self.current(entry)).collect();
        self.last_shown = last_shown_of(self.call, current.into_iter()).await?;
        self.take_from(&entries).await
    }

    async fn all_entries(&mut self) -> Result<(), StoreError> {
        self.last_shown = last_shown(self.call).await?;
        let mut all = AllEntries::new();
        loop {
            if self.call.core.dense.has(&self.call.list) {
                return self.by_rows(&Bounds::ALL).await.map(drop);
            }
            let read = all.next(self.call).await;
            if matches!(read, Err(StoreError::TooManyTombstones { .. })) {
                self.call.core.dense.note(&self.call.list);
                return self.by_rows(&Bounds::ALL).await.map(drop);
            }
            let Some(entries) = read.map_err(|error| after_unknown(error, self.begun))? else { return Ok(()) };
            self.take_from(&entries).await?;
        }
    }

    async fn between(&mut self, within: &Bounds) -> Result<(), StoreError> {
        self.last_shown = last_shown(self.call).await?;
        // Where reads may miss acknowledged items, each one that is found goes for itself: nothing else is hidden.
        if !self.call.core.reads_see_all_writes() {
            return self.by_rows(within).await.map(drop);
        }
        // Before anything is read.
        let after = self.call.core.settled_after();
        let written = settled(self.call, after).await?;
        self.settled = Some(written);
        if !self.by_rows(within).await? {
            return Ok(());
        }
        let (lower, upper) = slice(within);
        self.write(vec![vec![MemberChange::DropRows { lower, upper, written }]]).await
    }

    /// Removes the matching items of the members that have rows in a slice. Returns whether there were rows.
    async fn by_rows(&mut self, within: &Bounds) -> Result<bool, StoreError> {
        let (lower, upper) = slice(within);
        let mut rows = Rows::of(Slice { order: Order::Newest, lower, upper });
        let mut at = None;
        loop {
            let read = rows.next(self.call, FIND_ROWS).await;
            let begin = at.as_ref().unwrap_or(&rows.slice.upper);
            let read = self.call.core.to_sweep.check(read, (&self.call.list, begin, rows.slice.order));
            let Some(some) = read.map_err(|error| after_unknown(error, self.begun))? else { break };
            at = some.last().map(|row| row.key.to_string()).or(at);
            let entries = self.entries(some.into_iter().map(|row| row.member)).await?;
            self.take_from(&entries).await?;
        }
        Ok(at.is_some())
    }

    fn takes(&self, held: &Held) -> bool {
        self.removal.takes(self.call.list.identity(), held.key.timestamp, &held.stored)
    }

    /// The current item of an entry, if it is removed.
    fn current<'e>(&self, entry: &'e ReverseEntry) -> Option<&'e Held> {
        entry.current(&self.call.op, keep_of(&self.call.list)).filter(|held| self.takes(held))
    }

    /// Deletes the matching items of some entries.
    async fn take_from(&mut self, entries: &[ReverseEntry]) -> Result<(), StoreError> {
        let mut gone: Vec<(&str, &Held)> = Vec::new();
        let mut whole: Vec<(&str, &Held)> = Vec::new();
        for entry in entries {
            let current = self.current(entry);
            let is_shown = |held: &Held| self.last_shown.is_none_or(|last| held.key >= last);
            self.removed += u64::from(current.is_some_and(is_shown));
            let taken = entry.held.iter().filter(|held| current.is_some() || self.takes(held));
            for held in taken {
                let is_whole = entry.held.len() == 1 && self.settled.is_some_and(|settled| held.written <= settled);
                let with = if is_whole { &mut whole } else { &mut gone };
                with.push((&entry.member, held));
            }
        }
        self.largest = gone.iter().chain(&whole).map(|(_, held)| held.written).max().max(self.largest);
        self.write([batches(&gone), batches_of_whole(whole)].concat()).await
    }

    /// Carries batches of changes out, if there are any.
    async fn write(&mut self, batches: Vec<Vec<MemberChange>>) -> Result<(), StoreError> {
        if batches.is_empty() {
            return Ok(());
        }
        // Other batches of this removal may have been carried out.
        let several = self.begun || batches.len() > 1;
        self.begun = true;
        let each = |mut call: Call, changes| async move {
            write::write(&mut call, Statement::Delete, changes).await?;
            Ok(((), call))
        };
        let deleted = self.call.in_lanes(batches, BATCHES_MAX, each).await;
        deleted.map(drop).map_err(|error| after_unknown(error, several))
    }

    /// Waits until it may be acknowledged. Returns how many visible items were removed.
    async fn end(self) -> u64 {
        self.call.release();
        if let Some(largest) = self.largest {
            wait_out(&self.call.core, largest).await;
        }
        self.removed
    }
}

/// The changes that delete items. All changes of one member are in one batch.
fn batches(gone: &[(&str, &Held)]) -> Vec<Vec<MemberChange>> {
    let mut members: HashMap<&str, Vec<MemberChange>> = HashMap::new();
    for (member, held) in gone {
        members.entry(member).or_default().extend(write::drop(member, held));
    }
    let members: Vec<_> = members.into_values().collect();
    members.chunks(BATCH_ITEMS).map(<[_]>::concat).collect()
}

/// The changes that delete whole entries, each statement with the latest write timestamp of its entries. The rows are
/// deleted with the slice.
fn batches_of_whole(mut whole: Vec<(&str, &Held)>) -> Vec<Vec<MemberChange>> {
    whole.sort_by_key(|(_, held)| held.written);
    let entries = |some: &[(&str, &Held)]| MemberChange::DropEntries {
        members: some.iter().map(|(member, _)| (*member).to_owned()).collect(),
        written: some.iter().map(|(_, held)| held.written).max().unwrap_or_default(),
    };
    whole.chunks(BATCH_ENTRIES).map(|some| some.chunks(ENTRIES_MAX).map(entries).collect()).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::{Timestamp, ValueDigest};

    #[test]
    fn removed_entries_share_their_latest_write_timestamp() {
        let key = ItemKey::new(Timestamp::from_nanos(7).unwrap(), ValueDigest::of(b"v"));
        let held = |written| Held { writer: 1, key, written, expires_at: 9, stored: Bytes::new() };
        let all: Vec<_> = (0..1_200).rev().map(held).collect();
        let batches = batches_of_whole(all.iter().map(|held| ("m", held)).collect());
        let reported = |change: &MemberChange| match change {
            MemberChange::DropEntries { members, written } => (members.len(), *written),
            other => panic!("{other:?}"),
        };
        let reported: Vec<Vec<_>> = batches.iter().map(|batch| batch.iter().map(reported).collect()).collect();
        assert_eq!(reported[0], [(100, 99), (100, 199), (100, 299), (100, 399), (100, 499)]);
        assert_eq!((reported.len(), reported[2].last()), (3, Some(&(100, 1_199))));
        assert_eq!(batches_of_whole(Vec::new()), Vec::<Vec<MemberChange>>::new());
    }
}
