//! Runs: each is one sorted source for readers, stored in files of bounded size that follow each other in the order of
//! lists and items. A list may span several files.
//!
//! A compaction consumes runs from their beginning, step by step. A *trim* marks the consumed part of an existing run:
//! only later items count. So a run frees files before its compaction ends.

use std::sync::Arc;
use std::vec;

use liststore_contract::domain::ItemKey;

use super::manifest::{NamedFile, NamedRun};
use super::trim::Trim;
use crate::error::ReadError;
use crate::files::{self, Climbed, DataFile, ListCursor, Scan};
use crate::list_id::ListId;
use crate::options::ListHash;
use crate::row::RowCursor;
use crate::row::merge::Source;
use crate::row::seek::{Floor, Start};

/// A partition with this many runs accepts no flush until a compaction reduces them.
pub const RUNS_MAX: usize = 32;

/// A file of a run.
#[derive(Clone)]
pub struct RunFile {
    pub file: Arc<DataFile>,
    /// Whether it begins with the last list of the previous file.
    pub continues: bool,
    /// Estimated bytes of older runs that its clear marks hide, at the time of writing.
    pub hides: u64,
}

/// A sequence of files.
#[derive(Clone, Default)]
pub struct Run {
    pub files: Vec<RunFile>,
    pub trim: Option<Trim>,
    /// For the output of a running compaction: the number of following, older runs that are its inputs. No valid item
    /// of them comes before its end.
    pub inputs_left: usize,
}

/// The content of a run for one list.
pub struct Opened {
    pub source: Box<dyn Source>,
    /// Whether all older sources are hidden, except the inputs of the run's own compaction.
    pub cleared: bool,
}

impl Run {
    #[cfg(test)]
    pub fn of(file: RunFile) -> Self {
        Self { files: vec![file], ..Self::default() }
    }

    pub fn data_files(&self) -> impl Iterator<Item = &Arc<DataFile>> {
        self.files.iter().map(|file| &file.file)
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.data_files().map(|file| file.bytes).sum()
    }

    /// The place of the first older run that its clear marks hide, given its own place in the partition.
    pub fn hides_from(&self, i: usize) -> usize {
        i + 1 + self.inputs_left
    }

    pub fn named(&self) -> NamedRun {
        let file = |RunFile { file, continues, hides }: &RunFile| NamedFile {
            id: file.id,
            bytes: file.bytes,
            continues: *continues,
            hides: *hides,
        };
        NamedRun {
            files: self.files.iter().map(file).collect(),
            trim: self.trim.as_ref().map(|trim| (trim.list.bytes().to_vec(), trim.item)),
            inputs_left: self.inputs_left,
        }
    }

    /// Whether it may contain data of a list.
    pub fn may_hold(&self, list: &ListId) -> bool {
        self.files_of(list).iter().any(|file| file.file.index.may_hold(list.hash()))
    }

    /// The files that may contain data of a list: the last one that begins before it, and all that begin with it, or
    /// with another list of the same hash.
    fn files_of(&self, list: &ListId) -> &[RunFile] {
        if let [_] = &self.files[..] {
            return &self.files;
        }
        let first_hash = |file: &RunFile| file.file.index.hash(0).unwrap_or(0);
        let begin = self.files.partition_point(|file| first_hash(file) < list.hash()).saturating_sub(1);
        let end = self.files.partition_point(|file| first_hash(file) <= list.hash());
        self.files.get(begin..end).unwrap_or_default()
    }

    /// Scans its lists after a place, one after the other.
    pub fn scan_behind(&self, place: &ListId, hash: ListHash) -> Result<Scan, ReadError> {
        let behind = Trim { list: place.clone(), item: None };
        let behind = self.trim.iter().cloned().fold(behind, Trim::later);
        let first_hash = |file: &RunFile| file.file.index.hash(0).unwrap_or(0);
        let passed = self.files.partition_point(|file| first_hash(file) < behind.list.hash()).saturating_sub(1);
        let files = self.files.iter().skip(passed).map(|file| file.file.clone()).collect();
        Scan::new(files, Some(&behind), hash)
    }

    /// Opens a cursor on the first wanted item of a list. `None` if the run contains none.
    pub fn open(&self, list: &ListId, start: &Start) -> Result<Option<Opened>, ReadError> {
        let trimmed = self.trim.as_ref().map(|trim| trim.start_of(list, start));
        let Some(start) = trimmed.unwrap_or(Some(*start)) else { return Ok(None) };
        let mut files = self.files_of(list);
        while let [first, rest @ ..] = files {
            files = rest;
            let Some(cursor) = ListCursor::open(&first.file, list, &start)? else { continue };
            let cleared = cursor.cleared;
            if files.is_empty() {
                return Ok(Some(Opened { source: Box::new(cursor), cleared }));
            }
            if cursor.entry().is_none() {
                files = &files[before(files, &start)..];
            }
            let rest: Vec<_> = files.iter().map(|file| file.file.clone()).collect();
            let mut cursor = RunCursor { cursor, rest: rest.into_iter(), list: list.clone(), start };
            cursor.skip_ended_files()?;
            return Ok(Some(Opened { source: Box::new(cursor), cleared }));
        }
        Ok(None)
    }

