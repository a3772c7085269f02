//! What a session reads beyond the heads, turn by turn: whoever reads much lets others have their turns
//! in between.

use std::sync::Arc;

use super::error::ReadError;
use super::heads::{self, Head, HeadReader};
use super::list_id::ListId;
use super::merge::Merge;
use super::page::{self, Next, PageBuilder};
use super::row::RowBuilder;
use super::seek::Start;
use super::tables::{InMemory, View};
use crate::items::{ItemPage, Operation, Range};

/// What a turn may cost. About as much as a short get of a list in files, some 100 µs if no disk is waited
/// for.
const TURN_COST: usize = 2_048;
/// Bytes of a value that cost as much as an item does.
const BYTES_OF_COST: usize = 32;

/// What is left of a turn.
pub struct Turn(usize);

impl Turn {
    pub fn new() -> Self {
        Self(TURN_COST)
    }

    /// Takes the cost of one more item off it. `false` if nothing was left: then the turn is over.
    pub fn goes_on(&mut self, value: &[u8]) -> bool {
        let goes_on = self.0 > 0;
        self.0 = self.0.saturating_sub(1 + value.len() / BYTES_OF_COST);
        goes_on
    }
}

/// Reads a page, and the list's head if the page begins at the newest item. What it reads was fixed when
/// it was made.
pub struct PageRead {
    view: Arc<View>,
    in_memory: InMemory,
    list: ListId,
    op: Operation,
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
    pub fn new(view: Arc<View>, in_memory: InMemory, list: ListId, op: Operation, range: Range) -> Self {
        Self { view, in_memory, list, op, range, stage: Stage::Begun, head: None }
    }

    fn merge(&self, start: &Start) -> Result<Merge<'static>, ReadError> {
        self.view.merge(&self.list, start, &self.in_memory)
    }

    fn begin_page(&self) -> Result<Stage, ReadError> {
        Ok(Stage::Page(self.merge(&Start::of(&self.range))?, PageBuilder::new(&self.op, &self.range)))
    }

    /// Goes on for a turn. `None` if that was not enough. Not to be called again after anything else.
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
        let whole = page::add_from(merge, builder, &mut turn)? == Next::Done;
        Ok(whole.then(|| (builder.take(), self.head.take())))
    }
}

/// The items of a value: a row that deletes them.
pub struct Found {
    pub deleted: RowBuilder,
    /// How many of them the operation sees.
    pub visible: u64,
    /// The timestamp of the oldest one.
    pub oldest: u64,
}

/// Finds the items of a value in a list.
pub struct ValueSearch {
    view: Arc<View>,
    list: ListId,
    op: Operation,
    value: Vec<u8>,
    /// Once it has begun.
    merge: Option<Merge<'static>>,
    found: Found,
}

impl ValueSearch {
    pub fn new(view: Arc<View>, list: ListId, op: Operation, value: Vec<u8>) -> Self {
        let found = Found { deleted: RowBuilder::default(), visible: 0, oldest: 0 };
        Self { view, list, op, value, merge: None, found }
    }

    /// Goes on for a turn. `None` if that was not enough. Not to be called again after anything else.
    pub fn turn(&mut self) -> Result<Option<Found>, ReadError> {
        let Self { view, list, op, value, merge, found } = self;
        let mut turn = Turn::new();
        let merge = match merge {
            Some(merge) => merge,
            None => merge.insert(view.merge(list, &Start::NEWEST, &view.in_memory(list, u64::MAX))?),
        };
        while let Some((entry, source)) = merge.current() {
            if !turn.goes_on(source.value()) {
                return Ok(None);
            }
            if !entry.deleted && source.value() == value {
                found.deleted.push(entry.timestamp, 0, true, value);
                found.visible += u64::from(page::is_visible(op, entry));
                found.oldest = entry.timestamp;
            }
            merge.advance()?;
        }
        let deleted = std::mem::take(&mut found.deleted);
        Ok(Some(Found { deleted, ..*found }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::log::Position;
    use super::super::options::ListHash;
    use super::super::pending::{Change, Pending};
    use super::super::row;
    use super::super::tables::{Files, no_files};
    use super::*;
    use crate::domain::{NewItem, Timestamp, Ttl};

    const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);

    fn operation() -> Operation {
        let deadline = Instant::now() + Duration::from_secs(600);
        Operation { now: Timestamp::from_nanos(1_000_000).unwrap(), ttl: Ttl::MAX, deadline }
    }

    /// A list of so many items of one value.
    fn view(list: &ListId, items: u64, value: &[u8]) -> Arc<View> {
        let pending = Pending::new(Position::start_of(1));
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
    fn reads_take_turns_by_what_they_read_and_come_to_their_end() {
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
            };
            let mut read =
                PageRead::new(view.clone(), view.in_memory(&list, u64::MAX), list.clone(), operation(), range);
            let ((page, _), taken) = turns(|| read.turn());
            assert_eq!((page.items.len() as u64, taken), (items, expected));
            let mut search = ValueSearch::new(view, list.clone(), operation(), value);
            let (found, taken) = turns(|| search.turn());
            assert_eq!((found.deleted.count(), found.visible, found.oldest, taken), (items, items, 0, expected));
        }
    }
}
