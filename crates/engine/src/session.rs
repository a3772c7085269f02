//! A session: the list operations of one arbiter. None of them blocks it.

use std::iter;
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use liststore_contract::domain::{FeatureKey, IdentityKind, Item, ListKey, NewItem, Order, Timestamp};
use liststore_storage::{
    AggregateOutcome, Aggregation, BagEntries, BagPage, BagScan, BagSwap, Bounds, Count, Done, EntityPage, EntityPlace,
    ItemPage, ItemSession, JoinedAdds, OpContext, Range, ReadBag, Removal, RemovalTurns, SetAdd, StateToken,
    StoreError, SwapJournal, Swapped, ToAwait,
};

use super::collect::page::{self, Collect, Counter, Finder, Last, Newest, PageBuilder};
use super::collect::set_write;
use super::engine::Engine;
use super::error::ReadError;
use super::list_id::{BorrowedListId, ListId};
use super::log::change::{Change, Changes};
use super::log::queue::QueueShare;
use super::memory::heads;
use super::read::entities::{self as walk, EntityRead, WalkTarget};
use super::read::oldest::{OldestPage, OldestRead};
use super::read::removal::{RemovalSearch, ToRemove};
use super::read::tables::{InMemory, View};
use super::read::{PageRead, Scan};
use super::row;
use super::row::merge;
use super::row::reverse;
use super::row::seek::Start;

/// The largest list in memory that is read on the arbiter itself, in bytes.
const INLINE_BYTES_MAX: usize = 256 << 10;
/// The most turns of a read on the arbiter itself. Items of few bytes can share a long value, so that a short list can
/// take many.
const INLINE_TURNS: usize = 8;

pub struct EmbeddedSession {
    pub(super) engine: Arc<Engine>,
}

impl EmbeddedSession {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    pub(super) fn list_id(&self, list: &ListKey) -> ListId {
        ListId::of(list, self.engine.options.list_hash)
    }

    /// Commits a write.
    pub(super) async fn write(&self, op: &OpContext, share: QueueShare, changes: Changes) -> Result<(), StoreError> {
        let placed = self.engine.queue.place(share, changes, op.deadline).await?;
        self.engine.queue.commit(placed, op.deadline).await
    }
}

impl EmbeddedSession {
    /// Fixes the input of a read, regardless of when a thread runs it.
    pub(super) fn prepare_read(&self, list: &ListId, ceiling: u64) -> ReadInput {
        let engine = &self.engine;
        let (seen, (view, in_memory)) = engine.heads.between_changes(list, || {
            let view = engine.tables.view();
            let in_memory = view.in_memory(list, ceiling);
            (view, in_memory)
        });
        let inline = in_memory.bytes <= INLINE_BYTES_MAX && (in_memory.hides_files || !view.has_files_for(list));
        ReadInput { seen, view, in_memory, inline }
    }

