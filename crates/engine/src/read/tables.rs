//! The view of readers: the active memtable, the frozen one, and data files, replaced as one. Changes to the set of
//! files are made durable in the manifest first.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use liststore_contract::domain::ItemKey;

use crate::disk::Disk;
use crate::disk::file_id::{FileId, file_path};
use crate::error::{ReadError, WriteError};
use crate::expiry_clock::ExpiryClock;
use crate::files::manifest::{Manifest, NamedRun};
use crate::files::run::{Opened, Run};
use crate::files::{DataFile, partition_of};
use crate::list_id::ListId;
use crate::log::Position;
use crate::memory::memtable::{Memtable, Snapshot};
use crate::row::Malformed;
use crate::row::merge::{self, MemorySource, Merge, Source};
use crate::row::seek::{Floor, Start};

/// The runs of data files by partition, newest first.
#[derive(Clone)]
pub struct Files(Vec<Vec<Run>>);

impl Files {
    pub fn new(partitions: Vec<Vec<Run>>) -> Self {
        Self(partitions)
    }

    pub fn partition(&self, partition: usize) -> &[Run] {
        self.0.get(partition).map_or(&[], Vec::as_slice)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<DataFile>> {
        self.0.iter().flatten().flat_map(Run::data_files)
    }

    /// The largest number of runs that the read of a list uses.
    pub fn most_in_a_partition(&self) -> usize {
        // The output of a compaction contains no list that is still in its input runs, except one.
        self.0.iter().map(|runs| runs.iter().filter(|run| run.inputs_left == 0).count()).max().unwrap_or(0)
    }

    pub fn index_bytes(&self) -> u64 {
        self.all().map(|file| file.index.bytes()).sum()
    }

    pub fn bytes(&self) -> u64 {
        self.all().map(|file| file.bytes).sum()
    }

    /// Bytes on disk of a partition.
    pub fn bytes_in(&self, partition: usize) -> u64 {
        self.partition(partition).iter().map(Run::bytes).sum()
    }

    /// The estimated bytes of a list in files.
    pub fn bytes_of(&self, list: &ListId) -> u64 {
        self.partition(partition_of(list.hash())).iter().map(|run| run.bytes_of(list)).sum()
    }

    fn named(&self) -> Vec<Vec<NamedRun>> {
        self.0.iter().map(|runs| runs.iter().map(Run::named).collect()).collect()
    }
}

/// The place of neighbouring runs, counted from the oldest one of their partition. Flushes add newer runs at any time,
/// and only one thread compacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSpan {
    pub partition: usize,
    /// The number of runs of the partition up to the first of these, from the oldest on.
    pub from_oldest: usize,
    pub count: usize,
}

impl RunSpan {
    pub fn range(&self, runs: &[Run]) -> Range<usize> {
        let first = runs.len().saturating_sub(self.from_oldest);
        first..(first + self.count).min(runs.len())
    }
}

/// One moment of the store. Its content stays readable while it is held.
#[derive(Clone)]
pub struct View {
    pub active: Arc<Memtable>,
    /// The memtable that is being flushed.
    pub frozen: Option<Arc<Memtable>>,
    pub files: Arc<Files>,
}

/// The memory content of a list, newest source first.
pub struct InMemory {
    sources: Vec<Snapshot>,
    /// Whether it hides the whole content of files.
    pub hides_files: bool,
    pub bytes: usize,
}

impl InMemory {
    /// Whether there is any row of the list.
    pub fn has_rows(&self) -> bool {
        self.sources.iter().any(|snapshot| !snapshot.rows.is_empty())
    }
}

impl View {
    /// The memory content of a list, at least from `ceiling` downwards, which is enough if no files contain it. A
    /// reader takes it between changes (`Heads::between_changes`).
    pub fn in_memory(&self, list: &ListId, ceiling: u64) -> InMemory {
        let mut found = InMemory { sources: Vec::new(), hides_files: false, bytes: 0 };
        for pending in [Some(&self.active), self.frozen.as_ref()].into_iter().flatten() {
            let Some(snapshot) = pending.snapshot(list, ceiling) else { continue };
            found.bytes += snapshot.rows.iter().map(|held| held.row.len()).sum::<usize>();
            found.hides_files = snapshot.cleared;
            found.sources.push(snapshot);
            if found.hides_files {
                break;
            }
        }
        found
    }

