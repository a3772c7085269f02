//! Finds the items of a list for a removal, turn by turn, and writes the rows that delete them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use liststore_contract::domain::Identity;
use liststore_contract::domain::MaxItems;
use liststore_storage::{OpContext, Removal};

use super::tables::View;
use crate::collect::page;
use crate::collect::turn::Turn;
use crate::error::ReadError;
use crate::list_id::ListId;
use crate::row::merge::Merge;
use crate::row::reverse::{self, Pointer, ReverseEntry};
use crate::row::seek::Start;
use crate::row::{Entry, RowBuilder};

/// The approximate size of one part of a removal. Its memory must not grow with its list, and other writes wait while a
/// part is written.
const PART_BYTES_MAX: usize = 1 << 20;
/// The approximate size of a reverse entry in a row.
const ENTRY_BYTES: usize = 24;

/// Items to remove.
#[derive(Default)]
pub struct ToRemove {
    /// A row that deletes them.
    pub deleted: RowBuilder,
    /// Their entries, if they belong to a set.
    pub entries: Vec<ReverseEntry>,
    /// The number of visible items among them.
    pub visible: u64,
    /// The timestamp of the oldest one.
    pub oldest: u64,
    /// Whether there are no more.
    pub last: bool,
}

/// A fast filter for the items of a removal.
pub struct Taken {
    wanted: Wanted,
    /// The removal takes nothing newer than `ceiling`, and nothing older than `floor`. Nanoseconds since the Unix
    /// epoch.
    ceiling: u64,
    floor: u64,
}

enum Wanted {
    Value(Identity, Bytes),
    Members(Identity, HashSet<Bytes>),
    /// By timestamp.
    Items(HashMap<u64, Vec<Bytes>>),
    Any,
}

impl Taken {
    pub fn by(removal: &Removal, identity: Identity) -> Self {
        let always = |wanted| Self { wanted, ceiling: u64::MAX, floor: 0 };
        match removal {
            Removal::Value(value) => always(Wanted::Value(identity, value.clone())),
            Removal::Members(members) => always(Wanted::Members(identity, members.iter().cloned().collect())),
            Removal::Items(items) => {
                let times = || items.iter().map(|(timestamp, _)| timestamp.as_nanos());
                let mut by_time: HashMap<u64, Vec<Bytes>> = HashMap::new();
                for (timestamp, value) in items {
                    by_time.entry(timestamp.as_nanos()).or_default().push(value.clone());
                }
                let (ceiling, floor) = (times().max().unwrap_or(0), times().min().unwrap_or(0));
                Self { wanted: Wanted::Items(by_time), ceiling, floor }
            }
            Removal::Between(bounds) => {
                let (ceiling, floor) = (bounds.max_timestamp.as_nanos(), bounds.min_timestamp.as_nanos());
                Self { wanted: Wanted::Any, ceiling, floor }
            }
        }
    }

    /// Whether the removal takes an item.
    pub fn takes(&self, entry: &Entry, value: &[u8]) -> bool {
        let timestamp = entry.timestamp;
        (self.floor..=self.ceiling).contains(&timestamp)
            && match &self.wanted {
                Wanted::Value(identity, wanted) => wanted == identity.value(value),
                Wanted::Members(identity, members) => members.contains(identity.member(value)),
                Wanted::Items(items) => {
                    items.get(&timestamp).is_some_and(|values| values.iter().any(|one| one == value))
                }
                Wanted::Any => true,
            }
    }
}

/// Searches the items of a removal.
pub struct RemovalSearch {
    view: Arc<View>,
    list: ListId,
    op: OpContext,
    identity: Identity,
    taken: Taken,
    start: Start,
    /// How many more visible items the list shows.
    shown: usize,
    part_bytes: usize,
    /// `None` before its first turn.
    merge: Option<Merge<'static>>,
    found: ToRemove,
}

impl RemovalSearch {
    /// A part takes at most `write_bytes`.
    pub fn new(
        view: Arc<View>,
        list: ListId,
        (op, identity): (OpContext, Identity),
        removal: &Removal,
        write_bytes: usize,
    ) -> Self {
        let taken = Taken::by(removal, identity);
        // The other half is enough for the names of lists and the queue's own overhead.
        let part_bytes = PART_BYTES_MAX.min(write_bytes / 2);
        // The shown items are counted from the newest one on.
        let start = op.max_items.map_or(Start { ceiling: taken.ceiling, below: None }, |_| Start::NEWEST);
        let shown = op.max_items.map_or(usize::MAX, MaxItems::get);
        Self { view, list, op, identity, taken, start, shown, part_bytes, merge: None, found: ToRemove::default() }
    }

    /// Continues for a turn. `None` if that was not enough. Call it again after any part but the last one.
    pub fn turn(&mut self) -> Result<Option<ToRemove>, ReadError> {
        let Self { view, list, op, identity, taken, start, shown, part_bytes, merge, found } = self;
        let mut turn = Turn::new();
        let merge = match merge {
            Some(merge) => merge,
            None => merge.insert(view.merge(list, start, &view.in_memory(list, start.ceiling))?),
        };
        while let Some((entry, source)) = merge.current() {
            if entry.timestamp < taken.floor {
                break;
            }
            if found.deleted.body_len() + found.entries.len() * ENTRY_BYTES >= *part_bytes {
                return Ok(Some(std::mem::take(found)));
            }
            if !turn.spend(source.value()) {
                return Ok(None);
            }
            let is_shown = *shown > 0 && page::is_visible(op, entry);
            *shown -= usize::from(is_shown);
            if !entry.deleted && taken.takes(entry, source.value()) {
                found.deleted.push_deleted(entry.timestamp, source.value(), || source.row().digest());
                if identity.is_set() {
                    let place = reverse::place_of(identity.member(source.value()));
                    let pointer = Pointer::to(entry.timestamp, &source.row().digest());
                    found.entries.push(ReverseEntry::deleted(place, pointer));
                }
                found.visible += u64::from(is_shown);
                found.oldest = entry.timestamp;
            }
            merge.advance()?;
        }
        Ok(Some(ToRemove { last: true, ..std::mem::take(found) }))
    }

    /// The filter for the items of the removal.
    pub fn into_taken(self) -> Taken {
        self.taken
    }
}
