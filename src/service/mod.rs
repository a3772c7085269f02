//! The service: the common parts of operations, without HTTP.
//!
//! The function of an operation ([`crate::operations`]) gets the [`Service`] and a [`Caller`]. This module has the
//! parts that operations share, and the long ones. It knows no HTTP, except for the JSON of a page of items, because
//! the page cache stores rendered pages.

mod aggregate;
mod bag;
mod bag_conditions;
mod bags;
mod batch;
mod begun;
mod changes;
mod entities;
mod entity_lists;
mod erase;
mod error;
mod features;
mod find_bags;
mod index_view;
mod indexes;
mod jobs;
mod keys;
mod lists;
pub(crate) mod members;
mod page_cache;
mod page_end;
mod receipt;
pub(crate) mod render;
mod replay;
mod requests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use prometheus::{IntCounter, Registry};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::access::{Budget, Principal, Refusals, Reservation, SMALL_BYTES};
use crate::actors::{ListPool, MetadataHandle};
use crate::background::{Cleaner, Jobs};
use crate::backup::Backups;
use crate::domain::{Author, Clock, PageToken, Ttl};
use crate::metadata::MetadataError;
use crate::telemetry::Log;

use page_cache::PageCache;

pub(crate) use aggregate::SharedPlans;
pub use bag::{Bag, BagsFound, EntityName, FoundBag, HeldList, JoinedList, JoinedLists, ReadLists, StoredBag};
pub use bag_conditions::{BagConditions, BagError, BagTags};
pub(crate) use begun::{StepFailure, to_its_end};
pub(crate) use changes::broke_off;
pub use error::ServiceError;
pub use index_view::IndexView;
pub(crate) use jobs::may;
pub(crate) use lists::PageRead;
pub use page_cache::RenderedPage;
pub(crate) use page_end::{AROUND_BYTES, end_early, json_bytes};
pub use receipt::{ErasedList, Receipt};
pub use replay::Repeated;
pub use requests::{AddItems, AggregateList, FindBags, GetItems, ListName, ListRead, Purge};

/// A page of a listing, and the token of the next one if there is one.
pub type Listed<T> = (Vec<T>, Option<PageToken>);

#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The time that a list operation has.
    pub operation_timeout: Duration,
    /// The maximum of a rendered page of items, which ends early instead, but never empty.
    pub page_bytes_max: usize,
    /// The most items that one aggregation reads.
    pub aggregate_items_max: u64,
    /// Memory for rendered pages.
    pub page_cache_bytes: u64,
    /// How long other servers may take to learn of a deletion.
    pub poll_interval: Duration,
    /// The longest lifetime of keys from a caller whose own key, token or certificate expires.
    pub key_lifetime_max: Ttl,
    /// The server's name in the audit trail, among servers that share a metadata store.
    pub server_name: String,
}

/// The caller of an operation.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The authenticated identity.
    pub principal: Principal,
    /// The author that the caller named, if any.
    pub author: Option<Author>,
    /// How long the caller waits, if that is shorter than the time of the operation.
    pub timeout: Option<Duration>,
    /// Memory for the answer.
    pub reservation: Reservation,
}

impl Caller {
    pub(crate) fn author(&self) -> Author {
        self.principal.author(self.author.as_ref())
    }

    /// Counts the items that an operation will read or add, at least one, and fails if the caller's limit is used up.
    /// An operation on several lists counts all of them at once.
    pub(crate) fn take_items(&self, items: usize) -> Result<(), ServiceError> {
        Ok(self.principal.limiter().map_or(Ok(()), |limiter| limiter.take_items(items))?)
    }

    /// Counts items that were read in addition to the counted ones.
    pub(crate) fn charge_items(&self, items: usize) {
        if let Some(limiter) = self.principal.limiter() {
            limiter.charge_items(items);
        }
    }

    /// How long the caller waits for an operation that may take `longest`.
    pub(crate) fn patience(&self, longest: Duration) -> Duration {
        self.timeout.map_or(longest, |asked| asked.min(longest))
    }
}

