//! The engine: fjall with its two keyspaces, and what is read from them.
//!
//! Every function here may block, on the disk or on the engine's own back-pressure.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use fjall::compaction::filter::Factory;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use super::filter::ExpiryFactory;
use super::keys::{self, Key, Prefix};
use crate::domain::{Clock, Item, ListKey, Timestamp, ValueDigest};
use crate::items::{ItemPage, Operation, Range};

/// Of the memory that the store may use, the part of each keyspace's write buffer; the rest is
/// cache. A buffer is flushed in the background while the next one fills.
const WRITE_BUFFER_SHARE: u64 = 16;
const WRITE_BUFFER_BYTES: std::ops::RangeInclusive<u64> = (1 << 20)..=(32 << 20);
/// The smallest that the engine takes. A restart reads the journal: it is kept short.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone)]
pub struct Options {
    pub path: PathBuf,
    pub cache_bytes: u64,
    pub clock: Arc<dyn Clock>,
}

/// A change of one item: its row and its index row.
#[derive(Debug, Clone)]
pub enum Change {
    Put { row: Key, index_row: Key, expires_at: u64, value: Bytes },
    Remove { row: Key, index_row: Key },
}

impl Change {
    /// Roughly the memory that it takes, and the journal.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Put { row, index_row, value, .. } => row.len() + index_row.len() + value.len() + 64,
            Self::Remove { row, index_row } => row.len() + index_row.len() + 64,
        }
    }
}

/// A part of the items that a removal is about.
#[derive(Debug, Default)]
pub struct Found {
    pub removals: Vec<Change>,
    /// How many of them are visible.
    pub visible: u64,
    /// The last key that was looked at, if there may be more after it.
    pub last: Option<Key>,
}

/// A row or index row that is not what this store writes.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("a stored row is damaged")]
    Damaged,
    #[error(transparent)]
    Engine(#[from] fjall::Error),
}

pub struct Engine {
    database: Database,
    rows: Keyspace,
    index: Keyspace,
}

impl Engine {
    pub fn open(options: &Options) -> fjall::Result<Self> {
        let write_buffer =
            (options.cache_bytes / WRITE_BUFFER_SHARE).clamp(*WRITE_BUFFER_BYTES.start(), *WRITE_BUFFER_BYTES.end());
        let clock = Arc::clone(&options.clock);
        let filters = move |_: &str| -> Option<Arc<dyn Factory>> {
            Some(Arc::new(ExpiryFactory(AssertUnwindSafe(Arc::clone(&clock)))))
        };
        let database = Database::builder(&options.path)
            .cache_size(options.cache_bytes.saturating_sub(4 * write_buffer))
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .with_compaction_filter_factories(Arc::new(filters))
            .open()?;
        let keyspace_options = || KeyspaceCreateOptions::default().max_memtable_size(write_buffer);
        let rows = database.keyspace("rows", keyspace_options)?;
        let index = database.keyspace("index", keyspace_options)?;
        Ok(Self { database, rows, index })
    }

