//! Writes a data file from ordered lists.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use liststore_contract::domain::ValueDigest;

use super::{BLOCK_BYTES, DataFile, FLAG_CLEARED, Index, MAGIC, ROW_BYTES, Summary, block_checksum};
use crate::codec::put_varint;
use crate::disk::file_id::{FileId, file_path};
use crate::disk::{Disk, DiskFile};
use crate::error::WriteError;
use crate::list_id::ListId;
use crate::row::reverse;
use crate::row::{Entry, Inspected, RowBuilder, RowCursor};

/// The size of the write buffer.
const WRITE_BYTES: usize = 256 << 10;
/// The number of written bytes between syncs, because one large sync would delay the log's syncs.
const SYNC_BYTES: u64 = 2 << 20;
/// The largest number of stored expiry samples.
const SAMPLES_MAX: usize = 1024;

/// Delays a background writer, so that work for callers comes first.
pub trait Pace {
    /// Called after bytes were written. Returns when the writer may continue.
    fn wrote(&mut self, bytes: usize);
    /// Called between two small pieces of work, of some microseconds each. Returns when the writer may continue.
    fn worked(&mut self);
}

/// No delay at all.
#[cfg(test)]
pub struct AtOnce;

#[cfg(test)]
impl Pace for AtOnce {
    fn wrote(&mut self, _bytes: usize) {}
    fn worked(&mut self) {}
}

pub struct FileWriter {
    id: FileId,
    tag: u32,
    file: Arc<dyn DiskFile>,
    path: std::path::PathBuf,
    summary: Summary,
    index: Index,
    /// The unwritten bytes, and the place of the first.
    buffer: Vec<u8>,
    written: u64,
    synced: u64,
    /// The place in `buffer` where the current block begins.
    block_start: usize,
    list: Option<ListId>,
    /// Whether it is a set's reverse list.
    is_reverse: bool,
    /// Whether the current block contains an entry of the list.
    list_in_block: bool,
    list_rows: u64,
    cleared: bool,
    row: RowBuilder,
    row_newest: u64,
    /// The length of the row's first value, if it exceeds the intended length of a row.
    row_oversize: usize,
    samples: Vec<u64>,
    sample_every: u64,
}

impl FileWriter {
    pub fn create(disk: &dyn Disk, dir: &Path, id: FileId, partition: usize) -> Result<Self, WriteError> {
        let path = file_path(dir, id);
        let file = disk.create(&path).map_err(WriteError::NotWritten)?;
        let summary = Summary { partition, items: 0, deleted: 0, half_expired_at: u64::MAX, collisions: false };
        Ok(Self {
            id,
            tag: 0,
            file,
            path,
            summary,
            index: Index::new(),
            buffer: MAGIC.to_vec(),
            written: 0,
            synced: 0,
            block_start: MAGIC.len(),
            list: None,
            is_reverse: false,
            list_in_block: false,
            list_rows: 0,
            cleared: false,
            row: RowBuilder::default(),
            row_newest: 0,
            row_oversize: 0,
            samples: Vec::new(),
            sample_every: 1,
        })
    }

    pub fn id(&self) -> FileId {
        self.id
    }

    /// The length of the file so far, without the unfinished row and the index.
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// The timestamp and the digest of the last pushed item. The current list must have one.
    pub fn last_item(&self) -> (u64, ValueDigest) {
        (self.row.last_time(), self.row.last_digest())
    }

    /// Sets the short form of the file's store.
    pub fn with_tag(mut self, tag: u32) -> Self {
        self.tag = tag;
        self
    }

    /// Begins a list, which must follow the previous one in order.
    pub fn begin_list(&mut self, list: &ListId, cleared: bool) {
        self.summary.collisions |= self.list.as_ref().is_some_and(|before| before.hash() == list.hash());
        self.list = Some(list.clone());
        self.is_reverse = reverse::is_reverse(list.bytes());
        self.list_in_block = false;
        self.list_rows = 0;
        self.cleared = cleared;
        self.summary.deleted += u64::from(cleared);
    }

