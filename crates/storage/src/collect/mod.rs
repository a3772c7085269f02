//! Collectors: an operation's selection from the items of a list, which a store offers in the list's order. Every
//! store runs the same collectors over its own rows.
//!
//! | files | what they own |
//! | --- | --- |
//! | `page` | pages, and the newest items of a list |
//! | `finders` | counts, and searches for values |

mod finders;
mod page;

use bytes::Bytes;
use liststore_contract::domain::{ItemKey, Timestamp, ValueDigest};

pub use finders::{Counter, Finder};
pub use page::{Last, Newest, PageBuilder};

use crate::OpContext;

/// Whether a collector wants more items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Wanted,
    Done,
}

/// An item as a store offers it.
pub trait Offered {
    /// Nanoseconds since the Unix epoch.
    fn timestamp(&self) -> u64;

    /// Nanoseconds since the Unix epoch. `u64::MAX` if the store itself drops the item once it has expired.
    fn expires_at(&self) -> u64;

    /// Whether the item is the deletion of an item.
    fn is_deleted(&self) -> bool;

    /// The digest of the stored value. It may have to be computed.
    fn digest(&self) -> ValueDigest;

    /// The stored value. Empty where only keys were read.
    fn value(&self) -> &[u8];

    fn value_bytes(&self) -> Bytes;

    /// `None` if the timestamp is out of range.
    fn key(&self) -> Option<ItemKey> {
        let timestamp = Timestamp::from_nanos(self.timestamp()).ok()?;
        Some(ItemKey::new(timestamp, self.digest()))
    }
}

/// Takes some of the items that it is offered in the list's order.
pub trait Collect {
    type Found;

    fn offer(&mut self, item: &impl Offered) -> Next;

    /// Returns the result, once the collector wants no more items or the list has no more.
    fn finish(&mut self) -> Self::Found;
}

/// Whether an operation sees an item.
#[inline]
pub fn is_visible(op: &OpContext, item: &impl Offered) -> bool {
    !item.is_deleted() && op.sees(item.timestamp(), item.expires_at())
}