    /// Reads in turns until there is an answer. The first turns of an `inline` read are on this arbiter, and all others
    /// are on the threads that may wait for a disk.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        op: &OpContext,
        inline: bool,
        mut turn: impl FnMut() -> Option<Result<T, ReadError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        if inline {
            for _ in 0..INLINE_TURNS {
                if let Some(read) = turn() {
                    return Ok(read?);
                }
            }
        }
        Ok(self.engine.pool.run(op.deadline, turn).await??)
    }

    /// Passes the items that an operation sees in a list, up to a moment, to a collector.
    pub(super) async fn scan<C>(
        &self,
        op: &OpContext,
        list: &ListKey,
        max_timestamp: Timestamp,
        collector: C,
    ) -> Result<C::Found, StoreError>
    where
        C: Collect<Found: Send + 'static> + Send + 'static,
    {
        op.begin()?;
        match op.max_items {
            None => {
                let start = Start { ceiling: max_timestamp.as_nanos(), below: None };
                self.scan_from(op, list, start, collector).await
            }
            Some(max_items) => {
                let collector = Newest::new(op, max_items, collector);
                self.scan_from(op, list, Start::NEWEST, collector).await
            }
        }
    }

    pub(super) async fn scan_from<C>(
        &self,
        op: &OpContext,
        list: &ListKey,
        start: Start,
        mut collector: C,
    ) -> Result<C::Found, StoreError>
    where
        C: Collect<Found: Send + 'static> + Send + 'static,
    {
        let engine = &self.engine;
        if let Some(row) = engine.heads.whole(BorrowedListId::of(list.borrowed(), engine.options.list_hash)) {
            page::collect_row(row, &mut collector).ok_or_else(merge::broken)?;
            return Ok(collector.finish());
        }
        self.scan_list(op, self.list_id(list), start, collector).await
    }

    /// Does the same for a list without a head.
    pub(super) async fn scan_list<C>(
        &self,
        op: &OpContext,
        list: ListId,
        start: Start,
        collector: C,
    ) -> Result<C::Found, StoreError>
    where
        C: Collect<Found: Send + 'static> + Send + 'static,
    {
        let ReadInput { view, in_memory, inline, .. } = self.prepare_read(&list, start.ceiling);
        let mut scan = Scan::new(view, in_memory, list, start, collector);
        self.read(op, inline, move || scan.turn().transpose()).await
    }

    /// Reads a page that begins at the oldest item.
    async fn oldest(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        let engine = &self.engine;
        if let Some(row) = engine.heads.whole(BorrowedListId::of(list.borrowed(), engine.options.list_hash)) {
            let mut page = OldestPage::new(op, range);
            if let Some(max_items) = op.max_items {
                let mut last = Last::new(op, max_items);
                page::collect_row(row.clone(), &mut last).ok_or_else(merge::broken)?;
                last.finish().into_iter().for_each(|lowest| page.begin_at(lowest));
            }
            page::collect_row(row, &mut page).ok_or_else(merge::broken)?;
            return Ok(page.finish());
        }
        let list = self.list_id(list);
        let ceiling = op.max_items.map_or(range.max_timestamp.as_nanos(), |_| u64::MAX);
        let ReadInput { view, in_memory, inline, .. } = self.prepare_read(&list, ceiling);
        let mut read = OldestRead::new(view, in_memory, list, op, range);
        self.read(op, inline, move || read.turn().transpose()).await
    }

    /// Runs a part of a walk over the lists of a feature version.
    async fn walk<T>(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<walk::WalkPart<T::Of>, StoreError>
    where
        T: WalkTarget<Collector: Send, Of: Send> + 'static,
    {
        op.begin()?;
        let (view, hash) = (self.engine.tables.view(), self.engine.options.list_hash);
        let mut read = EntityRead::<T>::new(view, op, hash, feature_key, from, limit);
        self.read(op, false, move || read.turn().transpose()).await
    }

    /// Reads a page of a list that shows all its items, newest first.
    pub(super) async fn newest(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        let engine = &self.engine;
        let borrowed = BorrowedListId::of(list.borrowed(), engine.options.list_hash);
        if let Some(page) = engine.heads.page(borrowed, op, range) {
            engine.metrics.head_hits.inc();
            return Ok(page);
        }
        engine.metrics.head_misses.inc();
        let list = self.list_id(list);
        // A head needs the whole content.
        let ceiling = heads::wanted_for(range, op).map_or_else(|| Start::of(range).ceiling, |_| u64::MAX);
        let ReadInput { seen, view, in_memory, inline } = self.prepare_read(&list, ceiling);
        let mut read = PageRead::new(view, in_memory, list.clone(), *op, *range);
        let shared = engine.clone();
        let turn = move || {
            let read = read.turn().transpose()?;
            Some(read.map(|(page, head)| {
                head.into_iter().for_each(|head| shared.heads.fill(&list, seen, head));
                page
            }))
        };
        self.read(op, inline, turn).await
    }

    /// Finds the next items of a removal.
    async fn find(&self, op: &OpContext, search: RemovalSearch) -> Result<(ToRemove, RemovalSearch), StoreError> {
        let mut search = Some(search);
        let turn = move || {
            let found = search.as_mut()?.turn().transpose()?;
            Some(found.map(|found| (found, search.take())))
        };
        let (found, search) = self.engine.pool.run(op.deadline, turn).await??;
        Ok((found, search.ok_or_else(merge::broken)?))
    }

    /// Commits the removal of found items. Returns the number of visible ones.
    async fn delete(&self, op: &OpContext, list: &ListId, found: ToRemove) -> Result<u64, StoreError> {
        let ToRemove { mut deleted, entries, visible, oldest, .. } = found;
        let reverse = reverse::list_of(list, self.engine.options.list_hash);
        let items = (deleted.count() > 0).then(|| (deleted.finish(), oldest));
        if let Some(changes) = set_write::changes_of(list.clone(), items, reverse, entries) {
            self.write(op, QueueShare::Removals, changes).await?;
        }
        Ok(visible)
    }
}

/// The input of a read.
pub(super) struct ReadInput {
    /// The state of the list, for its head.
    pub seen: Option<StateToken>,
    pub view: Arc<View>,
    pub in_memory: InMemory,
    /// Whether the read is short, and needs no disk.
    pub inline: bool,
}

#[async_trait(?Send)]
impl ItemSession for EmbeddedSession {
    async fn get(&self, op: &OpContext, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        op.begin()?;
        if range.order == Order::Oldest {
            return self.oldest(op, list, range).await;
        }
        let Some(max_items) = op.max_items else { return self.newest(op, list, range).await };
        let Some(range) = range.at_most(max_items) else {
            return self.scan(op, list, range.max_timestamp, PageBuilder::new(op, range)).await;
        };
        let mut page = self.newest(op, list, &range).await?;
        page.end_with(max_items);
        Ok(page)
    }

