//! Writes merged lists to new data files of bounded size: the part that flush and compaction share.

use std::sync::Arc;

use super::engine::Engine;
use super::error::{ReadError, WriteError};
use super::file::{FileWriter, Pace};
use super::list_id::ListId;
use super::merge::Merge;
use super::reverse;
use super::run::{Run, RunFile};
use super::surplus::{Keep, Surplus};
use crate::domain::ValueDigest;

/// Why merged lists were not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the store is stopping")]
    Stopped,
}

/// How much of a list was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Whole,
    /// The file is full: up to the item of this timestamp and digest.
    Until(u64, ValueDigest),
}

/// Data files that are made one after the other, each once the first item for it is known.
pub struct Output<'a> {
    engine: &'a Engine,
    partition: usize,
    /// Runs that are older than all that is written, and are not merged with it.
    older: &'a [Run],
    /// A file ends once it has so many bytes.
    file_bytes: u64,
    /// Nanoseconds since the Unix epoch: what has expired by then may be dropped.
    now: u64,
    writer: Option<FileWriter>,
    /// The list that was begun in the file before, and goes on.
    unfinished: Option<ListId>,
    surplus: Option<Surplus<'a>>,
    continues: bool,
    hides: u64,
}

impl<'a> Output<'a> {
    pub fn new(engine: &'a Engine, partition: usize, older: &'a [Run], file_bytes: u64) -> Self {
        let now = engine.clock.now().as_nanos();
        let (writer, unfinished, surplus) = (None, None, None);
        Self { engine, partition, older, file_bytes, now, writer, unfinished, surplus, continues: false, hides: 0 }
    }

    /// Says that the file before ends in the middle of a list.
    pub fn after(mut self, unfinished: Option<ListId>) -> Self {
        self.unfinished = unfinished;
        self
    }

    /// Leaves out what lists do not show, where nothing older is left.
    pub fn cut_by(mut self, surplus: Surplus<'a>) -> Self {
        self.surplus = Some(surplus);
        self
    }

    /// The lists of which something was left out that they do not show.
    pub fn take_cut(&mut self) -> Vec<ListId> {
        self.surplus.take().map(Surplus::into_lists).unwrap_or_default()
    }

