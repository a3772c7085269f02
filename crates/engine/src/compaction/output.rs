//! Writes merged lists to new data files of bounded size: the part that flush and compaction share.

use std::sync::Arc;

use liststore_contract::domain::ValueDigest;

use super::surplus::{Keep, Surplus};
use super::take_over::Terms;
use crate::disk::file_id::FileId;
use crate::engine::Engine;
use crate::error::{ReadError, WriteError};
use crate::files::run::{Run, RunFile};
use crate::files::{FileWriter, Pace};
use crate::list_id::ListId;
use crate::row::merge::Merge;
use crate::row::reverse;

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
    /// The file is full, or what follows may be taken over: up to the item of this timestamp and digest.
    Until(u64, ValueDigest),
    /// Nothing, since what it begins with may be taken over, and the file before is to be finished first.
    Nothing,
    /// Nothing, since it stands at the beginning of a file that is to be taken over before more is written.
    AtFile(TakenOver),
}

/// A file that becomes a part of the output as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenOver {
    pub id: FileId,
    /// Whether it begins with the list that the file before it ends with.
    pub continues: bool,
    /// The timestamp and digest of its last item.
    pub last: (u64, ValueDigest),
}

/// Data files that are made one after the other, each once the first item for it is known.
pub struct Output<'a> {
    engine: &'a Engine,
    partition: usize,
    /// Runs that are older than all that is written, and are not merged with it.
    older: &'a [Run],
    /// Those of which files may be taken over.
    inputs: &'a [Run],
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
        Self {
            engine,
            partition,
            older,
            inputs: &[],
            file_bytes,
            now: engine.expiry_clock.now().as_nanos(),
            writer: None,
            unfinished: None,
            surplus: None,
            continues: false,
            hides: 0,
        }
    }

    /// Says that the file before ends in the middle of a list.
    pub fn after(mut self, unfinished: Option<ListId>) -> Self {
        self.unfinished = unfinished;
        self
    }

    /// Says which runs are merged: files of theirs may be taken over.
    pub fn taking_over_from(mut self, inputs: &'a [Run]) -> Self {
        self.inputs = inputs;
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

    /// Has the next files end once they have so many bytes.
    pub fn end_files_with(&mut self, file_bytes: u64) {
        self.file_bytes = file_bytes;
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
        pace.worked();
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
        let bound = self.surplus.as_mut().and_then(|surplus| surplus.cut(list, goes_on));
        // How much of a file lies beyond a bound is told from the run that it was written for (`census.rs`).
        let may_take_over = !cleared && bound.is_none();
        let mut cut = bound.filter(|_| nothing_older);
        let (now, bottom) = (self.now, self.is_bottom());
        let terms = Terms { inputs: self.inputs, file_bytes: self.file_bytes, now, bottom };
        // Else a file is not ended: what was dropped since its last item, and what that hid, would lie behind its end.
        let mut dropped = false;
        let mut written = Written::Whole;
        while written == Written::Whole
            && let Some((entry, source)) = merge.current()
        {
            pace.worked();
            let may_end = may_take_over && (!dropped || self.writer.is_none());
            if may_end && let Some(last) = terms.last_item(merge, list)? {
                written = self.before_file(list, (begun, goes_on), merge, last);
                break;
            }
            let whole_row = merge.whole_row();
            let keep = match (&mut cut, &whole_row) {
                (None, _) => Keep::All,
                (Some(cut), Some((_, row))) => cut.of_row(entry, source.row(), row)?,
                (Some(cut), None) => cut.of_item(entry, source.row())?,
            };
            if keep == Keep::None {
                dropped = true;
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
                dropped = true;
                merge.advance()?;
                continue;
            }
            if !begun {
                self.begin_list(list, false, goes_on)?;
                begun = true;
            }
            dropped = false;
            let writer = self.writer()?;
            // Most rows of a list lie one behind the other, and are copied without a look at each item.
            if let Some((row, inspected)) = whole_row
                && writer.push_row(row, &inspected, entry.timestamp, pace)?
            {
                merge.leave_row()?;
            } else {
                writer.push(entry, source.value(), pace)?;
                merge.advance()?;
            }
            if self.is_full() && merge.current().is_some() {
                written = self.until_last(list);
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
            pace.worked();
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
            self.writer()?.push(entry, source.value(), pace)?;
            merge.advance()?;
            if self.is_full() && merge.current().is_some() {
                written = self.until_last(list);
                break;
            }
        }
        if begun {
            self.writer()?.end_list(pace)?;
        }
        Ok(written)
    }

    /// Ends the file with the item of a list that was written last.
    fn until_last(&mut self, list: &ListId) -> Written {
        let Some((timestamp, digest)) = self.writer.as_ref().map(FileWriter::last_item) else {
            return Written::Nothing;
        };
        self.unfinished = Some(list.clone());
        Written::Until(timestamp, digest)
    }

    /// Ends what is written, if anything is, in front of a file that is to be taken over, of which this is the last
    /// item.
    fn before_file(
        &mut self,
        list: &ListId,
        (begun, goes_on): (bool, bool),
        merge: &Merge<'_>,
        last: (u64, ValueDigest),
    ) -> Written {
        match merge.begun_file() {
            Some((id, _)) if self.writer.is_none() => {
                self.unfinished = Some(list.clone());
                Written::AtFile(TakenOver { id, continues: goes_on, last })
            }
            _ if begun => self.until_last(list),
            _ => Written::Nothing,
        }
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
