//! Reads a sequence of data files from front to back, list by list, for compaction and verification.

use std::sync::Arc;

use bytes::Bytes;
use liststore_contract::domain::ValueDigest;

use super::DataFile;
use super::reader::take_entry;
use super::trim::Trim;
use crate::disk::file_id::FileId;
use crate::error::ReadError;
use crate::list_id::ListId;
use crate::options::ListHash;
use crate::row::merge::Source;
use crate::row::seek::Start;
use crate::row::{self, Entry, RowCursor};

impl DataFile {
    /// The first list of a block.
    pub fn first_list(&self, block: usize) -> Result<Arc<[u8]>, ReadError> {
        let bytes = self.block(block)?;
        let list = take_entry(&bytes, &mut 0).and_then(|entry| entry.list);
        list.map(Arc::from).ok_or_else(|| self.malformed(block))
    }
}

/// The content of a block for one list.
pub struct Sample {
    pub list: Arc<[u8]>,
    /// The number of previous blocks that begin with the same list.
    pub blocks_before: usize,
    /// Each with the bytes that it occupies.
    pub entries: Vec<(Entry, u64)>,
}

impl DataFile {
    /// The timestamp and the digest of the last item, if the file ends with a list. If the file also begins with it, it
    /// is the only list. Reads a block only if the index allows it.
    pub fn last_item_of(&self, list: &ListId) -> Result<Option<(u64, ValueDigest)>, ReadError> {
        let Some(last) = self.index.blocks().checked_sub(1) else { return Ok(None) };
        if self.index.hash(last) != Some(list.hash()) {
            return Ok(None);
        }
        let malformed = || self.malformed(last);
        let (block, mut at, mut row) = (self.block(last)?, 0, 0..0);
        while at < block.len() {
            let entry = take_entry(&block, &mut at).ok_or_else(malformed)?;
            if entry.list.is_some_and(|other| other != list.bytes()) {
                return Ok(None);
            }
            row = entry.row;
        }
        let row = block.slice(row);
        let inspected = row::inspect(&row).map_err(|_| malformed())?;
        let item = || (inspected.oldest, inspected.last_digest(&row));
        Ok((inspected.count > 0).then(item))
    }

    /// The whole content of a block.
    pub fn sample(&self, block: usize) -> Result<Vec<Sample>, ReadError> {
        let malformed = || self.malformed(block);
        let (bytes, mut at) = (self.block(block)?, 0);
        let mut samples: Vec<Sample> = Vec::new();
        while at < bytes.len() {
            let entry = take_entry(&bytes, &mut at).ok_or_else(malformed)?;
            if let Some(list) = entry.list {
                let hash = self.index.hash(block).filter(|_| samples.is_empty());
                let blocks_before = hash.map_or(0, |hash| block - self.index.first_of(hash));
                samples.push(Sample { list: list.into(), blocks_before, entries: Vec::new() });
            }
            let entries = &mut samples.last_mut().ok_or_else(malformed)?.entries;
            let mut row = RowCursor::new(bytes.slice(entry.row)).map_err(|_| malformed())?;
            let mut begin = 0;
            while let (Some(entry), Some(place)) = (row.entry(), row.place()) {
                entries.push((entry.clone(), (place.offset() - begin) as u64));
                begin = place.offset();
                row.advance().map_err(|_| malformed())?;
            }
        }
        Ok(samples)
    }
}

/// Iterates over rows.
pub struct Scan {
    files: Vec<Arc<DataFile>>,
    /// The file of the current row.
    file: usize,
    hash: ListHash,
    next_block: usize,
    block: Bytes,
    at: usize,
    list: Option<ListId>,
    cleared: bool,
    row: Bytes,
    /// Whether the row is the first one of its file.
    begins_file: bool,
    /// The place where the first list begins, if not with its first item.
    begin: Option<(ListId, Start)>,
}

impl Scan {
    /// Opens a scan on the first row after a place, if there is one.
    pub fn new(files: Vec<Arc<DataFile>>, behind: Option<&Trim>, hash: ListHash) -> Result<Self, ReadError> {
        let mut scan = Self {
            files,
            file: 0,
            hash,
            next_block: 0,
            block: Bytes::new(),
            at: 0,
            list: None,
            cleared: false,
            row: Bytes::new(),
            begins_file: false,
            begin: None,
        };
        scan.next_row()?;
        if let Some(trim) = behind {
            scan.go_behind(trim)?;
        }
        Ok(scan)
    }

    fn go_behind(&mut self, trim: &Trim) -> Result<(), ReadError> {
        while self.list.as_ref().is_some_and(|list| *list < trim.list) {
            self.jump(&trim.list, u64::MAX);
            self.next_row()?;
        }
        match trim.item {
            _ if self.list.as_ref() != Some(&trim.list) => {}
            None => self.skip_list()?,
            Some((ceiling, digest)) => {
                // Only at this point it is certain that the file contains this list, and not another one with its hash.
                if self.jump(&trim.list, ceiling) {
                    self.next_row()?;
                }
                self.begin = Some((trim.list.clone(), Start { ceiling, below: Some(digest) }));
            }
        }
        Ok(())
    }

