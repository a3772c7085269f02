//! A model of a list that shows only its newest items, and random operations on a store that are compared with it.
//!
//! Items that were once beyond the bound may be removed at any later time. The model tracks these items, and reads show
//! which of them are removed. All other items must exist.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use liststore::domain::{
    Identity, Item, ItemKey, ListKey, MaxItems, NewItem, Order, Retention, Timestamp, Ttl, ValueDigest,
};
use liststore::items::{Bounds, Count, ItemPage, ItemSession, OpContext, Range, Removal};
use tokio::time::Instant;

const SECOND: u64 = 1_000_000_000;
const VALUES: u64 = 12;
/// An item that is removed between two reads may be in one of them only.
const TRIES: usize = 20;

#[derive(Debug)]
struct Stored {
    value: Bytes,
    expires_at: u64,
    was_beyond: bool,
}

/// The list, and its visible part.
pub struct BoundedList {
    items: BTreeMap<ItemKey, Stored>,
    pub retention: Retention,
    /// TTLs of the list, and TTLs that items are stored with, in seconds.
    pub ttls: &'static [u64],
    pub lives: &'static [u64],
}

/// A number below another one.
pub type Random<'a> = &'a mut dyn FnMut(u64) -> u64;

fn everything() -> Range {
    Range {
        min_timestamp: Timestamp::MIN,
        max_timestamp: Timestamp::MAX,
        after: None,
        limit: 100_000,
        value_bytes_max: usize::MAX,
        order: Order::Newest,
    }
}

fn value(n: u64) -> Bytes {
    format!("value-{n}").into()
}

fn of_secs(secs: u64) -> Ttl {
    Ttl::from_secs(secs).unwrap()
}

impl BoundedList {
    pub fn new(ttls: &'static [u64], lives: &'static [u64]) -> Self {
        Self { items: BTreeMap::new(), retention: of_secs(ttls[0]).into(), ttls, lives }
    }

    pub fn operation(&self, now: Timestamp) -> OpContext {
        OpContext::new(now, self.retention, Instant::now() + Duration::from_secs(60))
    }

    fn is_unexpired(op: &OpContext, key: &ItemKey, stored: &Stored) -> bool {
        op.now.as_nanos() < op.ttl.expiry_of(key.timestamp).min(stored.expires_at)
    }

    /// Notes the items beyond the bound from now on. Call it after each change of the list or the bound, and before
    /// time advances.
    pub fn note(&mut self, now: Timestamp) {
        let op = self.operation(now);
        let Some(max_items) = op.max_items else { return };
        let mut unexpired = self.items.iter().rev().filter(|(key, stored)| Self::is_unexpired(&op, key, stored));
        let last = unexpired.nth(max_items.get() - 1).map(|(key, _)| *key);
        if let Some(last) = last {
            self.items.range_mut(..last).for_each(|(_, stored)| stored.was_beyond = true);
        }
    }

    /// Compares all visible items of a store with the model.
    fn check(&mut self, op: &OpContext, shown: &[Item]) -> Result<(), String> {
        let most = op.max_items.map_or(usize::MAX, MaxItems::get);
        let keys: Vec<_> = shown.iter().map(Item::key).collect();
        if shown.len() > most || !keys.is_sorted_by(|a, b| a > b) {
            return Err(format!("not the newest {most} in their order: {keys:?}"));
        }
        let stranger = |key: &&ItemKey| !self.items.get(key).is_some_and(|stored| Self::is_unexpired(op, key, stored));
        if let Some(key) = keys.iter().find(stranger) {
            return Err(format!("{key} is shown, and is not there"));
        }
        let last = keys.last().filter(|_| keys.len() == most);
        let within = |key: &ItemKey| last.is_none_or(|last| key >= last);
        let missing = self
            .items
            .iter()
            .filter(|(key, stored)| within(key) && Self::is_unexpired(op, key, stored) && !keys.contains(key));
        let (gone, lost): (Vec<_>, Vec<_>) = missing.partition(|(_, stored)| stored.was_beyond);
        if let Some((key, _)) = lost.first() {
            return Err(format!("{key} is not shown, and never lay beyond what is"));
        }
        let gone: Vec<_> = gone.into_iter().map(|(key, _)| *key).collect();
        gone.iter().for_each(|key| drop(self.items.remove(key)));
        Ok(())
    }

