//! The reads of a session beyond the heads, turn by turn: a long read lets other reads have their turns in between.

pub mod entities;
pub mod found_bags;
pub mod oldest;
pub mod pool;
pub mod removal;
pub mod tables;

use std::sync::Arc;

use liststore_storage::{ItemPage, OpContext, Range};

use super::collect::page::{self, Collect, Next, PageBuilder};
use super::collect::turn::Turn;
use super::error::ReadError;
use super::list_id::ListId;
use super::memory::head::{Head, HeadReader};
use super::memory::heads;
use super::row::merge::Merge;
use super::row::seek::Start;
use tables::{InMemory, View};

/// Reads a page, and the list's head if the page begins at the newest item. Its input is fixed at construction.
pub struct PageRead {
    view: Arc<View>,
    in_memory: InMemory,
    list: ListId,
    op: OpContext,
    range: Range,
    stage: Stage,
    /// The head, once it has been read.
    head: Option<Head>,
}

enum Stage {
    Begun,
    Head(HeadReader),
    Page(Merge<'static>, PageBuilder),
}

impl PageRead {
    pub fn new(view: Arc<View>, in_memory: InMemory, list: ListId, op: OpContext, range: Range) -> Self {
        Self { view, in_memory, list, op, range, stage: Stage::Begun, head: None }
    }

    fn merge(&self, start: &Start) -> Result<Merge<'static>, ReadError> {
        self.view.merge(&self.list, start, &self.in_memory)
    }

    fn begin_page(&self) -> Result<Stage, ReadError> {
        Ok(Stage::Page(self.merge(&Start::of(&self.range))?, PageBuilder::new(&self.op, &self.range)))
    }

    /// Continues for a turn. `None` if that was not enough. Must not be called again after any other result.
    pub fn turn(&mut self) -> Result<Option<(ItemPage, Option<Head>)>, ReadError> {
        let mut turn = Turn::new();
        if matches!(self.stage, Stage::Begun) {
            self.stage = match heads::wanted_for(&self.range, &self.op) {
                Some(wanted) => Stage::Head(HeadReader::new(self.merge(&Start::NEWEST)?, wanted)),
                None => self.begin_page()?,
            };
        }
        if let Stage::Head(reader) = &mut self.stage {
            let Some(head) = reader.turn(&mut turn)? else { return Ok(None) };
            if let Some(page) = head.page(&self.op, &self.range) {
                return Ok(Some((page, Some(head))));
            }
            self.head = Some(head);
            self.stage = self.begin_page()?;
        }
        let Stage::Page(merge, builder) = &mut self.stage else { return Ok(None) };
        let whole = page::collect_from(merge, builder, &mut turn)? == Next::Done;
        Ok(whole.then(|| (builder.finish(), self.head.take())))
    }
}

/// Passes the stored items of a list, from a place on, to a collector. Its input is fixed at construction.
pub struct Scan<C> {
    view: Arc<View>,
    in_memory: InMemory,
    list: ListId,
    start: Start,
    collector: C,
    /// `None` before its first turn.
    merge: Option<Merge<'static>>,
}

impl<C: Collect> Scan<C> {
    pub fn new(view: Arc<View>, in_memory: InMemory, list: ListId, start: Start, collector: C) -> Self {
        Self { view, in_memory, list, start, collector, merge: None }
    }

