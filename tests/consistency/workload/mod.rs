//! The work of the clients: few hot lists and many cold ones, long lists, large values, features that come and go,
//! items about to expire. Everything is drawn from the seed, except the interleaving.

mod bags;
mod drawn;
mod world;

use std::sync::atomic::Ordering;

use fastrand::Rng;

use crate::bags::{BagName, BagRequest};
use crate::history::{AskedWindow, Item, ListName, NANOS_PER_SEC, Order, Request, ValueType, VersionName};
use world::{Kind, List, TTLS_SECS};
pub use world::{LONG_TTL_SECS, Workload, World};

const CLUSTERS_KEPT: usize = 24;
/// The largest number of a list's newest items that embedded stores hold in memory. Longer gets read files.
const HEAD_LIMIT: usize = 512;
const DAY_SECS: u64 = 86_400;
/// The last timestamp that the API accepts.
const TIMESTAMP_MAX: u64 = 9_999_999_999_999_999_999;
/// The members of a set, and their possible times.
const MEMBERS: u8 = 12;
const MOVES: u64 = 20;

/// The next action of a client.
pub enum Work {
    Once(Request),
    /// Gets of one list, one after the other on one connection.
    Series(Vec<Request>),
    Walk(Walk),
    /// Gets, or adds, in one request.
    Batch(Vec<Request>),
    /// A get of a bag, and a write on the condition that the bag is still the same.
    Increment(BagName),
    Find(BagRequest),
}

/// Page after page with these bounds, up to a number, with a random limit for each.
pub struct Walk {
    pub list: ListName,
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub order: Order,
    pub limit_max: usize,
    pub pages_max: usize,
}

impl Walk {
    /// Of the whole list, newest first.
    pub fn of_all(list: ListName, limit_max: usize) -> Self {
        Self { list, min: None, max: None, order: Order::Newest, limit_max, pages_max: usize::MAX }
    }
}

impl World {
    /// `wall` is the approximate time of the server's clock, in nanoseconds.
    pub fn next(&self, rng: &mut Rng, wall: u64) -> Work {
        let is_for_bags = match self.workload {
            Workload::All => self.is_turn_of_bags(rng),
            Workload::Lists => false,
            Workload::Bags => true,
        };
        if is_for_bags {
            return self.on_bag(rng);
        }
        if rng.u8(0..100) < 6 {
            return Work::Once(self.define(rng));
        }
        let lists = match rng.u8(0..100) {
            0..10 => self.of_kind(Kind::Set),
            10..14 => self.of_kind(Kind::Bounded),
            _ => Vec::new(),
        };
        if let Some(list) = rng.choice(lists) {
            return Work::Once(if list.kind == Kind::Set {
                self.on_set(rng, list)
            } else {
                self.on_bounded(rng, list)
            });
        }
        let list = self.draw(rng);
        match rng.u8(0..100) {
            0..17 => Work::Once(self.get(rng, list)),
            17..22 => Work::Once(self.count(rng, list)),
            22..28 => Work::Once(self.aggregate(rng, list)),
            28..34 => Work::Once(self.contains(rng, list)),
            34..39 => self.series(rng, list),
            39..46 => self.walk(rng, list),
            46..49 => Work::Batch(self.gets(rng)),
            49..51 => Work::Batch(self.adds(rng, wall)),
            51..72 => Work::Once(self.add(rng, list, wall)),
            72..82 => Work::Once(self.add_again(rng, list, wall)),
            last if last >= 100 - list.kind.percent_emptied() => {
                Work::Once(Request::RemoveAll { list: list.name.clone() })
            }
            82..97 => Work::Once(self.remove(rng, list)),
            _ => Work::Once(self.get(rng, list)),
        }
    }

