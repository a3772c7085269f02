//! The embedded store: opening, closing, and the shared part of sessions.

use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use liststore_contract::domain::{Clock, FeatureKey, Item, ListKey, ListKeyRef, Timestamp};
use liststore_storage::{
    Abilities, BagSwaps, BoundOf, ByteErasure, Erased, FileBackup, IsUnreachable, ItemBackup, ItemSession, ItemStore,
    MemoryReads, OpContext, PageInMemory, Range, Reclaim, StateToken, StoreError,
};
use prometheus::Registry;
use tokio::time::Instant;

use super::bell::Bell;
use super::collect::members::{MemberFinder, Present};
use super::collect::page::{self, Collect};
use super::commit::Committer;
use super::compaction::{self, flush};
use super::directory::Directory;
use super::disk::room::Room;
use super::disk::{Disk, LockGuard, RealDisk};
use super::engine::Engine;
use super::error::{OpenError, WriteError};
use super::expiry_clock::ExpiryClock;
use super::health::Health;
use super::list_id::BorrowedListId;
use super::log::change::Change;
use super::log::known::Known;
use super::log::queue::CommitQueue;
use super::log::replay;
use super::log::writer::{LogWriter, Progress};
use super::memory::heads::Heads;
use super::memory::member_index::MemberIndex;
use super::memory::memtable::Memtable;
use super::metrics::{self, Metrics};
use super::options::{EmbeddedOptions, Fsync};
use super::promises::Erasures;
use super::read::found_bags;
use super::read::pool::Pool;
use super::read::tables::{Tables, View};
use super::session::EmbeddedSession;
use super::{backup, erasure, presence};

/// Lists in a directory of this machine.
pub struct EmbeddedStore {
    engine: Arc<Engine>,
    running: Mutex<Running>,
}

/// The parts that end with the store.
#[derive(Default)]
struct Running {
    committer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    lock: Option<LockGuard>,
}

impl EmbeddedStore {
    /// Opens a directory, or initializes it if it is empty or missing.
    pub fn open(options: EmbeddedOptions, clock: Arc<dyn Clock>, registry: &Registry) -> Result<Self, OpenError> {
        Self::open_on(Arc::new(RealDisk), options, clock, registry)
    }