    async fn contains(
        &self,
        op: &OpContext,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        if list.identity().kind() == IdentityKind::Value {
            let found = self.lookup(op, list, values).await?;
            let within = |item: Item| Some(item.timestamp).filter(|timestamp| within.contain(*timestamp));
            return Ok(found.into_iter().map(|item| item.and_then(within)).collect());
        }
        self.scan(op, list, within.max_timestamp, Finder::new(op, within, list.identity(), values)).await
    }

    async fn lookup(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
        op.begin()?;
        self.look_up(op, list, members).await
    }

    async fn count(&self, op: &OpContext, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        self.scan(op, list, within.max_timestamp, Counter::new(op, within, max)).await
    }

    async fn aggregate(
        &self,
        op: &OpContext,
        list: &ListKey,
        aggregation: &Arc<Aggregation>,
    ) -> Result<AggregateOutcome, StoreError> {
        op.begin()?;
        self.aggregate_items(op, list, aggregation).await
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        if list.identity().is_set() {
            return self.add_to_set(list, vec![SetAdd { op, items, done }]);
        }
        let list = self.list_id(&list);
        let oldest = oldest_of(&items);
        let changes = Changes::of(list, Change::Row(row::pack(items)), oldest);
        match self.engine.queue.try_place(QueueShare::Adds, changes) {
            Ok(placed) => {
                // The log's thread checks the deadline.
                self.engine.queue.push(placed, op.deadline, done);
                None
            }
            Err(changes) => Some(Box::pin(async move { done(self.write(&op, QueueShare::Adds, changes).await) })),
        }
    }

    async fn remove(&self, op: &OpContext, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        op.begin()?;
        // Earlier writes may still be queued.
        self.engine.queue.barrier(op.deadline).await.map_err(StoreError::with_nothing_done)?;
        let identity = list.identity();
        if identity.is_set()
            && let Some(members) = removal.members(identity)
        {
            return self.remove_members(op, list, removal, members).await;
        }
        let list = self.list_id(list);
        let (view, write_bytes) = (self.engine.tables.view(), self.engine.queue.removal_bytes_max());
        let mut search = RemovalSearch::new(view, list.clone(), (*op, identity), removal, write_bytes);
        let (mut removed, mut begun) = (0, false);
        // The meaning of a failure after a part was removed.
        let after = |begun: bool, error: StoreError| if begun { error.with_outcome_unknown() } else { error };
        loop {
            let found;
            (found, search) = self.find(op, search).await.map_err(|error| after(begun, error))?;
            let last = found.last;
            removed += self.delete(op, &list, found).await.map_err(|error| after(begun, error))?;
            if last {
                let taken = search.into_taken();
                self.engine.heads.forget_removed(&list, |entry, value| taken.takes(entry, value));
                self.engine.heads.forget_members(&list);
                return Ok(removed);
            }
            begun = true;
        }
    }

    async fn remove_all(&self, op: &OpContext, list: &ListKey) -> Result<(), StoreError> {
        op.begin()?;
        let set = self.list_id(list);
        let reverse = list.identity().is_set().then(|| reverse::list_of(&set, self.engine.options.list_hash));
        let lists = iter::once(set).chain(reverse);
        let Some(changes) = Changes::of_each(lists.map(|list| (list, Change::Clear, 0))) else { return Ok(()) };
        self.write(op, QueueShare::Removals, changes).await
    }

    async fn entities(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        let walk::WalkPart { found, next } = self.walk::<walk::Entities>(op, feature_key, from, limit).await?;
        Ok(EntityPage { entities: found, next })
    }

    async fn enter_bags(&self, op: &OpContext, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        op.begin()?;
        self.enter(op, bags).await
    }

    async fn bag(&self, op: &OpContext, list: &ListKey) -> Result<ReadBag, StoreError> {
        op.begin()?;
        Ok(ReadBag { bag: self.visible_bag(op, list).await?, row: None })
    }

    async fn swap_bag(&self, op: &OpContext, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        op.begin()?;
        self.swap(op, list, swap).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        RemovalTurns::BetweenWrites
    }

    fn joined_adds(self: Rc<Self>) -> Option<Rc<dyn JoinedAdds>> {
        Some(self)
    }

    fn bag_scan(&self) -> Option<&dyn BagScan> {
        Some(self)
    }

    fn swap_journal(&self) -> Option<&dyn SwapJournal> {
        None
    }
}

impl JoinedAdds for EmbeddedSession {
    fn start_adds(self: Rc<Self>, list: ListKey, adds: Vec<SetAdd>) -> Option<ToAwait> {
        self.add_to_set(list, adds)
    }
}

#[async_trait(?Send)]
impl BagScan for EmbeddedSession {
    async fn bags(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<BagPage, StoreError> {
        let walk::WalkPart { found, next } = self.walk::<walk::Bags>(op, feature_key, from, limit).await?;
        Ok(BagPage { bags: found, next })
    }
}

fn oldest_of(items: &[NewItem]) -> u64 {
    items.iter().map(|item| item.timestamp.as_nanos()).min().unwrap_or(0)
}
