//! Random operations on the engine and on the model, with flushes, compactions, times in which compactions find no
//! room, restarts and clock steps in between: every answer must be the model's.

use std::collections::VecDeque;

use bytes::Bytes;
use liststore::domain::{ItemKey, MaxItems, Order, Timestamp, Ttl, ValueDigest};
use liststore::items::embedded::{EmbeddedOptions, Fsync, ListHash};
use liststore::items::{Count, ItemPage, ItemStore, MemoryReads, OpContext, Range, Validity};
use proptest::prelude::*;

use crate::harness::{
    Model, Opened, SECOND, START, at, carry_out, everything, list, open, operation, random_change, random_value,
    runtime, small_options,
};
use crate::sim_disk::{Rng, SimDisk};

const LISTS: u64 = 4;
/// Pages that are remembered.
const READ_MAX: usize = 64;
/// Files that may be written while compactions find no room: fewer than make the flusher wait for one.
const FLUSHES_WITHOUT_ROOM: usize = 8;

/// A page that came from memory.
struct Read {
    list: u64,
    retention: (Ttl, Option<MaxItems>),
    range: Range,
    page: ItemPage,
    validity: Validity,
}

struct Run {
    disk: SimDisk,
    options: EmbeddedOptions,
    opened: Option<Opened>,
    model: Model,
    rng: Rng,
    now: u64,
    /// The latest time of any read: items that had expired by then may be gone permanently.
    latest: u64,
    /// The last reads from memory.
    read: VecDeque<Read>,
    /// How often it was flushed since compactions find no room, if they do not.
    without_room: Option<usize>,
}

impl Run {
    fn opened(&self) -> &Opened {
        self.opened.as_ref().unwrap()
    }

    async fn step(&mut self) {
        match self.rng.below(41) {
            0 => {
                self.opened().store.flush().unwrap();
                self.flushed();
            }
            1 if self.without_room.is_none() => self.opened().store.compact().unwrap(),
            // There may be nothing to compact.
            1 => _ = self.opened().store.compact(),
            2 => {
                let opened = self.opened.take().unwrap();
                opened.store.close().await.unwrap();
                self.reopen().await;
            }
            3 => {
                drop(self.opened.take());
                self.disk = self.disk.killed();
                self.reopen().await;
            }
            40 => self.have_room(self.without_room.is_some()),
            4 => {
                self.now += self.rng.below(30) * SECOND;
                self.set_clock();
            }
            5 => {
                self.now -= self.rng.below(10) * SECOND;
                // Items that have expired since may be gone.
                self.read.clear();
                self.set_clock();
            }
            6..20 => self.change().await,
            20..25 => self.count_and_search().await,
            _ => self.get().await,
        }
    }

    async fn reopen(&mut self) {
        self.opened = Some(open(&self.disk, self.options.clone()).await);
        self.flushed();
        self.read.clear();
        self.set_clock();
    }

    fn have_room(&mut self, have: bool) {
        self.disk.fail_compactions(!have);
        self.without_room = (!have).then_some(0);
    }

    /// Files pile up where none are compacted, which must not end in waiting.
    fn flushed(&mut self) {
        self.without_room = self.without_room.map(|flushes| flushes + 1);
        if self.without_room.is_some_and(|flushes| flushes >= FLUSHES_WITHOUT_ROOM) {
            self.have_room(true);
        }
    }

    fn set_clock(&mut self) {
        self.latest = self.latest.max(self.now);
        self.opened().clock.set(at(self.now));
    }

    fn operation(&mut self) -> OpContext {
        let op = operation(self.now, [4, 15, 60][self.rng.below(3) as usize]);
        // Items that a clock that was stepped back shows again may be among the newest or not.
        let max_items = (self.now >= self.latest).then(|| MaxItems::new(self.rng.below(40)).ok()).flatten();
        OpContext { max_items: max_items.filter(|_| self.rng.one_in(3)), ..op }
    }

    async fn change(&mut self) {
        let (list, change, op) = (self.rng.below(LISTS), random_change(&mut self.rng, self.now), self.operation());
        let removed = carry_out(&self.opened().session, &op, list, &change).await.unwrap();
        if let Some(removed) = removed {
            let visible = self.model.visible(list, &op).into_iter().filter(|(_, item, _)| change.takes(item));
            let (sure, unsure): (Vec<_>, Vec<_>) = visible.partition(|(_, _, expires_at)| *expires_at > self.latest);
            let allowed = sure.len() as u64..=(sure.len() + unsure.len()) as u64;
            assert!(allowed.contains(&removed), "removed {removed}, not {allowed:?}");
        }
        self.model.apply(list, &change);
    }

