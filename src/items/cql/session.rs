//! One session of the store: it lives where it was opened, and carries the operations out.
//!
//! An operation runs as a separate task, on the same thread: a caller who goes away leaves no request of the driver
//! behind half-way, whose stream would be lost to the connection until the answer comes.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::AbortHandle;

use super::call::Call;
use super::core::Core;
use super::error::NO_INDEX;
use super::health::watch::Seen;
use super::layouts::aggregate::aggregate;
use super::layouts::bags::unfinished::Noted;
use super::layouts::bags::{self, unfinished};
use super::layouts::entities::{self, Reported};
use super::layouts::layout::{last_shown, page};
use super::layouts::{members, operations};
use super::partitions::driver::Cluster;
use super::pressure::coalesce::Query;
use super::pressure::permits::Permit;
use super::shared::Shared;
use super::upkeep::lookout::Lookout;
use super::upkeep::{lookout, node_clocks, sweeps, trims, wide_lists};
use crate::domain::{FeatureKey, Item, ListKey, MaxItems, NewItem, Order, Timestamp};
use crate::items::{
    AggregateOutcome, Aggregation, BagEntries, BagScan, BagSwap, Bounds, Count, Done, EntityPage, EntityPlace,
    ItemPage, ItemSession, JoinedAdds, OpContext, Range, ReadBag, Removal, RemovalTurns, StoreError, SwapId,
    SwapJournal, SwapPage, SwapScan, Swapped, ToAwait,
};

/// How long a session that opens waits for its search by value.
const FIND_TIMEOUT: Duration = Duration::from_secs(1);

/// A session with the cluster.
pub struct CqlSession {
    core: Arc<Core>,
    lookout: AbortHandle,
    trims: AbortHandle,
    repairs: AbortHandle,
    wide_lists: AbortHandle,
    sweeps: AbortHandle,
    node_clocks: AbortHandle,
}

impl Drop for CqlSession {
    fn drop(&mut self) {
        self.lookout.abort();
        self.trims.abort();
        self.repairs.abort();
        self.wide_lists.abort();
        self.sweeps.abort();
        self.node_clocks.abort();
    }
}

impl CqlSession {
    /// Connects, checks the cluster, and prepares the statements.
    pub async fn open(shared: &Shared) -> Result<Self, StoreError> {
        let cluster = Arc::new(Cluster::open(shared).await?);
        let (dialect, plan) = (cluster.dialect, cluster.plan());
        let core = Arc::new(Core::new(shared, Arc::clone(&cluster) as _, dialect, plan));
        let seen = Arc::new(Lookout { core: Arc::clone(&core), cluster: Arc::clone(&cluster) });
        core.watch.opened(Arc::downgrade(&(Arc::clone(&seen) as Arc<dyn Seen>)));
        let lookout = tokio::spawn(lookout::watch_cluster(seen)).abort_handle();
        let trims = tokio::spawn(trims::cut(Arc::clone(&core))).abort_handle();
        let repairs = tokio::spawn(members::repair(Arc::clone(&core))).abort_handle();
        let wide_lists = tokio::spawn(wide_lists::check_wide_lists(Arc::clone(&core))).abort_handle();
        let sweeps = tokio::spawn(sweeps::sweep(Arc::clone(&core))).abort_handle();
        let node_clocks = tokio::spawn(node_clocks::follow(Arc::clone(&core), cluster)).abort_handle();
        // So the first removal need not do it. A defect of the index is logged already.
        let _ = core.prepare_search(tokio::time::Instant::now() + FIND_TIMEOUT).await;
        Ok(Self { core, lookout, trims, repairs, wide_lists, sweeps, node_clocks })
    }

