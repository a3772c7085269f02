//! Data files: sorted, immutable, replaced by compactions.
//!
//! A file is `magic, blocks, index, filter, trailer`. A block is `entries, checksum`. An entry is a list (or a mark
//! that it is the same list as before), flags, and one row. Lists are in the order of their hash, then of their bytes.
//! The rows of a list are newest first. The index has one place for every block, the filter two bytes for each list,
//! and memory holds both.

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
/// The trailer, and the length of the filter before it.
const TAIL_LEN: usize = TRAILER_LEN + 8;
const CHECKSUM_LEN: usize = 4;
/// A block ends before it grows beyond this, unless a single row is larger.
const BLOCK_BYTES: usize = 4096;
/// A row ends before its body grows beyond this, unless a single item is larger.
const ROW_BYTES: usize = 3800;
/// Entry flag: hides the content of the list in all older sources. On every row of the list.
const FLAG_CLEARED: u8 = 1;

/// The number of partitions, which divide lists by the first bits of their hash. Files belong to one partition, so that
/// a compaction needs only the space of one partition.
pub const PARTITIONS: usize = 16;

pub fn partition_of(hash: u64) -> usize {
    (hash >> 60) as usize
}

/// The description of a file in its trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub partition: usize,
    /// Items, including deleted ones.
    pub items: u64,
    /// Deleted items and clear marks of lists.
    pub deleted: u64,
    /// The expiry of about the first half of the items, in nanoseconds since the Unix epoch.
    pub half_expired_at: u64,
    /// Whether two of its lists share a hash. Then the index alone cannot distinguish their blocks.
    pub collisions: bool,
}

/// The checksum of a block, seeded with the file and the place, so that it is invalid for any other block.
fn block_checksum(id: FileId, offset: u64, payload: &[u8]) -> u32 {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&id.to_le_bytes()), &offset.to_le_bytes());
    crc32c::crc32c_append(seed, payload)
}
