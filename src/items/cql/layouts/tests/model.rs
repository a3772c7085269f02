//! Each layout against a sorted map, by random operations of a fixed seed.

use super::*;

/// The visible items of a list.
struct Model {
    items: BTreeMap<ItemKey, Bytes>,
    is_set: bool,
}

impl Model {
    fn add(&mut self, (timestamp, value): (Timestamp, Bytes)) {
        let key = Item { timestamp, value: value.clone() }.key();
        if self.is_set {
            let present = self.items.iter().find(|(_, present)| **present == value).map(|(key, _)| *key);
            if present.is_some_and(|present| present >= key) {
                return;
            }
            if let Some(present) = present {
                self.items.remove(&present);
            }
        }
        self.items.insert(key, value);
    }

    fn remove(&mut self, is_taken: impl Fn(&ItemKey, &Bytes) -> bool) -> u64 {
        let before = self.items.len();
        self.items.retain(|key, value| !is_taken(key, value));
        (before - self.items.len()) as u64
    }

    fn newest_first(&self, within: &Bounds, shown: usize) -> Vec<(Timestamp, Bytes)> {
        let items = self.items.iter().rev().take(shown).filter(|(key, _)| within.contain(key.timestamp));
        items.map(|(key, value)| (key.timestamp, value.clone())).collect()
    }
}

fn bounds(random: &mut fastrand::Rng) -> Bounds {
    let (one, other) = (ago(random.u64(..50 * DAY)), ago(random.u64(..50 * DAY)));
    match random.u8(..4) {
        0 => Bounds::ALL,
        1 => Bounds { min_timestamp: one, ..Bounds::ALL },
        2 => Bounds { max_timestamp: one, ..Bounds::ALL },
        _ => Bounds { min_timestamp: one.min(other), max_timestamp: one.max(other) },
    }
}

/// One random write. Of a bounded list nothing is removed: hidden items would come into view.
async fn step(server: &Server, list: &ListKey, model: &mut Model, random: &mut fastrand::Rng) {
    // Some moments have several items.
    let some = |random: &mut fastrand::Rng| (ago(random.u64(..100) * DAY / 2), value(random.u8(..30)));
    match random.u8(..10) {
        0..3 if server.retention.max_items.is_some() => {}
        0 => {
            let within = bounds(random);
            let removed = server.remove(list, &Removal::Between(within)).await.unwrap();
            assert_eq!(removed, model.remove(|key, _| within.contain(key.timestamp)));
        }
        1 => {
            let value = value(random.u8(..30));
            let removed = server.remove(list, &Removal::Value(value.clone())).await.unwrap();
            assert_eq!(removed, model.remove(|_, present| *present == value));
        }
        2 => {
            let present: Vec<_> = model.items.iter().map(|(key, value)| (key.timestamp, value.clone())).collect();
            let items = if present.is_empty() { vec![some(random)] } else { vec![random.choice(present).unwrap()] };
            let removed = server.remove(list, &Removal::Items(items.clone())).await.unwrap();
            let is_taken = |key: &ItemKey, value: &Bytes| items.contains(&(key.timestamp, value.clone()));
            assert_eq!(removed, model.remove(is_taken));
        }
        _ => {
            let new: Vec<_> = (0..random.usize(1..12)).map(|_| some(random)).collect();
            server.add(list, &new).await.unwrap();
            new.into_iter().for_each(|item| model.add(item));
        }
    }
    if random.bool() {
        server.pass(Duration::from_secs(random.u64(..40)));
    }
}

async fn check(server: &Server, list: &ListKey, model: &Model, random: &mut fastrand::Rng) {
    let (within, limit) = (bounds(random), random.usize(5..40));
    let shown = server.retention.max_items.map_or(usize::MAX, MaxItems::get);
    let expected = model.newest_first(&within, shown);
    assert_eq!(timestamps_and_values(&server.walk(list, &within, Order::Newest, limit).await), expected);
    let mut oldest = timestamps_and_values(&server.walk(list, &within, Order::Oldest, limit).await);
    oldest.reverse();
    assert_eq!(oldest, expected);
    let (max, items) = (random.u64(..60), expected.len() as u64);
    let count = Count { items: items.min(max), exact: items <= max };
    assert_eq!(server.count(list, &within, max).await.unwrap(), count);
    let values: Vec<_> = (0..30).map(value).collect();
    let newest = |value: &Bytes| expected.iter().find(|(_, present)| present == value).map(|(at, _)| *at);
    let found = operations::contains(&mut server.call(list), &within, &values).await.unwrap();
    assert_eq!(found, values.iter().map(newest).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn every_layout_reads_like_a_sorted_list() {
    let lists = [list(), bucketed(Bucket::Day), bucketed(Bucket::Week), bucketed(Bucket::Month), set(Keep::Newest)];
    for (seed, list) in (0..).zip(lists.iter().flat_map(|list| [list; 3])) {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = Server::new();
        let server = if seed % 3 == 2 { server.showing(20) } else { server };
        let mut model = Model { items: BTreeMap::new(), is_set: list.identity().is_set() };
        for _ in 0..25 {
            let scanned_max = [usize::MAX, 50, 7][random.usize(..3)];
            server.cluster.set_limits(Limits { scanned_max, ..Limits::default() });
            step(&server, list, &mut model, &mut random).await;
            check(&server, list, &model, &mut random).await;
        }
    }
}
