//! Requests to one list and their answers: values that every store and every caller shares.

use bytes::Bytes;
use liststore_contract::domain::{EntityId, Identity, IdentityKind, Item, ItemKey, MaxItems, Order, Timestamp};

/// Moments between which items are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Inclusive.
    pub min_timestamp: Timestamp,
    /// Inclusive.
    pub max_timestamp: Timestamp,
}

impl Bounds {
    /// All there are.
    pub const ALL: Self = Self { min_timestamp: Timestamp::MIN, max_timestamp: Timestamp::MAX };

    /// A bound that is not given bounds nothing.
    pub fn of(min: Option<Timestamp>, max: Option<Timestamp>) -> Self {
        Self { min_timestamp: min.unwrap_or(Timestamp::MIN), max_timestamp: max.unwrap_or(Timestamp::MAX) }
    }

    pub fn contain(&self, timestamp: Timestamp) -> bool {
        (self.min_timestamp..=self.max_timestamp).contains(&timestamp)
    }
}

/// Which items of a list are wanted, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    /// Inclusive.
    pub min_timestamp: Timestamp,
    /// Inclusive.
    pub max_timestamp: Timestamp,
    /// Only items strictly after this key in the order that is asked for.
    pub after: Option<ItemKey>,
    /// At least 1.
    pub limit: usize,
    /// The page ends early, but never empty, before the stored bytes of its values exceed this.
    pub value_bytes_max: usize,
    pub order: Order,
}

impl Range {
    /// The newest item alone.
    pub const NEWEST: Self = Self {
        min_timestamp: Timestamp::MIN,
        max_timestamp: Timestamp::MAX,
        after: None,
        limit: 1,
        value_bytes_max: usize::MAX,
        order: Order::Newest,
    };

    pub fn bounds(&self) -> Bounds {
        Bounds { min_timestamp: self.min_timestamp, max_timestamp: self.max_timestamp }
    }

    /// What to read of a list that shows so many items at most, if no item that is shown can lie before the
    /// range: then these are the first ones of it, and the page that is read is to [end with
    /// them](ItemPage::end_with).
    pub fn at_most(&self, max_items: MaxItems) -> Option<Self> {
        let from_the_top = self.order == Order::Newest && self.after.is_none() && self.max_timestamp == Timestamp::MAX;
        from_the_top.then(|| Self { limit: self.limit.min(max_items.get()), ..*self })
    }
}

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemPage {
    /// In the order that was asked for.
    pub items: Vec<Item>,
    /// Whether at least one more visible item followed at that moment.
    pub more: bool,
}

impl ItemPage {
    /// Says that nothing follows the last item that is shown.
    pub fn end_with(&mut self, max_items: MaxItems) {
        self.more &= self.items.len() < max_items.get();
    }
}

/// How many items there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Never more than was asked for.
    pub items: u64,
    /// Whether the list has no more of them.
    pub exact: bool,
}

/// A place in the walk over the lists of a feature version, which are in the order of a hash of the store's, and
/// then of their entity IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityPlace {
    /// Lists of smaller hashes are behind it.
    pub hash: u64,
    /// The walk has passed the entities of this hash up to this entity; none of them if there is none.
    pub after: Option<EntityId>,
}

/// A part of that walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityPage {
    pub entities: Vec<EntityId>,
    /// Where the walk goes on. `None` at its end.
    pub next: Option<EntityPlace>,
}

/// Which items are to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// Every item with this value; of a keyed item it is its payload.
    Value(Bytes),
    /// These items, by their timestamps and stored bytes, if they exist. At least one; one that is named twice is
    /// removed once.
    Items(Vec<(Timestamp, Bytes)>),
    /// The items of these members, at any time. For sets alone. At least one; one that is named twice is removed once.
    Members(Vec<Bytes>),
    /// Every item between these moments.
    Between(Bounds),
}

impl Removal {
    /// The members that it takes of a set with this identity, if it is members that it takes: each of them is there
    /// once.
    pub fn members(&self, identity: Identity) -> Option<&[Bytes]> {
        match self {
            Self::Members(members) => Some(members),
            Self::Value(value) if identity.kind() == IdentityKind::Value => Some(std::slice::from_ref(value)),
            _ => None,
        }
    }

    /// Whether it takes an item of a list with this identity.
    pub fn takes(&self, identity: Identity, timestamp: Timestamp, stored: &[u8]) -> bool {
        match self {
            Self::Value(wanted) => wanted == identity.value(stored),
            Self::Items(items) => items.iter().any(|(at, wanted)| *at == timestamp && wanted == stored),
            Self::Members(members) => members.iter().any(|member| member == identity.member(stored)),
            Self::Between(bounds) => bounds.contain(timestamp),
        }
    }
}
