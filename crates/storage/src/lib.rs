//! The data plane's contract: the promises of every item store.
//!
//! An [`ItemStore`] is shared by all threads and opens sessions. An [`ItemSession`] lives in one arbiter, is owned by
//! one list actor, and carries out the list operations. Both have only methods that every store implements, none with a
//! default. A store names its optional [`Abilities`], each a trait. One conformance suite (`tests/conformance`) checks
//! every store against this contract.

use std::time::Duration;

use liststore_contract::domain::{MaxItems, Retention, Timestamp, Ttl};
use tokio::time::Instant;

pub mod abilities;
pub mod aggregate;
pub mod around;
pub mod bags;
pub mod collect;
pub mod error;
mod in_memory;
pub mod memory;
mod request;
mod session;
mod store;

pub use abilities::{
    Abilities, BagSwaps, BoundOf, ByteErasure, Erased, FileBackup, IsUnreachable, ItemBackup, OwnPermits, PermitCounts,
    Reclaim, SchemaMigration,
};
pub use aggregate::{AggregateFailure, AggregateOutcome, Aggregation, Aggregator, aggregate_pages};
pub use around::{Around, ListAccess, Surrounded};
pub use bags::{
    BagAfter, BagEntries, BagPage, BagRow, BagScan, BagSwap, EntryChange, ReadBag, SwapId, SwapJournal, SwapPage,
    SwapScan, Swapped, UnfinishedSwap, enter_one_by_one,
};
pub use error::StoreError;
pub use in_memory::{MemoryReads, PageInMemory, StateToken, Validity};
pub use request::{Bounds, Count, EntityPage, EntityPlace, ItemPage, Range, Removal};
pub use session::{Done, ItemSession, JoinedAdds, RemovalTurns, SetAdd, ToAwait};
pub use store::ItemStore;

/// How long an operation of a job takes at most.
pub const JOB_OPERATION_TIME_MAX: Duration = Duration::from_secs(6);

/// The moment and the feature of a list operation.
#[derive(Debug, Clone, Copy)]
pub struct OpContext {
    /// The present, read once per operation: expiry is decided by this and nothing else.
    pub now: Timestamp,
    /// The present TTL of the list's feature version.
    pub ttl: Ttl,
    /// How many items of the list are visible, at most.
    pub max_items: Option<MaxItems>,
    /// When the caller stops waiting. A store begins no work, and no retry, after it.
    pub deadline: Instant,
}

impl OpContext {
    pub fn new(now: Timestamp, retention: impl Into<Retention>, deadline: Instant) -> Self {
        let Retention { ttl, max_items } = retention.into();
        Self { now, ttl, max_items, deadline }
    }

    /// Whether the operation sees an item, unless `max_items` hides it. Both times are in nanoseconds since the Unix
    /// epoch.
    #[inline]
    pub fn sees(&self, timestamp: u64, expires_at: u64) -> bool {
        is_visible(self.ttl, self.now, timestamp, expires_at)
    }

    /// Fails once the deadline has passed. To call before work begins, so that a late operation changes nothing.
    pub fn begin(&self) -> Result<(), StoreError> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(StoreError::Timeout { outcome_unknown: false }) }
    }
}

/// The rule of visibility: `now < timestamp + ttl` and `now < expires_at`. The times of the item are in nanoseconds
/// since the Unix epoch.
#[inline]
pub fn is_visible(ttl: Ttl, now: Timestamp, timestamp: u64, expires_at: u64) -> bool {
    now.as_nanos() < expires_at && timestamp >= ttl.visible_from(now).as_nanos()
}
