//! A list as the engine knows it: its exact bytes, and their hash, which comes first in the order.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quick_cache::Equivalent;

use super::options::ListHash;
use crate::domain::{ListKey, ListKeyRef};

/// The exact identity of a list ([`ListKey::bytes`]). If two lists share a hash, their bytes tell them
/// apart.
#[derive(Debug, Clone)]
pub struct ListId {
    hash: u64,
    bytes: Arc<[u8]>,
}

impl ListId {
    pub fn of(list: &ListKey, hash: ListHash) -> Self {
        Self { hash: hash.of_list(list.borrowed()), bytes: Arc::clone(list.bytes()) }
    }

    pub fn from_bytes(bytes: &[u8], hash: ListHash) -> Self {
        Self { hash: hash.of_bytes(bytes), bytes: bytes.into() }
    }

    /// Comes before all lists of a hash. No list is this one.
    pub fn before(hash: u64) -> Self {
        Self { hash, bytes: Arc::default() }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl PartialEq for ListId {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes == other.bytes
    }
}

impl Eq for ListId {}

impl Hash for ListId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Ord for ListId {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.hash, &self.bytes).cmp(&(other.hash, &other.bytes))
    }
}

impl PartialOrd for ListId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A list's identity, to look heads up by without sharing ownership.
#[derive(Debug, Clone, Copy)]
pub struct BorrowedListId<'a> {
    hash: u64,
    bytes: &'a [u8],
}

impl<'a> BorrowedListId<'a> {
    pub fn of(list: ListKeyRef<'a>, hash: ListHash) -> Self {
        Self { hash: hash.of_list(list), bytes: list.bytes }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl Hash for BorrowedListId<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<ListId> for BorrowedListId<'_> {
    fn equivalent(&self, key: &ListId) -> bool {
        self.hash == key.hash && *self.bytes == *key.bytes
    }
}
