//! Decides whether a compaction may adopt a file unchanged, without reading or writing it. So compactions keep up with
//! a list that receives most writes, in the order of its timestamps: hardly any of its files overlap.
//!
//! A file is adopted only if a compaction would write the same items again. In doubt it is rewritten.

use liststore_contract::domain::ValueDigest;

use crate::error::ReadError;
use crate::files::DataFile;
use crate::files::run::Run;
use crate::list_id::ListId;
use crate::row::RowCursor;
use crate::row::merge::Merge;
use crate::row::seek::Start;

/// An adopted file may be this many times smaller than a full one, because each open file costs memory and a
/// descriptor. A file of `LARGE_BYTES` is never too small, because flushes hardly write larger ones.
const SMALLER_MAX: u64 = 4;
const LARGE_BYTES: u64 = 48 << 20;

/// Whether this many bytes are worth a separate file, where files end at `file_bytes`.
fn are_worth_a_file(bytes: u64, file_bytes: u64) -> bool {
    bytes >= (file_bytes / SMALLER_MAX).min(LARGE_BYTES)
}

/// The file size for a list that a flush writes, if the list is long enough for separate files, which compactions may
/// adopt. All have about one size, so that none is too small for adoption.
pub fn file_bytes_of_list(list_bytes: u64, file_bytes: u64) -> Option<u64> {
    let part = list_bytes / (list_bytes / file_bytes.max(1)).max(1);
    // Lists and checksums take some bytes in addition to the rows.
    are_worth_a_file(list_bytes, file_bytes).then_some(part + part / 32)
}

/// The conditions of a compaction for adopting a file.
pub struct Terms<'a> {
    /// The compacted runs.
    pub inputs: &'a [Run],
    pub file_bytes: u64,
    /// Nanoseconds since the Unix epoch.
    pub now: u64,
    /// Whether no older run is left, so that expired items may be dropped.
    pub bottom: bool,
}

impl Terms<'_> {
    /// The last item of the file at whose beginning a list's compaction is, if the file may be adopted.
    pub fn last_item(&self, merge: &Merge<'_>, list: &ListId) -> Result<Option<(u64, ValueDigest)>, ReadError> {
        let Some((id, next)) = merge.begun_file() else { return Ok(None) };
        let file = self.inputs.iter().flat_map(Run::data_files).find(|file| file.id == id);
        let Some(file) = file.filter(|file| self.keeps_all_items(file)) else { return Ok(None) };
        let last = file.last_item_of(list)?;
        Ok(last.filter(|last| next.is_none_or(|next| comes_after(next, *last))))
    }

    /// Whether a rewrite would drop nothing of the file, and it is not too small.
    fn keeps_all_items(&self, file: &DataFile) -> bool {
        let summary = &file.summary;
        // Deleted entries include marks of cleared lists, which must be on every part of the list.
        let holds_dead = summary.deleted > 0 || self.bottom && summary.half_expired_at <= self.now;
        !holds_dead && are_worth_a_file(file.bytes, self.file_bytes)
    }
}

