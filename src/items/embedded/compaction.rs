//! Merges the files of a partition, so that lists lie together and what is gone takes no space.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::engine::Engine;
use super::error::WriteError;
use super::file::{DataFile, PARTITIONS, Pace, Scan, ScanSource, Summary};
use super::flush::FILES_MAX;
use super::health::Part;
use super::merge::{Merge, Source};
use super::output::{Output, OutputError};
use super::pace::RateLimit;

/// A merge that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(1);
/// How often it is looked whether enough has expired.
const EXPIRY_CHECK: Duration = Duration::from_secs(60);
/// So many files of about one size are merged.
const FAN: usize = 4;

/// What the compacting thread does until the store stops.
pub fn run(engine: &Arc<Engine>) {
    loop {
        let next = || (!engine.health.has_failed()).then(|| choose(engine)).flatten();
        engine.bell.wait_until(Some(EXPIRY_CHECK), || next().is_some() || wanted(engine));
        if engine.bell.is_stopping() {
            return;
        }
        let compacted = match next() {
            Some((partition, range)) => compact(engine, partition, range),
            None if wanted(engine) => compact_all(engine),
            None => continue,
        };
        let written = match compacted {
            Ok(()) => Ok(()),
            Err(OutputError::Stopped) => return,
            Err(OutputError::Write(error)) => Err(error),
            Err(OutputError::Read(error)) => {
                engine.health.fail(format!("{error}; restore the directory from a backup"));
                continue;
            }
        };
        let retry = matches!(written, Err(WriteError::NotWritten(_)));
        engine.note(Part::Compaction, written);
        engine.bell.ring();
        if retry {
            engine.bell.wait_until(Some(RETRY), || false);
        }
    }
}

fn wanted(engine: &Engine) -> bool {
    engine.compact_all.load(Ordering::Acquire) && !engine.health.has_failed()
}

fn compact_all(engine: &Engine) -> Result<(), OutputError> {
    for partition in 0..PARTITIONS {
        let files = engine.tables.view().files.partition(partition).len();
        if files > 0 {
            compact(engine, partition, 0..files)?;
        }
    }
    engine.compact_all.store(false, Ordering::Release);
    Ok(())
}

/// The partition that needs merging most.
fn choose(engine: &Engine) -> Option<(usize, Range<usize>)> {
    let files = engine.tables.view().files.clone();
    let now = engine.clock.now().as_nanos();
    let choices = (0..PARTITIONS).filter_map(|partition| {
        let files = files.partition(partition);
        let sizes: Vec<_> = files.iter().map(|file| Size { bytes: file.bytes, summary: &file.summary }).collect();
        Some((partition, pick(&sizes, now)?))
    });
    choices.max_by_key(|(_, range)| range.len())
}

struct Size<'a> {
    bytes: u64,
    summary: &'a Summary,
}

