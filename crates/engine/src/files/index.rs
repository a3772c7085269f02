//! The sparse index of a data file: for each block, its first list's hash, its first item's timestamp and its place,
//! and the filter. Also the file's last bytes, which contain the place of the index.

use std::cmp::Reverse;
use std::ops::Range;

use super::filter::Filter;
use super::{MAGIC, Summary, TAIL_LEN, TRAILER_LEN};
use crate::codec::{u32_at, u64_at};
use crate::disk::file_id::FileId;

/// Bytes of a place in the index.
const PLACE_LEN: usize = 24;

/// The first number below `end` for which `holds` is false. It must be true for all numbers before it, and false from
/// there on.
fn partition_point(end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[derive(Debug, PartialEq, Eq)]
pub struct Index {
    hashes: Vec<u64>,
    newest: Vec<u64>,
    offsets: Vec<u64>,
    /// The end of the last block.
    end: u64,
    filter: Filter,
}

impl Index {
    /// The index of a file without blocks.
    pub fn new() -> Self {
        let (hashes, newest, offsets) = Default::default();
        Self { hashes, newest, offsets, end: 0, filter: Filter::default() }
    }

    /// Begins a block.
    pub fn push(&mut self, hash: u64, newest: u64, offset: u64) {
        self.hashes.push(hash);
        self.newest.push(newest);
        self.offsets.push(offset);
        self.filter.begin_block();
    }

    /// Adds a list that begins in the current block after the block's first one.
    pub fn push_list(&mut self, hash: u64) {
        self.filter.push(hash);
    }

    /// Sets the end of the last block.
    pub fn finish(&mut self, end: u64) {
        self.end = end;
        for numbers in [&mut self.hashes, &mut self.newest, &mut self.offsets] {
            numbers.shrink_to_fit();
        }
        self.filter.shrink();
    }

    /// Whether the file may contain data of a list with this hash. `false` is certain. `true` is wrong for one list of
    /// several hundred.
    pub fn may_hold(&self, hash: u64) -> bool {
        let block = partition_point(self.blocks(), |block| self.hashes[block] < hash);
        let begins_a_block = self.hash(block) == Some(hash);
        begins_a_block || block.checked_sub(1).is_some_and(|before| self.filter.may_begin_in(before, hash))
    }

    pub fn blocks(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (self.blocks() * PLACE_LEN) as u64 + self.filter.bytes()
    }

    /// The beginning and the end of a block.
    pub fn block(&self, i: usize) -> Option<(u64, u64)> {
        let start = *self.offsets.get(i)?;
        Some((start, self.offsets.get(i + 1).copied().unwrap_or(self.end)))
    }

    /// The hash of a block's first list.
    pub fn hash(&self, i: usize) -> Option<u64> {
        self.hashes.get(i).copied()
    }

    /// The timestamp of a block's first item.
    pub fn newest(&self, i: usize) -> Option<u64> {
        self.newest.get(i).copied()
    }

    /// The blocks that begin with a list of this hash.
    fn blocks_of(&self, hash: u64) -> Range<usize> {
        let begin = partition_point(self.blocks(), |block| self.hashes[block] < hash);
        begin..partition_point(self.blocks(), |block| self.hashes[block] <= hash)
    }

    /// Bytes of the blocks that begin with a list of this hash.
    pub fn bytes_of(&self, hash: u64) -> u64 {
        let Range { start, end } = self.blocks_of(hash);
        let offset = |i: usize| self.offsets.get(i).copied().unwrap_or(self.end);
        offset(end) - offset(start)
    }

    /// The first of the blocks that begin with an item of this list, newest first. For files without
    /// collisions.
    pub fn first_of(&self, hash: u64) -> usize {
        self.blocks_of(hash).start
    }

    /// The first block that can contain items of a list with timestamps up to `ceiling`. If the list is in the file,
    /// the block contains some of its items, or of an earlier list.
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
        self.filter.encode(&mut bytes);
        let filter_len = (bytes.len() - self.blocks() * PLACE_LEN) as u64;
        bytes.extend_from_slice(&filter_len.to_le_bytes());
        let Summary { partition, items, deleted, half_expired_at, collisions } = summary;
        let numbers = [self.end, self.blocks() as u64, id, *items, *deleted, *half_expired_at];
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&(*partition as u32).to_le_bytes());
        bytes.extend_from_slice(&u32::from(*collisions).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&tag.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&MAGIC[..4]);
        bytes
    }

    /// The start of the index, according to the last [`TAIL_LEN`] bytes of a file of this length.
    pub fn offset_of(tail: &[u8], file_len: u64) -> Option<u64> {
        let trailer = tail.get(TAIL_LEN - TRAILER_LEN..)?;
        let (end, blocks) = (u64_at(trailer, 0)?, u64_at(trailer, 8)?);
        let places_len = blocks.checked_mul(PLACE_LEN as u64)?;
        let index_len = places_len.checked_add(u64_at(tail, 0)?)?.checked_add(8)?;
        let sound = trailer.ends_with(&MAGIC[..4])
            && end.checked_add(index_len)?.checked_add(TRAILER_LEN as u64)? == file_len
            && end >= MAGIC.len() as u64;
        sound.then_some(end)
    }

    /// The short form of the file's store, from its last bytes.
    pub fn tag_of(tail: &[u8]) -> Option<u32> {
        u32_at(tail, TAIL_LEN - TRAILER_LEN + 60)
    }

    /// Decodes index, filter and trailer.
    pub fn decode(bytes: &[u8], id: FileId) -> Option<(Self, Summary)> {
        let (rest, trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER_LEN)?)?;
        let checksum_at = bytes.len() - 8;
        if u32_at(bytes, checksum_at)? != crc32c::crc32c(&bytes[..checksum_at]) || u64_at(trailer, 16)? != id {
            return None;
        }
        let blocks = usize::try_from(u64_at(trailer, 8)?).ok()?;
        let (places, rest) = rest.split_at_checked(blocks.checked_mul(PLACE_LEN)?)?;
        let filter = Filter::decode(rest.strip_suffix(rest.last_chunk::<8>()?)?, blocks)?;
        let column = |at: usize| places.chunks_exact(PLACE_LEN).map(|place| u64_at(place, at)).collect::<Option<_>>();
        let (hashes, newest): (Vec<u64>, Vec<u64>) = (column(0)?, column(8)?);
        let index = Self { hashes, newest, offsets: column(16)?, end: u64_at(trailer, 0)?, filter };
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
