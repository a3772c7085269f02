//! Heads that hold only the newest items of a longer list: changes beyond or at their end must never lead to a page
//! from the head alone.

use liststore::domain::NewItem;
use liststore::items::MemoryReads;
use liststore::items::embedded::Fsync;
use proptest::prelude::*;

use crate::harness::{
    Change, Model, Opened, SECOND, START, at, carry_out, item, list, newest, open, operation, runtime, small_options,
};
use crate::sim_disk::{Rng, SimDisk};

const TTL_SECS: u64 = 10_000;
/// The initial items of the list: several times the fill of a head for a short page.
const ITEMS: u64 = 400;

struct Run {
    opened: Opened,
    model: Model,
    rng: Rng,
    value_len: usize,
    /// Newer than all items so far.
    next: u64,
}

impl Run {
    fn item(&mut self, timestamp: u64) -> NewItem {
        let mut value = format!("value-{}", self.rng.below(30)).into_bytes();
        value.resize(value.len().max(self.value_len), b'.');
        // Rows of another life cannot be put in front of a head as they are.
        let ttl_secs = if self.rng.one_in(20) { TTL_SECS + 1 } else { TTL_SECS };
        item(timestamp, &value, ttl_secs)
    }

    fn newer(&mut self, count: u64) -> Vec<NewItem> {
        let times = self.next..self.next + count;
        self.next += count;
        times.map(|timestamp| self.item(timestamp)).collect()
    }

    /// Items anywhere in the list, mostly where heads do not reach.
    fn older(&mut self) -> Vec<NewItem> {
        (0..1 + self.rng.below(3))
            .map(|_| {
                let age = self.rng.below(self.next - START + ITEMS);
                self.item(self.next - 1 - age)
            })
            .collect()
    }

    async fn step(&mut self) {
        let change = match self.rng.below(16) {
            0 => return self.opened.store.flush().unwrap(),
            1 => {
                let value = self.item(START).value.to_vec();
                Change::RemoveValue(value)
            }
            2 if self.rng.one_in(6) => Change::RemoveAll,
            2..8 => {
                let count = 1 + self.rng.below(4);
                Change::Add(self.newer(count))
            }
            8 => {
                let count = self.rng.below(200) + 1;
                Change::Add(self.newer(count))
            }
            _ => Change::Add(self.older()),
        };
        let op = operation(START, TTL_SECS);
        carry_out(&self.opened.session, &op, 0, &change).await.unwrap();
        self.model.apply(0, &change);
    }

    /// Mostly short pages, so that the head stays short.
    async fn read_page(&mut self) {
        let limit = if self.rng.one_in(10) { 1 + self.rng.below(300) } else { 1 + self.rng.below(60) };
        let (op, range) = (operation(START, TTL_SECS), newest(limit as usize));
        let expected = self.model.page(0, &op, &range);
        if let Some(found) = self.opened.store.get_from_memory(&op, &list(0), &range) {
            assert_eq!(found.page, expected, "from memory, {limit}");
        }
        assert_eq!(self.opened.session.get(&op, &list(0), &range).await.unwrap(), expected, "{limit}");
    }
}

async fn run(seed: u64, value_len: usize) {
    let opened = open(&SimDisk::default(), small_options(Fsync::Group)).await;
    let mut run = Run { opened, model: Model::default(), rng: Rng(seed), value_len, next: START };
    for _ in 0..ITEMS / 50 {
        let change = Change::Add(run.newer(50));
        carry_out(&run.opened.session, &operation(START, TTL_SECS), 0, &change).await.unwrap();
        run.model.apply(0, &change);
    }
    for _ in 0..120 {
        run.step().await;
        run.read_page().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_page_of_a_long_list_equals_the_models(seed: u64) {
        runtime().block_on(run(seed, 0));
    }

    /// Values of which a head holds fewer than it should by their number.
    #[test]
    fn a_page_of_a_long_list_of_large_values_equals_the_models(seed: u64) {
        runtime().block_on(run(seed, 1_500));
    }
}

/// A head may still have items that compactions dropped after their expiry, which become visible again once the clock
/// is stepped back. No removal finds such an item, but it must disappear nevertheless.
#[test]
fn removed_items_stay_removed_after_a_clock_step_back() {
    runtime().block_on(async {
        let Opened { store, session, clock, .. } = open(&SimDisk::default(), small_options(Fsync::Group)).await;
        let (op, range) = (operation(START, TTL_SECS), newest(10));
        // A cleared list needs no compaction to drop expired items.
        session.remove_all(&op, &list(0)).await.unwrap();
        session.add(&op, &list(0), vec![item(START, b"value", 10)]).await.unwrap();
        assert_eq!(session.get(&op, &list(0), &range).await.unwrap().items.len(), 1);
        let before = store.get_from_memory(&op, &list(0), &range).unwrap().validity.unwrap();
        clock.set(at(START + 60 * SECOND));
        store.flush().unwrap();
        clock.set(at(START));
        assert_eq!(session.remove_value(&op, &list(0), b"value").await.unwrap(), 0, "it was not dropped");
        assert_ne!(store.state(&list(0)), Some(before.state), "a page with the item counts as the answer still");
        assert_eq!(session.get(&op, &list(0), &range).await.unwrap().items, []);
    });
}