/// Which neighbouring files of a partition, given newest first, are to be merged.
fn pick(files: &[Size<'_>], now: u64) -> Option<Range<usize>> {
    let (oldest, newer) = files.split_last()?;
    let all = 0..files.len();
    let bytes = |files: &[Size<'_>]| files.iter().map(|file| file.bytes).sum::<u64>();
    if !newer.is_empty() && bytes(newer) >= oldest.bytes {
        return Some(all);
    }
    // Only a merge with the oldest drops what is deleted or expired: so it is done for that alone.
    let items: u64 = files.iter().map(|file| file.summary.items).sum();
    let deleted: u64 = files.iter().map(|file| file.summary.deleted).sum();
    let expired: u64 = files.iter().filter(|file| file.summary.half_expired_at <= now).map(|file| file.bytes).sum();
    if deleted > 0 && deleted * 4 >= items || expired > 0 && expired * 4 >= bytes(files) {
        return Some(all);
    }
    let mut count = 1;
    while files.get(count).is_some_and(|next| next.bytes <= bytes(&files[..count])) {
        count += 1;
    }
    if count >= FAN {
        return Some(0..count);
    }
    // Small files in front of larger ones would pile up, in the end to `FILES_MAX`, and then the
    // flusher waits for a merge: so there must be one. It writes less than the oldest file has.
    (files.len() >= FILES_MAX / 2).then_some(0..newer.len())
}

fn compact(engine: &Engine, partition: usize, range: Range<usize>) -> Result<(), OutputError> {
    let view = engine.tables.view();
    let files = view.files.partition(partition);
    let bottom = range.end == files.len();
    let inputs: Vec<Arc<DataFile>> = files.get(range).unwrap_or_default().to_vec();
    let hurry = || engine.tables.view().files.most_in_a_partition() > FILES_MAX / 2 || engine.bell.is_stopping();
    let mut pace = RateLimit::new(&engine.bell, engine.options.background_bytes_per_sec, hurry);
    let merged = merge_files(engine, partition, &inputs, bottom, &mut pace)?;
    let id = merged.as_ref().map(|file| file.id);
    let bytes = merged.as_ref().map_or(0, |file| file.bytes);
    engine.disk.sync_dir(&engine.dir).map_err(WriteError::Unknown)?;
    match engine.tables.install_merged(partition, &inputs, merged) {
        Ok(()) => {
            engine.metrics.compactions.inc();
            engine.metrics.compaction_bytes.inc_by(bytes);
            engine.files_changed();
            Ok(())
        }
        // It may be named in the manifest.
        Err(error @ WriteError::Unknown(_)) => Err(error.into()),
        Err(error) => {
            id.into_iter().for_each(|id| engine.tables.discard(id));
            Err(error.into())
        }
    }
}

/// Writes what the inputs, newest first, hold together.
fn merge_files(
    engine: &Engine,
    partition: usize,
    inputs: &[Arc<DataFile>],
    bottom: bool,
    pace: &mut dyn Pace,
) -> Result<Option<DataFile>, OutputError> {
    let mut scans = Vec::with_capacity(inputs.len());
    for file in inputs {
        scans.push(Scan::new(file.clone(), engine.options.list_hash)?);
    }
    let mut output = Output {
        disk: engine.disk.clone(),
        dir: &engine.dir,
        tables: &engine.tables,
        partition,
        now: engine.clock.now().as_nanos(),
        writer: None,
    };
    while let Some(list) = scans.iter().filter_map(Scan::list).min().cloned() {
        if engine.bell.is_stopping() {
            return Err(OutputError::Stopped);
        }
        let mut sources: Vec<Box<dyn Source + '_>> = Vec::new();
        let mut cleared = false;
        for scan in scans.iter_mut().filter(|scan| scan.list() == Some(&list)) {
            if cleared {
                scan.skip_list()?;
            } else {
                cleared = scan.cleared();
                sources.push(Box::new(ScanSource::new(scan)?));
            }
        }
        output.write_list(&list, cleared, bottom, Merge::new(sources), pace)?;
    }
    Ok(output.finish(pace)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(sizes: &[u64]) -> Option<Range<usize>> {
        let summary = Summary { partition: 0, items: 100, deleted: 0, half_expired_at: u64::MAX, collisions: false };
        let files: Vec<_> = sizes.iter().map(|bytes| Size { bytes: *bytes, summary: &summary }).collect();
        pick(&files, 1_000)
    }

    #[test]
    fn all_are_merged_when_the_newer_outweigh_the_oldest() {
        assert_eq!(picked(&[]), None);
        assert_eq!(picked(&[4]), None);
        assert_eq!(picked(&[4, 4]), Some(0..2));
        assert_eq!(picked(&[4, 8]), None);
        assert_eq!(picked(&[4, 4, 4, 13]), None);
        assert_eq!(picked(&[4, 4, 4, 12]), Some(0..4));
    }

    #[test]
    fn four_of_a_size_are_merged() {
        assert_eq!(picked(&[4, 4, 4, 100]), None);
        assert_eq!(picked(&[4, 4, 4, 4, 100]), Some(0..4));
        assert_eq!(picked(&[4, 4, 4, 4, 16, 100]), Some(0..5));
        assert_eq!(picked(&[4, 16, 100]), None);
    }

    #[test]
    fn files_never_pile_up_however_their_sizes_fall() {
        // Each newer one a little smaller, the oldest larger than all of them.
        let falling: Vec<u64> = (100..100 + FILES_MAX as u64 / 2 - 1).chain([1_000_000]).collect();
        assert_eq!(picked(&falling[1..]), None);
        assert_eq!(picked(&falling), Some(0..FILES_MAX / 2 - 1));
    }

    proptest::proptest! {
        #[test]
        fn the_flusher_never_waits_for_a_merge_that_does_not_come(
            sizes in proptest::collection::vec(1_u64..1_000_000, FILES_MAX..FILES_MAX + 4),
        ) {
            let range = picked(&sizes);
            proptest::prop_assert!(range.is_some_and(|range| range.start == 0 && range.len() > 1));
        }
    }

    #[test]
    fn a_partition_that_is_full_of_dead_items_is_rewritten() {
        let sound = Summary { partition: 0, items: 100, deleted: 0, half_expired_at: 2_000, collisions: false };
        let expired = Summary { half_expired_at: 1_000, ..sound.clone() };
        let deleted = Summary { deleted: 50, ..sound.clone() };
        let pick_two =
            |newer, oldest| pick(&[Size { bytes: 1, summary: newer }, Size { bytes: 100, summary: oldest }], 1_000);
        assert_eq!(pick_two(&sound, &sound), None);
        assert_eq!(pick_two(&sound, &expired), Some(0..2));
        assert_eq!(pick_two(&expired, &sound), None);
        assert_eq!(pick_two(&deleted, &sound), Some(0..2));
    }
}
