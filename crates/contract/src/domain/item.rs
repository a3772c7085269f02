//! Items: the content of lists.

use bytes::Bytes;

use super::{Invalid, ItemKey, Timestamp, ValueDigest};

/// An item as it is read: a timestamp and the stored bytes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub timestamp: Timestamp,
    pub value: Bytes,
}

impl Item {
    /// The item's key: its identity within its list, and its place in the order.
    #[inline]
    pub fn key(&self) -> ItemKey {
        ItemKey::new(self.timestamp, ValueDigest::of(&self.value))
    }
}

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// By item key, descending: newest first, equal timestamps by the digest's text, descending.
    #[default]
    Newest,
    /// The same exactly reversed.
    Oldest,
}

impl Order {
    pub const ALL: [Self; 2] = [Self::Newest, Self::Oldest];

    #[inline]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|order| order.as_str() == text);
        known.ok_or_else(|| Invalid::argument("order must be newest or oldest"))
    }
}

/// The largest number of items of one add, in every interface and every store. A CQL batch could have 65,535 statements
/// (CQL binary protocol, section 4.1.7), far more than a node should process at once.
pub const ADD_ITEMS_MAX: usize = 1_000;

/// The largest number of items in one removal, and of values in one search.
pub const NAMED_ITEMS_MAX: usize = 1_000;

/// An item to store, with the moment of its expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    pub timestamp: Timestamp,
    pub value: Bytes,
    /// Timestamp + TTL at the time of the add, in nanoseconds since the Unix epoch. Always in the
    /// future of the operation's `now`: items already expired are never handed to a store.
    pub expires_at: u64,
}
