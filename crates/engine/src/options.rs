//! The options of an embedded store, and the division of its memory. Reads no settings: the composition root supplies
//! the values.

use std::path::PathBuf;
use std::time::Duration;

use liststore_contract::domain::{Belonging, ListKeyRef, LogMark, Token};

/// When an acknowledged write is on the disk, and not only in the kernel's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Before its acknowledgement, with one fsync for all waiting writes.
    Group,
    /// Within this time. Acknowledged writes survive a crash of the process. A loss of power loses up to this much of
    /// them.
    Interval(Duration),
}

/// The hash that sorts and partitions lists. It must stay the same for the lifetime of a directory.
#[derive(Debug, Clone, Copy)]
pub enum ListHash {
    /// The lists' tokens, which they contain.
    Token,
    /// Another hash, for tests that force collisions.
    Of(fn(&[u8]) -> u64),
}

impl ListHash {
    pub fn of_list(self, list: ListKeyRef<'_>) -> u64 {
        match self {
            Self::Token => list.token.as_i64().cast_unsigned(),
            Self::Of(hash) => hash(list.bytes),
        }
    }

    /// The hash of a list's bytes as in files.
    pub fn of_bytes(self, list: &[u8]) -> u64 {
        match self {
            Self::Token => Token::of_bytes(list).as_i64().cast_unsigned(),
            Self::Of(hash) => hash(list),
        }
    }
}

/// How an embedded store is opened. [`EmbeddedOptions::new`] has the values that suit a server.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// The data directory. Items are in its folder `items`.
    pub dir: PathBuf,
    pub fsync: Fsync,
    /// The memory of heads, memtables, queued writes, and the indexes and filters of files together.
    pub cache_bytes: u64,
    /// The size of a log segment. A larger single write gets a larger separate segment.
    pub log_segment_bytes: u64,
    /// The write rate of flush and compaction, unless they lag.
    pub background_bytes_per_sec: u64,
    /// The size at which a data file ends, or a sixty-fourth of its partition if that is more.
    pub data_file_bytes: u64,
    /// Threads for the reads that may use the disk.
    pub read_threads: usize,
    pub list_hash: ListHash,
    /// How long after an erasure a file may still hold the erased bytes.
    pub erase_within: Duration,
    /// The store that the items must belong to.
    pub belonging: Belonging,
    /// Moved by each [`sync`](liststore_storage::ItemStore::sync) to the last durable frame of the log.
    pub durable: LogMark,
    /// The log's thread, for which all writes wait, calls this first. It may set the thread's priority.
    pub on_log_thread: fn(),
}

impl EmbeddedOptions {
    pub const CACHE_BYTES_MIN: u64 = 3 << 20;
    const DATA_FILE_BYTES_MAX: u64 = 256 << 20;
    const PENDING_BYTES_MAX: u64 = 64 << 20;
    /// The memory that the allocator holds free in each thread for blocks of each size, and has not returned yet.
    const ALLOCATOR_BYTES_MAX: u64 = 24 << 20;

    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            fsync: Fsync::Group,
            cache_bytes: 256 << 20,
            log_segment_bytes: 8 << 20,
            background_bytes_per_sec: 64 << 20,
            data_file_bytes: 4 << 20,
            read_threads: 4,
            list_hash: ListHash::Token,
            erase_within: Duration::from_secs(24 * 3_600),
            belonging: Belonging::Any,
            durable: LogMark::default(),
            on_log_thread: || {},
        }
    }

    fn cache(&self) -> u64 {
        self.cache_bytes.max(Self::CACHE_BYTES_MIN)
    }

    /// The size at which a memtable is frozen. At most three times this is held at once: one memtable during its flush,
    /// and twice this in the active one before adds wait.
    pub(super) fn pending_bytes(&self) -> usize {
        to_usize((self.cache() / 16).min(Self::PENDING_BYTES_MAX))
    }

    /// The size at which a data file ends, in a partition of this size. It makes few files of much data, and needs
    /// little space for a compaction step.
    pub(super) fn file_bytes(&self, partition_bytes: u64) -> u64 {
        (partition_bytes / 64).min(Self::DATA_FILE_BYTES_MAX).max(self.data_file_bytes)
    }

    /// Bytes of writes that may wait for the log.
    pub(super) fn queue_bytes(&self) -> usize {
        to_usize((self.cache() / 16).min(16 << 20))
    }

    /// The memory for heads after the shares of file indexes and the allocator. At least an eighth.
    pub(super) fn heads_bytes(&self, index_bytes: u64) -> u64 {
        let allocator = (self.cache() * 3 / 8).min(Self::ALLOCATOR_BYTES_MAX);
        let others = 3 * self.pending_bytes() as u64 + self.queue_bytes() as u64 + index_bytes + allocator;
        self.cache().saturating_sub(others).max(self.cache() / 8)
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation states each part as a fraction of the setting. The engine has three quarters of it.
    #[test]
    fn memory_is_divided_as_documented() {
        for setting in [64 << 20, 1 << 30, 16 << 30] {
            let options = EmbeddedOptions { cache_bytes: setting - setting / 4, ..EmbeddedOptions::new("/data") };
            assert_eq!(3 * options.pending_bytes() as u64, (setting * 9 / 64).min(192 << 20), "{setting}");
            assert_eq!(options.queue_bytes() as u64, (setting * 3 / 64).min(16 << 20), "{setting}");
            let allocator = (setting * 9 / 32).min(24 << 20);
            let rest = setting - setting / 4 - setting * 9 / 64 - setting * 3 / 64 - allocator;
            assert!(options.heads_bytes(0) >= rest, "{setting}");
            assert_eq!(options.heads_bytes(setting), setting * 3 / 32, "{setting}");
        }
    }
}
