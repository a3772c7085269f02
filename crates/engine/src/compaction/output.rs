//! Writes merged lists to new data files of bounded size. Flush and compaction share this part.

use std::sync::Arc;

use liststore_contract::domain::ValueDigest;

use super::adopt::Terms;
use super::surplus::{Keep, Surplus};
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

/// The written part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Whole,
    /// The file is full, or the following file may be adopted: up to the item with this timestamp and digest.
    Until(u64, ValueDigest),
    /// Nothing, because the next file may be adopted, and the current one must be finished first.
    Nothing,
    /// Nothing, because the list is at the beginning of a file that must be adopted before more is written.
    AtFile(AdoptedFile),
}

/// A file that becomes a part of the output unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptedFile {
    pub id: FileId,
    /// Whether it begins with the last list of the previous file.
    pub continues: bool,
    /// The timestamp and digest of its last item.
    pub last: (u64, ValueDigest),
}

/// Data files that are made one after the other, each at the first item for it.
pub struct Output<'a> {
    engine: &'a Engine,
    partition: usize,
    /// Older runs that are not part of the compaction.
    older: &'a [Run],
    /// The runs whose files may be adopted.
    inputs: &'a [Run],
    /// A file with this many bytes ends.
    file_bytes: u64,
    /// Nanoseconds since the Unix epoch. Items that expired before may be dropped.
    now: u64,
    writer: Option<FileWriter>,
    /// The unfinished list of the previous file.
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

    /// States that the previous file ends in the middle of a list.
    pub fn after(mut self, unfinished: Option<ListId>) -> Self {
        self.unfinished = unfinished;
        self
    }

    /// Sets the compacted runs, whose files may be adopted.
    pub fn taking_over_from(mut self, inputs: &'a [Run]) -> Self {
        self.inputs = inputs;
        self
    }

    /// Drops items beyond the bounds of lists, if nothing older is left.
    pub fn cut_by(mut self, surplus: Surplus<'a>) -> Self {
        self.surplus = Some(surplus);
        self
    }

    /// Takes the lists of which such items were dropped.
    pub fn take_cut(&mut self) -> Vec<ListId> {
        self.surplus.take().map(Surplus::into_lists).unwrap_or_default()
    }

    /// Ends the next files at this size.
    pub fn end_files_with(&mut self, file_bytes: u64) {
        self.file_bytes = file_bytes;
    }

    pub fn is_full(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.bytes() >= self.file_bytes)
    }

    /// Whether no older run is left, whose items deleted entries would have to hide.
    fn is_bottom(&self) -> bool {
        self.older.is_empty()
    }

    /// Writes the merged items of a list, until the file is full. Then the caller finishes the file and calls this
    /// again for the rest.
    ///
    /// Without older runs, it drops deleted and expired items. Otherwise they must still hide older items of the same
    /// key. `cleared` hides all older items of the list.
    pub fn write_list(
        &mut self,
        list: &ListId,
        cleared: bool,
        merge: &mut Merge<'_>,
        pace: &mut dyn Pace,
    ) -> Result<Written, OutputError> {
        pace.worked();
        let continues = self.unfinished.take().is_some_and(|unfinished| unfinished == *list);
        let nothing_older = cleared || self.is_bottom();
        let mark_cleared = cleared && !self.is_bottom();
        let mut begun = false;
        // A continued list already has the mark.
        if mark_cleared && (!continues || merge.current().is_some()) {
            self.begin_list(list, true, continues)?;
            begun = true;
        }
        if reverse::is_reverse(list.bytes()) {
            return self.write_entries(list, (nothing_older, continues), begun, merge, pace);
        }
        let bound = self.surplus.as_mut().and_then(|surplus| surplus.cut(list, continues));
        // The census (`census.rs`) estimates the surplus of a file by the run that it was written for.
        let may_adopt = !cleared && bound.is_none();
        let mut cut = bound.filter(|_| nothing_older);
        let (now, bottom) = (self.now, self.is_bottom());
        let terms = Terms { inputs: self.inputs, file_bytes: self.file_bytes, now, bottom };
        // Otherwise the file does not end here: the items dropped after its last item, and the items hidden by them,
        // would be after its end.
        let mut dropped = false;
        let mut written = Written::Whole;
        while written == Written::Whole
            && let Some((entry, source)) = merge.current()
        {
            pace.worked();
            let may_end = may_adopt && (!dropped || self.writer.is_none());
            if may_end && let Some(last) = terms.last_item(merge, list)? {
                written = self.before_file(list, (begun, continues), merge, last);
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
                self.begin_list(list, false, continues)?;
                begun = true;
            }
            dropped = false;
            let writer = self.writer()?;
            // Most rows of a list are adjacent, and are copied without checking each item.
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

    /// Writes a set's reverse entries, which are checked one by one, because each has its own expiry.
    fn write_entries(
        &mut self,
        list: &ListId,
        (nothing_older, continues): (bool, bool),
        mut begun: bool,
        merge: &mut Merge<'_>,
        pace: &mut dyn Pace,
    ) -> Result<Written, OutputError> {
        let mut cut =
            self.surplus.as_mut().filter(|_| nothing_older).and_then(|surplus| surplus.cut_entries(list, continues));
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
                self.begin_list(list, false, continues)?;
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

    /// Ends the file with the last written item of a list.
    fn until_last(&mut self, list: &ListId) -> Written {
        let Some((timestamp, digest)) = self.writer.as_ref().map(FileWriter::last_item) else {
            return Written::Nothing;
        };
        self.unfinished = Some(list.clone());
        Written::Until(timestamp, digest)
    }

    /// Ends the current file, if it has content, before an adopted file with this last item.
    fn before_file(
        &mut self,
        list: &ListId,
        (begun, continues): (bool, bool),
        merge: &Merge<'_>,
        last: (u64, ValueDigest),
    ) -> Written {
        match merge.begun_file() {
            Some((id, _)) if self.writer.is_none() => {
                self.unfinished = Some(list.clone());
                Written::AtFile(AdoptedFile { id, continues, last })
            }
            _ if begun => self.until_last(list),
            _ => Written::Nothing,
        }
    }

    fn begin_list(&mut self, list: &ListId, mark: bool, continues: bool) -> Result<(), WriteError> {
        if self.writer.is_none() {
            self.continues = continues;
        }
        if mark && !continues {
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

    /// Completes the current file and makes its content durable. A file that cannot be completed is removed. Otherwise
    /// each attempt would take more of a full disk.
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
