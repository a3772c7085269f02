//! Merging what several sources hold of one list. Of equal items, the newest source's is the one
//! that counts.

use std::cmp::Ordering;

use bytes::Bytes;

use super::error::ReadError;
use super::row::{self, Entry, Inspected, Malformed, RowBuilder, RowCursor};
use crate::domain::ValueDigest;

/// Items of one list in the list's order: newest first, equal timestamps by the digest's text,
/// descending.
pub trait Source {
    /// The row that the source stands in; one at its end past the source's end.
    fn row(&self) -> &RowCursor;

    fn advance(&mut self) -> Result<(), ReadError>;

    /// Goes on behind the last item of the row.
    fn leave_row(&mut self) -> Result<(), ReadError>;

    /// The item that the source stands on; `None` past the end.
    fn entry(&self) -> Option<&Entry> {
        self.row().entry()
    }

    fn value(&self) -> &[u8] {
        self.row().value()
    }
}

/// A row in memory, which is known to be well formed: it was made here, or its checksum held.
pub struct MemorySource(RowCursor);

impl MemorySource {
    pub fn new(row: Bytes) -> Result<Self, ReadError> {
        RowCursor::new(row).map(Self).map_err(|Malformed| broken())
    }
}

fn broken() -> ReadError {
    let source = std::io::Error::other("a row in memory is malformed");
    ReadError::Io { file: "memory".into(), source }
}

impl Source for MemorySource {
    fn row(&self) -> &RowCursor {
        &self.0
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        self.0.advance().map_err(|Malformed| broken())
    }

    fn leave_row(&mut self) -> Result<(), ReadError> {
        self.0.leave();
        Ok(())
    }
}

/// Walks several sources as one.
pub struct Merge<'a> {
    /// Newest first.
    sources: Vec<Box<dyn Source + 'a>>,
    best: Option<usize>,
    /// Older sources that stand on the same item as the best one.
    hidden: Vec<usize>,
}

impl<'a> Merge<'a> {
    /// `sources` are given newest first.
    pub fn new(sources: Vec<Box<dyn Source + 'a>>) -> Self {
        let mut merge = Self { sources, best: None, hidden: Vec::new() };
        merge.choose();
        merge
    }

    /// The source that stands on the present item.
    pub fn current(&self) -> Option<(&Entry, &dyn Source)> {
        let source = &**self.sources.get(self.best?)?;
        Some((source.entry()?, source))
    }

    /// Whether the oldest source has come to its end.
    pub fn oldest_is_done(&self) -> bool {
        self.sources.last().is_none_or(|source| source.entry().is_none())
    }

    pub fn advance(&mut self) -> Result<(), ReadError> {
        for i in self.best.into_iter().chain(self.hidden.iter().copied()) {
            if let Some(source) = self.sources.get_mut(i) {
                source.advance()?;
            }
        }
        self.choose();
        Ok(())
    }

    /// The row that begins with the present item, and what it holds, if all items of the other sources
    /// are older than its last one: it can then be had as it is, up to [`Merge::leave_row`].
    pub fn whole_row(&self) -> Option<(&Bytes, Inspected)> {
        let best = self.best?;
        let row = self.sources.get(best)?.row().whole()?;
        // A malformed row is refused item by item, by the source, which knows where it stands.
        let inspected = row::inspect(row).ok()?;
        let is_older = |source: &dyn Source| source.entry().is_none_or(|entry| entry.timestamp < inspected.oldest);
        let alone = self.sources.iter().enumerate().all(|(i, source)| i == best || is_older(&**source));
        alone.then_some((row, inspected))
    }

    /// Goes on behind the row that [`Merge::whole_row`] gave.
    pub fn leave_row(&mut self) -> Result<(), ReadError> {
        if let Some(source) = self.best.and_then(|best| self.sources.get_mut(best)) {
            source.leave_row()?;
        }
        self.choose();
        Ok(())
    }

    fn choose(&mut self) {
        self.best = None;
        self.hidden.clear();
        let mut best: Option<(&Entry, &dyn Source)> = None;
        for (i, source) in self.sources.iter().enumerate() {
            let Some(entry) = source.entry() else { continue };
            let order = best.map_or(Ordering::Greater, |(best_entry, best_source)| {
                entry.timestamp.cmp(&best_entry.timestamp).then_with(|| by_key(source.value(), best_source.value()))
            });
            match order {
                Ordering::Greater => {
                    best = Some((entry, &**source));
                    self.best = Some(i);
                    self.hidden.clear();
                }
                Ordering::Equal => self.hidden.push(i),
                Ordering::Less => {}
            }
        }
    }
}

/// The order of the values of items with equal timestamps. Digests are computed only if it must be.
fn by_key(a: &[u8], b: &[u8]) -> Ordering {
    if a == b { Ordering::Equal } else { ValueDigest::of(a).cmp(&ValueDigest::of(b)) }
}

/// Merges rows, newest source first, into one. `bottom` says that nothing older is left that a
/// deleted item would have to hide.
pub fn merge_rows(newest_first: impl Iterator<Item = Bytes>, bottom: bool) -> Result<Bytes, ReadError> {
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for row in newest_first {
        sources.push(Box::new(MemorySource::new(row)?));
    }
    let mut merge = Merge::new(sources);
    let mut builder = RowBuilder::default();
    while let Some((entry, source)) = merge.current() {
        if !(bottom && entry.deleted) {
            builder.push(entry.timestamp, entry.expires_at, entry.deleted, source.value());
        }
        merge.advance()?;
    }
    Ok(builder.finish())
}
