//! Reads data files: one list at a time, block by block.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use liststore_contract::domain::ItemKey;

use super::{CHECKSUM_LEN, FLAG_CLEARED, Index, MAGIC, Summary, TAIL_LEN, block_checksum};
use crate::codec::{take_bytes, take_varint, u32_at};
use crate::disk::file_id::{FileId, file_path};
use crate::disk::owner::Owner;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, OpenError, ReadError};
use crate::list_id::ListId;
use crate::row::RowCursor;
use crate::row::merge::Source;
use crate::row::seek::{Floor, Start, key_of};

/// An open data file.
pub struct DataFile {
    pub id: FileId,
    pub summary: Summary,
    /// Bytes on disk.
    pub bytes: u64,
    pub index: Index,
    /// The short form of the store that it belonged to when it was opened.
    tag: u32,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl DataFile {
    pub(super) fn new(
        id: FileId,
        path: PathBuf,
        file: Arc<dyn DiskFile>,
        bytes: u64,
        index: Index,
        summary: Summary,
    ) -> Self {
        Self { id, summary, bytes, index, tag: 0, path, file }
    }

    /// Opens a file of the length that the manifest names, and reads its index.
    pub fn open(disk: &dyn Disk, dir: &Path, id: FileId, bytes: u64) -> Result<Self, OpenError> {
        let path = file_path(dir, id);
        let damaged = |offset, what| OpenError::from(Damage { file: path.clone(), offset, what });
        let file = match disk.open_read_only(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged(0, "the manifest lists this file, but it is missing"));
            }
            file => file.map_err(OpenError::io("open", &path))?,
        };
        let len = file.size().map_err(OpenError::io("read", &path))?;
        if len != bytes {
            return Err(damaged(len.min(bytes), "its length differs from the manifest"));
        }
        let read = |offset: u64, len: u64| {
            let mut buffer = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
            file.read_exact_at(&mut buffer, offset).map_err(OpenError::io("read", &path)).map(|()| buffer)
        };
        if len < TAIL_LEN as u64 || read(0, MAGIC.len() as u64)? != MAGIC {
            return Err(damaged(0, "not a data file: wrong header"));
        }
        let tail_at = len - TAIL_LEN as u64;
        let tail = read(tail_at, TAIL_LEN as u64)?;
        let index_at = Index::offset_of(&tail, len).ok_or_else(|| damaged(tail_at, "malformed footer"))?;
        let (index, summary) = Index::decode(&read(index_at, len - index_at)?, id)
            .ok_or_else(|| damaged(index_at, "checksum mismatch of its index"))?;
        Ok(Self { id, summary, bytes, index, tag: Index::tag_of(&tail).unwrap_or(0), path, file })
    }

    /// Refuses a file of another store, or one that lacks a required store.
    pub fn check_owner(&self, owner: Option<Owner>) -> Result<(), Damage> {
        let ours = owner.is_none_or(|owner| self.tag == owner.tag() || (self.tag == 0 && self.id < owner.from_file));
        let foreign = || Damage { file: self.path.clone(), offset: 0, what: "it belongs to another store" };
        if ours { Ok(()) } else { Err(foreign()) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, which remains readable without its name.
    pub fn content(&self) -> &dyn DiskFile {
        &*self.file
    }

    fn damage(&self, offset: u64, what: &'static str) -> ReadError {
        Damage { file: self.path.clone(), offset, what }.into()
    }

    /// The entries of a block, with a verified checksum.
    pub(super) fn block(&self, i: usize) -> Result<Bytes, ReadError> {
        let (start, end) = self.index.block(i).ok_or_else(|| self.damage(0, "a block is missing"))?;
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        let io = |source| ReadError::Io { file: self.path.clone(), source };
        self.file.read_exact_at(&mut bytes, start).map_err(io)?;
        let payload_len = bytes.len().saturating_sub(CHECKSUM_LEN);
        let sound = u32_at(&bytes, payload_len) == Some(block_checksum(self.id, start, &bytes[..payload_len]));
        if !sound {
            return Err(self.damage(start, "checksum mismatch of a block"));
        }
        bytes.truncate(payload_len);
        Ok(Bytes::from(bytes))
    }

    pub(super) fn malformed(&self, i: usize) -> ReadError {
        let start = self.index.block(i).map_or(0, |(start, _)| start);
        self.damage(start, "a block has a correct checksum but is malformed")
    }
}

/// One entry of a block.
pub(super) struct BlockEntry<'a> {
    /// `None` for the list of the previous entry.
    pub list: Option<&'a [u8]>,
    pub cleared: bool,
    pub row: std::ops::Range<usize>,
}

/// Reads the entry at `*at` of a block and moves past it. `None` if it is malformed.
pub(super) fn take_entry<'a>(block: &'a [u8], at: &mut usize) -> Option<BlockEntry<'a>> {
    let list = take_bytes(block, at)?;
    let flags = *block.get(*at)?;
    *at += 1;
    let len = usize::try_from(take_varint(block, at)?).ok()?;
    let end = at.checked_add(len).filter(|end| *end <= block.len())?;
    let row = *at..end;
    *at = end;
    Some(BlockEntry { list: (!list.is_empty()).then_some(list), cleared: flags & FLAG_CLEARED != 0, row })
}

