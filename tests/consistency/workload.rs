//! What the clients do: few hot lists and many cold ones, long lists, large values, features that come
//! and go, items about to expire. Everything is drawn from the seed; only the interleaving is not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use liststore::domain::{EntityType, FeatureId, FeatureKey, FeatureName, Generation, Token, VersionLabel};

use crate::calls::ENTITY_TYPE;
use crate::history::{Item, ListName, NANOS_PER_SEC, Order, Request, Special, ValueType, VersionName};

pub const LONG_TTL_SECS: u64 = 30 * 86_400;
const TTLS_SECS: [u64; 3] = [1_800, 3_600, 7_200];
const CLUSTERS_KEPT: usize = 24;
const HOT_LISTS: usize = 3;
const COLD_LISTS: usize = 60;
const BULKY_LISTS: usize = 3;
/// The partition of the embedded store's files in which all lists are that have large values, are long,
/// or hold what expires: it has most of the bytes, and is merged again and again.
const FULL_PARTITION: u64 = 11;
/// Embedded stores keep so many of the newest items of a list in memory at most; gets of more look
/// elsewhere.
const HEAD_LIMIT: usize = 512;
/// Lists of each kind that is not like others, the members of such a set, and the times at which one may stand.
const SPECIAL_LISTS: usize = 2;
const MEMBERS: u8 = 12;
const MOVES: u64 = 20;
/// Items that a bounded list shows.
const BOUND: u64 = 10;
/// Of a value; what the API takes is a little more.
const VALUE_BYTES_MAX: usize = 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Many clients at once, many ties.
    Hot,
    /// Few operations each, at times large ones.
    Cold,
    /// Of versions that are deleted and created again.
    Churned,
    /// Of a version whose TTL changes, with items about to expire.
    Expiring,
    /// More items than a head has, many at each timestamp.
    Long,
    /// Values so large that a few adds fill the queue of a small store, and its memory.
    Bulky,
    /// Sets of few members, which move, go and come back.
    Set,
    /// Lists that show a few items only.
    Bounded,
}

impl Kind {
    /// Of the calls on such a list, those that remove all of it.
    fn percent_emptied(self) -> u8 {
        match self {
            Self::Long => 1,
            Self::Hot => 2,
            // So that a page of it is not all that a run is about.
            Self::Bulky => 6,
            _ => 3,
        }
    }
}

/// One list, and what was sent to it lately: what there is to be added again or removed.
struct List {
    name: ListName,
    kind: Kind,
    value_type: ValueType,
    sent: Mutex<VecDeque<Vec<Item>>>,
}

pub struct World {
    lists: Vec<List>,
    features: Vec<(String, ValueType, u64)>,
    special: BTreeMap<String, Special>,
    churned: String,
    expiring: VersionName,
    /// The wall clock when the world began, in nanoseconds.
    epoch: u64,
    values: AtomicU64,
}

/// What a client does next.
pub enum Work {
    Once(Request),
    /// Gets of one list, one after the other on one connection.
    Series(Vec<Request>),
    Walk(Walk),
    /// Gets, or adds, in one request.
    Batch(Vec<Request>),
}

/// Page after page with these bounds, at most so many, with a limit drawn for each.
pub struct Walk {
    pub list: ListName,
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub order: Order,
    pub limit_max: usize,
    pub pages_max: usize,
}

impl Walk {
    /// Of all that there is, newest first.
    pub fn of_all(list: ListName, limit_max: usize) -> Self {
        Self { list, min: None, max: None, order: Order::Newest, limit_max, pages_max: usize::MAX }
    }
}

