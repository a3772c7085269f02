//! Rows: several items of one list, packed, in the list's order. The only format of items in the log, in memory and in
//! files.
//!
//! A row is `count, base time, base life`, then each item as `head [time to live difference] time difference [value]`.
//! All integers are varints. `docs/contributing/engine.md` describes it byte by byte. A row is immutable.
//!
//! | file | content |
//! | --- | --- |
//! | `builder` | makes rows from items, or from other rows |
//! | `cursor` | iterates over rows, item by item |
//! | `joining` | puts a row before another without walking either |

mod builder;
mod cursor;
pub mod item_changes;
mod joining;
pub mod merge;
pub mod reverse;
pub mod seek;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub mod work;

use std::ops::Range;

pub use builder::{RowBuilder, pack};
pub use cursor::{Bookmark, Inspected, RowCursor, count, first, inspect};
pub use joining::join;

const DELETED: u64 = 1;
const OTHER_LIFE: u64 = 2;
/// For a deleted item, which has no life: the digest of its value replaces the value.
const DIGEST: u64 = OTHER_LIFE;
const SAME_VALUE: u64 = 4;
const LEN_SHIFT: u32 = 3;

/// Bytes of a digest. A deleted item has its value if that is not longer.
const DIGEST_LEN: usize = 16;

/// Whether an item has a different life from the base, by its first integer.
fn has_other_life(head: u64) -> bool {
    head & (DELETED | OTHER_LIFE) == OTHER_LIFE
}

/// Whether an item has the digest of its value, by the same integer.
fn has_digest(head: u64) -> bool {
    head & (DELETED | DIGEST) == DELETED | DIGEST
}

/// Malformed bytes of a row. The layer that read them adds their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// One item of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Nanoseconds since the Unix epoch; meaningless for a deleted item.
    pub expires_at: u64,
    /// States that the item of this timestamp and value is deleted from all older sources.
    pub deleted: bool,
    /// Whether the digest replaces the value. Only in a deleted item.
    pub has_digest: bool,
    /// The place of the value in the row.
    value: Range<usize>,
}

impl Entry {
    /// Its value in its row, or the digest of its value.
    #[inline]
    pub fn value_in<'r>(&self, row: &'r [u8]) -> &'r [u8] {
        row.get(self.value.clone()).unwrap_or_default()
    }
}
