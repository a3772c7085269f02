//! Sets of a release that knew no reverse entries: the first write to one gives it entries for all its members,
//! and says in its reverse list that it has them. Until then its members are looked for in the set itself.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::error::ReadError;
use super::list_id::ListId;
use super::merge::Merge;
use super::page::{Collect, Next};
use super::reverse::{self, Pointer, ReverseEntry};
use super::row::{Entry, RowCursor};
use super::seek::Start;
use super::tables::View;
use super::turn::Turn;
use crate::domain::Identity;

/// Sets of which it is remembered that they have their entries.
const REMEMBERED_MAX: usize = 64 << 10;
/// Entries that are found before they are written.
const PART_ENTRIES: usize = 64 << 10;

/// Which sets of a store that an older release has written are known to have their entries.
pub struct OldSets(Cache<ListId, ()>);

impl OldSets {
    pub fn new() -> Self {
        Self(Cache::new(REMEMBERED_MAX))
    }

    pub fn is_complete(&self, set: &ListId) -> bool {
        self.0.get(set).is_some()
    }

    pub fn note_complete(&self, set: ListId) {
        self.0.insert(set, ());
    }
}

/// Finds out whether a reverse list says that it has all entries of its set.
#[derive(Default)]
pub struct SaysComplete(bool);

impl Collect for SaysComplete {
    type Found = bool;

    fn offer(&mut self, entry: &Entry, _: &RowCursor) -> Next {
        self.0 = reverse::says_complete(entry);
        Next::Done
    }

    fn finish(&mut self) -> bool {
        self.0
    }
}

/// Looks through a set for the entries that its items are to have.
pub struct EntrySearch {
    view: Arc<View>,
    set: ListId,
    identity: Identity,
    /// Once it has begun.
    merge: Option<Merge<'static>>,
    entries: Vec<ReverseEntry>,
}

impl EntrySearch {
    pub fn new(view: Arc<View>, set: ListId, identity: Identity) -> Self {
        Self { view, set, identity, merge: None, entries: Vec::new() }
    }

    /// Goes on for a turn. `None` if that was not enough. Else some entries, and whether there may be more: then it
    /// is to be called again.
    pub fn turn(&mut self) -> Result<Option<(Vec<ReverseEntry>, bool)>, ReadError> {
        let Self { view, set, identity, merge, entries } = self;
        let mut turn = Turn::new();
        let merge = match merge {
            Some(merge) => merge,
            None => merge.insert(view.merge(set, &Start::NEWEST, &view.in_memory(set, u64::MAX))?),
        };
        while let Some((entry, source)) = merge.current() {
            if entries.len() >= PART_ENTRIES {
                return Ok(Some((std::mem::take(entries), true)));
            }
            if !turn.goes_on(source.value()) {
                return Ok(None);
            }
            if !entry.deleted {
                let place = reverse::place_of(identity.member(source.value()));
                let pointer = Pointer::to(entry.timestamp, &source.row().digest());
                entries.push(ReverseEntry::new(place, pointer, entry.expires_at));
            }
            merge.advance()?;
        }
        Ok(Some((std::mem::take(entries), false)))
    }
}