    /// Whether files may hold anything of a list.
    pub fn has_files_for(&self, list: &ListId) -> bool {
        self.files.partition(partition_of(list.hash())).iter().any(|run| run.may_hold(list))
    }

    /// A place in a list above a floor, such that each source has at most about `steps` blocks, or bookmarks, in
    /// between. `None` if none has more.
    pub fn climb(
        &self,
        list: &ListId,
        in_memory: &InMemory,
        floor: &Floor,
        steps: usize,
    ) -> Result<Option<ItemKey>, ReadError> {
        let mut lowest: Option<ItemKey> = None;
        let mut note = |place: Option<ItemKey>| {
            lowest = place.into_iter().chain(lowest).min();
        };
        for held in in_memory.sources.iter().flat_map(|snapshot| &snapshot.rows) {
            note(held.climb(floor, steps).map_err(|Malformed| merge::broken())?);
        }
        if !in_memory.hides_files {
            for run in self.files.partition(partition_of(list.hash())) {
                note(run.climb(list, floor, steps)?);
            }
        }
        Ok(lowest)
    }

    /// The stored content of a list from `start` on.
    pub fn merge(&self, list: &ListId, start: &Start, in_memory: &InMemory) -> Result<Merge<'static>, ReadError> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for row in in_memory.sources.iter().flat_map(|snapshot| &snapshot.rows) {
            sources.push(Box::new(MemorySource::at(row, start)?));
        }
        if !in_memory.hides_files {
            let runs = self.files.partition(partition_of(list.hash()));
            let mut hidden_from = runs.len();
            for (i, run) in runs.iter().enumerate() {
                if i >= hidden_from {
                    break;
                }
                let Some(Opened { source, cleared }) = run.open(list, start)? else { continue };
                sources.push(source);
                if cleared {
                    hidden_from = hidden_from.min(run.hides_from(i));
                }
            }
        }
        Ok(Merge::new(sources))
    }
}

/// The set of files and its changes.
pub struct Tables {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    expiry_clock: Arc<ExpiryClock>,
    view: ArcSwap<View>,
    /// Held while the view is replaced, never during a wait for the disk.
    replacing: Mutex<()>,
    next_file: AtomicU64,
    tag: u32,
    /// Held while the manifest is written: it serializes changes to the set of files.
    manifest: Mutex<Manifest>,
}

