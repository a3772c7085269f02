//! The engine's identity of a list: its exact bytes, and their hash, which comes first in the order.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use liststore_contract::domain::{ListKey, ListKeyRef};
use quick_cache::Equivalent;

use super::options::ListHash;

/// The capacity that is enough for nearly all lists: a UUID, and a feature key of nine bytes.
const USUAL_BYTES: usize = 46;

/// The exact identity of a list ([`ListKey::bytes`]). The bytes distinguish lists that share a hash.
#[derive(Debug, Clone)]
pub struct ListId {
    hash: u64,
    bytes: IdBytes,
}

/// Short bytes are inside the ID. So a lookup in a table compares them without another wait for memory.
#[derive(Debug, Clone)]
enum IdBytes {
    Usual { len: u8, bytes: [u8; USUAL_BYTES] },
    Long(Arc<[u8]>),
}

impl IdBytes {
    fn usual(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; USUAL_BYTES];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self::Usual { len: text.len() as u8, bytes })
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Usual { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl ListId {
    pub fn of(list: &ListKey, hash: ListHash) -> Self {
        let bytes = IdBytes::usual(list.bytes()).unwrap_or_else(|| IdBytes::Long(Arc::clone(list.bytes())));
        Self { hash: hash.of_list(list.borrowed()), bytes }
    }

    pub fn from_bytes(bytes: &[u8], hash: ListHash) -> Self {
        let hash = hash.of_bytes(bytes);
        Self { hash, bytes: IdBytes::usual(bytes).unwrap_or_else(|| IdBytes::Long(bytes.into())) }
    }

    /// Comes before all lists of a hash. No list has this ID.
    pub fn before(hash: u64) -> Self {
        Self { hash, bytes: IdBytes::Usual { len: 0, bytes: [0; USUAL_BYTES] } }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl PartialEq for ListId {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes() == other.bytes()
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
        (self.hash, self.bytes()).cmp(&(other.hash, other.bytes()))
    }
}

impl PartialOrd for ListId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A list's identity for looking up heads without shared ownership.
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
        self.hash == key.hash && self.bytes == key.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_any_length_keeps_its_bytes() {
        let ids = |hash| {
            let lengths = [1, USUAL_BYTES - 1, USUAL_BYTES, USUAL_BYTES + 1, 1_000];
            lengths.map(|len| ListId::from_bytes(&vec![b'a'; len], ListHash::Of(hash)))
        };
        let (same, by_len) = (ids(|_| 7), ids(|bytes| bytes.len() as u64));
        assert!(ListId::before(7) < same[0] && same.is_sorted() && by_len.is_sorted());
        for (place, id) in same.iter().enumerate() {
            let borrowed = BorrowedListId { hash: 7, bytes: &vec![b'a'; id.bytes().len()] };
            let found: Vec<_> = same.iter().map(|other| (id == other, borrowed.equivalent(other))).collect();
            let expected: Vec<_> = (0..same.len()).map(|other| (other == place, other == place)).collect();
            assert_eq!(found, expected);
        }
    }
}
