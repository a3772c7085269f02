//! Rows: several items of one list, packed, in the list's order. The one format that items have in
//! the log, in memory and in files.
//!
//! A row is `count, base time, base life`, then each item as
//! `head [time to live difference] time difference [value]`, all integers varints. `docs/contributing/engine.md`
//! has it byte by byte. A row is never changed once it is made.
//!
//! | file | what it has |
//! | --- | --- |
//! | `builder` | rows are made of items, or of other rows |
//! | `cursor` | rows are walked, item by item |
//! | `joining` | a row is put in front of another without walking either |

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
/// Of a deleted item, which has no life: the digest of its value stands in the value's place.
const DIGEST: u64 = OTHER_LIFE;
const SAME_VALUE: u64 = 4;
const LEN_SHIFT: u32 = 3;

/// Bytes of a digest. A deleted item has its value if that is no longer.
const DIGEST_LEN: usize = 16;

/// Whether an item has a life of its own, by the integer that it begins with.
fn has_other_life(head: u64) -> bool {
    head & (DELETED | OTHER_LIFE) == OTHER_LIFE
}

/// Whether an item has the digest of its value, by the same integer.
fn has_digest(head: u64) -> bool {
    head & (DELETED | DIGEST) == DELETED | DIGEST
}

/// Bytes that are no row. Where they lie is known to the layer that read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// One item of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Nanoseconds since the Unix epoch; meaningless for a deleted item.
    pub expires_at: u64,
    /// It says that the item of this timestamp and value is gone from all older sources.
    pub deleted: bool,
    /// Whether the digest of the value stands in its place: only of a deleted item.
    pub has_digest: bool,
    /// Where the value stands in the row.
    value: Range<usize>,
}

impl Entry {
    /// Its value, in the row that it is of; or the digest of its value.
    pub fn value_in<'r>(&self, row: &'r [u8]) -> &'r [u8] {
        row.get(self.value.clone()).unwrap_or_default()
    }
}