impl Tables {
    pub fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        expiry_clock: Arc<ExpiryClock>,
        manifest: Manifest,
        view: View,
    ) -> Self {
        Self {
            disk,
            dir,
            expiry_clock,
            view: ArcSwap::from_pointee(view),
            replacing: Mutex::default(),
            next_file: AtomicU64::new(manifest.next_file),
            tag: manifest.owner.map_or(0, |owner| owner.tag()),
            manifest: Mutex::new(manifest),
        }
    }

    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace_view(&self, next: impl FnOnce(&View) -> View) {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        self.view.store(Arc::new(next(&self.view())));
    }

    /// The short form of the store for new data files.
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// A number for a new data file.
    pub fn new_file_id(&self) -> FileId {
        self.next_file.fetch_add(1, Ordering::AcqRel)
    }

    /// Freezes the active memtable, unless one is frozen already. Items from `start` on in the log go to a new one.
    pub fn freeze(&self, start: Position) {
        self.replace_view(|view| match &view.frozen {
            Some(_) => view.clone(),
            None => View {
                active: Arc::new(Memtable::new(start)),
                frozen: Some(view.active.clone()),
                files: view.files.clone(),
            },
        });
    }

    /// Replaces the frozen memtable with runs, at most one for each partition. Returns the place from which the log is
    /// needed.
    pub fn install_flushed(&self, flushed: Vec<(usize, Run)>) -> Result<Position, WriteError> {
        let mut manifest = self.manifest();
        let view = self.view();
        // While a memtable is frozen, the active one is not.
        let log_start = view.active.start;
        let mut files = Files::clone(&view.files);
        for (partition, run) in flushed {
            files.0[partition].insert(0, run);
        }
        let next = Manifest { log_start, runs: files.named(), ..manifest.clone() };
        self.store(&mut manifest, next)?;
        let files = Arc::new(files);
        self.replace_view(|view| View { active: view.active.clone(), frozen: None, files });
        Ok(log_start)
    }

    /// Replaces some neighbouring runs, and removes files that are no longer in any of them.
    pub fn install_compacted(
        &self,
        place: RunSpan,
        compacted: Vec<Run>,
        freed: &[Arc<DataFile>],
    ) -> Result<(), WriteError> {
        let mut manifest = self.manifest();
        let mut files = Files::clone(&self.view().files);
        let runs = &mut files.0[place.partition];
        runs.splice(place.range(runs), compacted);
        let next = Manifest { runs: files.named(), ..manifest.clone() };
        self.store(&mut manifest, next)?;
        let files = Arc::new(files);
        self.replace_view(|view| View { files, ..view.clone() });
        drop(manifest);
        for file in freed {
            // If it remains, the next start removes it, because the manifest does not name it.
            let _left_for_the_next_start = self.disk.remove(file.path());
        }
        Ok(())
    }

    /// Records that the log is only needed from `start` on.
    pub fn install_log_start(&self, start: Position) -> Result<(), WriteError> {
        let mut manifest = self.manifest();
        let next = Manifest { log_start: start, ..manifest.clone() };
        self.store(&mut manifest, next)
    }

    /// Stores the expiry clock's time for the next start.
    pub fn install_time(&self) -> Result<(), WriteError> {
        let mut manifest = self.manifest();
        let next = manifest.clone();
        self.store(&mut manifest, next)
    }

    /// Stores the date until which bytes of removed items must be erased.
    pub fn install_erasure(&self, by: Option<u64>) -> Result<(), WriteError> {
        let mut manifest = self.manifest();
        let next = Manifest { erase_by: by, ..manifest.clone() };
        self.store(&mut manifest, next)
    }

    /// Does the same as [`Self::install_time`] if the stored time is old.
    pub fn install_time_if_old(&self) -> Result<(), WriteError> {
        let stored = self.with_manifest(|manifest, _| manifest.time);
        if self.expiry_clock.is_far_ahead_of(stored) { self.install_time() } else { Ok(()) }
    }

    /// Passes the manifest and its files to `read`: no file is removed or added until it returns. Reads and writes
    /// continue. Flushes and compactions wait.
    pub fn with_manifest<T>(&self, read: impl FnOnce(&Manifest, &Files) -> T) -> T {
        let manifest = self.manifest();
        let files = self.view().files.clone();
        read(&manifest, &files)
    }

    fn store(&self, manifest: &mut Manifest, mut next: Manifest) -> Result<(), WriteError> {
        next.next_file = self.next_file.load(Ordering::Acquire);
        next.time = Some(self.expiry_clock.now().as_nanos());
        next.store(&*self.disk, &self.dir)?;
        *manifest = next;
        Ok(())
    }

    /// Removes a file that did not become a part of the store.
    pub fn discard(&self, id: FileId) {
        let _left_for_the_next_start = self.disk.remove(&file_path(&self.dir, id));
    }
}

