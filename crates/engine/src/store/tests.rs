//! Reads of both kinds while a list changes.

use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use liststore_contract::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ListKey, ManualClock, NewItem, Order,
    Timestamp, Ttl, VersionLabel,
};
use liststore_storage::{ItemSession, MemoryReads, OpContext, PageInMemory, Range};
use tokio::time::Instant;

use super::*;
use crate::list_id::ListId;
use crate::row;
use crate::session::EmbeddedSession;

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
    counts: Vec<usize>,
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
        Self { store, counts: Vec::new(), waiting: Vec::new(), _dir: dir }
    }

    /// Begins a read that goes behind the head.
    fn begin_long_read(&self) -> mpsc::Receiver<usize> {
        let (answer, answered) = mpsc::sync_channel(1);
        let engine = self.store.engine.clone();
        std::thread::spawn(move || answer.send(count_by_session(&engine, 1_000)));
        answered
    }

    /// Begins reads when the previous one has been answered: short ones, which the head answers, and a long one.
    fn read_all(&mut self) {
        let long = self.begin_long_read();
        self.counts.push(count_in_head(&self.store));
        match long.recv_timeout(WAITS) {
            Ok(count) => self.counts.push(count),
            Err(_) => self.waiting.push(long),
        }
        self.counts.push(count_in_head(&self.store));
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
        assert!(self.counts.is_sorted(), "{:?}", self.counts);
        assert_eq!((self.counts.first(), self.counts.last()), (Some(&20), Some(&21)));
        for waiting in self.waiting {
            assert_eq!(waiting.recv().unwrap(), 21, "a read that waited for the change");
        }
    }
}

#[test]
fn a_change_appears_to_short_and_long_reads_at_one_moment() {
    for in_files in [false, true] {
        let mut stage = Stage::set(in_files);
        stage.add_one(Stage::read_all);
        stage.judge();
    }
}

/// Such a read once read the memtable only at its turn, possibly during a change. So it showed an item that the
/// head, and the next read, did not show yet.
#[test]
fn a_read_during_a_change_shows_it_no_earlier_than_the_head() {
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
            stage.counts.push(count_in_head(&stage.store));
            // Its input was fixed before the change, and it only waits for its turn.
            stage.counts.push(long.recv_timeout(Duration::from_secs(60)).expect("it waits for the change"));
        }
        stage.counts.push(count_in_head(&stage.store));
    });
    holding.join().unwrap().unwrap();
    stage.judge();
}
