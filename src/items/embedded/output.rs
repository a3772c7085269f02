//! Writes merged lists to a new data file: the part that flush and compaction share.

use std::path::Path;
use std::sync::Arc;

use super::disk::Disk;
use super::error::{ReadError, WriteError};
use super::file::{DataFile, FileWriter, Pace};
use super::list_id::ListId;
use super::merge::Merge;
use super::tables::Tables;

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

/// A data file that is made once the first item for it is known.
pub struct Output<'a> {
    pub disk: Arc<dyn Disk>,
    pub dir: &'a Path,
    pub tables: &'a Tables,
    pub partition: usize,
    /// Nanoseconds since the Unix epoch: what has expired by then may be dropped.
    pub now: u64,
    pub writer: Option<FileWriter>,
}

impl Output<'_> {
    /// Writes what a merge yields of a list. `bottom` says that no older file holds any of it:
    /// only then is what is deleted or expired dropped, since until then it hides older items of
    /// the same key. `cleared` hides all older ones by itself.
    pub fn write_list(
        &mut self,
        list: &ListId,
        cleared: bool,
        bottom: bool,
        mut merge: Merge<'_>,
        pace: &mut dyn Pace,
    ) -> Result<(), OutputError> {
        let nothing_older = cleared || bottom;
        let mark_cleared = cleared && !bottom;
        let mut begun = false;
        if mark_cleared {
            self.writer()?.begin_list(list, true);
            begun = true;
        }
        let now = self.now;
        while let Some((entry, source)) = merge.current() {
            let whole_row = merge.whole_row().filter(|(_, row)| {
                let drops = nothing_older && (row.deleted > 0 || row.first_expiry <= now);
                !drops
            });
            let dropped = nothing_older && (entry.deleted || entry.expires_at <= now);
            if dropped {
                merge.advance()?;
                continue;
            }
            let writer = self.writer()?;
            if !begun {
                writer.begin_list(list, false);
                begun = true;
            }
            // Most rows of a list lie one behind the other, and are copied without a look at each item.
            if let Some((row, inspected)) = whole_row
                && writer.push_row(row, &inspected, entry.timestamp, pace)?
            {
                merge.leave_row()?;
            } else {
                writer.push(entry, source.value(), pace)?;
                merge.advance()?;
            }
        }
        if begun {
            self.writer()?.end_list(pace)?;
        }
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut FileWriter, WriteError> {
        match &mut self.writer {
            Some(writer) => Ok(writer),
            none => {
                let id = self.tables.new_file_id();
                let writer = FileWriter::create(&*self.disk, self.dir, id, self.partition)?;
                Ok(none.insert(writer.with_tag(self.tables.tag())))
            }
        }
    }

    /// Completes the file, if there is one, and makes its content durable. One that cannot be
    /// completed is removed: else each new attempt would take more of a disk that is full.
    pub fn finish(&mut self, pace: &mut dyn Pace) -> Result<Option<DataFile>, WriteError> {
        let Some(writer) = self.writer.take() else { return Ok(None) };
        let id = writer.id();
        writer.finish(pace).map(Some).inspect_err(|_| self.tables.discard(id))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if let Some(writer) = &self.writer {
            self.tables.discard(writer.id());
        }
    }
}