    /// On a set of few members, each at a few times.
    fn on_set(&self, rng: &mut Rng, list: &List) -> Request {
        let member = |rng: &mut Rng| format!("\"m-{}\"", rng.u8(0..MEMBERS));
        let members = |rng: &mut Rng| (0..rng.usize(1..6)).map(|_| member(rng)).collect();
        let list = list.name.clone();
        match rng.u8(0..100) {
            0..35 => {
                let timestamp = |rng: &mut Rng| self.epoch - 600 * NANOS_PER_SEC + rng.u64(0..MOVES) * NANOS_PER_SEC;
                let item = |rng: &mut Rng| Item { timestamp: timestamp(rng), value: member(rng) };
                Request::Add { list, items: (0..rng.usize(1..5)).map(|_| item(rng)).collect() }
            }
            35..55 => Request::Lookup { list, values: members(rng) },
            55..60 => Request::Contains { list, min: None, max: None, values: members(rng) },
            60..78 => Request::RemoveValue { list, value: member(rng) },
            78..80 => Request::RemoveAll { list },
            80..86 => Self::aggregate_all(rng, list, Vec::new()),
            _ => Request::Get { list, min: None, max: None, order: Self::order(rng), limit: None, after: None },
        }
    }

    /// On a list with a small bound: most are newer than the previous items.
    fn on_bounded(&self, rng: &mut Rng, list: &List) -> Request {
        let name = list.name.clone();
        match rng.u8(0..100) {
            0..45 => {
                let number = self.values.fetch_add(1, Ordering::Relaxed);
                let age = rng.u64(0..3) * NANOS_PER_SEC;
                let timestamp = self.epoch - 3_600 * NANOS_PER_SEC + number * NANOS_PER_SEC / 100 - age;
                let item = |n: u64| Item { timestamp: timestamp + n, value: format!("\"v-{number}-{n}\"") };
                let items: Vec<_> = (0..rng.u64(1..4)).map(item).collect();
                let mut sent = list.sent.lock().expect("no client panics");
                sent.push_back(items.clone());
                if sent.len() > CLUSTERS_KEPT {
                    sent.pop_front();
                }
                Request::Add { list: name, items }
            }
            45..60 => Request::RemoveValue { list: name, value: self.some_value(rng, list) },
            60..62 => Request::RemoveAll { list: name },
            62..72 => {
                let parts = self.parts(rng, list);
                Self::aggregate_all(rng, name, parts)
            }
            _ => Request::Get { list: name, min: None, max: None, order: Order::Newest, limit: None, after: None },
        }
    }

    /// In these windows, and in one with all items of a list, which are less than a day old.
    fn aggregate_all(rng: &mut Rng, list: ListName, mut windows: Vec<AskedWindow>) -> Request {
        windows.push(AskedWindow::Last { secs: DAY_SECS });
        let group_by = Self::grouping(rng, ValueType::String);
        Request::Aggregate { list, windows, is_of_numbers: false, group_by }
    }

    /// A window with all items of a list, whatever the clock, and one with a part of them.
    fn parts(&self, rng: &mut Rng, list: &List) -> Vec<AskedWindow> {
        let min = self.epoch - 10 * DAY_SECS * NANOS_PER_SEC;
        let whole = AskedWindow::Between { min, max: TIMESTAMP_MAX };
        let recent = Self::recent(rng, list).and_then(|items| Some(items.first()?.timestamp));
        let part = recent.map(|near| match rng.bool() {
            true => AskedWindow::Between { min: near, max: TIMESTAMP_MAX },
            false => AskedWindow::Between { min, max: near },
        });
        part.into_iter().chain([whole]).collect()
    }

    /// In windows that overlap, some of which end with the server's clock.
    fn aggregate(&self, rng: &mut Rng, list: &List) -> Request {
        if list.kind == Kind::Bulky {
            // Its values would not fit into an answer.
            return self.get(rng, list);
        }
        let last = [600, TTLS_SECS[1], TTLS_SECS[2], DAY_SECS];
        let window = |rng: &mut Rng| match self.bounds(rng, list) {
            (None, None) => AskedWindow::Last { secs: last[rng.usize(0..last.len())] },
            (min, max) => AskedWindow::Between { min: min.unwrap_or(0), max: max.unwrap_or(TIMESTAMP_MAX) },
        };
        let windows = (0..rng.usize(1..4)).map(|_| window(rng)).collect();
        let (group_by, is_of_numbers) = (Self::grouping(rng, list.value_type), list.value_type == ValueType::Int64);
        Request::Aggregate { list: list.name.clone(), windows, is_of_numbers, group_by }
    }

