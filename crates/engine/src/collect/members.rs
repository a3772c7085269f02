//! Members of sets: their stored state, and finding them in their list without reverse entries.

use std::collections::HashMap;

use bytes::Bytes;
use liststore_contract::domain::{Identity, Item, Timestamp};
use liststore_storage::OpContext;
use liststore_storage::collect::Offered;

use super::page::{Collect, Next};
use crate::row::reverse::Pointer;

/// A stored item of a member, visible or not.
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

    pub fn is_seen_by(&self, op: &OpContext) -> bool {
        op.sees(self.timestamp, self.expires_at)
    }

    pub fn value(&self) -> &Bytes {
        &self.value
    }

    pub fn timestamp(&self) -> Option<Timestamp> {
        Timestamp::from_nanos(self.timestamp).ok()
    }

    /// The item, if an operation sees it.
    pub fn seen_by(self, op: &OpContext) -> Option<Item> {
        let timestamp = self.timestamp()?;
        self.is_seen_by(op).then_some(Item { timestamp, value: self.value })
    }
}

/// The stored state of a member.
#[derive(Debug, Clone)]
pub struct FoundMember {
    pub member: Bytes,
    pub present: Option<Present>,
    /// Reverse entries that point to no item.
    pub stale: Vec<Pointer>,
}

/// Finds the items of some members anywhere in the list that it is offered.
pub struct MemberFinder {
    identity: Identity,
    /// Members that were not found yet, and the place of their answer.
    missing: HashMap<Bytes, usize>,
    /// One element for each distinct member.
    present: Vec<Option<Present>>,
    /// The index of each requested member among them.
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

    fn offer(&mut self, item: &impl Offered) -> Next {
        if item.is_deleted() {
            return Next::Wanted;
        }
        if let Some(place) = self.missing.remove(self.identity.member(item.value())) {
            self.present[place] = Some(Present::new(item.timestamp(), item.expires_at(), item.value_bytes()));
        }
        if self.missing.is_empty() { Next::Done } else { Next::Wanted }
    }

    fn finish(&mut self) -> Self::Found {
        self.asked.iter().map(|place| self.present[*place].clone()).collect()
    }
}