    /// Carries out all changes, or none. In the operating system's hands when it returns, and on
    /// the disk if `sync` is set; read by nobody before.
    pub fn commit<'a>(&self, changes: impl Iterator<Item = &'a Change>, sync: bool) -> fjall::Result<()> {
        let mode = if sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(mode));
        for change in changes {
            match change {
                Change::Put { row, index_row, expires_at, value } => {
                    batch.insert(&self.rows, row.as_slice(), keys::row_value(*expires_at, value));
                    batch.insert(&self.index, index_row.as_slice(), expires_at.to_be_bytes());
                }
                Change::Remove { row, index_row } => {
                    batch.remove(&self.rows, row.as_slice());
                    batch.remove(&self.index, index_row.as_slice());
                }
            }
        }
        batch.commit()
    }

    pub fn sync(&self) -> fjall::Result<()> {
        self.database.persist(PersistMode::SyncAll)
    }

    /// Begins to write what is in memory to files, so that the next start finds little to replay.
    pub fn begin_flush(&self) -> fjall::Result<()> {
        self.rows.rotate_memtable()?;
        self.index.rotate_memtable()?;
        Ok(())
    }

    pub fn is_flushed(&self) -> bool {
        self.database.outstanding_flushes() == 0
            && self.rows.sealed_memtable_count() == 0
            && self.index.sealed_memtable_count() == 0
    }

    pub fn disk_bytes(&self) -> fjall::Result<u64> {
        self.database.disk_space()
    }

    /// Rewrites all files, so that a test need not wait for a compaction.
    #[cfg(test)]
    pub fn compact(&self) -> fjall::Result<u64> {
        self.rows.rotate_memtable_and_wait()?;
        self.index.rotate_memtable_and_wait()?;
        self.rows.major_compact()?;
        self.index.major_compact()?;
        Ok((self.rows.len()? + self.index.len()?) as u64)
    }

    /// Get List Items, as [`ItemSession::get`](crate::items::ItemSession::get).
    pub fn page(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, ReadError> {
        let prefix = Prefix::of(list);
        let from = prefix.rows_from(range.min_timestamp.max(op.ttl.visible_from(op.now)));
        // The end is no key of a row, or else the cursor's, which is left out.
        let mut to = prefix.rows_to(range.max_timestamp);
        if let Some(after) = &range.after {
            to = to.min(prefix.row(after));
        }
        let mut page = ItemPage::default();
        if from >= to {
            return Ok(page);
        }
        let mut value_bytes = 0;
        for row in self.database.snapshot().range(&self.rows, from..to).rev() {
            let (key, stored) = row.into_inner()?;
            let (timestamp, expires_at, value) = parse_row(&key, &stored)?;
            if !is_visible(op, timestamp, expires_at) {
                continue;
            }
            value_bytes += value.len();
            if page.items.len() == range.limit || (!page.items.is_empty() && value_bytes > range.value_bytes_max) {
                page.more = true;
                break;
            }
            page.items.push(Item { timestamp, value: Bytes::copy_from_slice(value) });
        }
        Ok(page)
    }

    /// The items of a list with this value, at most `limit` of them, after the key `after`.
    pub fn find_value(
        &self,
        op: &Operation,
        list: &ListKey,
        wanted: &[u8],
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Found, ReadError> {
        let prefix = Prefix::of(list);
        let snapshot = self.database.snapshot();
        let of_value = prefix.index_rows_of(&ValueDigest::of(wanted));
        self.find(&snapshot, &self.index, &of_value, after, limit, |index_row| {
            let row = prefix.row_of(index_row).ok_or(ReadError::Damaged)?;
            // The index knows digests; values with the same one are told apart by their rows.
            let Some(stored) = snapshot.get(&self.rows, &row)? else { return Ok(None) };
            let (timestamp, expires_at, value) = parse_row(&row, &stored)?;
            let visible = is_visible(op, timestamp, expires_at);
            Ok((value == wanted).then(|| (Change::Remove { row, index_row: index_row.to_vec() }, visible)))
        })
    }

    /// All items of a list, at most `limit` of them, after the key `after`.
    pub fn find_all(&self, list: &ListKey, after: Option<&Key>, limit: usize) -> Result<Found, ReadError> {
        let prefix = Prefix::of(list);
        self.find(&self.database.snapshot(), &self.rows, prefix.as_bytes(), after, limit, |row| {
            let index_row = prefix.index_row_of(row).ok_or(ReadError::Damaged)?;
            Ok(Some((Change::Remove { row: row.to_vec(), index_row }, false)))
        })
    }

    fn find(
        &self,
        snapshot: &Snapshot,
        keyspace: &Keyspace,
        prefix: &[u8],
        after: Option<&Key>,
        limit: usize,
        mut removal_of: impl FnMut(&[u8]) -> Result<Option<(Change, bool)>, ReadError>,
    ) -> Result<Found, ReadError> {
        let mut found = Found::default();
        // The smallest key after `after` is `after` with a zero byte.
        let from = after.map_or_else(|| prefix.to_vec(), |after| [after, [0].as_slice()].concat());
        for row in snapshot.range(keyspace, from..) {
            let key = row.key()?;
            if !key.starts_with(prefix) {
                break;
            }
            if let Some((removal, visible)) = removal_of(&key)? {
                found.removals.push(removal);
                found.visible += u64::from(visible);
            }
            if found.removals.len() == limit {
                found.last = Some(key.to_vec());
                break;
            }
        }
        Ok(found)
    }
}

fn parse_row<'a>(key: &[u8], stored: &'a [u8]) -> Result<(Timestamp, u64, &'a [u8]), ReadError> {
    let timestamp = keys::timestamp_of_row(key).ok_or(ReadError::Damaged)?;
    let (expires_at, value) = keys::split_expiry(stored).ok_or(ReadError::Damaged)?;
    Ok((timestamp, expires_at, value))
}

fn is_visible(op: &Operation, timestamp: Timestamp, expires_at: u64) -> bool {
    timestamp >= op.ttl.visible_from(op.now) && op.now.as_nanos() < expires_at
}
