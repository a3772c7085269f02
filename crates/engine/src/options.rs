//! What an embedded store is opened with, and how its memory is divided. Reads no settings: the
//! composition root fills this in.

use std::path::PathBuf;
use std::time::Duration;

use liststore_contract::domain::{Belonging, ListKeyRef, LogMark, Token};

/// When an acknowledged write is on the disk itself, and not only in the hands of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Before it is acknowledged: one fsync for all writes that wait.
    Group,
    /// Within this time. What was acknowledged survives a crash of the process; up to this much of
    /// it is lost when the machine loses power.
    Interval(Duration),
}

/// The hash that lists are sorted and partitioned by. It must stay the same for the life of a
/// directory.
#[derive(Debug, Clone, Copy)]
pub enum ListHash {
    /// The lists' tokens, which they bring along.
    Token,
    /// Another one, for tests that force collisions.
    Of(fn(&[u8]) -> u64),
}

impl ListHash {
    pub fn of_list(self, list: ListKeyRef<'_>) -> u64 {
        match self {
            Self::Token => list.token.as_i64().cast_unsigned(),
            Self::Of(hash) => hash(list.bytes),
        }
    }

    /// The same, of a list's bytes as files have them.
    pub fn of_bytes(self, list: &[u8]) -> u64 {
        match self {
            Self::Token => Token::of_bytes(list).as_i64().cast_unsigned(),
            Self::Of(hash) => hash(list),
        }
    }
}

/// How an embedded store is opened. [`EmbeddedOptions::new`] gives the values that suit a server.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// The data directory. Items live in its folder `items`.
    pub dir: PathBuf,
    pub fsync: Fsync,
    /// Heads, pending items, queued writes, and the indexes and filters of files together.
    pub cache_bytes: u64,
    /// Bytes of one log segment. A single larger write gets a larger segment of its own.
    pub log_segment_bytes: u64,
    /// The rate that flush and compaction write at, unless they lag.
    pub background_bytes_per_sec: u64,
    /// A data file ends once it has so many bytes, or a sixty-fourth of its partition if that is more.
    pub data_file_bytes: u64,
    /// Threads that carry out the reads that may touch the disk.
    pub read_threads: usize,
    pub list_hash: ListHash,
    /// How long after an erasure no file holds the erased bytes any more.
    pub erase_within: Duration,
    /// Which store the items have to belong to.
    pub belonging: Belonging,
    /// Moved by each [`sync`](liststore_storage::ItemStore::sync) to the last durable frame of the log.
    pub durable: LogMark,
    /// What the log's thread, for which all writes wait, calls before all else: it may set its own priority.
    pub on_log_thread: fn(),
}

impl EmbeddedOptions {
    pub const CACHE_BYTES_MIN: u64 = 3 << 20;
    const DATA_FILE_BYTES_MAX: u64 = 256 << 20;
    const PENDING_BYTES_MAX: u64 = 64 << 20;
    /// What the allocator keeps ready in each thread for blocks of each size, and has not given back yet.
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

    /// Memtable bytes at which the active map is frozen. Up to three times this is held at once: one
    /// map that is being flushed, and twice this in the active one before adds wait.
    pub(super) fn pending_bytes(&self) -> usize {
        to_usize((self.cache() / 16).min(Self::PENDING_BYTES_MAX))
    }

    /// Bytes at which a data file ends, in a partition of so many: few files where there is much, and
    /// little room for a step of a merge.
    pub(super) fn file_bytes(&self, partition_bytes: u64) -> u64 {
        (partition_bytes / 64).min(Self::DATA_FILE_BYTES_MAX).max(self.data_file_bytes)
    }

    /// Bytes of writes that may wait for the log.
    pub(super) fn queue_bytes(&self) -> usize {
        to_usize((self.cache() / 16).min(16 << 20))
    }

    /// What is left for heads once file indexes and the allocator have taken their part; never less than
    /// an eighth.
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

    /// The documentation states each part as one of the setting, three quarters of which are the engine's.
    #[test]
    fn memory_is_divided_as_the_documentation_says() {
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