    /// Appends an item to the list, in the list's order.
    pub fn push(&mut self, entry: &Entry, value: &[u8], pace: &mut dyn Pace) -> Result<(), WriteError> {
        // Items that share a long value follow it in its row. A separate row for each would repeat the value.
        let (room, needed) =
            if self.row.repeats(value) { (ROW_BYTES + self.row_oversize, 0) } else { (ROW_BYTES, value.len()) };
        if self.row.count() > 0 && self.row.body_len() + needed > room {
            self.end_row(pace)?;
        }
        if self.row.count() == 0 {
            self.row_newest = entry.timestamp;
            self.row_oversize = if value.len() > ROW_BYTES { value.len() } else { 0 };
        }
        self.row.push_entry(entry, value);
        self.summary.items += 1;
        self.summary.deleted += u64::from(entry.deleted);
        if !entry.deleted {
            self.sample(self.expiry_of(entry, value));
        }
        Ok(())
    }

    /// When an item of the list may be dropped.
    fn expiry_of(&self, entry: &Entry, value: &[u8]) -> u64 {
        if self.is_reverse { reverse::kept_until(entry, value) } else { entry.expires_at }
    }

    /// Appends a whole row of the list by copying it, in the list's order. `newest` is the timestamp of its first item.
    /// Returns `false` if copying is impossible, and the caller must push the items.
    pub fn push_row(
        &mut self,
        row: &Bytes,
        inspected: &Inspected,
        newest: u64,
        pace: &mut dyn Pace,
    ) -> Result<bool, WriteError> {
        if row.len() > ROW_BYTES {
            return Ok(false);
        }
        if self.row.count() > 0 && self.row.body_len() + row.len() > ROW_BYTES {
            self.end_row(pace)?;
        }
        if self.row.count() == 0 {
            (self.row_newest, self.row_oversize) = (newest, 0);
        }
        if !self.row.push_row(row, inspected) {
            return Ok(false);
        }
        self.summary.deleted += inspected.deleted;
        let to_next_sample = self.sample_every - self.summary.items % self.sample_every;
        if inspected.count < to_next_sample {
            self.summary.items += inspected.count;
            return Ok(true);
        }
        let mut items = RowCursor::new(row.clone()).ok();
        while let Some(cursor) = &mut items
            && let Some(entry) = cursor.entry()
        {
            self.summary.items += 1;
            if !entry.deleted {
                self.sample(self.expiry_of(entry, cursor.value()));
            }
            if cursor.advance().is_err() {
                items = None;
            }
        }
        Ok(true)
    }

    /// Ends the list. A list without items is written if it was cleared.
    pub fn end_list(&mut self, pace: &mut dyn Pace) -> Result<(), WriteError> {
        if self.row.count() > 0 || (self.cleared && self.list_rows == 0) {
            if self.row.count() == 0 {
                self.row_newest = 0;
            }
            self.end_row(pace)?;
        }
        Ok(())
    }

    fn end_row(&mut self, pace: &mut dyn Pace) -> Result<(), WriteError> {
        let Some(list) = self.list.clone() else { return Ok(()) };
        let row = self.row.finish();
        let block_len = self.buffer.len() - self.block_start;
        // 16 bytes are enough for the entry's lengths and flags.
        if block_len > 0 && block_len + row.len() + list.bytes().len() + 16 > BLOCK_BYTES {
            self.end_block(pace)?;
        }
        if self.buffer.len() == self.block_start {
            self.index.push(list.hash(), self.row_newest, self.written + self.block_start as u64);
        } else if self.list_rows == 0 {
            self.index.push_list(list.hash());
        }
        if self.list_in_block {
            self.buffer.push(0);
        } else {
            put_varint(&mut self.buffer, list.bytes().len() as u64);
            self.buffer.extend_from_slice(list.bytes());
            self.list_in_block = true;
        }
        self.buffer.push(if self.cleared { FLAG_CLEARED } else { 0 });
        put_varint(&mut self.buffer, row.len() as u64);
        self.buffer.extend_from_slice(&row);
        self.list_rows += 1;
        Ok(())
    }

    fn end_block(&mut self, pace: &mut dyn Pace) -> Result<(), WriteError> {
        if self.buffer.len() == self.block_start {
            return Ok(());
        }
        let offset = self.written + self.block_start as u64;
        let checksum = block_checksum(self.id, offset, &self.buffer[self.block_start..]);
        self.buffer.extend_from_slice(&checksum.to_le_bytes());
        self.list_in_block = false;
        if self.buffer.len() >= WRITE_BYTES {
            self.write_out(pace)?;
        }
        self.block_start = self.buffer.len();
        Ok(())
    }