    /// Gets of several lists, of one among them more than once, and aggregates.
    fn gets(&self, rng: &mut Rng) -> Vec<Request> {
        let get = |rng: &mut Rng| {
            let list = self.draw(rng);
            match rng.u8(0..3) {
                0 if list.kind != Kind::Bulky => self.aggregate(rng, list),
                _ => self.short_get(rng, list),
            }
        };
        let mut gets: Vec<Request> = (0..rng.usize(1..5)).map(|_| get(rng)).collect();
        gets.push(gets[0].clone());
        gets
    }

    /// Adds to several lists, at times to one of them more than once.
    fn adds(&self, rng: &mut Rng, wall: u64) -> Vec<Request> {
        let list = self.draw(rng);
        let mut adds = vec![self.add(rng, list, wall), self.add_again(rng, list, wall)];
        for _ in 0..rng.usize(0..4) {
            let list = self.draw(rng);
            // Bodies have a bound, which few large values reach.
            if list.kind != Kind::Bulky {
                adds.push(self.add(rng, list, wall));
            }
        }
        adds
    }

    /// Creations, deletions and changes of definitions.
    fn define(&self, rng: &mut Rng) -> Request {
        let version =
            VersionName { feature: self.churned.clone(), label: (*rng.choice(["a", "b/2"]).unwrap_or("a")).to_owned() };
        match rng.u8(0..100) {
            0..12 => Request::DeleteFeature { feature: self.churned.clone() },
            12..40 => Request::CreateFeature { feature: self.churned.clone(), ttl_secs: LONG_TTL_SECS },
            40..60 => Request::CreateVersion { version, ttl_secs: LONG_TTL_SECS },
            60..70 => Request::DeleteVersion { version },
            70..78 => Request::ReadTtl { version },
            78..88 => Request::ReadTtl { version: self.expiring.clone() },
            _ => Request::ChangeTtl {
                version: self.expiring.clone(),
                ttl_secs: TTLS_SECS[rng.usize(0..TTLS_SECS.len())],
            },
        }
    }

    fn add(&self, rng: &mut Rng, list: &List, wall: u64) -> Request {
        let fresh =
            |rng: &mut Rng| Item { timestamp: self.timestamp(rng, list.kind, wall), value: self.value(rng, list) };
        let items: Vec<Item> = match (list.kind, rng.u8(0..100)) {
            // Only one by one is it certain from the answer which items had expired.
            (Kind::Expiring, _) => vec![fresh(rng)],
            (Kind::Long, 20..) => {
                let timestamp = self.timestamp(rng, list.kind, wall);
                (0..rng.usize(20..120)).map(|_| Item { timestamp, ..fresh(rng) }).collect()
            }
            (_, 0..45) => vec![fresh(rng)],
            (_, 45..75) => (0..rng.usize(2..7)).map(|_| fresh(rng)).collect(),
            (_, 75..85) => {
                let timestamp = self.on_grid(rng);
                (0..rng.usize(2..7)).map(|_| Item { timestamp, ..fresh(rng) }).collect()
            }
            (Kind::Cold, 97..100) => (0..rng.usize(100..400)).map(|_| fresh(rng)).collect(),
            _ => {
                let mut items: Vec<Item> = Vec::new();
                let value = self.value(rng, list);
                for _ in 0..rng.usize(2..6) {
                    let timestamp = self.on_grid(rng);
                    if items.iter().all(|item| item.timestamp != timestamp) {
                        items.push(Item { timestamp, value: value.clone() });
                    }
                }
                items
            }
        };
        let mut sent = list.sent.lock().expect("no client panics");
        if items.len() < 10 {
            sent.push_back(items.clone());
        } else if list.kind == Kind::Long {
            sent.push_back(items[..2].to_vec());
        }
        if sent.len() > CLUSTERS_KEPT {
            sent.pop_front();
        }
        Request::Add { list: list.name.clone(), items }
    }