/// Whether the item at a cursor comes after another one.
fn comes_after(cursor: &RowCursor, (ceiling, digest): (u64, ValueDigest)) -> bool {
    !Start { ceiling, below: Some(digest) }.is_behind(cursor)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::RealDisk;
    use crate::files::run::RunFile;
    use crate::files::trim::Trim;
    use crate::files::{AtOnce, FileWriter, Scan, ScanSource};
    use crate::options::ListHash;
    use crate::row::merge::Source;
    use crate::row::{RowBuilder, RowCursor};

    const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);
    const HOT: &[u8] = b"hot";
    const NOW: u64 = 1_000;

    fn list(name: &[u8]) -> ListId {
        ListId::from_bytes(name, HASH)
    }

    /// A timestamp and a value.
    type Item = (u64, u8);

    /// The content of a file, newest first.
    #[derive(Clone, Copy)]
    struct Held<'a> {
        lists: &'a [(&'a [u8], &'a [Item])],
        cleared: bool,
        deleted: bool,
        expires_at: u64,
    }

    const SOUND: Held<'static> = Held { lists: &[], cleared: false, deleted: false, expires_at: NOW + 1 };

    fn hot<'a>(lists: &'a [(&'a [u8], &'a [Item])]) -> Held<'a> {
        Held { lists, ..SOUND }
    }

    /// Writes runs of files, newest run first, and checks at the first item of the hot list.
    fn ask(runs: &[&[Held<'_>]], behind: Option<Item>, file_bytes: u64, bottom: bool) -> Option<(u64, ValueDigest)> {
        let dir = tempfile::tempdir().unwrap();
        let (mut id, mut scans, mut inputs) = (0, Vec::new(), Vec::new());
        let behind = behind.map(|(timestamp, value)| Trim {
            list: list(HOT),
            item: Some((timestamp, ValueDigest::of(&[value; 100]))),
        });
        for files in runs {
            let mut run = Vec::new();
            for held in *files {
                id += 1;
                let mut writer = FileWriter::create(&RealDisk, dir.path(), id, 0).unwrap();
                for (name, items) in held.lists {
                    writer.begin_list(&list(name), held.cleared);
                    for (timestamp, value) in *items {
                        let mut row = RowBuilder::default();
                        row.push(*timestamp, held.expires_at, held.deleted, &[*value; 100]);
                        let row = RowCursor::new(row.finish()).unwrap();
                        writer.push(row.entry().unwrap(), row.value(), &mut AtOnce).unwrap();
                    }
                    writer.end_list(&mut AtOnce).unwrap();
                }
                run.push(Arc::new(writer.finish(&mut AtOnce).unwrap()));
            }
            let of_run = |file: &Arc<DataFile>| RunFile { file: Arc::clone(file), continues: false, hides: 0 };
            inputs.push(Run { files: run.iter().map(of_run).collect(), ..Run::default() });
            let mut scan = Scan::new(run, behind.as_ref(), HASH).unwrap();
            while scan.list().is_some_and(|before| *before < list(HOT)) {
                scan.skip_list().unwrap();
            }
            scans.push(scan);
        }
        let of_list = scans.iter_mut().filter(|scan| scan.list() == Some(&list(HOT)));
        let sources = of_list.map(|scan| Box::new(ScanSource::new(scan).unwrap()) as Box<dyn Source>);
        let merge = Merge::new(sources.collect());
        Terms { inputs: &inputs, file_bytes, now: NOW, bottom }.last_item(&merge, &list(HOT)).unwrap()
    }

    fn is_adopted(newer: Held<'_>, older: Held<'_>) -> bool {
        ask(&[&[newer], &[older]], None, 1, true).is_some()
    }

    fn last(timestamp: u64, value: u8) -> Option<(u64, ValueDigest)> {
        Some((timestamp, ValueDigest::of(&[value; 100])))
    }

    #[test]
    fn a_file_is_adopted_if_no_other_item_lies_within_it() {
        let newer = hot(&[(HOT, &[(30, 1), (20, 1)])]);
        let of = |older: &[Item]| ask(&[&[newer], &[hot(&[(HOT, older)])]], None, 1, true);
        assert_eq!(of(&[(19, 1), (10, 1)]), last(20, 1));
        for between in [30, 25, 20] {
            assert_eq!(of(&[(between, 1), (10, 1)]), None, "{between}");
        }
        assert_eq!(of(&[(40, 1), (35, 1)]), last(35, 1), "the other one comes first");
        assert_eq!(of(&[(40, 1), (25, 1)]), None);
        assert_eq!(ask(&[&[newer]], None, 1, true), last(20, 1));
    }

    #[test]
    fn digests_order_items_with_equal_timestamps() {
        let mut values = [1_u8, 2];
        values.sort_by_key(|value| std::cmp::Reverse(ValueDigest::of(&[*value; 100])));
        let [first, second] = values;
        let of = |newer, older| is_adopted(hot(&[(HOT, &[(30, 9), (20, newer)])]), hot(&[(HOT, &[(20, older)])]));
        assert!(of(first, second));
        assert!(!of(second, first));
        assert!(!of(first, first));
    }

    #[test]
    fn a_partly_consumed_file_is_not_adopted() {
        let file = [hot(&[(HOT, &[(30, 1), (20, 1)])]), hot(&[(HOT, &[(19, 1), (10, 1)])])];
        let behind = |timestamp| ask(&[&file], Some((timestamp, 1)), 1, true);
        assert_eq!(behind(31), last(20, 1));
        assert_eq!(behind(30), None);
        assert_eq!(behind(20), last(10, 1));
        assert_eq!(behind(19), None);
    }

    #[test]
    fn a_file_with_another_list_is_not_adopted() {
        let older = hot(&[(HOT, &[(10, 1)])]);
        let items: &[Item] = &[(30, 1)];
        assert!(is_adopted(hot(&[(HOT, items)]), older));
        assert!(!is_adopted(hot(&[(b"a", items), (HOT, items)]), older));
        assert!(!is_adopted(hot(&[(HOT, items), (b"longer", items)]), older));
        // With the same hash.
        assert!(!is_adopted(hot(&[(HOT, items), (b"hou", items)]), older));
    }

    #[test]
    fn a_small_file_or_one_with_dead_items_is_rewritten() {
        let older = hot(&[(HOT, &[(10, 1)])]);
        let newer = hot(&[(HOT, &[(30, 1), (20, 1)])]);
        assert!(is_adopted(newer, older));
        assert!(!is_adopted(Held { deleted: true, ..newer }, older));
        assert!(!is_adopted(Held { cleared: true, ..newer }, older));
        let expired = [Held { expires_at: NOW, ..newer }];
        assert_eq!(ask(&[&expired], None, 1, true), None);
        assert_eq!(ask(&[&expired], None, 1, false), last(20, 1), "it may hide something older");
        let bytes = 8 + 250 + 24 + 72;
        assert_eq!(ask(&[&[newer]], None, SMALLER_MAX * bytes / 2, true), last(20, 1));
        assert_eq!(ask(&[&[newer]], None, SMALLER_MAX * bytes * 2, true), None);
    }

    #[test]
    fn the_files_of_a_long_list_have_about_one_size() {
        assert_eq!(file_bytes_of_list(99, 400), None);
        assert_eq!(file_bytes_of_list(100, 400), Some(103));
        assert_eq!(file_bytes_of_list(LARGE_BYTES, u64::MAX), Some(LARGE_BYTES / 32 * 33));
        assert_eq!(file_bytes_of_list(799, 400), Some(799 + 24));
        assert_eq!(file_bytes_of_list(1_000, 400), Some(500 + 15));
        assert_eq!(file_bytes_of_list(5, 0), Some(1));
    }
}