    fn write_out(&mut self, pace: &mut dyn Pace) -> Result<(), WriteError> {
        self.file.write_all_at(&self.buffer, self.written).map_err(WriteError::NotWritten)?;
        self.written += self.buffer.len() as u64;
        if self.written - self.synced >= SYNC_BYTES {
            self.file.sync().map_err(WriteError::Unknown)?;
            self.synced = self.written;
        } else {
            self.file.begin_sync(self.written - self.buffer.len() as u64, self.buffer.len() as u64);
        }
        pace.wrote(self.buffer.len());
        self.buffer.clear();
        Ok(())
    }

    /// Samples expiries at regular intervals, which grow with the file.
    fn sample(&mut self, expires_at: u64) {
        if !self.summary.items.is_multiple_of(self.sample_every) {
            return;
        }
        self.samples.push(expires_at);
        if self.samples.len() >= SAMPLES_MAX {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.sample_every *= 2;
        }
    }

    /// Completes the file and makes its content durable, but not its name.
    pub fn finish(mut self, pace: &mut dyn Pace) -> Result<DataFile, WriteError> {
        self.end_block(pace)?;
        self.index.finish(self.written + self.buffer.len() as u64);
        if !self.samples.is_empty() {
            let middle = self.samples.len() / 2;
            self.summary.half_expired_at = *self.samples.select_nth_unstable(middle).1;
        }
        self.buffer.extend_from_slice(&self.index.encode(self.id, self.tag, &self.summary));
        self.write_out(pace)?;
        self.file.sync().map_err(WriteError::Unknown)?;
        Ok(DataFile::new(self.id, self.path, self.file, self.written, self.index, self.summary))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ListCursor, Scan, ScanSource};
    use super::*;
    use crate::disk::RealDisk;
    use crate::options::{EmbeddedOptions, ListHash};
    use crate::row;
    use crate::row::merge::Source;
    use crate::row::seek::Start;

