//! A set by member: a table that directly returns the item of a member, without reading the reverse list and the set.
//!
//! It has all stored items, including invisible ones, and possibly expired ones that compactions have dropped since.

use std::hash::BuildHasher;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use liststore_contract::domain::{Identity, ValueDigest};
use liststore_storage::collect::Offered;
use tokio::sync::OwnedSemaphorePermit;

use crate::collect::members::Present;
use crate::collect::page::{Collect, Next};
use crate::row::{Entry, Malformed, RowCursor};

/// The estimated memory of an item's value in addition to its bytes.
const VALUE_OVERHEAD: usize = 48;
/// The memory of a table in addition to its members.
const TABLE_OVERHEAD: usize = 512;
/// Longer sets get no table, because the log's thread, for which other writes wait, grows and drops tables.
const MEMBERS_MAX: usize = 200_000;

/// The items of a set by their members.
#[derive(Debug)]
pub struct MemberIndex {
    pub(super) identity: Identity,
    /// Seeded for each table, so that no client can predict colliding members.
    hasher: DefaultHashBuilder,
    items: HashTable<Stored>,
    pub(super) value_bytes: usize,
}

#[derive(Debug)]
struct Stored {
    timestamp: u64,
    expires_at: u64,
    /// Shared with its readers.
    value: Bytes,
}

impl MemberIndex {
    pub(super) fn new(identity: Identity) -> Self {
        Self { identity, hasher: DefaultHashBuilder::default(), items: HashTable::new(), value_bytes: 0 }
    }

    /// Its memory.
    pub(super) fn bytes(&self) -> usize {
        // The capacity of a table counts, used or not.
        TABLE_OVERHEAD + self.value_bytes + self.items.allocation_size()
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.items.len() > MEMBERS_MAX
    }

    /// The stored item of a member.
    pub fn find(&self, member: &[u8]) -> Option<Present> {
        let hash = self.hasher.hash_one(member);
        let Stored { timestamp, expires_at, value } =
            self.items.find(hash, |stored| self.identity.member(&stored.value) == member)?;
        Some(Present::new(*timestamp, *expires_at, value.clone()))
    }

    /// Stores an item, and returns the previous item of the member.
    fn put(&mut self, (timestamp, expires_at): (u64, u64), value: &[u8]) -> Option<Stored> {
        let Self { identity, hasher, items, value_bytes } = self;
        let member = identity.member(value);
        let hash = hasher.hash_one(member);
        match items.find_mut(hash, |known| identity.member(&known.value) == member) {
            // Unchanged if nothing but the member is stored.
            Some(known) if *known.value == *value => {
                let stored = Stored { timestamp, expires_at, value: known.value.clone() };
                Some(std::mem::replace(known, stored))
            }
            Some(known) => {
                *value_bytes = *value_bytes + cost_of(value) - cost_of(&known.value);
                let stored = Stored { timestamp, expires_at, value: Bytes::copy_from_slice(value) };
                Some(std::mem::replace(known, stored))
            }
            None => {
                *value_bytes += cost_of(value);
                let stored = Stored { timestamp, expires_at, value: Bytes::copy_from_slice(value) };
                items.insert_unique(hash, stored, |known| hasher.hash_one(identity.member(&known.value)));
                None
            }
        }
    }

    /// Removes an item, unless the member has another one.
    fn delete(&mut self, entry: &Entry, value: &[u8]) {
        let hash = self.hasher.hash_one(self.identity.member(value));
        let is_it = |known: &Stored| known.timestamp == entry.timestamp && *known.value == *value;
        if let Ok(found) = self.items.find_entry(hash, is_it) {
            found.remove();
            self.value_bytes -= cost_of(value);
        }
    }

    /// Removes the item of a member, if there is one.
    pub(super) fn forget(&mut self, member: &[u8]) {
        let hash = self.hasher.hash_one(member);
        if let Ok(found) = self.items.find_entry(hash, |known| self.identity.member(&known.value) == member) {
            let (Stored { value, .. }, _) = found.remove();
            self.value_bytes -= cost_of(&value);
        }
    }

    /// Applies a row of the set. Its entries concern different items, so their order is irrelevant. Returns whether the
    /// table still has exactly the set's items.
    ///
    /// A digest does not identify the member of a deleted item, so that item must be one that was replaced.
    pub(super) fn apply(&mut self, row: Bytes) -> Result<bool, Malformed> {
        let mut cursor = RowCursor::new(row)?;
        let (mut replaced, mut digests) = (Vec::new(), Vec::new());
        while let Some(entry) = cursor.entry() {
            if entry.has_digest {
                digests.push((entry.timestamp, cursor.digest()));
            } else if entry.deleted {
                self.delete(entry, cursor.value());
            } else {
                replaced.extend(self.put((entry.timestamp, entry.expires_at), cursor.value()));
            }
            cursor.advance()?;
        }
        if digests.is_empty() {
            return Ok(true);
        }
        let replaced = replaced.iter().map(|item: &Stored| (item.timestamp, ValueDigest::of(&item.value)));
        let replaced: HashSet<_> = replaced.collect();
        Ok(digests.iter().all(|digest| replaced.contains(digest)))
    }
}

fn cost_of(value: &[u8]) -> usize {
    value.len() + VALUE_OVERHEAD
}

/// Builds a table of a set that is read from its newest item on, unless the set is too long for one.
pub struct IndexBuilder {
    index: MemberIndex,
    items_left: u64,
    bytes_max: usize,
    is_whole: bool,
    /// Held during the build.
    _turn: OwnedSemaphorePermit,
}

impl IndexBuilder {
    pub fn new(identity: Identity, Worth { items_max, bytes_max, turn }: Worth) -> Self {
        Self { index: MemberIndex::new(identity), items_left: items_max, bytes_max, is_whole: true, _turn: turn }
    }
}

impl Collect for IndexBuilder {
    /// `None` for a set that is too long.
    type Found = Option<MemberIndex>;

    fn offer(&mut self, item: &impl Offered) -> Next {
        if self.items_left == 0 || self.index.is_too_long() || self.index.bytes() > self.bytes_max {
            self.is_whole = false;
            return Next::Done;
        }
        self.items_left -= 1;
        if !item.is_deleted() {
            let _none_before = self.index.put((item.timestamp(), item.expires_at()), item.value());
        }
        Next::Wanted
    }

    fn finish(&mut self) -> Self::Found {
        let identity = self.index.identity;
        let index = std::mem::replace(&mut self.index, MemberIndex::new(identity));
        self.is_whole.then_some(index)
    }
}

/// How much of a set is worth reading for a table, and the permit for it.
#[derive(Debug)]
pub struct Worth {
    pub(super) items_max: u64,
    pub(super) bytes_max: usize,
    pub(super) turn: OwnedSemaphorePermit,
}