    /// Reads all visible items.
    pub async fn read(&mut self, session: &Rc<dyn ItemSession>, list: &ListKey, now: Timestamp) -> Vec<Item> {
        self.note(now);
        let op = self.operation(now);
        let page = session.get(&op, list, &everything()).await.unwrap();
        assert!(!page.more, "all was asked for");
        if let Err(wrong) = self.check(&op, &page.items) {
            panic!("{wrong}; {op:?}");
        }
        page.items
    }

    /// Carries out a reading operation, and compares its answer with the visible items.
    async fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        (session, list, now): (&Rc<dyn ItemSession>, &ListKey, Timestamp),
        ask: impl AsyncFn(&OpContext) -> T,
        expected: impl Fn(&[Item]) -> T,
    ) {
        for _ in 0..TRIES {
            let before = self.read(session, list, now).await;
            let answer = ask(&self.operation(now)).await;
            if self.read(session, list, now).await == before {
                assert_eq!(answer, expected(&before), "{:?} shown of {:?}", before.len(), self.retention);
                return;
            }
        }
        panic!("what is shown changes without a change");
    }

    /// Carries out a random operation. Timestamps are within seconds of `now`.
    pub async fn step(&mut self, session: &Rc<dyn ItemSession>, list: &ListKey, now: Timestamp, random: Random<'_>) {
        let at = (session, list, now);
        match random(16) {
            0..6 => {
                let items: Vec<_> = (0..=random(12)).filter_map(|_| self.new_item(now, random)).collect();
                if !items.is_empty() {
                    session.add(&self.operation(now), list, items.clone()).await.unwrap();
                    for NewItem { timestamp, value, expires_at } in items {
                        let key = ItemKey::new(timestamp, ValueDigest::of(&value));
                        self.items.insert(key, Stored { value, expires_at, was_beyond: false });
                    }
                }
            }
            6 | 7 => self.remove(at, random).await,
            8..11 => {
                let range = random_range(now, random);
                let ask = async |op: &OpContext| session.get(op, list, &range).await.unwrap();
                self.compare(at, ask, |shown| page(shown, &range)).await;
            }
            11 => {
                let (within, max) = (random_bounds(now, random), 1 + random(12));
                let ask = async |op: &OpContext| session.count(op, list, &within, max).await.unwrap();
                let count = |shown: &[Item]| {
                    let items = shown.iter().filter(|item| within.contain(item.timestamp)).count() as u64;
                    Count { items: items.min(max), exact: items <= max }
                };
                self.compare(at, ask, count).await;
            }
            12 => {
                let (within, values) = (random_bounds(now, random), (0..VALUES).map(value).collect::<Vec<_>>());
                let ask = async |op: &OpContext| session.contains(op, list, &within, &values).await.unwrap();
                let newest = |shown: &[Item], value: &Bytes| {
                    let mut found = shown.iter().filter(|item| within.contain(item.timestamp) && item.value == *value);
                    found.next().map(|item| item.timestamp)
                };
                self.compare(at, ask, |shown| values.iter().map(|value| newest(shown, value)).collect()).await;
            }
            13 => self.walk(at, random).await,
            14 => self.retention.ttl = of_secs(self.ttls[random(self.ttls.len() as u64) as usize]),
            _ => {
                self.retention.max_items = [None, Some(1), Some(3), Some(7), Some(20)][random(5) as usize]
                    .map(|items| MaxItems::new(items).unwrap())
            }
        }
        self.note(now);
        self.read(session, list, now).await;
    }

    fn new_item(&self, now: Timestamp, random: Random<'_>) -> Option<NewItem> {
        let timestamp = random_moment(now, random);
        let life = of_secs(self.lives[random(self.lives.len() as u64) as usize]);
        let expires_at = life.expiry_of(timestamp);
        (expires_at > now.as_nanos()).then(|| NewItem { timestamp, value: value(random(VALUES)), expires_at })
    }

    async fn remove(&mut self, at: (&Rc<dyn ItemSession>, &ListKey, Timestamp), random: Random<'_>) {
        let (session, list, now) = at;
        let removal = match random(3) {
            0 => Removal::Value(value(random(VALUES))),
            1 => {
                let named = |_| (random_moment(now, random), value(random(VALUES)));
                let named: Vec<_> = (0..3).map(named).collect();
                let known = self.items.iter().nth(random(20) as usize);
                Removal::Items(
                    known.map(|(key, stored)| (key.timestamp, stored.value.clone())).into_iter().chain(named).collect(),
                )
            }
            _ => Removal::Between(random_bounds(now, random)),
        };
        let shown = self.read(session, list, now).await;
        let removed = session.remove(&self.operation(now), list, &removal).await.unwrap();
        let taken: Vec<_> =
            shown.iter().filter(|item| removal.takes(Identity::Item, item.timestamp, &item.value)).collect();
        let never_beyond = taken.iter().filter(|item| !self.items[&item.key()].was_beyond).count() as u64;
        let expected = never_beyond..=taken.len() as u64;
        assert!(expected.contains(&removed), "{removed} removed, not {expected:?}: {removal:?}");
        self.items.retain(|key, stored| !removal.takes(Identity::Item, key.timestamp, &stored.value));
    }

    /// During the walk only removed items disappear, and nothing is added.
    async fn walk(&mut self, at: (&Rc<dyn ItemSession>, &ListKey, Timestamp), random: Random<'_>) {
        let (session, list, _) = at;
        let order = [Order::Newest, Order::Oldest][random(2) as usize];
        let limit = 1 + random(6) as usize;
        let ask = async |op: &OpContext| {
            let (mut seen, mut range) = (Vec::new(), Range { limit, order, ..everything() });
            loop {
                let page = session.get(op, list, &range).await.unwrap();
                assert!(page.items.len() <= limit);
                seen.extend(page.items.clone());
                match page.items.last() {
                    Some(last) if page.more => range.after = Some(last.key()),
                    _ => return seen,
                }
            }
        };
        let expected = |shown: &[Item]| match order {
            Order::Newest => shown.to_vec(),
            Order::Oldest => shown.iter().rev().cloned().collect(),
        };
        self.compare(at, ask, expected).await;
    }
}

