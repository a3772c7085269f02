//! Writes frozen memtables to data files, one run for each partition, and frees their part of the log.

use std::sync::Arc;
use std::time::Duration;

use super::adopt::file_bytes_of_list;
use super::output::{Output, OutputError, Written};
use super::pace::RateLimit;
use crate::commit::SEGMENTS_MAX;
use crate::engine::Engine;
use crate::error::WriteError;
use crate::files::run::Run;
use crate::files::{PARTITIONS, Pace};
use crate::health::Subsystem;
use crate::list_id::ListId;
use crate::memory::memtable::{Memtable, Snapshot};
use crate::read::tables::View;
use crate::row::merge::{MemorySource, Merge, Source};
use crate::row::reverse;

/// The interval between attempts of a failed flush.
const RETRY: Duration = Duration::from_secs(1);
/// The interval between checks whether readers have left the flushed memtables.
const READERS_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The loop of the flushing thread until the store stops.
pub fn run(engine: &Arc<Engine>) {
    let mut in_files = InFiles::default();
    loop {
        let ready = || {
            let view = engine.tables.view();
            view.frozen.is_some() && engine.has_place_for_runs(&view.files) && !engine.health.has_failed()
        };
        let is_ready = engine.bell.wait_until(in_files.is_held().then_some(READERS_CHECK_INTERVAL), ready);
        if engine.bell.is_stopping() {
            return;
        }
        in_files.free(&mut pace(engine));
        if !is_ready {
            continue;
        }
        let flushed = match flush(engine, &mut in_files) {
            Ok(()) => Ok(()),
            Err(OutputError::Stopped) => return,
            Err(OutputError::Write(error)) => Err(error),
            Err(OutputError::Read(error)) => {
                engine.health.fail(format!("{error}; restart the server"));
                continue;
            }
        };
        let retry = matches!(flushed, Err(WriteError::NotWritten(_)));
        engine.note(Subsystem::Flush, flushed);
        engine.bell.ring();
        if retry {
            engine.bell.wait_until(Some(RETRY), || false);
        }
    }
}

/// Flushed memtables that a reader may still use. This thread retains them and frees their memory, which takes long,
/// instead of the last reader.
#[derive(Default)]
struct InFiles(Vec<Arc<Memtable>>);

impl InFiles {
    fn is_held(&self) -> bool {
        !self.0.is_empty()
    }

    /// Frees the memtables that no reader uses.
    fn free(&mut self, pace: &mut dyn Pace) {
        for pending in std::mem::take(&mut self.0) {
            match Arc::try_unwrap(pending) {
                Ok(pending) => pending.free(|| pace.worked()),
                Err(held) => self.0.push(held),
            }
        }
    }
}

fn pace(engine: &Engine) -> RateLimit<'_, impl Fn() -> bool> {
    RateLimit::new(engine, || is_awaited(engine)).giving_way(&engine.metrics.flush_gave_way)
}

/// Whether the next memtable is about to be frozen, or there is almost no space for it. Then any delay of a flush may
/// soon delay writes.
fn is_awaited(engine: &Engine) -> bool {
    let view = engine.tables.view();
    let much_log = || engine.progress.written().segment - view.active.start.segment >= SEGMENTS_MAX;
    view.active.bytes() >= engine.options.pending_bytes()
        || engine.room.is_low()
        || much_log()
        || engine.bell.is_stopping()
}

fn flush(engine: &Engine, in_files: &mut InFiles) -> Result<(), OutputError> {
    let view = engine.tables.view();
    let Some(frozen) = view.frozen.clone() else { return Ok(()) };
    let mut runs = Vec::new();
    let flushed = write_partitions(engine, (&view, &frozen), in_files, &mut runs, &mut pace(engine));
    let unused: Vec<_> = runs.iter().flat_map(|(_, run)| run.data_files()).map(|file| file.id).collect();
    let installed = flushed.and_then(|()| {
        engine.disk.sync_dir(&engine.dir).map_err(WriteError::Unknown)?;
        Ok(engine.tables.install_flushed(runs)?)
    });
    match installed {
        Ok(log_start) => {
            engine.metrics.flushes.inc();
            engine.progress.recycle_before(&*engine.disk, log_start.segment);
            engine.files_changed();
            in_files.0.push(frozen);
            Ok(())
        }
        // The manifest may refer to them.
        Err(error @ OutputError::Write(WriteError::Unknown(_))) => Err(error),
        Err(error) => {
            unused.into_iter().for_each(|id| engine.tables.discard(id));
            Err(error)
        }
    }
}

fn write_partitions(
    engine: &Engine,
    (view, frozen): (&View, &Memtable),
    in_files: &mut InFiles,
    runs: &mut Vec<(usize, Run)>,
    pace: &mut dyn Pace,
) -> Result<(), OutputError> {
    for partition in 0..PARTITIONS {
        in_files.free(pace);
        // Only this thread adds runs, so an empty partition stays empty.
        let older = view.files.partition(partition);
        let file_bytes = engine.file_bytes(&view.files, partition);
        let mut output = Output::new(engine, partition, older, file_bytes);
        let mut run = Run::default();
        let written = write_run(engine, (&mut output, file_bytes), frozen.sorted(partition), &mut run, pace);
        if !run.files.is_empty() {
            runs.push((partition, run));
        }
        written?;
    }
    Ok(())
}

/// The written files are in `run`, even after an error.
fn write_run(
    engine: &Engine,
    (output, file_bytes): (&mut Output<'_>, u64),
    lists: impl Iterator<Item = (ListId, Snapshot)>,
    run: &mut Run,
    pace: &mut dyn Pace,
) -> Result<(), OutputError> {
    for (list, snapshot) in lists {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for row in &snapshot.rows {
            sources.push(Box::new(MemorySource::new(row.row.clone())?));
        }
        let bytes: usize = snapshot.rows.iter().map(|row| row.row.len()).sum();
        let apart = file_bytes_of_list(bytes as u64, file_bytes).filter(|_| !reverse::is_reverse(list.bytes()));
        if apart.is_some() {
            run.files.extend(output.finish(pace)?);
        }
        output.end_files_with(apart.unwrap_or(file_bytes));
        let mut merge = Merge::new(sources);
        loop {
            if engine.bell.is_stopping() {
                return Err(OutputError::Stopped);
            }
            let written = output.write_list(&list, snapshot.cleared, &mut merge, pace)?;
            if output.is_full() || apart.is_some() {
                run.files.extend(output.finish(pace)?);
            }
            if written == Written::Whole {
                break;
            }
        }
    }
    run.files.extend(output.finish(pace)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::log::Position;
    use crate::log::change::Change;
    use crate::options::ListHash;

    /// Counts how often the writer may be delayed.
    #[derive(Default)]
    struct Counted(usize);

    impl Pace for Counted {
        fn wrote(&mut self, _bytes: usize) {}

        fn worked(&mut self) {
            self.0 += 1;
        }
    }

    #[test]
    fn flushed_items_are_freed_gradually_once_no_reader_uses_them() {
        let pending = Memtable::new(Position::start_of(1));
        for n in 0..1_000_u64 {
            let list = ListId::from_bytes(&n.to_le_bytes(), ListHash::Token);
            pending.apply(&list, &Change::Row(Bytes::new()), 0);
        }
        let read = Arc::new(pending);
        let (mut in_files, mut pace) = (InFiles(vec![read.clone()]), Counted::default());
        in_files.free(&mut pace);
        assert!(in_files.is_held() && pace.0 == 0);
        drop(read);
        in_files.free(&mut pace);
        assert!(!in_files.is_held() && pace.0 == 1_000);
    }
}
