//! One step of a compaction: writes one file of bounded size from the beginning of some neighbouring runs, and removes
//! its content from them. So a compaction needs space for about one file and frees consumed input during its work. It
//! can stop, and continue, between any two steps.
//!
//! The output counts up to a place, and the input runs count from there on. The place is an item, so that deleted
//! entries are dropped together with the items that they hide, and ties are on one side each. If a clear mark of a list
//! is dropped, the whole hidden list is dropped in the same step. Otherwise the list would reappear without the mark.
//!
//! Files that it would rewrite without a change become a part of the output through the manifest alone
//! (`adopt.rs`). Any number of them may precede the written file.

use std::io;
use std::sync::Arc;

use super::output::{AdoptedFile, Output, OutputError, Written};
use super::surplus::Surplus;
use crate::engine::Engine;
use crate::error::WriteError;
use crate::files::run::{Run, RunFile};
use crate::files::trim::Trim;
use crate::files::{DataFile, Pace, Scan, ScanSource};
use crate::list_id::ListId;
use crate::read::tables::{RunSpan, View};
use crate::row::merge::{Merge, Source};
use crate::unreachable::Asked;

/// Neighbouring runs that are compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionJob {
    pub place: RunSpan,
    /// Whether the first of them is the output of earlier steps.
    pub begun: bool,
}

/// The space that a step may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRoom {
    /// About the size of its output.
    pub file_bytes: u64,
    /// Whether it must free at least that much.
    pub must_gain: bool,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stepped {
    /// The remaining work.
    pub next: Option<CompactionJob>,
    pub bytes: u64,
    /// Bytes of the adopted files.
    pub adopted_bytes: u64,
}

/// How far a step came, and its inputs.
struct Taken {
    /// Where each of the runs continues; `None` if nothing of it is left.
    trims: Vec<Option<Trim>>,
    /// How many files of each run are no longer needed.
    files_done: Vec<usize>,
    /// The files among them that become a part of the output unchanged, before the written file.
    files_adopted: Vec<AdoptedFile>,
}

/// Carries out the next step.
pub fn step(
    engine: &Engine,
    view: &View,
    job: CompactionJob,
    room: StepRoom,
    pace: &mut dyn Pace,
) -> Result<Stepped, OutputError> {
    let CompactionJob { place, begun } = job;
    let runs = view.files.partition(place.partition);
    let range = place.range(runs);
    let older = &runs[range.end..];
    let (output_run, inputs) = runs[range].split_at(usize::from(begun));
    let mut output_run = output_run.first().cloned().unwrap_or_default();
    let unfinished = inputs.first().and_then(|run| run.trim.clone()).filter(|trim| begun && trim.item.is_some());
    let mut output = Output::new(engine, place.partition, older, room.file_bytes)
        .after(unfinished.map(|trim| trim.list))
        .taking_over_from(inputs)
        .cut_by(Surplus::new(engine, view));
    let taken = take(engine, inputs, &mut output, pace)?;
    let adopted = adopted(inputs, &taken.files_adopted);
    let adopted_bytes = adopted.iter().map(|file| file.file.bytes).sum();
    output_run.files.extend(adopted);
    let written = output.finish(pace)?.map(|written| {
        output_run.files.push(written.clone());
        written.file
    });
    let cut = output.take_cut();
    let bytes = written.as_ref().map_or(0, |file| file.bytes);
    let discard = || written.iter().for_each(|file| engine.tables.discard(file.id));
    let (group, freed) = regroup(output_run, inputs, taken);
    if room.must_gain && freed.iter().map(|file| file.bytes).sum::<u64>() < bytes {
        discard();
        return Err(WriteError::NotWritten(io::ErrorKind::StorageFull.into()).into());
    }
    engine.disk.sync_dir(&engine.dir).map_err(WriteError::Unknown)?;
    let left = group.first().map_or(0, |run| run.inputs_left);
    let from_oldest = older.len() + group.len();
    let next = (left > 0).then_some(CompactionJob {
        place: RunSpan { partition: place.partition, from_oldest, count: group.len() },
        begun: true,
    });
    match engine.heads.without(&cut, || engine.tables.install_compacted(place, group, &freed)) {
        Ok(()) => Ok(Stepped { next, bytes, adopted_bytes }),
        // The manifest may refer to it.
        Err(error @ WriteError::Unknown(_)) => Err(error.into()),
        Err(error) => {
            discard();
            Err(error.into())
        }
    }
}

