//! Reads data files from front to back, list by list: for merging and for checking.

use std::sync::Arc;

use bytes::Bytes;

use super::super::error::ReadError;
use super::super::list_id::ListId;
use super::super::merge::Source;
use super::super::options::ListHash;
use super::super::row::RowCursor;
use super::DataFile;
use super::reader::take_entry;

/// Stands on one row after the other.
pub struct Scan {
    file: Arc<DataFile>,
    hash: ListHash,
    next_block: usize,
    block: Bytes,
    at: usize,
    list: Option<ListId>,
    cleared: bool,
    row: Bytes,
}

impl Scan {
    /// Stands on the first row, if there is one.
    pub fn new(file: Arc<DataFile>, hash: ListHash) -> Result<Self, ReadError> {
        let mut scan = Self {
            file,
            hash,
            next_block: 0,
            block: Bytes::new(),
            at: 0,
            list: None,
            cleared: false,
            row: Bytes::new(),
        };
        scan.next_row()?;
        Ok(scan)
    }

    /// The list of the present row; `None` past the end.
    pub fn list(&self) -> Option<&ListId> {
        self.list.as_ref()
    }

    /// Whether all that older files hold of the list is hidden.
    pub fn cleared(&self) -> bool {
        self.cleared
    }

    fn malformed(&self) -> ReadError {
        self.file.malformed(self.next_block.saturating_sub(1))
    }

    fn next_row(&mut self) -> Result<(), ReadError> {
        if self.at >= self.block.len() {
            if self.next_block >= self.file.index.blocks() {
                self.list = None;
                return Ok(());
            }
            self.block = self.file.block(self.next_block)?;
            (self.next_block, self.at) = (self.next_block + 1, 0);
        }
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

    /// Goes on to the first row of another list.
    pub fn skip_list(&mut self) -> Result<(), ReadError> {
        let list = self.list.clone();
        while self.list.is_some() && self.list == list {
            self.next_row()?;
        }
        Ok(())
    }
}

/// The items of the list that a scan stands on. Once it is walked to its end, the scan stands on the
/// next list.
pub struct ScanSource<'a> {
    scan: &'a mut Scan,
    list: Option<ListId>,
    row: RowCursor,
}

impl<'a> ScanSource<'a> {
    pub fn new(scan: &'a mut Scan) -> Result<Self, ReadError> {
        let row = RowCursor::new(scan.row.clone()).map_err(|_| scan.malformed())?;
        let mut source = Self { list: scan.list.clone(), scan, row };
        source.skip_ended_rows()?;
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

    fn advance(&mut self) -> Result<(), ReadError> {
        self.row.advance().map_err(|_| self.scan.malformed())?;
        self.skip_ended_rows()
    }

    fn leave_row(&mut self) -> Result<(), ReadError> {
        self.row.leave();
        self.skip_ended_rows()
    }
}
