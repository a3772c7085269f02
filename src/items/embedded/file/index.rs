//! The sparse index of a data file: for each block, its first list's hash, its first item's
//! timestamp, and its place. Also the file's last bytes, which tell where the index is.

use std::cmp::Reverse;
use std::ops::Range;

use super::super::codec::{u32_at, u64_at};
use super::{FORMAT, FileId, MAGIC, Summary, TRAILER_LEN};

/// Bytes of a place in the index.
const PLACE_LEN: usize = 24;

/// The first number below `end` of which something does not hold that holds of all before it.
fn partition_point(end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Index {
    hashes: Vec<u64>,
    newest: Vec<u64>,
    offsets: Vec<u64>,
    /// Where the last block ends.
    end: u64,
}

impl Index {
    pub fn push(&mut self, hash: u64, newest: u64, offset: u64) {
        self.hashes.push(hash);
        self.newest.push(newest);
        self.offsets.push(offset);
    }

    pub fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    pub fn blocks(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (self.blocks() * PLACE_LEN) as u64
    }

    /// Where a block begins and ends.
    pub fn block(&self, i: usize) -> Option<(u64, u64)> {
        let start = *self.offsets.get(i)?;
        Some((start, self.offsets.get(i + 1).copied().unwrap_or(self.end)))
    }

    /// The hash of a block's first list.
    pub fn hash(&self, i: usize) -> Option<u64> {
        self.hashes.get(i).copied()
    }

    /// The first block that can hold items of a list that are not newer than `ceiling`. It holds
    /// some of the list's items, or of a list before it, if the list is in the file at all.
    pub fn find(&self, hash: u64, ceiling: u64, collisions: bool) -> usize {
        let is_before = |block: usize| {
            self.hashes[block] < hash || (!collisions && self.hashes[block] == hash && self.newest[block] > ceiling)
        };
        partition_point(self.blocks(), is_before).saturating_sub(1)
    }

    /// The blocks that begin with an item of this list and timestamp. For files without collisions.
    pub fn tied(&self, hash: u64, timestamp: u64) -> Range<usize> {
        let order = |block: usize| (self.hashes[block], Reverse(self.newest[block]));
        let wanted = (hash, Reverse(timestamp));
        partition_point(self.blocks(), |block| order(block) < wanted)..partition_point(self.blocks(), |block| {
            order(block) <= wanted
        })
    }

    pub fn encode(&self, id: FileId, tag: u32, summary: &Summary) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.blocks() * PLACE_LEN + TRAILER_LEN);
        for i in 0..self.blocks() {
            for number in [self.hashes[i], self.newest[i], self.offsets[i]] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        let Summary { partition, items, deleted, half_expired_at, collisions } = summary;
        let numbers = [self.end, self.blocks() as u64, id, *items, *deleted, *half_expired_at];
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&(*partition as u32).to_le_bytes());
        bytes.extend_from_slice(&u32::from(*collisions).to_le_bytes());
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&tag.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&MAGIC[..4]);
        bytes
    }

    /// Where the index begins, according to the trailer of a file of so many bytes.
    pub fn offset_of(trailer: &[u8], file_len: u64) -> Option<u64> {
        let start = trailer.len().checked_sub(TRAILER_LEN)?;
        let trailer = &trailer[start..];
        let (end, blocks) = (u64_at(trailer, 0)?, u64_at(trailer, 8)?);
        let index_len = blocks.checked_mul(PLACE_LEN as u64)?;
        let sound = trailer.ends_with(&MAGIC[..4])
            && end.checked_add(index_len)?.checked_add(TRAILER_LEN as u64)? == file_len
            && end >= MAGIC.len() as u64;
        sound.then_some(end)
    }

    /// The short form of the store that the file belongs to, from its trailer.
    pub fn tag_of(trailer: &[u8]) -> Option<u32> {
        u32_at(trailer, 60)
    }

    /// Reads index and trailer back.
    pub fn decode(bytes: &[u8], id: FileId) -> Option<(Self, Summary)> {
        let (places, trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER_LEN)?)?;
        let checksum_at = bytes.len() - 8;
        if u32_at(bytes, checksum_at)? != crc32c::crc32c(&bytes[..checksum_at])
            || u64_at(trailer, 16)? != id
            || u32_at(trailer, 56)? != FORMAT
        {
            return None;
        }
        let mut index = Self { end: u64_at(trailer, 0)?, ..Self::default() };
        for place in places.chunks_exact(PLACE_LEN) {
            index.push(u64_at(place, 0)?, u64_at(place, 8)?, u64_at(place, 16)?);
        }
        let in_order = index.offsets.is_sorted() && index.offsets.last().is_none_or(|last| *last < index.end);
        let summary = Summary {
            items: u64_at(trailer, 24)?,
            deleted: u64_at(trailer, 32)?,
            half_expired_at: u64_at(trailer, 40)?,
            partition: u32_at(trailer, 48)? as usize,
            collisions: u32_at(trailer, 52)? != 0,
        };
        (in_order && summary.partition < super::PARTITIONS).then_some((index, summary))
    }
}