/// An empty set of files.
#[cfg(test)]
pub fn no_files() -> Vec<Vec<Run>> {
    vec![Vec::new(); crate::files::PARTITIONS]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::oldest::OldestRead;
    use super::*;
    use crate::collect::page::{self, Collect, Next, PageBuilder};
    use crate::collect::turn::Turn;
    use crate::disk::RealDisk;
    use crate::files::run::RunFile;
    use crate::files::{AtOnce, FileWriter};
    use crate::log::change::Change;
    use crate::options::ListHash;
    use crate::row::seek::HeldRow;
    use crate::row::{self, work};
    use liststore_contract::domain::{Item, NewItem, Order, Timestamp, Ttl};
    use liststore_storage::{ItemPage, OpContext, Range};

    const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);
    const ITEMS: u64 = 20_000;

    fn ties() -> Vec<bytes::Bytes> {
        let item = |n: u64| NewItem {
            timestamp: Timestamp::MIN,
            value: format!("value-{n}").into_bytes().into(),
            expires_at: u64::MAX,
        };
        (0..ITEMS / 1_000).map(|add| row::pack((0..1_000).map(|n| item(add * 1_000 + n)).collect())).collect()
    }

    /// Walks the list in pages, and returns the number of encountered items and of computed digests.
    fn walk(view: &Arc<View>, list: &ListId, order: Order) -> (u64, u64) {
        let op = OpContext::new(Timestamp::MIN, Ttl::MAX, Instant::now() + Duration::from_secs(600));
        let (mut range, mut met) = (
            Range {
                min_timestamp: Timestamp::MIN,
                max_timestamp: Timestamp::MAX,
                after: None,
                limit: 200,
                value_bytes_max: usize::MAX,
                order,
            },
            0,
        );
        let walk = || {
            loop {
                let page = if order == Order::Newest {
                    newest(view, list, &op, &range)
                } else {
                    oldest(view, list, &op, &range)
                };
                met += page.items.len() as u64;
                if !page.more {
                    return;
                }
                let last = page.items.last().map(Item::key);
                let follows = if order == Order::Newest { last < range.after } else { last > range.after };
                assert!(follows || range.after.is_none());
                range.after = last;
            }
        };
        let ((), digests, _) = work::digests_of(walk);
        (met, digests)
    }

    fn newest(view: &View, list: &ListId, op: &OpContext, range: &Range) -> ItemPage {
        let start = Start::of(range);
        let mut merge = view.merge(list, &start, &view.in_memory(list, start.ceiling)).unwrap();
        let mut read = PageBuilder::new(op, range);
        while page::collect_from(&mut merge, &mut read, &mut Turn::new()).unwrap() == Next::Wanted {}
        read.finish()
    }

    fn oldest(view: &Arc<View>, list: &ListId, op: &OpContext, range: &Range) -> ItemPage {
        let mut read = OldestRead::new(view.clone(), view.in_memory(list, u64::MAX), list.clone(), op, range);
        loop {
            if let Some(page) = read.turn().unwrap() {
                return page;
            }
        }
    }

    fn view(pending: Memtable, files: Vec<Vec<Run>>) -> Arc<View> {
        Arc::new(View { active: Arc::new(pending), frozen: None, files: Arc::new(Files::new(files)) })
    }

    /// In both directions. A page of the oldest items reads some unneeded ones.
    fn assert_walks_are_cheap(view: &Arc<View>, list: &ListId, place: &str) {
        for (order, digests_max) in [(Order::Newest, 10), (Order::Oldest, 20)] {
            let (met, digests) = walk(view, list, order);
            assert_eq!(met, ITEMS);
            assert!(digests < digests_max * ITEMS, "{digests} {place}, {order:?} first");
        }
    }

    /// Each page begins in the middle of the ties, and must not digest all earlier ones.
    #[test]
    fn a_walk_among_ties_digests_each_item_a_few_times() {
        let list = ListId::from_bytes(b"list", HASH);
        let pending = Memtable::new(Position::start_of(1));
        for row in ties() {
            pending.apply(&list, &Change::Row(row), 0);
        }
        let rows = pending.snapshot(&list, u64::MAX).unwrap().rows;
        assert_walks_are_cheap(&view(pending, no_files()), &list, "in memory");

        let dir = tempfile::tempdir().unwrap();
        let mut writer = FileWriter::create(&RealDisk, dir.path(), 1, 0).unwrap();
        writer.begin_list(&list, false);
        let source = |held: HeldRow| Box::new(MemorySource::new(held.row).unwrap()) as Box<dyn Source>;
        let mut merge = Merge::new(rows.into_iter().map(source).collect());
        while let Some((entry, source)) = merge.current() {
            writer.push(entry, source.value(), &mut AtOnce).unwrap();
            merge.advance().unwrap();
        }
        writer.end_list(&mut AtOnce).unwrap();
        let mut files = no_files();
        let file = Arc::new(writer.finish(&mut AtOnce).unwrap());
        files[0].push(Run::of(RunFile { file, continues: false, hides: 0 }));
        assert_walks_are_cheap(&view(Memtable::new(Position::start_of(1)), files), &list, "in a file");
    }
}