    /// Continues for a turn. `None` if that was not enough. Must not be called again after any other result.
    pub fn turn(&mut self) -> Result<Option<C::Found>, ReadError> {
        let Self { view, in_memory, list, start, collector, merge } = self;
        let merge = match merge {
            Some(merge) => merge,
            None => merge.insert(view.merge(list, start, in_memory)?),
        };
        let whole = page::collect_from(merge, collector, &mut Turn::new())? == Next::Done;
        Ok(whole.then(|| collector.finish()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::collect::page::Counter;
    use super::super::log::Position;
    use super::super::log::change::Change;
    use super::super::memory::memtable::Memtable;
    use super::super::options::ListHash;
    use super::super::row;
    use super::removal::RemovalSearch;
    use super::tables::{Files, no_files};
    use super::*;
    use liststore_contract::domain::{Identity, NewItem, Order, Timestamp, Ttl};
    use liststore_storage::{Bounds, Count, Removal};

    const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);

    fn operation() -> OpContext {
        let deadline = Instant::now() + Duration::from_secs(600);
        OpContext::new(Timestamp::from_nanos(1_000_000).unwrap(), Ttl::MAX, deadline)
    }

    /// A list with this many items of one value.
    fn view(list: &ListId, items: u64, value: &[u8]) -> Arc<View> {
        let pending = Memtable::new(Position::start_of(1));
        for n in 0..items {
            let timestamp = Timestamp::from_nanos(n).unwrap();
            let item = NewItem { timestamp, value: value.to_vec().into(), expires_at: u64::MAX };
            pending.apply(list, &Change::Row(row::pack(vec![item])), 0);
        }
        Arc::new(View { active: Arc::new(pending), frozen: None, files: Arc::new(Files::new(no_files())) })
    }

    fn turns<T>(mut turn: impl FnMut() -> Result<Option<T>, ReadError>) -> (T, usize) {
        let mut turns = 1;
        loop {
            match turn().unwrap() {
                Some(result) => return (result, turns),
                None => turns += 1,
            }
        }
    }

    #[test]
    fn reads_take_turns_by_bytes_and_all_end() {
        let list = ListId::from_bytes(b"list", HASH);
        for (items, value_len, expected) in [(100, 10, 1), (10_000, 10, 5), (20, 64 << 10, 20)] {
            let value = vec![7; value_len];
            let view = view(&list, items, &value);
            let range = Range {
                min_timestamp: Timestamp::MIN,
                max_timestamp: Timestamp::MAX,
                after: None,
                limit: usize::MAX,
                value_bytes_max: usize::MAX,
                order: Order::Newest,
            };
            let mut read =
                PageRead::new(view.clone(), view.in_memory(&list, u64::MAX), list.clone(), operation(), range);
            let ((page, _), taken) = turns(|| read.turn());
            assert_eq!((page.items.len() as u64, taken), (items, expected));
            let removal = Removal::Value(value.into());
            let by = (operation(), Identity::Item);
            let mut search = RemovalSearch::new(view.clone(), list.clone(), by, &removal, usize::MAX);
            let (found, taken) = turns(|| search.turn());
            assert_eq!((found.deleted.count(), found.visible, found.oldest, taken), (items, items, 0, expected));
            let in_memory = view.in_memory(&list, u64::MAX);
            let counter = Counter::new(&operation(), &Bounds::ALL, u64::MAX);
            let mut count = Scan::new(view, in_memory, list.clone(), Start::NEWEST, counter);
            let (counted, taken) = turns(|| count.turn());
            assert_eq!((counted, taken), (Count { items, exact: true }, expected));
        }
    }

    #[test]
    fn a_short_row_whose_items_share_a_long_value_takes_turns() {
        let item = |n| NewItem {
            timestamp: Timestamp::from_nanos(n).unwrap(),
            value: vec![7_u8; 64 << 10].into(),
            expires_at: u64::MAX,
        };
        let row = row::pack((0..20).map(item).collect());
        assert!(row.len() < 66 << 10, "{}", row.len());
        let mut cursor = row::RowCursor::new(row).unwrap();
        let mut counter = Counter::new(&operation(), &Bounds::ALL, u64::MAX);
        let (_, taken) = turns(|| {
            let next = page::collect_rest(&mut cursor, &mut counter, &mut Turn::new())?;
            Ok((next == Next::Done).then_some(()))
        });
        assert_eq!((counter.finish(), taken), (Count { items: 20, exact: true }, 20));
    }
}
