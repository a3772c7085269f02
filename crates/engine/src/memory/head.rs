//! The newest items of one list, packed: read by merging the whole list, and updated with every change.

use std::cmp::Ordering;

use bytes::Bytes;
use liststore_contract::domain::Timestamp;
use liststore_storage::{ItemPage, OpContext, Range};

use crate::collect::page;
use crate::collect::turn::Turn;
use crate::error::ReadError;
use crate::log::change::Change;
use crate::row::merge::Merge;
use crate::row::{self, Entry, Inspected, Malformed, RowBuilder, RowCursor};

/// The largest size of a row of head items. A longer head ends earlier.
const BYTES_MAX: usize = 64 << 10;

/// The newest items of one list.
#[derive(Debug)]
pub struct Head {
    /// Its items, packed.
    pub row: Bytes,
    count: usize,
    /// The number of items that it was filled with, which its readers need.
    wanted: usize,
    /// No item of it is older than this.
    oldest: u64,
    /// No item of it expires before this.
    first_expiry: u64,
    /// Whether the list has no other items.
    pub complete: bool,
}

impl Head {
    /// The requested page, if the head contains all of it.
    pub fn page(&self, op: &OpContext, range: &Range) -> Option<ItemPage> {
        page::from_row(op, range, self.row.clone(), self.complete).map(|(page, _)| page)
    }

    /// Passes the newest visible item of the list, or `None`, to `taken`, if the head determines it.
    pub fn newest<'h, T>(&'h self, op: &OpContext, taken: impl FnOnce(Timestamp, &'h [u8]) -> T) -> Option<Option<T>> {
        page::newest_of_row(op, &self.row, self.complete, taken)
    }

    /// Whether it may contain items that expire until `now`, in nanoseconds since the Unix epoch.
    pub fn may_hold_expired(&self, now: u64) -> bool {
        self.first_expiry <= now
    }

    pub fn holds_any(&self, wanted: impl Fn(&Entry, &[u8]) -> bool) -> Result<bool, Malformed> {
        let mut cursor = RowCursor::new(&self.row)?;
        while let Some(entry) = cursor.entry() {
            if wanted(entry, cursor.value()) {
                return Ok(true);
            }
            cursor.advance()?;
        }
        Ok(false)
    }

    /// The head after a change; `None` if the result is unknown.
    pub fn after(&self, change: &Change) -> Result<Option<Self>, Malformed> {
        let row = match change {
            Change::Clear => {
                let row = RowBuilder::default().finish();
                let (count, oldest, first_expiry) = (0, 0, u64::MAX);
                return Ok(Some(Self { row, count, wanted: self.wanted, oldest, first_expiry, complete: true }));
            }
            Change::Replace(row) => {
                if row.len() > BYTES_MAX {
                    return Ok(None);
                }
                let Inspected { count, first_expiry, .. } = row::inspect(row)?;
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let (row, wanted) = (row.clone(), self.wanted);
                return Ok(Some(Self { row, count, wanted, oldest: 0, first_expiry, complete: true }));
            }
            Change::Row(row) => row,
        };
        let inspected = row::inspect(row)?;
        match self.joined(row, &inspected) {
            Some(head) => Ok(Some(head)),
            None => self.merged(row, &inspected),
        }
    }