    /// The list of the current row; `None` past the end.
    pub fn list(&self) -> Option<&ListId> {
        self.list.as_ref()
    }

    /// Whether the content of the list in all older files is hidden.
    pub fn cleared(&self) -> bool {
        self.cleared
    }

    /// The number of completely read files.
    pub fn files_done(&self) -> usize {
        if self.list.is_some() { self.file } else { self.files.len() }
    }

    fn malformed(&self) -> ReadError {
        let last = self.files.len().saturating_sub(1);
        self.files[self.file.min(last)].malformed(self.next_block.saturating_sub(1))
    }

    /// Skips the blocks of the current file that contain only newer items of a list, or earlier lists. Returns whether
    /// there were any.
    fn jump(&mut self, list: &ListId, timestamp: u64) -> bool {
        let Some(file) = self.files.get(self.file) else { return false };
        let first = file.index.find(list.hash(), timestamp, file.summary.collisions);
        let jumps = first > self.next_block;
        if jumps {
            (self.next_block, self.at) = (first, self.block.len());
        }
        jumps
    }

    fn next_row(&mut self) -> Result<(), ReadError> {
        if self.at >= self.block.len() {
            while self.files.get(self.file).is_some_and(|file| self.next_block >= file.index.blocks()) {
                (self.file, self.next_block) = (self.file + 1, 0);
            }
            let Some(file) = self.files.get(self.file) else {
                self.list = None;
                return Ok(());
            };
            self.block = file.block(self.next_block)?;
            (self.next_block, self.at) = (self.next_block + 1, 0);
        }
        self.begins_file = self.next_block == 1 && self.at == 0;
        let entry = take_entry(&self.block, &mut self.at).ok_or_else(|| self.malformed())?;
        if let Some(list) = entry.list
            && self.list.as_ref().is_none_or(|before| before.bytes() != list)
        {
            self.list = Some(ListId::from_bytes(list, self.hash));
        }
        self.cleared = entry.cleared;
        self.row = self.block.slice(entry.row);
        Ok(())
    }

    /// The file of the current row.
    pub fn file(&self) -> Option<FileId> {
        self.files.get(self.file).filter(|_| self.list.is_some()).map(|file| file.id)
    }

    /// Moves to the first row of the next file, and skips the rest of this one.
    pub fn leave_file(&mut self) -> Result<(), ReadError> {
        let Some(file) = self.files.get(self.file).filter(|_| self.list.is_some()) else { return Ok(()) };
        (self.next_block, self.at) = (file.index.blocks(), self.block.len());
        self.next_row()
    }

    /// Starts the current list after an item.
    pub fn begin_behind(&mut self, (ceiling, digest): (u64, ValueDigest)) {
        self.begin = self.list.clone().map(|list| (list, Start { ceiling, below: Some(digest) }));
    }

    /// Moves to the first row of the next list.
    pub fn skip_list(&mut self) -> Result<(), ReadError> {
        let Some(list) = self.list.clone() else { return Ok(()) };
        while self.list.as_ref() == Some(&list) {
            self.jump(&list, 0);
            self.next_row()?;
        }
        Ok(())
    }
}

/// The items of the scan's current list. At their end, the scan is on the next list.
pub struct ScanSource<'a> {
    scan: &'a mut Scan,
    list: Option<ListId>,
    row: RowCursor,
}

impl<'a> ScanSource<'a> {
    pub fn new(scan: &'a mut Scan) -> Result<Self, ReadError> {
        let row = RowCursor::new(scan.row.clone()).map_err(|_| scan.malformed())?;
        let begin = scan.begin.take().filter(|(list, _)| scan.list.as_ref() == Some(list));
        let mut source = Self { list: scan.list.clone(), scan, row };
        source.skip_ended_rows()?;
        if let Some((_, start)) = begin {
            while start.is_behind(&source.row) {
                source.advance()?;
            }
        }
        Ok(source)
    }

    fn skip_ended_rows(&mut self) -> Result<(), ReadError> {
        while self.row.entry().is_none() && self.list.is_some() {
            self.scan.next_row()?;
            if self.scan.list != self.list {
                self.list = None;
                break;
            }
            self.row = RowCursor::new(self.scan.row.clone()).map_err(|_| self.scan.malformed())?;
        }
        Ok(())
    }
}

impl Source for ScanSource<'_> {
    fn row(&self) -> &RowCursor {
        &self.row
    }

    fn row_mut(&mut self) -> &mut RowCursor {
        &mut self.row
    }

    fn begun_file(&self) -> Option<FileId> {
        let is_first = self.list.is_some() && self.scan.begins_file && self.row.whole().is_some();
        self.scan.file().filter(|_| is_first)
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        self.row.advance().map_err(|_| self.scan.malformed())?;
        self.skip_ended_rows()
    }

    fn leave_row(&mut self) -> Result<(), ReadError> {
        self.row.leave();
        self.skip_ended_rows()
    }
}