/// Writes the merged content of the runs, newest first, until the file is full.
fn take(engine: &Engine, inputs: &[Run], output: &mut Output<'_>, pace: &mut dyn Pace) -> Result<Taken, OutputError> {
    let mut scans = Vec::with_capacity(inputs.len());
    for run in inputs {
        let files = run.data_files().cloned().collect();
        scans.push(Scan::new(files, run.trim.as_ref(), engine.options.list_hash)?);
    }
    let mut trims: Vec<_> = inputs.iter().map(|run| run.trim.clone()).collect();
    let (mut files_adopted, mut list_done) = (Vec::new(), None);
    let mut asked = Asked::new(engine.unreachable.get().cloned());
    while let Some(list) = scans.iter().filter_map(Scan::list).min().cloned() {
        if engine.bell.is_stopping() {
            return Err(OutputError::Stopped);
        }
        if asked.is_unreachable(list.bytes()) {
            let mut of_list = scans.iter_mut().filter(|scan| scan.list() == Some(&list));
            of_list.try_for_each(Scan::skip_list)?;
            pace.worked();
            list_done = Some(list);
            continue;
        }
        let mut sources: Vec<Box<dyn Source + '_>> = Vec::new();
        let (mut cleared, mut hidden_from) = (false, inputs.len());
        for (i, scan) in scans.iter_mut().enumerate().filter(|(_, scan)| scan.list() == Some(&list)) {
            if i >= hidden_from {
                scan.skip_list()?;
                continue;
            }
            if scan.cleared() {
                cleared = true;
                hidden_from = hidden_from.min(inputs[i].hides_from(i));
            }
            sources.push(Box::new(ScanSource::new(scan)?));
        }
        let written = output.write_list(&list, cleared, &mut Merge::new(sources), pace)?;
        let (list, item) = match written {
            Written::Until(timestamp, digest) => (list, Some((timestamp, digest))),
            Written::Whole if output.is_full() => (list, None),
            Written::Whole => {
                list_done = Some(list);
                continue;
            }
            Written::Nothing => match list_done {
                Some(list_done) => (list_done, None),
                None => break,
            },
            Written::AtFile(file) => {
                leave_file(&mut scans, inputs, &list, &file)?;
                trims.fill(Some(Trim { list, item: Some(file.last) }));
                files_adopted.push(file);
                continue;
            }
        };
        for (i, trim) in trims.iter_mut().enumerate() {
            let item = item.filter(|_| i < hidden_from);
            *trim = Some(Trim { list: list.clone(), item });
        }
        break;
    }
    Ok(Taken { trims, files_done: scans.iter().map(Scan::files_done).collect(), files_adopted })
}

/// Makes all inputs continue after a file of a list.
fn leave_file(scans: &mut [Scan], inputs: &[Run], list: &ListId, file: &AdoptedFile) -> Result<(), OutputError> {
    for (scan, run) in scans.iter_mut().zip(inputs).filter(|(scan, _)| scan.list() == Some(list)) {
        if scan.file() == Some(file.id) {
            scan.leave_file()?;
        }
        if scan.list() == Some(list) {
            // A compaction that was abandoned for this one may have consumed more of the run, and dropped some of it.
            let behind = Trim { list: list.clone(), item: Some(file.last) };
            let behind = run.trim.iter().cloned().fold(behind, Trim::later);
            scan.begin_behind(behind.item.unwrap_or(file.last));
        }
    }
    Ok(())
}

/// The files of some runs that become a part of another one.
fn adopted(inputs: &[Run], files: &[AdoptedFile]) -> Vec<RunFile> {
    let of_inputs = || inputs.iter().flat_map(|run| &run.files);
    let moved = |file: &AdoptedFile| {
        let found = of_inputs().find(|of_run| of_run.file.id == file.id)?;
        Some(RunFile { continues: file.continues, ..found.clone() })
    };
    files.iter().filter_map(moved).collect()
}

/// The written run, the rest of the inputs, and the freed files.
fn regroup(mut output: Run, inputs: &[Run], taken: Taken) -> (Vec<Run>, Vec<Arc<DataFile>>) {
    let is_left: Vec<_> = inputs.iter().zip(&taken.files_done).map(|(run, done)| *done < run.files.len()).collect();
    output.inputs_left = is_left.iter().filter(|left| **left).count();
    let (mut group, mut freed) = (Vec::new(), Vec::new());
    if output.inputs_left > 0 || !output.files.is_empty() {
        group.push(output);
    }
    for (i, (run, (trim, done))) in inputs.iter().zip(taken.trims.into_iter().zip(taken.files_done)).enumerate() {
        // A run of a compaction that was abandoned for this one may have been consumed further than this one has come.
        // The output of that compaction contains the difference.
        let trim = trim.map(|trim| run.trim.iter().cloned().fold(trim, Trim::later));
        let mut run = Run { trim, ..run.clone() };
        run.inputs_left = is_left[i + 1..i + 1 + run.inputs_left].iter().filter(|left| **left).count();
        let is_adopted = |file: &DataFile| taken.files_adopted.iter().any(|taken| taken.id == file.id);
        freed.extend(run.files.drain(..done).map(|file| file.file).filter(|file| !is_adopted(file)));
        if is_left[i] {
            group.push(run);
        }
    }
    (group, freed)
}