    /// The head merged with the items of a row.
    fn merged(&self, row: &Bytes, inspected: &Inspected) -> Result<Option<Self>, Malformed> {
        let (mut new, mut known) = (RowCursor::new(row)?, RowCursor::new(&self.row)?);
        let mut builder = RowBuilder::with_room(self.row.len() + row.len());
        // Leaves space to grow, so that not every add has to cut.
        let items_max = if self.has_outgrown() { self.wanted } else { usize::MAX };
        let mut complete = self.complete;
        loop {
            let order = match (new.entry(), known.entry()) {
                (Some(one), Some(other)) if self.may_hold(one.timestamp) => {
                    other.timestamp.cmp(&one.timestamp).then_with(|| known.cmp_tied(&new))
                }
                (_, Some(_)) => {
                    let has_room =
                        items_max == usize::MAX && builder.body_len().saturating_add(known.rest_len()) <= BYTES_MAX;
                    if has_room && builder.push_rest(&known) {
                        break;
                    }
                    Ordering::Greater
                }
                (Some(_), None) if self.complete => Ordering::Less,
                // After the last item of an incomplete head, other items of the list may follow.
                (_, None) => break,
            };
            // Among equal items the new one counts.
            let next = if order.is_gt() { &known } else { &new };
            if let Some(entry) = next.entry().filter(|entry| !entry.deleted) {
                if is_full(&builder, items_max, next.value().len()) {
                    complete = false;
                    break;
                }
                builder.push(entry.timestamp, entry.expires_at, false, next.value());
            }
            if order.is_le() {
                new.advance()?;
            }
            if order.is_ge() {
                known.advance()?;
            }
        }
        let count = usize::try_from(builder.count()).unwrap_or(usize::MAX);
        if count == 0 && !complete {
            return Ok(None);
        }
        Ok(Some(self.changed_to(builder.finish(), count, inspected, complete)))
    }

    /// The head with these items, after a change with these properties.
    fn changed_to(&self, row: Bytes, count: usize, change: &Inspected, complete: bool) -> Self {
        let first_expiry = self.first_expiry.min(change.first_expiry);
        Self { row, count, wanted: self.wanted, oldest: self.still_oldest(), first_expiry, complete }
    }

    /// Whether an item with this timestamp would be among its items, and not after all of them.
    fn may_hold(&self, timestamp: u64) -> bool {
        self.complete || timestamp >= self.oldest
    }

    /// A lower bound of its timestamps after a change. A complete head also takes older items.
    fn still_oldest(&self) -> u64 {
        if self.complete { 0 } else { self.oldest }
    }

    /// The head preceded by a row, if the row only adds items newer than all of its, and there is space. Most adds are
    /// of this kind.
    fn joined(&self, row: &Bytes, inspected: &Inspected) -> Option<Self> {
        if inspected.deleted > 0 {
            return None;
        }
        let added = usize::try_from(inspected.count).ok()?;
        if self.row.len() + row.len() > BYTES_MAX {
            return None;
        }
        let kept = if self.has_outgrown() { self.wanted.checked_sub(added)? } else { self.count };
        let row = row::join(row, inspected.oldest, &self.row, kept as u64)?;
        let complete = self.complete && kept == self.count;
        Some(self.changed_to(row, added + kept, inspected, complete))
    }

    /// Whether the next change must cut it to the number that its readers need.
    fn has_outgrown(&self) -> bool {
        self.count > self.wanted + self.wanted / 2
    }
}

/// Reads a list's head by merging the whole list: its first items.
pub struct HeadReader {
    merge: Merge<'static>,
    builder: RowBuilder,
    wanted: usize,
    first_expiry: u64,
}

impl HeadReader {
    pub fn new(merge: Merge<'static>, wanted: usize) -> Self {
        Self { merge, builder: RowBuilder::default(), wanted, first_expiry: u64::MAX }
    }

    /// Continues until the head is read, or the turn is over: then `None`.
    pub fn turn(&mut self, turn: &mut Turn) -> Result<Option<Head>, ReadError> {
        let Self { merge, builder, wanted, first_expiry } = self;
        while let Some((entry, source)) = merge.current() {
            if !turn.spend(source.value()) {
                return Ok(None);
            }
            if !entry.deleted {
                if is_full(builder, *wanted, source.value().len()) {
                    break;
                }
                builder.push(entry.timestamp, entry.expires_at, false, source.value());
                *first_expiry = entry.expires_at.min(*first_expiry);
            }
            merge.advance()?;
        }
        let complete = merge.current().is_none();
        let count = usize::try_from(builder.count()).unwrap_or(usize::MAX);
        let oldest = builder.last_time();
        let first_expiry = *first_expiry;
        Ok(Some(Head { row: builder.finish(), count, wanted: *wanted, oldest, first_expiry, complete }))
    }
}

fn is_full(builder: &RowBuilder, items_max: usize, next_value_len: usize) -> bool {
    builder.count() >= items_max as u64 || builder.body_len().saturating_add(next_value_len) > BYTES_MAX
}
