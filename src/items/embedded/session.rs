//! A session: the list operations of one arbiter, none of which holds it up.

use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;

use super::engine::Engine;
use super::error::ReadError;
use super::gate::Gate;
use super::heads::{self, Head};
use super::list_id::{BorrowedListId, ListId};
use super::page;
use super::pending::Change;
use super::queue::Part;
use super::row::{self, RowBuilder};
use super::seek::Start;
use super::tables::{InMemory, View};
use crate::domain::{ListKey, NewItem};
use crate::items::{Done, ItemPage, ItemSession, Operation, Range, StoreError, ToAwait};

/// Bytes of a list in memory that are read on the arbiter itself.
const INLINE_BYTES_MAX: usize = 256 << 10;

pub struct EmbeddedSession {
    engine: Arc<Engine>,
    gate: Gate,
}

impl EmbeddedSession {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Self { engine, gate: Gate::default() }
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
        // In this order: a removal that is inside may need all the room that there is.
        let pass = self.gate.shared(&list, op.deadline).await?;
        let placed = self.engine.queue.place(part, list.clone(), change, oldest, op.deadline).await?;
        let committed = self.engine.queue.commit(placed, op.deadline);
        drop(pass);
        committed.await
    }
}

#[async_trait(?Send)]
impl ItemSession for EmbeddedSession {
    async fn get(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        op.begin()?;
        let engine = &self.engine;
        let mut buffer = Vec::new();
        let borrowed = BorrowedListId::of(list, engine.options.list_hash, &mut buffer);
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
        let (op, range, shared) = (*op, *range, engine.clone());
        let read = move || {
            let (page, head) = read_page(&view, &in_memory, &list, &op, &range)?;
            if let Some(head) = head {
                shared.heads.fill(&list, seen, head);
            }
            Ok::<_, ReadError>(page)
        };
        Ok(if inline { read()? } else { engine.pool.run(op.deadline, read).await?? })
    }

    async fn add(&self, op: &Operation, list: &ListKey, items: Vec<NewItem>) -> Result<(), StoreError> {
        op.begin()?;
        let oldest = oldest_of(&items);
        self.write(op, Part::Adds, self.list_id(list), Change::Row(row::pack(items)), oldest).await
    }

    fn start_add(self: Rc<Self>, op: Operation, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        let list = self.list_id(&list);
        let oldest = oldest_of(&items);
        let change = Change::Row(row::pack(items));
        if self.gate.is_open(&list)
            && let Some(placed) = self.engine.queue.try_place(Part::Adds, &list, &change, oldest)
        {
            // The log's thread looks at the deadline.
            self.engine.queue.push(placed, op.deadline, done);
            return None;
        }
        Some(Box::pin(async move { done(self.write(&op, Part::Adds, list, change, oldest).await) }))
    }

    async fn remove_value(&self, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
        op.begin()?;
        let (list, queue) = (self.list_id(list), &self.engine.queue);
        let _pass = self.gate.alone(&list, op.deadline).await?;
        // What passed the gate before may still be queued.
        queue.barrier(op.deadline).await.map_err(StoreError::with_nothing_done)?;
        let (view, operation, value, scanned) = (self.engine.tables.view(), *op, value.to_vec(), list.clone());
        let find = move || find_value(&view, &scanned, &operation, &value);
        let found = self.engine.pool.run(op.deadline, find).await??;
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
}

fn oldest_of(items: &[NewItem]) -> u64 {
    items.iter().map(|item| item.timestamp.as_nanos()).min().unwrap_or(0)
}

/// Reads a page, and the list's head if the page begins at the newest item.
fn read_page(
    view: &View,
    in_memory: &InMemory,
    list: &ListId,
    op: &Operation,
    range: &Range,
) -> Result<(ItemPage, Option<Head>), ReadError> {
    let mut head = None;
    if let Some(wanted) = heads::wanted_for(range, op) {
        let mut merge = view.merge(list, &Start::NEWEST, in_memory)?;
        let read = Head::read(&mut merge, wanted)?;
        if let Some(page) = read.page(op, range) {
            return Ok((page, Some(read)));
        }
        head = Some(read);
    }
    let merge = view.merge(list, &Start::of(range), in_memory)?;
    Ok((page::from_merge(op, range, merge)?, head))
}

/// The items of a value: a row that deletes them.
struct Found {
    deleted: RowBuilder,
    visible: u64,
    oldest: u64,
}

fn find_value(view: &View, list: &ListId, op: &Operation, value: &[u8]) -> Result<Found, ReadError> {
    let mut found = Found { deleted: RowBuilder::default(), visible: 0, oldest: 0 };
    let mut merge = view.merge(list, &Start::NEWEST, &view.in_memory(list, u64::MAX))?;
    while let Some((entry, source)) = merge.current() {
        if !entry.deleted && source.value() == value {
            found.deleted.push(entry.timestamp, 0, true, value);
            found.visible += u64::from(page::is_visible(op, entry));
            found.oldest = entry.timestamp;
        }
        merge.advance()?;
    }
    Ok(found)
}