impl World {
    /// `suffix` keeps the features of different worlds on one store apart.
    pub fn new(suffix: &str, epoch: u64, with_sets: bool) -> Self {
        let name = |base: &str| format!("{base}{suffix}");
        let mut lists = Vec::new();
        let mut add = |feature: &str, label: &str, entity: String, kind, value_type| {
            let version = VersionName { feature: name(feature), label: label.to_owned() };
            lists.push(List { name: ListName { version, entity }, kind, value_type, sent: Mutex::default() });
        };
        for number in 0..HOT_LISTS {
            // An entity ID may hold any character.
            add("hot", "", format!("hot/{number} ✓"), Kind::Hot, ValueType::String);
        }
        for (feature, value_type) in
            [("cold", ValueType::Json), ("numbers", ValueType::Int64), ("blobs", ValueType::Bytes)]
        {
            for number in 0..COLD_LISTS / 3 {
                add(feature, "", format!("c-{number}"), Kind::Cold, value_type);
            }
        }
        for label in ["", "a", "b/2"] {
            add("churned", label, "u".to_owned(), Kind::Churned, ValueType::String);
        }
        for (feature, kind, count) in
            [("brief", Kind::Expiring, 2), ("long", Kind::Long, 1), ("bulky", Kind::Bulky, BULKY_LISTS)]
        {
            for entity in in_full_partition(&name(feature)).take(count) {
                add(feature, "", entity, kind, ValueType::String);
            }
        }
        let mut special = BTreeMap::from([(name("latest"), Special::Bounded(BOUND))]);
        for number in 0..SPECIAL_LISTS {
            add("latest", "", format!("l-{number}"), Kind::Bounded, ValueType::String);
        }
        if with_sets {
            special.insert(name("members"), Special::Sets);
            for number in 0..SPECIAL_LISTS {
                add("members", "", format!("s-{number}"), Kind::Set, ValueType::String);
            }
        }
        let mut features = vec![
            (name("hot"), ValueType::String, LONG_TTL_SECS),
            (name("cold"), ValueType::Json, LONG_TTL_SECS),
            (name("numbers"), ValueType::Int64, LONG_TTL_SECS),
            (name("blobs"), ValueType::Bytes, LONG_TTL_SECS),
            (name("churned"), ValueType::String, LONG_TTL_SECS),
            (name("brief"), ValueType::String, TTLS_SECS[1]),
            (name("long"), ValueType::String, LONG_TTL_SECS),
            (name("bulky"), ValueType::String, LONG_TTL_SECS),
        ];
        features.extend(special.keys().map(|feature| (feature.clone(), ValueType::String, LONG_TTL_SECS)));
        let expiring = VersionName { feature: name("brief"), label: String::new() };
        Self { lists, features, special, churned: name("churned"), expiring, epoch, values: AtomicU64::new(1) }
    }

    /// The features that are not like others.
    pub fn special(&self) -> BTreeMap<String, Special> {
        self.special.clone()
    }

    /// What is created before the first operation.
    pub fn features(&self) -> &[(String, ValueType, u64)] {
        &self.features
    }

    pub fn lists(&self) -> impl Iterator<Item = &ListName> {
        self.lists.iter().map(|list| &list.name)
    }

    /// Whether every server of several must give the answer that is promised: a change of a
    /// definition reaches the others only after a while, so what it concerns stays on one.
    pub fn is_for_any_server(&self, request: &Request) -> bool {
        let constant = |list: &ListName| list.version.feature != self.churned && list.version != self.expiring;
        request.list().is_some_and(constant)
    }

    /// `wall` is what the server's clock shows, about, in nanoseconds.
    pub fn next(&self, rng: &mut Rng, wall: u64) -> Work {
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
            0..19 => Work::Once(self.get(rng, list)),
            19..27 => Work::Once(self.count(rng, list)),
            27..34 => Work::Once(self.contains(rng, list)),
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

    /// A list that is to be worked on.
    fn draw(&self, rng: &mut Rng) -> &List {
        let kind = match rng.u8(0..94) {
            0..48 => Kind::Hot,
            48..69 => Kind::Cold,
            69..75 => Kind::Long,
            75..80 => Kind::Bulky,
            80..87 => Kind::Churned,
            _ => Kind::Expiring,
        };
        let of_kind = self.of_kind(kind);
        of_kind[rng.usize(0..of_kind.len())]
    }

    fn of_kind(&self, kind: Kind) -> Vec<&List> {
        self.lists.iter().filter(|list| list.kind == kind).collect()
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
            _ => Request::Get { list, min: None, max: None, order: Self::order(rng), limit: None, after: None },
        }
    }