/// The first block that can contain wanted items of a list. If the list is in the file, the block contains some of its
/// items, or of an earlier list.
fn first_block(file: &DataFile, list: &ListId, start: &Start) -> Result<usize, ReadError> {
    let first = file.index.find(list.hash(), start.ceiling, file.summary.collisions);
    if start.below.is_none() || file.summary.collisions {
        return Ok(first);
    }
    // The following blocks whose first item has exactly that timestamp. The index cannot distinguish them.
    let tied = file.index.tied(list.hash(), start.ceiling);
    let (mut low, mut high) = (tied.start, tied.end);
    while low < high {
        let middle = low.midpoint(high);
        if start.is_behind(&first_in(file, middle)?) { low = middle + 1 } else { high = middle }
    }
    Ok(first.max(low.saturating_sub(1)))
}

/// Opens a cursor on the first item of a block.
fn first_in(file: &DataFile, number: usize) -> Result<RowCursor, ReadError> {
    let malformed = || file.malformed(number);
    let block = file.block(number)?;
    let entry = take_entry(&block, &mut 0).ok_or_else(malformed)?;
    RowCursor::new(block.slice(entry.row)).map_err(|_| malformed())
}

/// The result of moving up from a floor by a number of blocks that begin with an item of the list.
pub enum Climbed {
    To(ItemKey),
    /// There are fewer. This many are missing.
    Missing(usize),
}

/// Moves up from a floor by the index. Reads blocks only among items of one timestamp.
pub fn climb(file: &DataFile, list: &ListId, floor: &Floor, steps: usize) -> Result<Climbed, ReadError> {
    // If lists share a hash, the index cannot distinguish them.
    if file.summary.collisions || !file.index.may_hold(list.hash()) {
        return Ok(Climbed::Missing(steps));
    }
    let tied = file.index.tied(list.hash(), floor.timestamp);
    let (mut low, mut high) = (tied.start, tied.end);
    while floor.splits_ties() && low < high {
        let middle = low.midpoint(high);
        if floor.is_passed(&first_in(file, middle)?) { low = middle + 1 } else { high = middle }
    }
    let above = if floor.splits_ties() { low } else { tied.end };
    let count = above - file.index.first_of(list.hash());
    if count < steps {
        return Ok(Climbed::Missing(steps - count));
    }
    let key = key_of(&first_in(file, above - steps)?);
    Ok(key.map_or(Climbed::Missing(steps), Climbed::To))
}

/// Walks the items that a file holds of one list.
pub struct ListCursor {
    file: Arc<DataFile>,
    list: ListId,
    /// Whether all older sources are hidden.
    pub cleared: bool,
    block_number: usize,
    block: Bytes,
    at: usize,
    row: RowCursor,
    done: bool,
}

impl ListCursor {
    /// Opens a cursor on the first wanted item. `None` if the list is not in the file.
    pub fn open(file: &Arc<DataFile>, list: &ListId, start: &Start) -> Result<Option<Self>, ReadError> {
        if !file.index.may_hold(list.hash()) {
            return Ok(None);
        }
        let mut number = first_block(file, list, start)?;
        while number < file.index.blocks() {
            let block = file.block(number)?;
            let mut at = 0;
            while at < block.len() {
                let entry = take_entry(&block, &mut at).ok_or_else(|| file.malformed(number))?;
                if entry.list == Some(list.bytes()) {
                    let row = RowCursor::new(block.slice(entry.row)).map_err(|_| file.malformed(number))?;
                    let mut cursor = Self {
                        file: file.clone(),
                        list: list.clone(),
                        cleared: entry.cleared,
                        block_number: number,
                        block: block.clone(),
                        at,
                        row,
                        done: false,
                    };
                    cursor.skip_empty_rows()?;
                    while start.is_behind(&cursor.row) {
                        cursor.advance()?;
                    }
                    return Ok(Some(cursor));
                }
            }
            number += 1;
            if file.index.hash(number).is_none_or(|hash| hash > list.hash()) {
                break;
            }
        }
        Ok(None)
    }

    fn skip_empty_rows(&mut self) -> Result<(), ReadError> {
        while self.row.entry().is_none() && !self.done {
            self.next_row()?;
        }
        Ok(())
    }

    fn next_row(&mut self) -> Result<(), ReadError> {
        let first = self.at >= self.block.len();
        if first {
            let next = self.block_number + 1;
            if self.file.index.hash(next) != Some(self.list.hash()) {
                self.done = true;
                return Ok(());
            }
            self.block = self.file.block(next)?;
            (self.block_number, self.at) = (next, 0);
        }
        let malformed = || self.file.malformed(self.block_number);
        let entry = take_entry(&self.block, &mut self.at).ok_or_else(malformed)?;
        if (first || entry.list.is_some()) && entry.list != Some(self.list.bytes()) {
            self.done = true;
            return Ok(());
        }
        self.row = RowCursor::new(self.block.slice(entry.row)).map_err(|_| malformed())?;
        Ok(())
    }
}

impl Source for ListCursor {
    fn row(&self) -> &RowCursor {
        &self.row
    }

    fn row_mut(&mut self) -> &mut RowCursor {
        &mut self.row
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        self.row.advance().map_err(|_| self.file.malformed(self.block_number))?;
        self.skip_empty_rows()
    }

    fn leave_row(&mut self) -> Result<(), ReadError> {
        self.row.leave();
        self.skip_empty_rows()
    }

    fn seek(&mut self, start: &Start) -> Result<(), ReadError> {
        if !start.is_behind(&self.row) {
            return Ok(());
        }
        let number = first_block(&self.file, &self.list, start)?;
        // If lists share a hash, the block may be an earlier one.
        if number > self.block_number {
            (self.block, self.block_number, self.at) = (self.file.block(number)?, number, 0);
            self.row.leave();
            self.skip_empty_rows()?;
        }
        while start.is_behind(&self.row) {
            self.advance()?;
        }
        Ok(())
    }
}
