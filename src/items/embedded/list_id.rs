//! A list as the engine knows it: its exact bytes, and their hash, which comes first in the order.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quick_cache::Equivalent;

use super::options::ListHash;
use crate::domain::ListKey;

/// The exact identity of a list: feature key, a zero byte, entity ID. Neither part holds a zero
/// byte, so two lists never share their bytes; if they share a hash, the bytes tell them apart.
#[derive(Debug, Clone)]
pub struct ListId {
    hash: u64,
    bytes: Arc<[u8]>,
}

impl ListId {
    pub fn of(list: &ListKey, hash: ListHash) -> Self {
        let mut buffer = Vec::new();
        let borrowed = BorrowedListId::of(list, hash, &mut buffer);
        Self { hash: borrowed.hash, bytes: borrowed.bytes.into() }
    }

    pub fn from_bytes(bytes: &[u8], hash: ListHash) -> Self {
        Self { hash: hash(bytes), bytes: bytes.into() }
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

/// A list's identity in a buffer of the caller, to look heads up by without sharing ownership.
#[derive(Debug, Clone, Copy)]
pub struct BorrowedListId<'a> {
    hash: u64,
    bytes: &'a [u8],
}

impl<'a> BorrowedListId<'a> {
    pub fn of(list: &ListKey, hash: ListHash, buffer: &'a mut Vec<u8>) -> Self {
        let (feature, entity) = (list.feature_key.as_str().as_bytes(), list.entity_id.as_str().as_bytes());
        buffer.clear();
        buffer.reserve(feature.len() + 1 + entity.len());
        buffer.extend_from_slice(feature);
        buffer.push(0);
        buffer.extend_from_slice(entity);
        Self { hash: hash(buffer), bytes: buffer }
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
