//! The optional abilities of a store, each a trait.

use std::path::Path;
use std::sync::Arc;

use liststore_contract::domain::{ListKey, MaxItems, Timestamp, Ttl};
use tokio::time::Instant;

use super::{MemoryReads, StoreError};

/// The abilities of a store. Each store states all of them, and so does a wrapper of a store.
#[derive(Clone)]
pub struct Abilities {
    pub memory: Option<Arc<dyn MemoryReads>>,
    pub permits: Option<Arc<dyn OwnPermits>>,
    pub bag_swaps: BagSwaps,
    pub reclaim: Option<Arc<dyn Reclaim>>,
    /// Or why there is none, and what to do instead.
    pub backup: Result<Arc<dyn FileBackup>, &'static str>,
    pub erasure: Option<Arc<dyn ByteErasure>>,
    pub migration: Option<Arc<dyn SchemaMigration>>,
}

/// How a store changes a bag together with its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BagSwaps {
    /// In one write of several lists, so that a bag and its entries change at one moment. No entry contradicts its
    /// state of the bag, as long as no two indexes write to one list, which belongs to one generation. Such a store
    /// also reads and enters many bags in few steps.
    Atomic,
    /// The bag first, and then its entries. A swap may be left unfinished, and the sessions of the store have a
    /// [`SwapJournal`](super::SwapJournal) of such swaps.
    Journaled,
}

/// The permits of a store that bounds its own work, in all of its sessions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PermitCounts {
    /// The most that there can be at once.
    pub bound: usize,
    /// The current maximum.
    pub limit: usize,
    pub in_use: usize,
    /// Operations that wait for one.
    pub waiting: usize,
}

/// A store that bounds its work itself. List actors then bound only the number of operations.
pub trait OwnPermits: Send + Sync + 'static {
    /// The present work, and the number of operations that the store has refused since it was opened.
    fn permits(&self) -> (PermitCounts, u64);

    /// How many requests one session may have at once, at most.
    fn permits_per_session(&self) -> usize;

    /// Changes that bound, for the sessions that are open and for later ones. At least 1.
    fn set_permits_per_session(&self, permits: usize);
}

/// Returns the currently visible part of the lists of a feature key, if that is known for certain and is bounded by
/// more than a TTL.
pub type BoundOf = Arc<dyn Fn(&str) -> Option<(Ttl, MaxItems)> + Send + Sync>;

/// Given the text of a feature key, whether no definition leads, or ever will, to any list of it.
pub type IsUnreachable = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A store that frees the space of items that no operation can read, if it learns which these are.
pub trait Reclaim: Send + Sync + 'static {
    /// Sets how the store finds unreachable lists. It calls the function at any time, on threads that may wait.
    fn forget(&self, unreachable: IsUnreachable);

    /// Sets how the store finds the number of items that its lists show at most. It calls the function at any time, on
    /// threads that may wait.
    fn bound(&self, bound_of: BoundOf);
}

/// The content of a store's backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemBackup {
    pub data_files: u64,
    pub data_bytes: u64,
    /// The data files that could not be hard links.
    pub copied_files: u64,
    pub log_segments: u64,
    pub log_bytes: u64,
}

/// A store in files of this machine.
pub trait FileBackup: Send + Sync + 'static {
    /// Writes a consistent copy of the store into an empty directory on this machine. A store that is opened there has
    /// everything that was acknowledged before the call, and each later write wholly or not at all. Blocks until it is
    /// done, and fails once `cancelled` returns true. One backup at a time.
    ///
    /// Calls `fixed` once the content of the copy is decided, before the store copies much. Until then the caller may
    /// hold up changes elsewhere, to copy them as of the same moment.
    fn backup(
        &self,
        to: &Path,
        cancelled: &(dyn Fn() -> bool + Sync),
        fixed: &mut dyn FnMut(),
    ) -> Result<ItemBackup, StoreError>;
}

/// Whether the bytes of removed items are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erased {
    /// No file of the store holds them now.
    Now,
    /// The store frees them later.
    Later,
}

/// A store that knows where the bytes of removed items are. Every method blocks on the disk.
pub trait ByteErasure: Send + Sync + 'static {
    /// Returns for each list whether the store holds anything of it, visible or not. All writes that were acknowledged
    /// before the call count. `None` if only a read of each list could find out.
    fn held(&self, lists: &[ListKey], deadline: Instant) -> Result<Option<Vec<bool>>, StoreError>;

    /// Frees the bytes that earlier removals have left in the store's files, if the store can. It may have to rewrite
    /// everything.
    fn erase_removed(&self) -> Result<Erased, StoreError>;

    /// Schedules that these bytes leave the store's files, and returns the date until which they do. `None` if the
    /// store makes no such promise.
    fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError>;
}

/// A store with a schema that `liststore migrate` changes.
pub trait SchemaMigration: Send + Sync + 'static {
    /// Why sessions cannot be opened before `liststore migrate` was run, where that is so. Unlike other reasons, it has
    /// nothing that strangers must not read.
    fn awaits_migration(&self) -> Option<String>;
}