    /// Does the same on another disk, for tests that tear and stop its operations.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: EmbeddedOptions,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, OpenError> {
        let metrics = Metrics::register(registry)?;
        let dir = options.dir.join("items");
        let (lock, mut directory) = Directory::enter(&*disk, &dir, options.belonging)?;
        let files = Arc::new(directory.open_runs(&*disk, options.list_hash)?);
        let start = directory.manifest.log_start;
        let active = Memtable::new(start);
        let (segments, used_up, spares) = directory.segments();
        let end = replay::read(&*disk, &dir, &segments, directory.log(&*disk), options.list_hash, |record| {
            active.apply(&record.list, &record.change, record.oldest);
        })?;
        // Nothing was changed up to here, so a refused directory stays unchanged.
        end.settle(&*disk, &dir, &segments)?;
        directory.remove_orphans(&*disk);
        let belonged = directory.manifest.store_id();
        directory.join(&*disk, options.belonging.once_open(belonged), end.next_segment())?;
        let store = directory.manifest.store_id();
        let known = Known::open(&*disk, &dir, store);
        let first = used_up.first().or(segments.first()).copied().unwrap_or(start.segment);
        // Durable exactly up to the end: the next segment states it before the last one is closed, and must not promise
        // more than a crash in between would leave.
        let progress = Arc::new(Progress::new(dir.clone(), store, first, end.position(), spares));
        let cannot_begin = |path: &Path| {
            let path = path.to_owned();
            move |error| match error {
                WriteError::NotWritten(source) | WriteError::Unknown(source) => {
                    OpenError::Io { what: "begin the log in", path, source }
                }
            }
        };
        let log = LogWriter::begin(disk.clone(), end.next_segment(), options.log_segment_bytes, progress.clone())
            .map_err(cannot_begin(&dir))?;
        end.close(&*disk, &dir)?;
        let nothing_pending = active.is_empty();
        let active = if nothing_pending { Memtable::new(log.position()) } else { active };
        let view = View { active: Arc::new(active), frozen: None, files };
        let erasures = Erasures::new(&*clock, options.erase_within, directory.manifest.erase_by);
        let expiry_clock = Arc::new(ExpiryClock::new(clock.clone(), directory.manifest.time));
        let tables = Tables::new(disk.clone(), dir.clone(), expiry_clock.clone(), directory.manifest, view);
        if nothing_pending {
            tables.install_log_start(log.position()).map_err(cannot_begin(&dir))?;
            progress.recycle_before(&*disk, log.position().segment);
        } else {
            progress.recycle_before(&*disk, start.segment);
        }
        let engine = Arc::new(Engine {
            heads: Heads::new(options.heads_bytes(0)),
            queue: CommitQueue::new(options.queue_bytes()),
            options,
            disk,
            dir,
            clock,
            expiry_clock,
            erasures,
            metrics,
            health: Health::default(),
            tables,
            progress,
            known,
            pool: Pool::new(),
            bell: Bell::default(),
            room: Room::default(),
            unreachable: OnceLock::new(),
            bound_of: OnceLock::new(),
            compact_all: AtomicBool::new(false),
            compacted_all: AtomicBool::new(true),
            lacks_room: AtomicBool::new(false),
        });
        let active = engine.tables.view().active.clone();
        for list in active.cleared() {
            engine.note_removal(&active, &list, &Change::Clear);
        }
        engine.files_changed();
        let measured = Arc::downgrade(&engine);
        metrics::register_gauges(registry, move || Some(measured.upgrade()?.readings()))?;
        let store = Self { engine, running: Mutex::new(Running { lock: Some(lock), ..Running::default() }) };
        store.start(log)?;
        Ok(store)
    }

    fn start(&self, log: LogWriter) -> Result<(), OpenError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let committer = Committer::new(self.engine.clone(), log);
        running.committer = Some(spawn("items-log", move || committer.run())?);
        running.others.push(self.spawn_writer("items-ahead", |engine| engine.prepare_log())?);
        running.others.push(self.spawn_writer("items-flush", flush::run)?);
        running.others.push(self.spawn_writer("items-compact", compaction::run)?);
        running.others.push(self.spawn_writer("items-erase", erasure::run)?);
        for _ in 0..self.engine.options.read_threads.max(1) {
            let engine = self.engine.clone();
            running.others.push(spawn("items-read", move || engine.pool.work())?);
        }
        if let Fsync::Interval(interval) = self.engine.options.fsync {
            running.others.push(self.spawn_writer("items-fsync", move |engine| {
                while !engine.bell.is_stopping() {
                    engine.bell.wait_until(Some(interval), || false);
                    if !engine.progress.is_durable() && !engine.health.has_failed() {
                        engine.sync_log();
                    }
                }
            })?);
        }
        Ok(())
    }

    /// Spawns a thread that writes in the background. If it panics, no thread continues its unfinished work, so the
    /// store accepts no more writes.
    fn spawn_writer(
        &self,
        name: &'static str,
        work: impl FnOnce(&Arc<Engine>) + Send + 'static,
    ) -> Result<JoinHandle<()>, OpenError> {
        let engine = self.engine.clone();
        spawn(name, move || {
            let guarded = scopeguard::guard(engine, |engine| {
                if std::thread::panicking() {
                    engine.health.fail(format!("the thread {name} panicked; restart the server"));
                    engine.bell.ring();
                }
            });
            work(&guarded);
        })
    }

    /// Flushes the memtables to data files, and returns once that is done. Blocks.
    pub fn flush(&self) -> Result<(), StoreError> {
        let engine = &self.engine;
        let written = engine.progress.written();
        engine.queue.want_freeze();
        erasure::wait_for(engine, || {
            let view = engine.tables.view();
            view.frozen.is_none() && (view.active.is_empty() || view.active.start >= written)
        })
    }

    /// Compacts all data files, and returns once that is done. Blocks.
    pub fn compact(&self) -> Result<(), StoreError> {
        erasure::compact(&self.engine)
    }
}

fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(|source| OpenError::Thread { name, source })
}

/// Commits queued writes, makes everything durable, and ends the threads.
fn stop(engine: &Engine, running: Running) {
    engine.queue.close();
    let join = |thread: JoinHandle<()>| {
        if thread.join().is_err() {
            tracing::error!("a thread of the item store panicked");
        }
    };
    running.committer.into_iter().for_each(join);
    engine.bell.stop();
    engine.pool.stop();
    running.others.into_iter().for_each(join);
    // The second call has nothing to close.
    if running.lock.is_some() && !engine.health.has_failed() {
        // An older time only delays the drop of expired items.
        let _older_one_stays = engine.tables.install_time();
        engine.known.tell_last(engine.progress.durable());
    }
    drop(running.lock);
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        stop(&self.engine, running);
    }
}

#[async_trait(?Send)]
impl ItemStore for EmbeddedStore {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        Ok(Rc::new(EmbeddedSession::new(self.engine.clone())))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            memory: Some(self.clone()),
            permits: None,
            bag_swaps: BagSwaps::Atomic,
            reclaim: Some(self.clone()),
            backup: Ok(self.clone()),
            erasure: Some(self),
            migration: None,
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        let engine = &self.engine;
        // In the other mode the store acknowledges nothing before its fsync.
        if engine.options.fsync == Fsync::Group || engine.progress.is_durable() || engine.sync_log() {
            if let Some(place) = engine.progress.appended() {
                engine.options.durable.reach(place.as_u64());
            }
            return Ok(());
        }
        Err(super::health::unavailable(&engine.health.read_only().unwrap_or_default()))
    }

    /// Closing the store completes the queued writes.
    async fn idle(&self) {}

    async fn close(&self) -> Result<(), StoreError> {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        let engine = self.engine.clone();
        let (done, stopped) = tokio::sync::oneshot::channel();
        // Waiting for the threads would hold up the arbiter.
        let stopper = spawn("items-close", move || {
            stop(&engine, running);
            let _nobody_waits = done.send(());
        });
        let internal = |reason: String| StoreError::Internal { reason, outcome_unknown: false };
        stopper.map_err(|error| internal(error.to_string()))?;
        stopped.await.map_err(|_| internal("closing was interrupted".into()))?;
        match self.engine.health.has_failed() {
            true => Err(super::health::unavailable(&self.engine.health.read_only().unwrap_or_default())),
            false => Ok(()),
        }
    }

    fn read_only(&self) -> Option<String> {
        self.engine.read_only()
    }

    fn warning(&self) -> Option<String> {
        None
    }
}

impl MemoryReads for EmbeddedStore {
    fn state(&self, list: &ListKey) -> Option<StateToken> {
        self.engine.heads.state(self.engine.options.list_hash.of_list(list.borrowed()))
    }

    fn get_from_memory(&self, op: &OpContext, list: &ListKey, range: &Range) -> Option<PageInMemory> {
        let bounded = match op.max_items {
            Some(max_items) => Some((range.at_most(max_items)?, max_items)),
            None => None,
        };
        let list = BorrowedListId::of(list.borrowed(), self.engine.options.list_hash);
        let range = bounded.as_ref().map_or(range, |(range, _)| range);
        let mut found = self.engine.heads.page_in_memory(list, op, range)?;
        bounded.iter().for_each(|(_, max_items)| found.page.end_with(*max_items));
        self.engine.metrics.head_hits.inc();
        Some(found)
    }

    fn bag_from_memory(&self, op: &OpContext, bag: ListKeyRef<'_>) -> Option<Option<Item>> {
        let bag = BorrowedListId::of(bag, self.engine.options.list_hash);
        let found = found_bags::bag(&self.engine.heads, op, bag)?;
        self.engine.metrics.head_hits.inc();
        Some(found)
    }

    fn bags_from_memory(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        entries: &[Item],
    ) -> Vec<Option<Option<Item>>> {
        let Engine { heads, options, metrics, .. } = &*self.engine;
        let found = found_bags::bags(heads, options.list_hash, op, feature_key, entries);
        metrics.head_hits.inc_by(found.iter().flatten().count() as u64);
        found
    }

