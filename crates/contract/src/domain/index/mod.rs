//! Indexes of property bags: the values that select bags, and their order.
//!
//! An entry of an index is an item of a list. The list belongs to the values, the item's value is the ID of the bag,
//! and its timestamp is the bag's place in the index's order. An entry is a hint, and the bag decides, as in
//! FriendFeed's indexes (B. Taylor, "How FriendFeed uses MySQL to store schema-less data", 2009).

use std::sync::Arc;

use super::Invalid;

mod decimal;
mod document;
mod entries;
mod place;
mod pointer;
mod scalar;

pub use document::ShallowDocument;
pub use entries::{Condition, ENTRIES_MAX, IndexEntry, Refused, TooManyEntries};
pub use place::OrderValue;
pub use pointer::Pointer;
pub use scalar::Scalar;

/// Properties of one index, at most.
pub const PROPERTIES_MAX: usize = 8;

/// Indexes of one entity type, at most.
pub const INDEXES_MAX: usize = 64;

/// The current state of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    pub spec: Arc<IndexSpec>,
    /// Whether it has all bags, including bags that are older than the index.
    pub is_ready: bool,
}

/// The definition of an index, fixed at its creation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexSpec {
    properties: Vec<Pointer>,
    /// Without one, bags are ordered by when they were updated.
    order_by: Option<Pointer>,
}

impl IndexSpec {
    pub fn new(properties: Vec<Pointer>, order_by: Option<Pointer>) -> Result<Self, Invalid> {
        let count = properties.len();
        if !(1..=PROPERTIES_MAX).contains(&count) {
            return Err(Invalid::argument(format!(
                "an index must have 1 to {PROPERTIES_MAX} properties; this one has {count}"
            )));
        }
        let mut sorted: Vec<_> = properties.iter().map(Pointer::as_str).collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Invalid::argument(format!("duplicate property {} in the index", twice[0])));
        }
        Ok(Self { properties, order_by })
    }

    pub fn properties(&self) -> &[Pointer] {
        &self.properties
    }

    pub fn order_by(&self) -> Option<&Pointer> {
        self.order_by.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_one_to_eight_distinct_properties() {
        let spec = |properties: &[&str]| {
            IndexSpec::new(properties.iter().map(|p| Pointer::new(p).unwrap()).collect(), None).is_ok()
        };
        assert!(spec(&["/a"]) && spec(&["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"]));
        assert!(!spec(&[]) && !spec(&["/a", "/b", "/a"]));
        assert!(!spec(&["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/i"]));
    }
}