/// The possible effect of a call whose caller has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    Nothing,
    Definitions,
}

/// Waits for the metadata handle, which has a deadline, or until the caller's shorter deadline.
pub(crate) async fn within<T>(
    caller: &Caller,
    changes: Changes,
    asked: impl Future<Output = Result<T, MetadataError>>,
) -> Result<T, ServiceError> {
    let Some(time) = caller.timeout else { return Ok(asked.await?) };
    match timeout(time, asked).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(ServiceError::DeadlineExceeded { outcome_unknown: changes == Changes::Definitions }),
    }
}

/// The parts of a service.
pub struct ServiceHandles {
    pub lists: ListPool,
    pub metadata: MetadataHandle,
    pub backups: Backups,
    pub jobs: Jobs,
    pub cleaner: Cleaner,
    pub refusals: Arc<Refusals>,
    pub log: Arc<Log>,
    pub clock: Arc<dyn Clock>,
    pub budget: Arc<Budget>,
}

/// The dependencies of operations, shared by all listeners.
pub struct Service {
    pub(crate) lists: ListPool,
    pub(crate) metadata: MetadataHandle,
    pub(crate) backups: Backups,
    pub(crate) jobs: Jobs,
    pub(crate) cleaner: Cleaner,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) log: Arc<Log>,
    /// Held while the log changes.
    pub(crate) log_turn: Arc<Mutex<()>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) pages: PageCache,
    /// Counts the items that aggregations read.
    pub(crate) items_aggregated: IntCounter,
    pub(crate) options: ServiceOptions,
}

impl Service {
    /// Registers the metrics of the page cache and of aggregations.
    pub fn new(handles: ServiceHandles, options: ServiceOptions, registry: &Registry) -> prometheus::Result<Self> {
        let ServiceHandles { lists, metadata, backups, jobs, cleaner, refusals, log, clock, budget } = handles;
        let pages = PageCache::new(options.page_cache_bytes, registry)?;
        let items_aggregated = IntCounter::new("liststore_items_aggregated_total", "Items read by aggregations.")?;
        registry.register(Box::new(items_aggregated.clone()))?;
        Ok(Self {
            lists,
            metadata,
            backups,
            jobs,
            cleaner,
            refusals,
            log,
            log_turn: Arc::default(),
            clock,
            budget,
            pages,
            items_aggregated,
            options,
        })
    }

    /// The list pool, with the caller's limit of operations in flight.
    pub(crate) fn lists_of(&self, caller: &Caller) -> Cow<'_, ListPool> {
        match caller.principal.limiter() {
            Some(limiter) => Cow::Owned(self.lists.limited(limiter)),
            None => Cow::Borrowed(&self.lists),
        }
    }

    /// Reserves at least this much memory for an answer, before it is made.
    pub(crate) fn reserve(&self, caller: &Caller, bytes: usize) -> Result<(), ServiceError> {
        let reserved = caller.reservation.reserve(&self.budget, &caller.principal, bytes);
        reserved.map_err(|_exhausted| ServiceError::NoMemoryForAnswer)
    }

    /// The same for an answer that is already in memory, or is made at once. A short answer needs no reservation.
    pub(crate) fn reserve_if_long(&self, caller: &Caller, bytes: usize) -> Result<(), ServiceError> {
        if bytes > SMALL_BYTES { self.reserve(caller, bytes) } else { Ok(()) }
    }

    /// When the caller of a list operation stops waiting.
    pub(crate) fn deadline(&self, caller: &Caller) -> Instant {
        Instant::now() + caller.patience(self.options.operation_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_never_extends_the_deadline() {
        let longest = Duration::from_secs(2);
        let patience = |timeout| Caller { timeout, ..Caller::default() }.patience(longest);
        assert_eq!(patience(None), longest);
        assert_eq!(patience(Some(Duration::from_millis(1))), Duration::from_millis(1));
        assert_eq!(patience(Some(Duration::MAX)), longest);
    }
}