    fn lookup_from_memory(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Option<Vec<Option<Item>>> {
        // Only reading the newest items shows which items are beyond them.
        if op.max_items.is_some() {
            return None;
        }
        let seen = |present: Option<Present>| present.and_then(|present| present.seen_by(op));
        let set = BorrowedListId::of(list.borrowed(), self.engine.options.list_hash);
        let find = |index: &MemberIndex| members.iter().map(|member| index.find(member)).collect::<Vec<_>>();
        let found = self.engine.heads.members(set, find).or_else(|| {
            let mut finder = MemberFinder::new(list.identity(), members.iter().cloned());
            page::collect_row(self.engine.heads.whole(set)?, &mut finder)?;
            Some(finder.finish())
        })?;
        self.engine.metrics.member_hits.inc();
        Some(found.into_iter().map(seen).collect())
    }
}

impl Reclaim for EmbeddedStore {
    fn forget(&self, unreachable: IsUnreachable) {
        let _said_before = self.engine.unreachable.set(unreachable);
        self.engine.bell.ring();
    }

    fn bound(&self, bound_of: BoundOf) {
        let _said_before = self.engine.bound_of.set(bound_of);
        self.engine.bell.ring();
    }
}

impl ByteErasure for EmbeddedStore {
    fn held(&self, lists: &[ListKey], deadline: Instant) -> Result<Option<Vec<bool>>, StoreError> {
        presence::held(&self.engine, lists, deadline)
    }

    fn erase_removed(&self) -> Result<Erased, StoreError> {
        erasure::erase(&self.engine).map(|()| Erased::Now)
    }

    fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError> {
        erasure::promise(&self.engine).map(Some)
    }
}

impl FileBackup for EmbeddedStore {
    fn backup(
        &self,
        to: &Path,
        cancelled: &(dyn Fn() -> bool + Sync),
        fixed: &mut dyn FnMut(),
    ) -> Result<ItemBackup, StoreError> {
        backup::write(&self.engine, to, cancelled, fixed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::list_id::ListId;
    use super::super::row;
    use super::*;
    use liststore_contract::domain::{
        EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ManualClock, NewItem, Order, Timestamp,
        Ttl, VersionLabel,
    };

    /// A read that takes longer than this waits for the change during which it began.
    const WAITS: Duration = Duration::from_millis(200);

    fn list() -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let feature = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        ListKey::new(feature, EntityId::new("u-1").unwrap())
    }

    fn operation() -> OpContext {
        let (now, deadline) = (Timestamp::from_nanos(1_000).unwrap(), Instant::now() + Duration::from_secs(60));
        OpContext::new(now, Ttl::MAX, deadline)
    }

    fn newest(limit: usize) -> Range {
        let (min_timestamp, max_timestamp) = (Timestamp::MIN, Timestamp::MAX);
        let order = Order::Newest;
        Range { min_timestamp, max_timestamp, after: None, limit, value_bytes_max: usize::MAX, order }
    }

    fn item(nanos: u64) -> NewItem {
        let timestamp = Timestamp::from_nanos(nanos).unwrap();
        NewItem { timestamp, value: "value".into(), expires_at: u64::MAX }
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    /// The number of items that a get sees.
    fn count_by_session(engine: &Arc<Engine>, limit: usize) -> usize {
        let session = EmbeddedSession::new(engine.clone());
        block_on(session.get(&operation(), &list(), &newest(limit))).unwrap().items.len()
    }

    fn count_in_head(store: &EmbeddedStore) -> usize {
        match store.get_from_memory(&operation(), &list(), &newest(100)) {
            Some(PageInMemory { page, .. }) => page.items.len(),
            other => panic!("the head is not in memory: {other:?}"),
        }
    }

    /// A list of 20 items, whose head is in memory, on a store with one reading thread.
    struct Stage {
        store: EmbeddedStore,
        /// The results of successive callers.
        told: Vec<usize>,
        waiting: Vec<mpsc::Receiver<usize>>,
        _dir: tempfile::TempDir,
    }

    impl Stage {
        fn set(in_files: bool) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let clock = Arc::new(ManualClock::at(operation().now));
            let options = EmbeddedOptions { read_threads: 1, ..EmbeddedOptions::new(dir.path()) };
            let store = EmbeddedStore::open(options, clock, &Registry::new()).unwrap();
            let session: Rc<dyn ItemSession> = Rc::new(EmbeddedSession::new(store.engine.clone()));
            block_on(session.add(&operation(), &list(), (1..=20).map(item).collect())).unwrap();
            if in_files {
                store.flush().unwrap();
            }
            assert_eq!(count_by_session(&store.engine, 100), 20, "and now the head is in memory");
            Self { store, told: Vec::new(), waiting: Vec::new(), _dir: dir }
        }

        /// Begins a read that goes behind the head.
        fn begin_long_read(&self) -> mpsc::Receiver<usize> {
            let (answer, answered) = mpsc::sync_channel(1);
            let engine = self.store.engine.clone();
            std::thread::spawn(move || answer.send(count_by_session(&engine, 1_000)));
            answered
        }

        /// Begins reads when the previous one has been answered: short ones, which the head answers, and a long one.
        fn look(&mut self) {
            let long = self.begin_long_read();
            self.told.push(count_in_head(&self.store));
            match long.recv_timeout(WAITS) {
                Ok(count) => self.told.push(count),
                Err(_) => self.waiting.push(long),
            }
            self.told.push(count_in_head(&self.store));
        }

        /// Does the same as the log's thread to add one item, and calls `on_step` at each step.
        fn add_one(&mut self, mut on_step: impl FnMut(&mut Self)) {
            let engine = self.store.engine.clone();
            let id = ListId::of(&list(), engine.options.list_hash);
            let (change, active) = (Change::Row(row::pack(vec![item(21)])), engine.tables.view().active.clone());
            engine.heads.change(&id, &change, || {
                on_step(self);
                active.apply(&id, &change, 21);
                on_step(self);
            });
            on_step(self);
        }

        /// Once a read has shown a write, every later one must show it.
        fn judge(self) {
            assert!(self.told.is_sorted(), "{:?}", self.told);
            assert_eq!((self.told.first(), self.told.last()), (Some(&20), Some(&21)));
            for waiting in self.waiting {
                assert_eq!(waiting.recv().unwrap(), 21, "a read that waited for the change");
            }
        }
    }

    #[test]
    fn a_change_appears_to_short_and_long_reads_at_one_moment() {
        for in_files in [false, true] {
            let mut stage = Stage::set(in_files);
            stage.add_one(Stage::look);
            stage.judge();
        }
    }

    /// Such a read once read the memtable only at its turn, possibly during a change. So it showed an item that the
    /// head, and the next read, did not show yet.
    #[test]
    fn a_read_whose_turn_comes_during_a_change_does_not_show_it_before_the_head_does() {
        let mut stage = Stage::set(true);
        let (go_on, held) = mpsc::sync_channel::<()>(0);
        let (busy, is_busy) = mpsc::sync_channel(0);
        let engine = stage.store.engine.clone();
        let holding = std::thread::spawn(move || {
            let hold = move || {
                busy.send(()).unwrap();
                Some(held.recv())
            };
            block_on(engine.pool.run(Instant::now() + Duration::from_secs(60), hold)).unwrap()
        });
        is_busy.recv().unwrap();
        let long = stage.begin_long_read();
        while stage.store.engine.pool.waiting() == 0 {
            std::thread::yield_now();
        }
        let mut steps = [None, Some(long)].into_iter();
        stage.add_one(|stage| {
            if let Some(long) = steps.next().flatten() {
                go_on.send(()).unwrap();
                stage.told.push(count_in_head(&stage.store));
                // Its input was fixed before the change, and it only waits for its turn.
                stage.told.push(long.recv_timeout(Duration::from_secs(60)).expect("it waits for the change"));
            }
            stage.told.push(count_in_head(&stage.store));
        });
        holding.join().unwrap().unwrap();
        stage.judge();
    }
}
