//! Merges several sources of one list. Among equal items, the newest source's counts.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::seek::{HeldRow, Start};
use crate::disk::file_id::FileId;
use crate::error::ReadError;
use crate::row::{self, Entry, Inspected, Malformed, RowBuilder, RowCursor};

/// Items of one list in the list's order: newest first, equal timestamps by the digest's text, descending. `Send`,
/// because a read with several turns continues on another thread.
pub trait Source: Send {
    /// The source's current row; a row at its end past the source's end.
    fn row(&self) -> &RowCursor;

    /// The same row, to move within it up to its last item.
    fn row_mut(&mut self) -> &mut RowCursor;

    fn advance(&mut self) -> Result<(), ReadError>;

    /// Moves past the last item of the row.
    fn leave_row(&mut self) -> Result<(), ReadError>;

    /// Moves to the first wanted item, unless the source is there or after it.
    fn seek(&mut self, start: &Start) -> Result<(), ReadError> {
        while start.is_behind(self.row()) {
            self.advance()?;
        }
        Ok(())
    }

    /// The file whose first item is the current one, if any.
    fn begun_file(&self) -> Option<FileId> {
        None
    }

    /// The current item; `None` past the end.
    fn entry(&self) -> Option<&Entry> {
        self.row().entry()
    }

    fn value(&self) -> &[u8] {
        self.row().value()
    }
}

/// A row in memory, known to be well-formed: it was made here, or has a valid checksum.
pub struct MemorySource {
    cursor: RowCursor,
    held: HeldRow,
}

impl MemorySource {
    pub fn new(row: Bytes) -> Result<Self, ReadError> {
        Self::at(&HeldRow::without_bookmarks(row), &Start::NEWEST)
    }

    /// Opens a source on the first wanted item.
    pub fn at(row: &HeldRow, start: &Start) -> Result<Self, ReadError> {
        let cursor = row.cursor(start).map_err(|Malformed| broken())?;
        Ok(Self { cursor, held: row.clone() })
    }
}

pub fn broken() -> ReadError {
    let source = std::io::Error::other("a memtable row is malformed");
    ReadError::Io { file: "memory".into(), source }
}

impl Source for MemorySource {
    fn row(&self) -> &RowCursor {
        &self.cursor
    }

    fn row_mut(&mut self) -> &mut RowCursor {
        &mut self.cursor
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        self.cursor.advance().map_err(|Malformed| broken())
    }

    fn leave_row(&mut self) -> Result<(), ReadError> {
        self.cursor.leave();
        Ok(())
    }

    fn seek(&mut self, start: &Start) -> Result<(), ReadError> {
        self.held.seek(&mut self.cursor, start).map_err(|Malformed| broken())
    }
}

/// Iterates over several sources as one. The cost of a step grows with the logarithm of their number.
pub struct Merge<'a> {
    /// Newest first.
    sources: Vec<Box<dyn Source + 'a>>,
    best: Option<usize>,
    /// Older sources on the same item as the best one.
    hidden: Vec<usize>,
    /// The other sources with an item: a heap, with the next item's source on top.
    waiting: Vec<usize>,
}

impl<'a> Merge<'a> {
    /// `sources` are ordered newest first.
    pub fn new(sources: Vec<Box<dyn Source + 'a>>) -> Self {
        let mut merge = Self { best: None, hidden: Vec::new(), waiting: Vec::with_capacity(sources.len()), sources };
        for i in 0..merge.sources.len() {
            merge.wait(i);
        }
        merge.best = merge.pop();
        merge.hide();
        merge
    }

    /// The number of its sources.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// The source of the current item.
    pub fn current(&self) -> Option<(&Entry, &dyn Source)> {
        let source = &**self.sources.get(self.best?)?;
        Some((source.entry()?, source))
    }

    pub fn advance(&mut self) -> Result<(), ReadError> {
        let Some(best) = self.best else { return Ok(()) };
        self.sources[best].advance()?;
        while let Some(i) = self.hidden.pop() {
            self.sources[i].advance()?;
            self.wait(i);
        }
        self.choose(best);
        Ok(())
    }