    /// The item reached by moving up this many blocks from a floor; `None` if there are fewer.
    pub fn climb(&self, list: &ListId, floor: &Floor, mut steps: usize) -> Result<Option<ItemKey>, ReadError> {
        for file in self.files_of(list).iter().rev() {
            match files::climb(&file.file, list, floor, steps)? {
                Climbed::To(key) => return Ok(Some(key)),
                Climbed::Missing(left) => steps = left,
            }
        }
        Ok(None)
    }

    /// The bytes of a list, by its index. Accurate for a long list, and for many short ones together.
    pub fn bytes_of(&self, list: &ListId) -> u64 {
        if self.trim.as_ref().is_some_and(|trim| trim.item.is_none() && *list <= trim.list) {
            return 0;
        }
        self.files_of(list).iter().map(|file| file.file.index.bytes_of(list.hash())).sum()
    }
}

/// The number of first files that contain only newer items than wanted. All files have this one list, and the first
/// file does not begin it.
fn before(files: &[RunFile], start: &Start) -> usize {
    // If lists share a hash, a file's first item may belong to another list.
    if !files.iter().all(|file| file.continues && !file.file.summary.collisions) {
        return 0;
    }
    files
        .partition_point(|file| file.file.index.newest(0).is_some_and(|newest| newest > start.ceiling))
        .saturating_sub(1)
}

/// Iterates over the items of one list in several files.
struct RunCursor {
    cursor: ListCursor,
    rest: vec::IntoIter<Arc<DataFile>>,
    list: ListId,
    start: Start,
}

impl RunCursor {
    fn skip_ended_files(&mut self) -> Result<(), ReadError> {
        while self.cursor.entry().is_none() {
            let Some(next) = self.rest.next() else { break };
            if let Some(next) = ListCursor::open(&next, &self.list, &self.start)? {
                self.cursor = next;
            }
        }
        Ok(())
    }
}

impl Source for RunCursor {
    fn row(&self) -> &RowCursor {
        self.cursor.row()
    }

    fn row_mut(&mut self) -> &mut RowCursor {
        self.cursor.row_mut()
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        self.cursor.advance()?;
        self.skip_ended_files()
    }

    fn leave_row(&mut self) -> Result<(), ReadError> {
        self.cursor.leave_row()?;
        self.skip_ended_files()
    }

    fn seek(&mut self, start: &Start) -> Result<(), ReadError> {
        if !start.is_behind(self.cursor.row()) {
            return Ok(());
        }
        self.start = *start;
        // Each of them begins with the list, unless lists share a hash.
        let begins_before = |file: &&Arc<DataFile>| {
            !file.summary.collisions && file.index.newest(0).is_some_and(|newest| newest > start.ceiling)
        };
        let last = self.rest.as_slice().iter().take_while(begins_before).count().checked_sub(1);
        match last.and_then(|last| self.rest.nth(last)) {
            Some(file) => match ListCursor::open(&file, &self.list, start)? {
                Some(next) => self.cursor = next,
                None => self.cursor.seek(start)?,
            },
            None => self.cursor.seek(start)?,
        }
        self.skip_ended_files()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ListHash;
    use liststore_contract::domain::ValueDigest;

    /// A compaction that is abandoned for a wider one may leave runs that it consumed further. With the nearer place,
    /// deleted items would reappear.
    #[test]
    fn the_later_of_two_positions_skips_more() {
        let list = |name: &[u8]| ListId::from_bytes(name, ListHash::Of(|bytes| bytes.len() as u64));
        let item = |timestamp, value: &[u8]| Some((timestamp, ValueDigest::of(value)));
        let mut digests = [ValueDigest::of(b"a"), ValueDigest::of(b"b")];
        digests.sort_unstable();
        let [low, high] = digests;
        let places = [
            (list(b"a"), item(9, b"")),
            (list(b"a"), Some((7, high))),
            (list(b"a"), Some((7, low))),
            (list(b"a"), None),
            (list(b"bb"), item(99, b"")),
            (list(b"bb"), None),
        ];
        let places = places.map(|(list, item)| Trim { list, item });
        for (i, one) in places.iter().enumerate() {
            for (j, other) in places.iter().enumerate() {
                assert_eq!(one.clone().later(other.clone()), places[i.max(j)], "{i}, {j}");
            }
        }
    }
}
