//! Members of sets: what is stored of them, and how they are found without reverse entries, by looking through
//! their list.

use std::collections::HashMap;

use bytes::Bytes;
use liststore_contract::domain::{Identity, Item, Timestamp};
use liststore_storage::Operation;

use super::page::{Collect, Next};
use crate::row::reverse::Pointer;
use crate::row::{Entry, RowCursor};

/// An item that is stored of a member, whether anybody sees it or not.
#[derive(Debug, Clone)]
pub struct Present {
    /// Both in nanoseconds since the Unix epoch.
    timestamp: u64,
    expires_at: u64,
    value: Bytes,
}

impl Present {
    pub fn new(timestamp: u64, expires_at: u64, value: Bytes) -> Self {
        Self { timestamp, expires_at, value }
    }

    pub fn is_seen_by(&self, op: &Operation) -> bool {
        op.sees(self.timestamp, self.expires_at)
    }

    pub fn value(&self) -> &Bytes {
        &self.value
    }

    pub fn timestamp(&self) -> Option<Timestamp> {
        Timestamp::from_nanos(self.timestamp).ok()
    }

    /// The item, if an operation sees it.
    pub fn seen_by(self, op: &Operation) -> Option<Item> {
        let timestamp = self.timestamp()?;
        self.is_seen_by(op).then_some(Item { timestamp, value: self.value })
    }
}

/// What is known of a member.
#[derive(Debug, Clone)]
pub struct Met {
    pub member: Bytes,
    pub present: Option<Present>,
    /// Entries there that point to no item.
    pub stale: Vec<Pointer>,
}

/// Finds the item of each of some members, wherever it stands in the list that it is offered.
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
            self.present[place] = Some(Present::new(entry.timestamp, entry.expires_at, row.value_bytes()));
        }
        if self.missing.is_empty() { Next::Done } else { Next::Wanted }
    }

    fn finish(&mut self) -> Self::Found {
        self.asked.iter().map(|place| self.present[*place].clone()).collect()
    }
}