    /// Passes the current item, and those after it, to `take`, until it breaks off: then it is on the item that was
    /// passed last. Within a row it only compares items with the next one of the other sources.
    pub fn walk<B>(
        &mut self,
        mut take: impl FnMut(&Entry, &RowCursor) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, ReadError> {
        while let Some(best) = self.best {
            let next = self.waiting.first().and_then(|next| self.sources[*next].entry()).map(|entry| entry.timestamp);
            let is_hiding = !self.hidden.is_empty();
            let row = self.sources[best].row_mut();
            loop {
                let Some(entry) = row.entry() else { return Ok(ControlFlow::Continue(())) };
                if let ControlFlow::Break(with) = take(entry, row) {
                    return Ok(ControlFlow::Break(with));
                }
                // A source moves beyond its row, and reports a malformed row with its place.
                if is_hiding || row.is_on_last() || row.advance().is_err() {
                    self.advance()?;
                    break;
                }
                if let (Some(next), Some(entry)) = (next, row.entry())
                    && entry.timestamp <= next
                {
                    self.choose(best);
                    break;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Moves to the first wanted item, unless it is there or after it. It serves to sample places of a long list.
    pub fn seek(&mut self, start: &Start) -> Result<(), ReadError> {
        self.best = None;
        self.hidden.clear();
        self.waiting.clear();
        for i in 0..self.sources.len() {
            self.sources[i].seek(start)?;
            self.wait(i);
        }
        self.best = self.pop();
        self.hide();
        Ok(())
    }

    /// The row that begins with the current item, and its content, if all items of other sources are older than its
    /// last one. It can then be used unchanged, before [`Merge::leave_row`].
    pub fn whole_row(&self) -> Option<(&Bytes, Inspected)> {
        let best = self.sources.get(self.best?)?;
        let row = best.row().whole()?;
        let next = self.waiting.first().and_then(|next| self.sources[*next].entry()).map(|entry| entry.timestamp);
        // Avoids a walk over the row if it is impossible.
        if !self.hidden.is_empty() || next >= best.entry().map(|entry| entry.timestamp) {
            return None;
        }
        // A malformed row is refused item by item by the source, which has its place.
        let inspected = row::inspect(row).ok()?;
        next.is_none_or(|next| next < inspected.oldest).then_some((row, inspected))
    }

    /// The file that begins with the current item, if no other source has the same item. Also the cursor of the next
    /// source, if there is any.
    pub fn begun_file(&self) -> Option<(FileId, Option<&RowCursor>)> {
        let file = self.sources.get(self.best?)?.begun_file().filter(|_| self.hidden.is_empty())?;
        Some((file, self.waiting.first().map(|next| self.sources[*next].row())))
    }

    /// Moves past the row that [`Merge::whole_row`] returned.
    pub fn leave_row(&mut self) -> Result<(), ReadError> {
        let Some(best) = self.best else { return Ok(()) };
        self.sources[best].leave_row()?;
        self.choose(best);
        Ok(())
    }

    /// Chooses the next item, after `best` has moved.
    fn choose(&mut self, best: usize) {
        let stays =
            self.sources[best].entry().is_some() && self.waiting.first().is_none_or(|next| self.precedes(best, *next));
        if !stays {
            self.best = self.pop();
            self.wait(best);
        }
        self.hide();
    }

    /// Removes the sources on the current item from the waiting ones.
    fn hide(&mut self) {
        let Some(best) = self.best else { return };
        while let Some(next) = self.waiting.first()
            && self.compare(best, *next) == Ordering::Equal
        {
            let next = self.pop();
            self.hidden.extend(next);
        }
    }

    /// The order of the current items of two sources.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.sources[a].row(), self.sources[b].row());
        let time = |row: &RowCursor| row.entry().map(|entry| entry.timestamp);
        time(b).cmp(&time(a)).then_with(|| b.cmp_tied(a))
    }

    /// Whether the item of one source comes before another source's, or is the same and newer.
    fn precedes(&self, a: usize, b: usize) -> bool {
        self.compare(a, b).then(a.cmp(&b)) == Ordering::Less
    }

    /// Adds a source to the waiting ones, if it has an item.
    fn wait(&mut self, source: usize) {
        if self.sources[source].entry().is_none() {
            return;
        }
        let mut place = self.waiting.len();
        self.waiting.push(source);
        while place > 0 {
            let above = (place - 1) / 2;
            if !self.precedes(self.waiting[place], self.waiting[above]) {
                break;
            }
            self.waiting.swap(place, above);
            place = above;
        }
    }

    /// Removes the source with the next item.
    fn pop(&mut self) -> Option<usize> {
        if self.waiting.is_empty() {
            return None;
        }
        let next = self.waiting.swap_remove(0);
        let mut place = 0;
        loop {
            let below = [2 * place + 1, 2 * place + 2];
            let first = below
                .into_iter()
                .filter(|child| *child < self.waiting.len())
                .reduce(|a, b| if self.precedes(self.waiting[a], self.waiting[b]) { a } else { b });
            match first {
                Some(child) if self.precedes(self.waiting[child], self.waiting[place]) => {
                    self.waiting.swap(place, child);
                    place = child;
                }
                _ => return Some(next),
            }
        }
    }
}

/// Merges a few rows, newest source first, into one. `bottom` states that no older source is left whose items a deleted
/// item would have to hide. `None` if the row would exceed `bytes_max`: interleaving rows repeats shared values for
/// each item.
pub fn merge_rows(
    newest_first: impl Iterator<Item = Bytes>,
    bottom: bool,
    bytes_max: usize,
) -> Result<Option<Bytes>, Malformed> {
    let mut rows = newest_first.map(RowCursor::new).collect::<Result<Vec<_>, _>>()?;
    let mut builder = RowBuilder::with_room(rows.iter().map(RowCursor::rest_len).sum::<usize>().min(bytes_max));
    while let Some(first) = first_of(&mut rows)? {
        // Items before all items of other rows need no check.
        let below = rows.iter().enumerate().filter(|(i, _)| *i != first).filter_map(|(_, row)| time_of(row)).max();
        let row = &mut rows[first];
        loop {
            if let Some(entry) = row.entry().filter(|entry| !(bottom && entry.deleted)) {
                if builder.body_len().saturating_add(row.value().len()) > bytes_max {
                    return Ok(None);
                }
                builder.push_entry(entry, row.value());
            }
            row.advance()?;
            if time_of(row).is_none_or(|time| below.is_some_and(|below| time <= below)) {
                break;
            }
        }
    }
    Ok(Some(builder.finish()))
}

fn time_of(row: &RowCursor) -> Option<u64> {
    row.entry().map(|entry| entry.timestamp)
}

/// The row with the next item, the newest of those on it. The others move past it.
fn first_of(rows: &mut [RowCursor]) -> Result<Option<usize>, Malformed> {
    let mut first = None;
    for i in 0..rows.len() {
        let Some(time) = time_of(&rows[i]) else { continue };
        let Some(best) = first else {
            first = Some(i);
            continue;
        };
        let order = Some(time).cmp(&time_of(&rows[best])).then_with(|| rows[i].cmp_tied(&rows[best]));
        match order {
            Ordering::Less => {}
            Ordering::Equal => rows[i].advance()?,
            Ordering::Greater => first = Some(i),
        }
    }
    Ok(first)
}
