//! Finds the items of a list that a removal takes, turn by turn, and writes the rows that delete them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::error::ReadError;
use super::list_id::ListId;
use super::merge::Merge;
use super::page;
use super::row::{Entry, RowBuilder};
use super::seek::Start;
use super::tables::View;
use super::turn::Turn;
use crate::domain::Identity;
use crate::domain::MaxItems;
use crate::items::{Operation, Removal};

/// A removal between two moments is done in parts of about so many bytes: a deleted item is written with
/// its value, and what one removal holds in memory must not grow with its list. Half of a log segment.
const PART_BYTES: usize = 4 << 20;

/// Items that are to go.
pub struct Found {
    /// A row that deletes them.
    pub deleted: RowBuilder,
    /// How many of them the operation sees.
    pub visible: u64,
    /// The timestamp of the oldest one.
    pub oldest: u64,
    /// Whether there are no more.
    pub last: bool,
}

/// What a removal takes, for a quick look at each item.
enum Wanted {
    Value(Identity, Bytes),
    /// Members, each of which stands once.
    Members(Identity, HashSet<Bytes>),
    /// By timestamp.
    Items(HashMap<u64, Vec<Bytes>>),
    Any,
}

impl Wanted {
    fn takes(&self, timestamp: u64, value: &[u8]) -> bool {
        match self {
            Self::Value(identity, wanted) => wanted == identity.value(value),
            Self::Members(identity, members) => members.contains(identity.member(value)),
            Self::Items(items) => items.get(&timestamp).is_some_and(|values| values.iter().any(|one| one == value)),
            Self::Any => true,
        }
    }

    /// Whether no more can be wanted than so many items.
    fn is_met_by(&self, items: u64) -> bool {
        matches!(self, Self::Members(_, members) if members.len() as u64 <= items)
    }
}

/// Looks for the items that a removal takes.
pub struct RemovalSearch {
    view: Arc<View>,
    list: ListId,
    op: Operation,
    wanted: Wanted,
    start: Start,
    /// Nothing newer is wanted, and nothing older. Nanoseconds since the Unix epoch.
    ceiling: u64,
    floor: u64,
    /// How many visible items the list shows yet.
    shown: usize,
    part_bytes: usize,
    /// Once it has begun.
    merge: Option<Merge<'static>>,
    found: Found,
}

impl RemovalSearch {
    pub fn new(view: Arc<View>, list: ListId, op: Operation, identity: Identity, removal: &Removal) -> Self {
        let (wanted, ceiling, floor, part_bytes) = match removal {
            Removal::Value(value) => (Wanted::Value(identity, value.clone()), u64::MAX, 0, usize::MAX),
            Removal::Items(items) => {
                let times = || items.iter().map(|(timestamp, _)| timestamp.as_nanos());
                let mut by_time: HashMap<u64, Vec<Bytes>> = HashMap::new();
                for (timestamp, value) in items {
                    by_time.entry(timestamp.as_nanos()).or_default().push(value.clone());
                }
                (Wanted::Items(by_time), times().max().unwrap_or(0), times().min().unwrap_or(0), usize::MAX)
            }
            Removal::Members(members) => {
                (Wanted::Members(identity, members.iter().cloned().collect()), u64::MAX, 0, usize::MAX)
            }
            Removal::Between(bounds) => {
                (Wanted::Any, bounds.max_timestamp.as_nanos(), bounds.min_timestamp.as_nanos(), PART_BYTES)
            }
        };
        // What is shown is counted from the newest item on.
        let start = op.max_items.map_or(Start { ceiling, below: None }, |_| Start::NEWEST);
        let shown = op.max_items.map_or(usize::MAX, MaxItems::get);
        Self { view, list, op, wanted, start, ceiling, floor, shown, part_bytes, merge: None, found: Found::none() }
    }

    /// Goes on for a turn. `None` if that was not enough. To be called again after a part that was not the
    /// last one.
    pub fn turn(&mut self) -> Result<Option<Found>, ReadError> {
        let Self { view, list, op, wanted, start, ceiling, floor, shown, part_bytes, merge, found } = self;
        let mut turn = Turn::new();
        let merge = match merge {
            Some(merge) => merge,
            None => merge.insert(view.merge(list, start, &view.in_memory(list, start.ceiling))?),
        };
        while let Some((entry, source)) = merge.current() {
            if entry.timestamp < *floor || wanted.is_met_by(found.deleted.count()) {
                break;
            }
            if found.deleted.body_len() >= *part_bytes {
                return Ok(Some(std::mem::replace(found, Found::none())));
            }
            if !turn.goes_on(source.value()) {
                return Ok(None);
            }
            let is_shown = *shown > 0 && page::is_visible(op, entry);
            *shown -= usize::from(is_shown);
            if !entry.deleted && entry.timestamp <= *ceiling && wanted.takes(entry.timestamp, source.value()) {
                found.deleted.push(entry.timestamp, 0, true, source.value());
                found.visible += u64::from(is_shown);
                found.oldest = entry.timestamp;
            }
            merge.advance()?;
        }
        Ok(Some(Found { last: true, ..std::mem::replace(found, Found::none()) }))
    }
}

impl RemovalSearch {
    /// Whether the removal takes an item.
    pub fn takes(&self, entry: &Entry, value: &[u8]) -> bool {
        (self.floor..=self.ceiling).contains(&entry.timestamp) && self.wanted.takes(entry.timestamp, value)
    }
}

impl Found {
    fn none() -> Self {
        Self { deleted: RowBuilder::default(), visible: 0, oldest: 0, last: false }
    }
}