    const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);

    /// Rows of one list, newest first: short ones, one that is too long for a file, a few with another lifetime, and
    /// deleted items among them. There are more items than samples.
    fn rows() -> Vec<Bytes> {
        let mut timestamp = 10_000_000;
        let row = |n: u64| {
            let mut row = RowBuilder::default();
            let (count, life) = if n == 150 { (900, 50) } else { (n * 7 % 23 + 1, 50 + n % 40 / 39) };
            for i in 0..count {
                timestamp -= 1 + i * n % 1_000;
                row.push(timestamp, timestamp + life, (n + i).is_multiple_of(9), format!("{i}-of-{n}").as_bytes());
            }
            row.finish()
        };
        (0..300).map(row).collect()
    }

    #[test]
    fn copied_rows_count_as_their_items_and_stay_short() {
        let dir = tempfile::tempdir().unwrap();
        let list = ListId::from_bytes(b"list", HASH);
        let file = |id| {
            let mut writer = FileWriter::create(&RealDisk, dir.path(), id, 0).unwrap();
            writer.begin_list(&list, false);
            writer
        };
        let (mut by_rows, mut by_items, mut copied) = (file(1), file(2), 0);
        for row in rows() {
            let mut items = RowCursor::new(row.clone()).unwrap();
            let newest = items.entry().unwrap().timestamp;
            let inspected = row::inspect(&row).unwrap();
            let whole = by_rows.push_row(&row, &inspected, newest, &mut AtOnce).unwrap();
            copied += u64::from(whole);
            while let Some(entry) = items.entry() {
                by_items.push(entry, items.value(), &mut AtOnce).unwrap();
                if !whole {
                    by_rows.push(entry, items.value(), &mut AtOnce).unwrap();
                }
                items.advance().unwrap();
            }
        }
        assert!((250..300).contains(&copied), "{copied}");
        let finish = |mut writer: FileWriter| {
            writer.end_list(&mut AtOnce).unwrap();
            Arc::new(writer.finish(&mut AtOnce).unwrap())
        };
        let (by_rows, by_items) = (finish(by_rows), finish(by_items));
        assert_eq!(by_rows.summary, by_items.summary);
        let items_of = |file: &Arc<DataFile>| {
            let mut scan = Scan::new(vec![Arc::clone(file)], None, HASH).unwrap();
            let mut source = ScanSource::new(&mut scan).unwrap();
            let mut items = Vec::new();
            while let Some(entry) = source.entry() {
                // Its body is within the bound, except for the last item's head.
                assert!(source.row().whole().is_none_or(|row| row.len() < ROW_BYTES + 64));
                let expires_at = (!entry.deleted).then_some(entry.expires_at);
                items.push((entry.timestamp, expires_at, source.value().to_vec()));
                source.advance().unwrap();
            }
            items
        };
        assert!(items_of(&by_rows) == items_of(&by_items));
    }

    /// 63 kB in the log must not become 63 MB in a file.
    #[test]
    fn a_long_value_shared_by_many_items_is_written_few_times() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = FileWriter::create(&RealDisk, dir.path(), 1, 0).unwrap();
        let list = ListId::from_bytes(b"list", HASH);
        writer.begin_list(&list, false);
        let mut row = RowBuilder::default();
        (0..1_000).for_each(|n| row.push(1_000 - n, 5_000, false, &[7; 63_000]));
        row.push(0, 5_000, false, b"another");
        let mut items = RowCursor::new(row.finish()).unwrap();
        while let Some(entry) = items.entry() {
            writer.push(entry, items.value(), &mut AtOnce).unwrap();
            items.advance().unwrap();
        }
        writer.end_list(&mut AtOnce).unwrap();
        let file = Arc::new(writer.finish(&mut AtOnce).unwrap());
        assert!(file.bytes < 3 * 63_000, "{}", file.bytes);
        let mut scan = Scan::new(vec![file], None, HASH).unwrap();
        let mut source = ScanSource::new(&mut scan).unwrap();
        for n in 0..1_000 {
            assert_eq!((source.entry().unwrap().timestamp, source.value().len()), (1_000 - n, 63_000));
            source.advance().unwrap();
        }
        assert_eq!(source.value(), b"another");
    }
    /// Lists of every size, from many in a block to many blocks.
    #[test]
    fn lists_are_found_and_the_filter_rules_out_nearly_all_others() {
        let hash = EmbeddedOptions::new("/data").list_hash;
        let name = |n: u64| ListId::from_bytes(format!("list-{n}").as_bytes(), hash);
        let mut lists: Vec<_> = (0..3_000).map(|n| (name(n), n % 300 * u64::from(n % 100 == 0) + 1)).collect();
        lists.sort();
        let dir = tempfile::tempdir().unwrap();
        let mut writer = FileWriter::create(&RealDisk, dir.path(), 1, 0).unwrap();
        for (list, items) in &lists {
            writer.begin_list(list, false);
            for n in 0..*items {
                let item = RowCursor::new(row_of(1_000 - n)).unwrap();
                writer.push(item.entry().unwrap(), item.value(), &mut AtOnce).unwrap();
            }
            writer.end_list(&mut AtOnce).unwrap();
        }
        let written = writer.finish(&mut AtOnce).unwrap();
        let file = Arc::new(DataFile::open(&RealDisk, dir.path(), 1, written.bytes).unwrap());
        assert_eq!(file.index, written.index);
        for (list, items) in &lists {
            let mut cursor = ListCursor::open(&file, list, &Start::NEWEST).unwrap().unwrap();
            let mut found = 0;
            while cursor.entry().is_some() {
                found += 1;
                cursor.advance().unwrap();
            }
            assert_eq!(found, *items);
        }
        let looked_for = (3_000..13_000).filter(|n| file.index.may_hold(name(*n).hash())).count();
        assert!(looked_for < 40, "{looked_for}");
        let (bytes, blocks) = (file.index.bytes(), file.index.blocks() as u64);
        assert!(bytes <= 24 * blocks + 2 * 3_000 + 8 * blocks, "{bytes} bytes of {blocks} blocks");
    }

    fn row_of(timestamp: u64) -> Bytes {
        let mut row = RowBuilder::default();
        row.push(timestamp, u64::MAX, false, &[b'v'; 60]);
        row.finish()
    }
}
