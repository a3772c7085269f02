//! Requests to one list and their answers: values that every store and every caller shares.

use bytes::Bytes;
use liststore_contract::domain::{EntityId, Identity, IdentityKind, Item, ItemKey, MaxItems, Order, Timestamp};

/// The moments between which items are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Inclusive.
    pub min_timestamp: Timestamp,
    /// Inclusive.
    pub max_timestamp: Timestamp,
}

impl Bounds {
    /// All moments.
    pub const ALL: Self = Self { min_timestamp: Timestamp::MIN, max_timestamp: Timestamp::MAX };

    /// A missing bound does not limit.
    pub fn of(min: Option<Timestamp>, max: Option<Timestamp>) -> Self {
        Self { min_timestamp: min.unwrap_or(Timestamp::MIN), max_timestamp: max.unwrap_or(Timestamp::MAX) }
    }

    pub fn contain(&self, timestamp: Timestamp) -> bool {
        (self.min_timestamp..=self.max_timestamp).contains(&timestamp)
    }
}

/// The items of a list to read, and their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    /// Inclusive.
    pub min_timestamp: Timestamp,
    /// Inclusive.
    pub max_timestamp: Timestamp,
    /// Only items strictly after this key, in the requested order.
    pub after: Option<ItemKey>,
    /// At least 1.
    pub limit: usize,
    /// The page ends early, but never empty, before the stored bytes of its values exceed this.
    pub value_bytes_max: usize,
    pub order: Order,
}

impl Range {
    /// Only the newest item.
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

    /// The range to read of a list that shows at most `max_items`, if no shown item can lie before the range. Then the
    /// first items of the range are shown, and the page [ends with them](ItemPage::end_with).
    pub fn at_most(&self, max_items: MaxItems) -> Option<Self> {
        let from_the_top = self.order == Order::Newest && self.after.is_none() && self.max_timestamp == Timestamp::MAX;
        from_the_top.then(|| Self { limit: self.limit.min(max_items.get()), ..*self })
    }
}

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemPage {
    /// In the requested order.
    pub items: Vec<Item>,
    /// Whether at least one more visible item followed at that moment.
    pub more: bool,
}

impl ItemPage {
    /// Records that no item follows the last shown one.
    pub fn end_with(&mut self, max_items: MaxItems) {
        self.more &= self.items.len() < max_items.get();
    }
}

/// A number of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// At most the requested maximum.
    pub items: u64,
    /// Whether the list has no more of them.
    pub exact: bool,
}

/// A place in the walk over the lists of a feature version. Its order is a hash of the store, and then the entity ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityPlace {
    /// The walk has passed lists with smaller hashes.
    pub hash: u64,
    /// The walk has passed the entities of this hash up to this one. `None` if it has passed none of them.
    pub after: Option<EntityId>,
}

/// A part of that walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityPage {
    pub entities: Vec<EntityId>,
    /// Where the walk continues. `None` at its end.
    pub next: Option<EntityPlace>,
}

/// The items to remove.
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
    /// The members that it removes from a set with this identity, if it removes members. Each of them is in the set at
    /// most once.
    pub fn members(&self, identity: Identity) -> Option<&[Bytes]> {
        match self {
            Self::Members(members) => Some(members),
            Self::Value(value) if identity.kind() == IdentityKind::Value => Some(std::slice::from_ref(value)),
            _ => None,
        }
    }

    /// Whether it removes an item of a list with this identity.
    pub fn takes(&self, identity: Identity, timestamp: Timestamp, stored: &[u8]) -> bool {
        match self {
            Self::Value(wanted) => wanted == identity.value(stored),
            Self::Items(items) => items.iter().any(|(at, wanted)| *at == timestamp && wanted == stored),
            Self::Members(members) => members.iter().any(|member| member == identity.member(stored)),
            Self::Between(bounds) => bounds.contain(timestamp),
        }
    }
}