    /// On a list that shows a few items: most are newer than those before.
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
            _ => Request::Get { list: name, min: None, max: None, order: Order::Newest, limit: None, after: None },
        }
    }

    /// Gets of several lists, of one among them more than once.
    fn gets(&self, rng: &mut Rng) -> Vec<Request> {
        let get = |rng: &mut Rng| {
            let list = self.draw(rng);
            self.short_get(rng, list)
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

    /// A timestamp out of a small grid, so that there are many ties and near ties; or one that is
    /// about to expire by one of the TTLs.
    fn timestamp(&self, rng: &mut Rng, kind: Kind, wall: u64) -> u64 {
        if matches!(kind, Kind::Long | Kind::Bulky) {
            // Few, so that heads are full of ties, and change all the time.
            return self.epoch - rng.u64(0..3) * NANOS_PER_SEC;
        }
        if kind == Kind::Expiring && rng.u8(0..4) > 0 {
            let ttl = TTLS_SECS[rng.usize(0..TTLS_SECS.len())] * NANOS_PER_SEC;
            return wall - ttl + rng.u64(0..3 * NANOS_PER_SEC) - NANOS_PER_SEC;
        }
        self.on_grid(rng)
    }

    fn on_grid(&self, rng: &mut Rng) -> u64 {
        let hour = 3_600 * NANOS_PER_SEC;
        self.epoch / hour * hour - 600 * NANOS_PER_SEC + rng.u64(0..24) * 60 * NANOS_PER_SEC / 4 + rng.u64(0..3)
    }

    /// A value that nobody has used; a few are large, so that stores have something to write.
    fn value(&self, rng: &mut Rng, list: &List) -> String {
        let number = self.values.fetch_add(1, Ordering::Relaxed);
        let padding = match list.kind {
            Kind::Bulky => {
                let at_most = rng.usize(2_000..VALUE_BYTES_MAX);
                "x".repeat(rng.usize(1_000..at_most))
            }
            _ if rng.u8(0..20) == 0 => "·".repeat(rng.usize(100..2_000)),
            _ => String::new(),
        };
        match list.value_type {
            ValueType::String => format!("\"v-{number} é\\n{padding}\""),
            ValueType::Int64 => format!("-{number}"),
            ValueType::Json => format!("{{\"n\":[{number},null],\"t\":\"é{padding}\"}}"),
            ValueType::Bytes => {
                use base64::Engine;
                format!("\"{}\"", base64::engine::general_purpose::STANDARD.encode(number.to_be_bytes()))
            }
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

    fn recent(rng: &mut Rng, list: &List) -> Option<Vec<Item>> {
        let sent = list.sent.lock().expect("no client panics");
        (!sent.is_empty()).then(|| sent[rng.usize(0..sent.len())].clone())
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

    /// One that was sent lately, or one that nobody has sent.
    fn some_value(&self, rng: &mut Rng, list: &List) -> String {
        match Self::recent(rng, list) {
            Some(items) if rng.u8(0..10) > 0 => items[rng.usize(0..items.len())].value.clone(),
            _ => self.value(rng, list),
        }
    }

    /// Some of what was sent together, one of them twice, and one that was not sent.
    fn some_items(&self, rng: &mut Rng, list: &List) -> Vec<Item> {
        let mut items = Self::recent(rng, list).unwrap_or_default();
        rng.shuffle(&mut items);
        items.truncate(rng.usize(0..=items.len()));
        items.extend(items.first().cloned().filter(|_| rng.bool()));
        if items.is_empty() || rng.bool() {
            items.push(Item { timestamp: self.on_grid(rng), value: self.value(rng, list) });
        }
        items
    }

    /// Bounds between which not all of a list lies, if it has been written to for a while. At least one.
    fn narrow_bounds(&self, rng: &mut Rng, list: &List) -> (Option<u64>, Option<u64>) {
        let near = Self::recent(rng, list).map_or_else(|| self.on_grid(rng), |items| items[0].timestamp);
        if matches!(list.kind, Kind::Long | Kind::Bulky) {
            // Their timestamps are few.
            return (Some(near - rng.u64(0..NANOS_PER_SEC)), Some(near));
        }
        let span = rng.u64(0..3) * 15 * NANOS_PER_SEC + rng.u64(0..3);
        match rng.u8(0..8) {
            0 => (Some(near + 240 * NANOS_PER_SEC), None),
            1 => (None, Some(near - 240 * NANOS_PER_SEC)),
            _ => (Some(near), Some(near + span)),
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

    fn bounds(&self, rng: &mut Rng, list: &List) -> (Option<u64>, Option<u64>) {
        let bound = |rng: &mut Rng| match Self::recent(rng, list) {
            // The exact moment of an item, as often as one near by.
            Some(items) if rng.bool() => items[0].timestamp,
            _ => self.on_grid(rng),
        };
        match rng.u8(0..10) {
            0..5 => (None, None),
            5..7 => (Some(bound(rng)), None),
            7..9 => (None, Some(bound(rng))),
            _ => {
                let (one, other) = (bound(rng), bound(rng));
                (Some(one.min(other)), Some(one.max(other)))
            }
        }
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

    fn order(rng: &mut Rng) -> Order {
        if rng.u8(0..4) == 0 { Order::Oldest } else { Order::Newest }
    }

    /// One of several: all their pages have to go into one answer.
    fn short_get(&self, rng: &mut Rng, list: &List) -> Request {
        let (min, max) = self.bounds(rng, list);
        let limit_max = if list.kind == Kind::Bulky { 8 } else { 200 };
        let limit = Some(rng.usize(1..limit_max));
        Request::Get { list: list.name.clone(), min, max, order: Order::Newest, limit, after: None }
    }

    /// By turns what the head of a list may answer, and what goes behind it.
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

/// Entity IDs of a feature whose lists are in the full partition.
fn in_full_partition(feature: &str) -> impl Iterator<Item = String> {
    let id = FeatureId {
        entity_type: EntityType::new(ENTITY_TYPE).expect("a name"),
        name: FeatureName::new(feature).expect("a name"),
    };
    let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
    let hash = move |entity: &str| Token::of_bytes(format!("{}\0{entity}", key.as_str()).as_bytes()).as_i64();
    (0..).map(|number| format!("f-{number}")).filter(move |entity| hash(entity).cast_unsigned() >> 60 == FULL_PARTITION)
}
