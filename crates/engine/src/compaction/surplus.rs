//! Items beyond the newest ones that a list shows, which compactions drop.
//!
//! The compacted runs alone do not show where a list's newest items end. Newer runs or memory may add or remove some.
//! So when a compaction has encountered more items of a list than it shows, it reads the list again as any reader would
//! at that moment.
//!
//! Reverse entries of a set are dropped after the items that they point to, never before. If there are more entries of
//! a set than it shows items, the entries without items are dropped.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use liststore_contract::domain::{ItemKey, MaxItems, Ttl};
use liststore_storage::{BoundOf, OpContext};
use tokio::time::Instant;

use crate::collect::page::{self, Collect, Last, Next};
use crate::collect::turn::Turn;
use crate::engine::Engine;
use crate::error::ReadError;
use crate::list_id::ListId;
use crate::read::tables::View;
use crate::row::reverse::{self, Pointer};
use crate::row::seek::Start;
use crate::row::{Entry, Inspected, RowCursor};
use crate::unreachable::key_of;

/// The largest number of items beyond a set's bound while its entries are checked.
const LEFT_MAX: usize = 64 << 10;

/// Queries each feature once.
pub struct Surplus<'a> {
    engine: &'a Engine,
    view: &'a View,
    ask: Option<BoundOf>,
    answers: HashMap<Box<str>, Option<(Ttl, MaxItems)>>,
    /// The lists with dropped items.
    lists: Vec<ListId>,
}

/// The part of some items to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    All,
    /// Some of them: they must be checked one by one.
    Some,
    None,
}

/// The end of one list.
pub struct Cut<'a> {
    view: &'a View,
    list: ListId,
    ask: BoundOf,
    op: OpContext,
    max_items: MaxItems,
    passed: u64,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Unknown,
    /// After this item.
    At(ItemKey),
    /// The list has at most as many items as it shows.
    Nowhere,
}

/// The end of a set's reverse entries.
pub struct EntryCut<'a> {
    cut: Cut<'a>,
    /// The remaining items below the end, as entries point to them.
    left: HashSet<Pointer>,
}

impl<'a> Surplus<'a> {
    /// The view must be at least as new as the compacted runs.
    pub fn new(engine: &'a Engine, view: &'a View) -> Self {
        Self { engine, view, ask: engine.bound_of.get().cloned(), answers: HashMap::new(), lists: Vec::new() }
    }

    /// Notes that items of a list were dropped.
    pub fn note(&mut self, list: &ListId) {
        if self.lists.last() != Some(list) {
            self.lists.push(list.clone());
        }
    }

    pub fn into_lists(self) -> Vec<ListId> {
        self.lists
    }

    /// The end of a list that begins with its newest item, or continues from an earlier step. `None` if it shows all
    /// its items.
    pub fn cut(&mut self, list: &ListId, continues: bool) -> Option<Cut<'a>> {
        if reverse::is_reverse(list.bytes()) { None } else { self.cut_list(list, continues) }
    }

    /// The same for a set's reverse list.
    pub fn cut_entries(&mut self, list: &ListId, continues: bool) -> Option<EntryCut<'a>> {
        let set = ListId::from_bytes(reverse::set_of(list.bytes())?, self.engine.options.list_hash);
        Some(EntryCut { cut: self.cut_list(&set, continues)?, left: HashSet::new() })
    }

    fn cut_list(&mut self, list: &ListId, continues: bool) -> Option<Cut<'a>> {
        let (Some(ask), Some(key)) = (&self.ask, key_of(list.bytes())) else { return None };
        let answer = match self.answers.get(key) {
            Some(answer) => *answer,
            None => *self.answers.entry(key.into()).or_insert_with(|| ask(key)),
        };
        let (ttl, max_items) = answer?;
        let op = OpContext::new(self.engine.clock.now(), ttl, Instant::now());
        let passed = if continues { max_items.as_u64() } else { 0 };
        let ask = Arc::clone(ask);
        Some(Cut { view: self.view, list: list.clone(), ask, op, max_items, passed, end: End::Unknown })
    }
}

impl Cut<'_> {
    /// The part to keep of a row that begins with this item.
    pub fn of_row(&mut self, entry: &Entry, cursor: &RowCursor, row: &Inspected) -> Result<Keep, ReadError> {
        let first = self.judge(entry, cursor, row.count)?;
        match self.end {
            End::At(last) if first == Keep::All && row.oldest <= last.timestamp.as_nanos() => Ok(Keep::Some),
            _ => Ok(first),
        }
    }

    /// Whether to keep one item.
    pub fn of_item(&mut self, entry: &Entry, cursor: &RowCursor) -> Result<Keep, ReadError> {
        self.judge(entry, cursor, 1)
    }

    fn judge(&mut self, entry: &Entry, cursor: &RowCursor, items: u64) -> Result<Keep, ReadError> {
        self.passed += items;
        if self.end == End::Unknown && self.passed > self.max_items.as_u64() {
            self.end = self.find_end()?;
        }
        let End::At(last) = self.end else { return Ok(Keep::All) };
        let at = last.timestamp.as_nanos();
        let is_beyond = entry.timestamp < at || entry.timestamp == at && cursor.digest() < last.digest;
        Ok(if is_beyond { Keep::None } else { Keep::All })
    }

    fn find_end(&self) -> Result<End, ReadError> {
        let in_memory = self.view.in_memory(&self.list, u64::MAX);
        let mut merge = self.view.merge(&self.list, &Start::NEWEST, &in_memory)?;
        let mut last = Last::new(&self.op, self.max_items);
        while page::collect_from(&mut merge, &mut last, &mut Turn::new())? == Next::Wanted {}
        // If the bound was raised since, later adds may have pushed out items that were always within it.
        let still = key_of(self.list.bytes()).and_then(|key| (self.ask)(key));
        let holds = still == Some((self.op.ttl, self.max_items));
        Ok(last.finish().filter(|_| holds).map_or(End::Nowhere, End::At))
    }
}

impl EntryCut<'_> {
    /// Whether to keep an entry.
    pub fn of_entry(&mut self, value: &[u8]) -> Result<Keep, ReadError> {
        let cut = &mut self.cut;
        cut.passed += 1;
        if cut.end == End::Unknown && cut.passed > cut.max_items.as_u64() {
            cut.end = cut.find_end()?;
            if let End::At(last) = cut.end
                && !self.find_left(last)?
            {
                self.cut.end = End::Nowhere;
            }
        }
        let (End::At(last), Some(pointer)) = (self.cut.end, Pointer::decode(value)) else { return Ok(Keep::All) };
        let is_gone = pointer.timestamp < last.timestamp.as_nanos() && !self.left.contains(&pointer);
        Ok(if is_gone { Keep::None } else { Keep::All })
    }

    /// Whether all remaining items below the end of the list are known. If not, a later compaction retries.
    fn find_left(&mut self, last: ItemKey) -> Result<bool, ReadError> {
        let Cut { view, list, .. } = &self.cut;
        let Some(ceiling) = last.timestamp.as_nanos().checked_sub(1) else { return Ok(true) };
        let in_memory = view.in_memory(list, ceiling);
        let mut merge = view.merge(list, &Start { ceiling, below: None }, &in_memory)?;
        while let Some((entry, source)) = merge.current() {
            if !entry.deleted {
                self.left.insert(Pointer::to(entry.timestamp, &source.row().digest()));
            }
            if self.left.len() > LEFT_MAX {
                return Ok(false);
            }
            merge.advance()?;
        }
        Ok(true)
    }
}
