//! Data files: sorted, never changed once written, replaced by merging.
//!
//! A file is `magic, blocks, index, filter, trailer`. A block is `entries, checksum`; an entry is a list (or
//! a mark that it is the same list as before), flags, and one row. Lists stand in the order of their
//! hash, then of their bytes; the rows of a list newest first. The index has one place for every
//! block, the filter two bytes for each list, and both are held in memory.

mod filter;
mod index;
pub mod manifest;
mod reader;
pub mod run;
mod scan;
pub mod trim;
mod writer;

use super::disk::file_id::FileId;

pub use index::Index;
pub use reader::{Climbed, DataFile, ListCursor, climb};
pub use scan::{Sample, Scan, ScanSource};
#[cfg(test)]
pub use writer::AtOnce;
pub use writer::{FileWriter, Pace};

pub const MAGIC: [u8; 8] = *b"LISTITEM";
const TRAILER_LEN: usize = 72;
/// The trailer, and the length of the filter in front of it.
const TAIL_LEN: usize = TRAILER_LEN + 8;
const CHECKSUM_LEN: usize = 4;
/// A block ends before it grows beyond this, unless a single row is larger.
const BLOCK_BYTES: usize = 4096;
/// A row ends before its body grows beyond this, unless a single item is larger.
const ROW_BYTES: usize = 3800;
/// Entry flag: all that older sources hold of the list is hidden. On every row of the list.
const FLAG_CLEARED: u8 = 1;

/// Lists are divided among so many partitions by the first bits of their hash. Files belong to one
/// partition, so that merging needs the space of one partition only.
pub const PARTITIONS: usize = 16;

pub fn partition_of(hash: u64) -> usize {
    (hash >> 60) as usize
}

/// What a file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub partition: usize,
    /// Items, deleted ones among them.
    pub items: u64,
    /// Deleted items and marks that a list was cleared.
    pub deleted: u64,
    /// When about half of the items have expired, in nanoseconds since the Unix epoch.
    pub half_expired_at: u64,
    /// Whether two lists in it share a hash: then the index alone cannot tell their blocks apart.
    pub collisions: bool,
}

/// The checksum of a block: seeded with the file and the place, so that no other block passes.
fn block_checksum(id: FileId, offset: u64, payload: &[u8]) -> u32 {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&id.to_le_bytes()), &offset.to_le_bytes());
    crc32c::crc32c_append(seed, payload)
}