    /// Runs a read to its end, even without a waiting caller.
    async fn read<T, F>(&self, operation: impl FnOnce(Arc<Core>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.to_the_end(operation).await.map_err(StoreError::with_nothing_done)
    }

    /// The same of a read of a list.
    async fn read_of<T, F>(
        &self,
        op: &OpContext,
        list: &ListKey,
        operation: impl FnOnce(Call) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.read(|core| operation(Call::new(&core, op, list))).await
    }

    /// Runs a write of a list to its end, even without a waiting caller.
    async fn write_of<T, F>(
        &self,
        op: &OpContext,
        list: &ListKey,
        operation: impl FnOnce(Call) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.to_the_end(|core| operation(Call::new(&core, op, list))).await
    }

    /// Runs a write to its end, even without a waiting caller.
    async fn to_the_end<T, F>(&self, operation: impl FnOnce(Arc<Core>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        match tokio::spawn(operation(Arc::clone(&self.core))).await {
            Ok(result) => result,
            Err(error) => {
                let reason = if error.is_panic() { "an operation panicked" } else { "the session was closed" };
                Err(StoreError::Internal { reason: reason.to_owned(), outcome_unknown: true })
            }
        }
    }
}

#[async_trait(?Send)]
impl ItemSession for CqlSession {
    async fn get(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        self.core.admit()?;
        let first = op.max_items.map(|max_items| range.at_most(max_items));
        // Reads that share an answer remove expired items from its end. Oldest first, these would be at its beginning.
        // And shared reads ignore the end of the shown items.
        if range.order == Order::Oldest || first == Some(None) {
            let mut range = *range;
            let read = |mut call: Call| async move {
                let last_shown = last_shown(&mut call).await?;
                range.limit = range.limit.min(call.op.max_items.map_or(usize::MAX, MaxItems::get));
                page(&mut call, &range, last_shown).await.map(|answer| answer.page)
            };
            return self.read_of(op, list, read).await;
        }
        let query = Query { list: list.clone(), ttl: op.ttl, range: first.flatten().unwrap_or(*range) };
        let core = Arc::clone(&self.core);
        let send = move |op: OpContext, query: Query, permit: Permit| {
            let core = Arc::clone(&core);
            async move {
                let mut call = Call::with_permit(&core, &op, &query.list, permit);
                page(&mut call, &query.range, None).await
            }
        };
        let read = self.core.reads.read(op, query, send).await;
        let mut page = read.map_err(|error| self.core.cause_of(error))?;
        if let Some(max_items) = op.max_items {
            if page.more && page.items.len() == max_items.get() {
                self.core.overlong.note(op, list);
            }
            page.end_with(max_items);
        }
        Ok(page)
    }

    async fn contains(
        &self,
        op: &OpContext,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        self.core.admit()?;
        let (within, values) = (*within, values.to_vec());
        self.read_of(op, list, |mut call| async move { operations::contains(&mut call, &within, &values).await }).await
    }

    async fn lookup(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
        self.core.admit()?;
        let members = members.to_vec();
        self.read_of(op, list, |mut call| async move { operations::lookup(&mut call, &members).await }).await
    }

    async fn count(&self, op: &OpContext, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        self.core.admit()?;
        let within = *within;
        self.read_of(op, list, |mut call| async move { operations::count(&mut call, &within, max).await }).await
    }

    async fn aggregate(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError> {
        self.core.admit()?;
        let aggregation = Arc::clone(aggregation);
        self.read_of(op, list, |mut call| async move { aggregate(&mut call, &aggregation).await }).await
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        Some(Box::pin(async move {
            let count = items.len();
            let added = match self.core.admit() {
                Ok(()) => {
                    let add = |mut call: Call| async move { operations::add(&mut call, &items).await };
                    self.write_of(&op, &list, add).await
                }
                Err(refused) => Err(refused),
            };
            let is_added = added.is_ok();
            done(added);
            if is_added {
                self.core.overlong.added(&op, &list, count);
                self.core.wide_sample.added(&op, &list);
            }
        }))
    }

    async fn remove(&self, op: &OpContext, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        self.core.admit()?;
        let removal = removal.clone();
        let remove = |mut call: Call| async move { operations::remove(&mut call, &removal).await };
        let removed = self.write_of(op, list, remove).await;
        if let Err(StoreError::Unavailable { reason, .. }) = &removed
            && reason == NO_INDEX
        {
            self.core.watch.index_is(Some(reason.clone()));
        }
        removed
    }

    async fn entities(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        self.core.admit()?;
        // The caller reads each bag.
        let reported = if feature_key.holds_bags() { Reported::All } else { Reported::Visible };
        let (op, feature_key, from) = (*op, feature_key.clone(), from.cloned());
        self.read(
            |core| async move { entities::entities(&core, &op, &feature_key, from.as_ref(), limit, reported).await },
        )
        .await
    }

    async fn remove_all(&self, op: &OpContext, list: &ListKey) -> Result<(), StoreError> {
        self.core.admit()?;
        self.write_of(op, list, |mut call| async move { operations::remove_all(&mut call).await }).await
    }

    async fn bag(&self, op: &OpContext, list: &ListKey) -> Result<ReadBag, StoreError> {
        self.core.admit()?;
        self.read_of(op, list, |mut call| async move { bags::bag(&mut call).await }).await
    }

    async fn swap_bag(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        self.core.admit()?;
        self.write_of(op, list, |call| bags::swap(call, swap)).await
    }

    async fn enter_bags(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        self.core.admit()?;
        let op = *op;
        let enter = |core| async move {
            let mut swapped = Vec::with_capacity(bags.len());
            for bag in bags {
                let mut call = Call::new(&core, &op, &bag.bag);
                swapped.push(bags::enter(&mut call, bag).await?);
            }
            Ok(swapped)
        };
        self.to_the_end(enter).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        RemovalTurns::BetweenRemovals
    }

    fn joined_adds(self: Rc<Self>) -> Option<Rc<dyn JoinedAdds>> {
        None
    }

    fn bag_scan(&self) -> Option<&dyn BagScan> {
        None
    }

    fn swap_journal(&self) -> Option<&dyn SwapJournal> {
        Some(self)
    }
}

#[async_trait(?Send)]
impl SwapJournal for CqlSession {
    async fn unfinished_swaps(&self, op: &OpContext, scan: SwapScan) -> Result<SwapPage, StoreError> {
        self.core.admit()?;
        let op = *op;
        self.read(|core| async move { unfinished::scan(&core, &op, scan).await }).await
    }

    async fn finish_swap(&self, op: &OpContext, swap: SwapId) -> Result<(), StoreError> {
        self.core.admit()?;
        let op = *op;
        let Some(swap) = Noted::unpack(&swap) else {
            let reason = "the note of a bag swap is of another store".to_owned();
            return Err(StoreError::Internal { reason, outcome_unknown: false });
        };
        let ended = self.to_the_end(|core| async move {
            let mut call = Call::new(&core, &op, &());
            call.begin().await?;
            unfinished::end(&mut call, swap).await
        });
        ended.await
    }
}