    /// Something that was sent before, lately, in part or as a whole.
    fn add_again(&self, rng: &mut Rng, list: &List, wall: u64) -> Request {
        let Some(mut items) = Self::recent(rng, list) else { return self.add(rng, list, wall) };
        rng.shuffle(&mut items);
        items.truncate(rng.usize(1..=items.len()));
        Request::Add { list: list.name.clone(), items }
    }

    fn remove(&self, rng: &mut Rng, list: &List) -> Request {
        let of_list = list.name.clone();
        match rng.u8(0..20) {
            0..5 => Request::RemoveItems { list: of_list, items: self.some_items(rng, list) },
            5..7 => {
                let (min, max) = self.narrow_bounds(rng, list);
                Request::RemoveBetween { list: of_list, min, max }
            }
            _ => Request::RemoveValue { list: of_list, value: self.some_value(rng, list) },
        }
    }

    fn count(&self, rng: &mut Rng, list: &List) -> Request {
        let (min, max) = self.bounds(rng, list);
        let limit = match rng.u8(0..4) {
            0 => None,
            1 => Some(1_000_000),
            _ => Some(rng.u64(1..60)),
        };
        Request::Count { list: list.name.clone(), min, max, limit }
    }

    fn contains(&self, rng: &mut Rng, list: &List) -> Request {
        let (min, max) = self.bounds(rng, list);
        let mut values: Vec<String> = (0..rng.usize(1..12)).map(|_| self.some_value(rng, list)).collect();
        values.extend(values.first().cloned().filter(|_| rng.bool()));
        Request::Contains { list: list.name.clone(), min, max, values }
    }

    fn get(&self, rng: &mut Rng, list: &List) -> Request {
        let (min, max) = self.bounds(rng, list);
        let limit = match rng.u8(0..10) {
            _ if list.kind == Kind::Bulky => Some(rng.usize(1..12)),
            0..4 => None,
            4..6 => Some(rng.usize(1..5)),
            6..8 => Some(rng.usize(5..60)),
            _ => Some(rng.usize(1_000..=10_000)),
        };
        Request::Get { list: list.name.clone(), min, max, order: Self::order(rng), limit, after: None }
    }

    /// One of several: all their pages have to go into one answer.
    fn short_get(&self, rng: &mut Rng, list: &List) -> Request {
        let (min, max) = self.bounds(rng, list);
        let limit_max = if list.kind == Kind::Bulky { 8 } else { 200 };
        let limit = Some(rng.usize(1..limit_max));
        Request::Get { list: list.name.clone(), min, max, order: Order::Newest, limit, after: None }
    }

    /// In turn, reads that the head of a list may answer, and reads behind it.
    fn series(&self, rng: &mut Rng, list: &List) -> Work {
        let short_first = rng.bool();
        let get = |short: bool, rng: &mut Rng| {
            let limit = if short { rng.usize(1..40) } else { HEAD_LIMIT + rng.usize(1..200) };
            let (list, order) = (list.name.clone(), Order::Newest);
            Request::Get { list, min: None, max: None, order, limit: Some(limit), after: None }
        };
        Work::Series((0..rng.usize(2..5)).map(|number| get((number % 2 == 0) == short_first, rng)).collect())
    }

    fn walk(&self, rng: &mut Rng, list: &List) -> Work {
        if list.kind == Kind::Churned {
            // A token ends with the version that it was given for.
            return Work::Once(self.get(rng, list));
        }
        let (min, max) = self.bounds(rng, list);
        let (limit_max, pages_max) = (rng.usize(1..30), rng.usize(2..8));
        Work::Walk(Walk { list: list.name.clone(), min, max, order: Self::order(rng), limit_max, pages_max })
    }
}
