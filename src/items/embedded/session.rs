//! A session: the list operations of one arbiter, none of which holds it up.

use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;

use super::engine::Engine;
use super::heads;
use super::list_id::{BorrowedListId, ListId};
use super::pending::Change;
use super::queue::Part;
use super::read::{Found, PageRead, ValueSearch};
use super::row;
use super::seek::Start;
use crate::domain::{ListKey, NewItem};
use crate::items::{Done, ItemPage, ItemSession, Operation, Range, RemovalTurns, StoreError, ToAwait};

/// Bytes of a list in memory that are read on the arbiter itself.
const INLINE_BYTES_MAX: usize = 256 << 10;

pub struct EmbeddedSession {
    engine: Arc<Engine>,
}

impl EmbeddedSession {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    fn list_id(&self, list: &ListKey) -> ListId {
        ListId::of(list, self.engine.options.list_hash)
    }

    /// Commits a change that does not depend on what the list holds.
    async fn write(
        &self,
        op: &Operation,
        part: Part,
        list: ListId,
        change: Change,
        oldest: u64,
    ) -> Result<(), StoreError> {
        let placed = self.engine.queue.place(part, list, change, oldest, op.deadline).await?;
        self.engine.queue.commit(placed, op.deadline).await
    }
}

#[async_trait(?Send)]
impl ItemSession for EmbeddedSession {
    async fn get(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        op.begin()?;
        let engine = &self.engine;
        let borrowed = BorrowedListId::of(list, engine.options.list_hash);
        if let Some(page) = engine.heads.page(borrowed, op, range) {
            engine.metrics.head_hits.inc();
            return Ok(page);
        }
        engine.metrics.head_misses.inc();
        let list = self.list_id(list);
        // A head needs all that there is.
        let ceiling = heads::wanted_for(range, op).map_or_else(|| Start::of(range).ceiling, |_| u64::MAX);
        // All that the answer is made of is fixed here, however late a thread gets round to reading it.
        let (seen, (view, in_memory)) = engine.heads.between_changes(&list, || {
            let view = engine.tables.view();
            let in_memory = view.in_memory(&list, ceiling);
            (view, in_memory)
        });
        let inline = in_memory.bytes <= INLINE_BYTES_MAX && (in_memory.hides_files || !view.has_files_for(&list));
        let mut read = PageRead::new(view, in_memory, list.clone(), *op, *range);
        let shared = engine.clone();
        let mut turn = move || {
            let read = read.turn().transpose()?;
            Some(read.map(|(page, head)| {
                head.into_iter().for_each(|head| shared.heads.fill(&list, seen, head));
                page
            }))
        };
        if inline {
            loop {
                if let Some(page) = turn() {
                    return Ok(page?);
                }
            }
        }
        Ok(engine.pool.run(op.deadline, turn).await??)
    }

    fn start_add(self: Rc<Self>, op: Operation, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        let list = self.list_id(&list);
        let oldest = oldest_of(&items);
        let change = Change::Row(row::pack(items));
        if let Some(placed) = self.engine.queue.try_place(Part::Adds, &list, &change, oldest) {
            // The log's thread looks at the deadline.
            self.engine.queue.push(placed, op.deadline, done);
            return None;
        }
        Some(Box::pin(async move { done(self.write(&op, Part::Adds, list, change, oldest).await) }))
    }

    async fn remove_value(&self, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
        op.begin()?;
        let (list, queue) = (self.list_id(list), &self.engine.queue);
        // What was written before may still be queued.
        queue.barrier(op.deadline).await.map_err(StoreError::with_nothing_done)?;
        let mut search = ValueSearch::new(self.engine.tables.view(), list.clone(), *op, value.to_vec());
        let found = self.engine.pool.run(op.deadline, move || search.turn().transpose()).await??;
        if found.deleted.count() == 0 {
            return Ok(0);
        }
        let Found { mut deleted, visible, oldest } = found;
        let change = Change::Row(deleted.finish());
        let placed = queue.place(Part::Removals, list.clone(), change, oldest, op.deadline).await?;
        queue.commit(placed, op.deadline).await?;
        Ok(visible)
    }

    async fn remove_all(&self, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
        op.begin()?;
        self.write(op, Part::Removals, self.list_id(list), Change::Clear, 0).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        RemovalTurns::BetweenWrites
    }
}

fn oldest_of(items: &[NewItem]) -> u64 {
    items.iter().map(|item| item.timestamp.as_nanos()).min().unwrap_or(0)
}