    pub fn is_full(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.bytes() >= self.file_bytes)
    }

    /// Whether nothing older is left that deleted items would have to hide.
    fn is_bottom(&self) -> bool {
        self.older.is_empty()
    }

    /// Writes what a merge yields of a list, until the file is full; then it is to be finished, and this
    /// called again for the rest. Where there is nothing older, what is deleted or expired is dropped:
    /// only then, since until then it hides older items of the same key. `cleared` hides all older ones
    /// by itself.
    pub fn write_list(
        &mut self,
        list: &ListId,
        cleared: bool,
        merge: &mut Merge<'_>,
        pace: &mut dyn Pace,
    ) -> Result<Written, OutputError> {
        let goes_on = self.unfinished.take().is_some_and(|unfinished| unfinished == *list);
        let nothing_older = cleared || self.is_bottom();
        let mark_cleared = cleared && !self.is_bottom();
        let mut begun = false;
        // A list that goes on has the mark already.
        if mark_cleared && (!goes_on || merge.current().is_some()) {
            self.begin_list(list, true, goes_on)?;
            begun = true;
        }
        if reverse::is_reverse(list.bytes()) {
            return self.write_entries(list, (nothing_older, goes_on), begun, merge, pace);
        }
        let mut cut = self.surplus.as_mut().filter(|_| nothing_older).and_then(|surplus| surplus.cut(list, goes_on));
        let now = self.now;
        let mut written = Written::Whole;
        while written == Written::Whole
            && let Some((entry, source)) = merge.current()
        {
            let whole_row = merge.whole_row();
            let keep = match (&mut cut, &whole_row) {
                (None, _) => Keep::All,
                (Some(cut), Some((_, row))) => cut.of_row(entry, source.row(), row)?,
                (Some(cut), None) => cut.of_item(entry, source.row())?,
            };
            if keep == Keep::None {
                let items = whole_row.as_ref().map_or(1, |(_, row)| row.count);
                self.engine.metrics.surplus_dropped.inc_by(items);
                self.surplus.iter_mut().for_each(|surplus| surplus.note(list));
                if whole_row.is_some() {
                    merge.leave_row()?;
                } else {
                    merge.advance()?;
                }
                continue;
            }
            let whole_row = whole_row.filter(|(_, row)| {
                let drops = nothing_older && (row.deleted > 0 || row.first_expiry <= now);
                keep == Keep::All && !drops
            });
            if nothing_older && (entry.deleted || entry.expires_at <= now) {
                self.engine.metrics.expired_dropped.inc_by(u64::from(!entry.deleted));
                merge.advance()?;
                continue;
            }
            if !begun {
                self.begin_list(list, false, goes_on)?;
                begun = true;
            }
            let writer = self.writer()?;
            // Most rows of a list lie one behind the other, and are copied without a look at each item.
            let mut last = None;
            if let Some((row, inspected)) = whole_row
                && writer.push_row(row, &inspected, entry.timestamp, pace)?
            {
                if writer.bytes() >= self.file_bytes {
                    last = Some((inspected.oldest, ValueDigest::of(inspected.last_value(row))));
                }
                merge.leave_row()?;
            } else {
                writer.push(entry, source.value(), pace)?;
                if writer.bytes() >= self.file_bytes {
                    last = Some((entry.timestamp, source.row().digest()));
                }
                merge.advance()?;
            }
            if let Some((timestamp, digest)) = last
                && merge.current().is_some()
            {
                written = Written::Until(timestamp, digest);
                self.unfinished = Some(list.clone());
            }
        }
        if begun {
            self.writer()?.end_list(pace)?;
        }
        Ok(written)
    }

    /// The same of a set's reverse entries, which are looked at one by one: each tells by itself until when it
    /// is to be kept.
    fn write_entries(
        &mut self,
        list: &ListId,
        (nothing_older, goes_on): (bool, bool),
        mut begun: bool,
        merge: &mut Merge<'_>,
        pace: &mut dyn Pace,
    ) -> Result<Written, OutputError> {
        let mut cut =
            self.surplus.as_mut().filter(|_| nothing_older).and_then(|surplus| surplus.cut_entries(list, goes_on));
        let mut written = Written::Whole;
        while let Some((entry, source)) = merge.current() {
            let is_over = || entry.deleted || reverse::kept_until(entry, source.value()) <= self.now;
            let is_dropped = nothing_older
                && (is_over() || cut.as_mut().map_or(Ok(Keep::All), |cut| cut.of_entry(source.value()))? == Keep::None);
            if is_dropped {
                merge.advance()?;
                continue;
            }
            if !begun {
                self.begin_list(list, false, goes_on)?;
                begun = true;
            }
            let writer = self.writer()?;
            writer.push(entry, source.value(), pace)?;
            let place = (writer.bytes() >= self.file_bytes).then(|| (entry.timestamp, source.row().digest()));
            merge.advance()?;
            if let Some((timestamp, digest)) = place
                && merge.current().is_some()
            {
                written = Written::Until(timestamp, digest);
                self.unfinished = Some(list.clone());
                break;
            }
        }
        if begun {
            self.writer()?.end_list(pace)?;
        }
        Ok(written)
    }

    fn begin_list(&mut self, list: &ListId, mark: bool, goes_on: bool) -> Result<(), WriteError> {
        if self.writer.is_none() {
            self.continues = goes_on;
        }
        if mark && !goes_on {
            self.hides += self.older.iter().map(|run| run.bytes_of(list)).sum::<u64>();
        }
        self.writer()?.begin_list(list, mark);
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut FileWriter, WriteError> {
        match &mut self.writer {
            Some(writer) => Ok(writer),
            none => {
                let Engine { disk, dir, tables, .. } = self.engine;
                let writer = FileWriter::create(&**disk, dir, tables.new_file_id(), self.partition)?;
                Ok(none.insert(writer.with_tag(tables.tag())))
            }
        }
    }

    /// Completes the file, if there is one, and makes its content durable. One that cannot be
    /// completed is removed: else each new attempt would take more of a disk that is full.
    pub fn finish(&mut self, pace: &mut dyn Pace) -> Result<Option<RunFile>, WriteError> {
        let Some(writer) = self.writer.take() else { return Ok(None) };
        let id = writer.id();
        let file = writer.finish(pace).inspect_err(|_| self.engine.tables.discard(id))?;
        let (continues, hides) = (self.continues, std::mem::take(&mut self.hides));
        Ok(Some(RunFile { file: Arc::new(file), continues, hides }))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if let Some(writer) = &self.writer {
            self.engine.tables.discard(writer.id());
        }
    }
}