fn random_moment(now: Timestamp, random: Random<'_>) -> Timestamp {
    Timestamp::from_nanos(now.as_nanos() + 2 * SECOND - random(22) * SECOND).unwrap()
}

fn random_bounds(now: Timestamp, random: Random<'_>) -> Bounds {
    let (a, b) = (random_moment(now, random), random_moment(now, random));
    match random(4) {
        0 => Bounds { min_timestamp: a, ..Bounds::ALL },
        1 => Bounds { max_timestamp: a, ..Bounds::ALL },
        _ => Bounds { min_timestamp: a.min(b), max_timestamp: a.max(b) },
    }
}

fn random_range(now: Timestamp, random: Random<'_>) -> Range {
    let Bounds { min_timestamp, max_timestamp } = if random(3) == 0 { Bounds::ALL } else { random_bounds(now, random) };
    let after =
        (random(3) == 0).then(|| ItemKey::new(random_moment(now, random), ValueDigest::of(&value(random(VALUES)))));
    let order = if random(2) == 0 { Order::Newest } else { Order::Oldest };
    let value_bytes_max = if random(4) == 0 { random(60) as usize } else { usize::MAX };
    Range { min_timestamp, max_timestamp, after, limit: 1 + random(9) as usize, value_bytes_max, order }
}

/// The page of a list that shows these items, newest first.
fn page(shown: &[Item], range: &Range) -> ItemPage {
    let (mut page, mut value_bytes) = (ItemPage::default(), 0);
    let mut items: Vec<_> = shown.to_vec();
    if range.order == Order::Oldest {
        items.reverse();
    }
    let follows = |key: ItemKey| match (range.after, range.order) {
        (None, _) => true,
        (Some(after), Order::Newest) => key < after,
        (Some(after), Order::Oldest) => key > after,
    };
    for item in items.into_iter().filter(|item| range.bounds().contain(item.timestamp) && follows(item.key())) {
        value_bytes += item.value.len();
        if page.items.len() == range.limit || (!page.items.is_empty() && value_bytes > range.value_bytes_max) {
            page.more = true;
            break;
        }
        page.items.push(item);
    }
    page
}