    async fn get(&mut self) {
        let (list_number, op, range) = (self.rng.below(LISTS), self.operation(), self.range());
        let (key, retention) = (list(list_number), (op.ttl, op.max_items));
        let store = &self.opened().store;
        let (found, state) = (store.get_from_memory(&op, &key, &range), store.state(&key));
        let page = self.opened().session.get(&op, &key, &range).await.unwrap();
        if let Some(found) = found {
            assert_eq!(found.page, page, "a head and the session differ");
            if let Some(validity) = found.validity {
                assert_eq!(Some(validity.state), state);
                self.read.truncate(READ_MAX);
                self.read.push_front(Read { list: list_number, retention, range, page: found.page, validity });
            }
        }
        let still_valid = self.read.iter().filter(|read| {
            let Validity { state: read_in, from, until } = read.validity;
            let in_time = from <= op.now && op.now.as_nanos() < until;
            read.list == list_number
                && read.retention == retention
                && read.range == range
                && Some(read_in) == state
                && in_time
        });
        for earlier in still_valid {
            assert_eq!(earlier.page, page, "a page that must not change is not the answer");
        }
        if self.now >= self.latest {
            assert_eq!(page, self.model.page(list_number, &op, &range), "{range:?}");
            return;
        }
        // Items that had expired by a clock that was stepped back since may be gone or not.
        let mut page = self.opened().session.get(&op, &key, &everything()).await.unwrap();
        let visible = self.model.visible(list_number, &op);
        let unsure = |item: &liststore::domain::Item| {
            visible.iter().any(|(_, other, expires_at)| other == item && *expires_at <= self.latest)
        };
        page.items.retain(|item| !unsure(item));
        let sure: Vec<_> =
            visible.iter().filter(|(_, _, expires)| *expires > self.latest).map(|(_, item, _)| item.clone()).collect();
        assert_eq!(page.items, sure);
    }

    /// Counts, and searches values.
    async fn count_and_search(&mut self) {
        let (list_number, op, range) = (self.rng.below(LISTS), self.operation(), self.range());
        if self.now < self.latest {
            // Items that had expired by a clock that was stepped back since may be gone or not.
            return;
        }
        let (within, session) = (range.bounds(), &self.opened.as_ref().unwrap().session);
        let visible = self.model.visible(list_number, &op);
        let visible: Vec<_> = visible.iter().filter(|(key, _, _)| within.contain(key.timestamp)).collect();
        let max = 1 + self.rng.below(60);
        let expected = Count { items: max.min(visible.len() as u64), exact: visible.len() as u64 <= max };
        assert_eq!(session.count(&op, &list(list_number), &within, max).await.unwrap(), expected, "{within:?}");
        let values: Vec<Bytes> = (0..6).map(|_| random_value(&mut self.rng).into()).collect();
        let newest =
            |value: &Bytes| visible.iter().find(|(_, item, _)| item.value == value).map(|(key, _, _)| key.timestamp);
        let expected: Vec<_> = values.iter().map(newest).collect();
        assert_eq!(session.contains(&op, &list(list_number), &within, &values).await.unwrap(), expected, "{within:?}");
    }

    fn range(&mut self) -> Range {
        let mut range = everything();
        if self.rng.one_in(3) {
            range.order = Order::Oldest;
        }
        let moment = |rng: &mut Rng, now: u64| at(now + 4 * SECOND - rng.below(20) * SECOND / 2);
        if self.rng.one_in(3) {
            range.min_timestamp = moment(&mut self.rng, self.now);
        }
        if self.rng.one_in(3) {
            range.max_timestamp = moment(&mut self.rng, self.now).max(range.min_timestamp);
        }
        if self.rng.one_in(3) {
            let digest = ValueDigest::of(&random_value(&mut self.rng));
            range.after = Some(ItemKey::new(moment(&mut self.rng, self.now), digest));
        }
        if self.rng.one_in(4) {
            range.value_bytes_max = self.rng.below(2_000) as usize;
        }
        range.limit = match self.rng.below(4) {
            0 => 1 + self.rng.below(5) as usize,
            1 => 50,
            2 => 100,
            _ => 1_000,
        };
        debug_assert!(range.min_timestamp >= Timestamp::MIN);
        range
    }
}

async fn run(seed: u64, steps: usize, options: EmbeddedOptions) {
    let disk = SimDisk::default();
    let opened = Some(open(&disk, options.clone()).await);
    let (model, rng) = (Model::default(), Rng(seed));
    let (read, without_room) = (VecDeque::new(), None);
    let mut run = Run { disk, options, opened, model, rng, now: START, latest: START, read, without_room };
    for _ in 0..steps {
        run.step().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_equals_the_models(seed: u64) {
        runtime().block_on(run(seed, 400, small_options(Fsync::Group)));
    }

    #[test]
    fn every_answer_equals_the_models_in_interval_mode(seed: u64) {
        let interval = Fsync::Interval(std::time::Duration::from_millis(5));
        runtime().block_on(run(seed, 200, small_options(interval)));
    }

    #[test]
    fn every_answer_equals_the_models_when_all_lists_share_a_hash(seed: u64) {
        let options = EmbeddedOptions { list_hash: ListHash::Of(|_| 42), ..small_options(Fsync::Group) };
        runtime().block_on(run(seed, 200, options));
    }
}
