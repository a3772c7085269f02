//! Sets: where members stand, and what an add leaves of them.
//!
//! A member is found by looking through its list. What an add makes of a set is one row, with the new items
//! and with deleted entries of those whose place they take: so it is there as a whole, for readers and after
//! a crash.

use std::collections::HashMap;

use bytes::Bytes;

use super::page::{self, Collect, Next};
use super::row::{Entry, RowBuilder, RowCursor};
use crate::domain::{Identity, Item, ItemKey, Keep, NewItem, Timestamp, ValueDigest};
use crate::items::Operation;

/// An item that is stored of a member, whether anybody sees it or not.
#[derive(Debug, Clone)]
pub struct Present {
    entry: Entry,
    value: Bytes,
}

impl Present {
    fn key(&self) -> Option<ItemKey> {
        let timestamp = Timestamp::from_nanos(self.entry.timestamp).ok()?;
        Some(ItemKey::new(timestamp, ValueDigest::of(&self.value)))
    }

    /// The item, if an operation sees it.
    pub fn seen_by(self, op: &Operation) -> Option<Item> {
        let timestamp = Timestamp::from_nanos(self.entry.timestamp).ok()?;
        page::is_visible(op, &self.entry).then_some(Item { timestamp, value: self.value })
    }
}

/// Finds the item of each of some members.
pub struct MemberFinder {
    identity: Identity,
    /// Members that were not met yet, and where their answer goes.
    missing: HashMap<Bytes, usize>,
    /// Of each member once.
    present: Vec<Option<Present>>,
    /// Which of these each of the members that were asked for is.
    asked: Vec<usize>,
}

impl MemberFinder {
    pub fn new(identity: Identity, members: impl Iterator<Item = Bytes>) -> Self {
        let mut missing = HashMap::with_capacity(members.size_hint().0);
        let place = |member: Bytes| {
            let next = missing.len();
            *missing.entry(member).or_insert(next)
        };
        let asked = members.map(place).collect();
        let present = vec![None; missing.len()];
        Self { identity, missing, present, asked }
    }
}

impl Collect for MemberFinder {
    /// In the order of the members.
    type Found = Vec<Option<Present>>;

    fn offer(&mut self, entry: &Entry, row: &RowCursor) -> Next {
        if entry.deleted {
            return Next::Wanted;
        }
        if let Some(place) = self.missing.remove(self.identity.member(row.value())) {
            self.present[place] = Some(Present { entry: entry.clone(), value: row.value_bytes() });
        }
        if self.missing.is_empty() { Next::Done } else { Next::Wanted }
    }

    fn finish(&mut self) -> Self::Found {
        self.asked.iter().map(|place| self.present[*place].clone()).collect()
    }
}

/// What is to be written for an add to a set.
pub struct Plan {
    /// New items, and deleted entries of those whose place they take.
    pub row: Bytes,
    /// The oldest timestamp in it.
    pub oldest: u64,
}

/// What becomes of a member.
struct Outcome {
    /// What is stored now, if an operation sees it or not.
    present: Option<Present>,
    /// The item that is to stand, and its key.
    stands: Option<(ItemKey, NewItem)>,
}

impl Plan {
    /// Decides on new items, of whose members these are `present`; none if all is to stay as it is.
    pub fn of(
        op: &Operation,
        identity: Identity,
        keep: Keep,
        items: Vec<NewItem>,
        present: Vec<Option<Present>>,
    ) -> Option<Self> {
        let mut outcomes: HashMap<Bytes, Outcome> = HashMap::with_capacity(items.len());
        for (item, present) in items.into_iter().zip(present) {
            let key = ItemKey::new(item.timestamp, ValueDigest::of(&item.value));
            let member = item.value.slice_ref(identity.member(&item.value));
            let outcome = outcomes.entry(member).or_insert(Outcome { present, stands: None });
            let rival = match (&outcome.stands, &outcome.present) {
                (Some((key, _)), _) => Some(*key),
                (None, Some(present)) if page::is_visible(op, &present.entry) => present.key(),
                (None, _) => None,
            };
            if rival.is_none_or(|rival| keep.replaces(&key, &rival)) {
                outcome.stands = Some((key, item));
            }
        }
        Self::write(outcomes)
    }

    fn write(outcomes: HashMap<Bytes, Outcome>) -> Option<Self> {
        let mut entries: Vec<(ItemKey, u64, bool, Bytes)> = Vec::with_capacity(outcomes.len() * 2);
        for Outcome { present, stands } in outcomes.into_values() {
            let Some((key, item)) = stands else { continue };
            if let Some(gone) = present
                && let Some(gone_key) = gone.key().filter(|gone_key| *gone_key != key)
            {
                entries.push((gone_key, 0, true, gone.value));
            }
            entries.push((key, item.expires_at, false, item.value));
        }
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.0));
        let oldest = entries.last()?.0.timestamp.as_nanos();
        let mut row = RowBuilder::default();
        for (key, expires_at, deleted, value) in &entries {
            row.push(key.timestamp.as_nanos(), *expires_at, *deleted, value);
        }
        Some(Self { row: row.finish(), oldest })
    }
}
