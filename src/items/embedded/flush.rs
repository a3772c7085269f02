//! Writes frozen items to data files, one run a partition, and gives their part of the log back.

use std::sync::Arc;
use std::time::Duration;

use super::engine::Engine;
use super::error::WriteError;
use super::file::{PARTITIONS, Pace, partition_of};
use super::health::Part;
use super::list_id::ListId;
use super::merge::{MemorySource, Merge, Source};
use super::output::{Output, OutputError, Written};
use super::pace::RateLimit;
use super::pending::Snapshot;
use super::reverse;
use super::run::Run;
use super::tables::View;
use super::take_over::file_bytes_of_list;

/// A flush that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// What the flushing thread does until the store stops.
pub fn run(engine: &Arc<Engine>) {
    loop {
        let ready = || {
            let view = engine.tables.view();
            view.frozen.is_some() && engine.has_place_for_runs(&view.files) && !engine.health.has_failed()
        };
        if !engine.bell.wait_until(None, ready) || engine.bell.is_stopping() {
            return;
        }
        let flushed = match flush(engine) {
            Ok(()) => Ok(()),
            Err(OutputError::Stopped) => return,
            Err(OutputError::Write(error)) => Err(error),
            Err(OutputError::Read(error)) => {
                engine.health.fail(format!("{error}; start the server again"));
                continue;
            }
        };
        let retry = matches!(flushed, Err(WriteError::NotWritten(_)));
        engine.note(Part::Flush, flushed);
        engine.bell.ring();
        if retry {
            engine.bell.wait_until(Some(RETRY), || false);
        }
    }
}

fn flush(engine: &Engine) -> Result<(), OutputError> {
    let view = engine.tables.view();
    let Some(frozen) = &view.frozen else { return Ok(()) };
    let lists = frozen.sorted();
    let hurry = || engine.tables.view().active.bytes() >= engine.options.pending_bytes() || engine.bell.is_stopping();
    let mut pace = RateLimit::new(&engine.bell, engine.options.background_bytes_per_sec, hurry);
    let mut runs = Vec::new();
    let flushed = write_partitions(engine, &view, &lists, &mut runs, &mut pace);
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
            Ok(())
        }
        // They may be named in the manifest.
        Err(error @ OutputError::Write(WriteError::Unknown(_))) => Err(error),
        Err(error) => {
            unused.into_iter().for_each(|id| engine.tables.discard(id));
            Err(error)
        }
    }
}

fn write_partitions(
    engine: &Engine,
    view: &View,
    mut lists: &[(ListId, Snapshot)],
    runs: &mut Vec<(usize, Run)>,
    pace: &mut dyn Pace,
) -> Result<(), OutputError> {
    for partition in 0..PARTITIONS {
        let count = lists.iter().take_while(|(list, _)| partition_of(list.hash()) == partition).count();
        let (of_partition, rest) = lists.split_at(count);
        lists = rest;
        // Only this thread adds runs, so that a partition without any stays without.
        let older = view.files.partition(partition);
        let file_bytes = engine.file_bytes(&view.files, partition);
        let mut output = Output::new(engine, partition, older, file_bytes);
        let mut run = Run::default();
        let written = write_run(engine, (&mut output, file_bytes), of_partition, &mut run, pace);
        if !run.files.is_empty() {
            runs.push((partition, run));
        }
        written?;
    }
    Ok(())
}

/// What was written is in `run`, also after an error.
fn write_run(
    engine: &Engine,
    (output, file_bytes): (&mut Output<'_>, u64),
    lists: &[(ListId, Snapshot)],
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
            let written = output.write_list(list, snapshot.cleared, &mut merge, pace)?;
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
