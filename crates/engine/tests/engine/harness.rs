//! The common parts of the engine's tests: lists, operations, a store on a simulated disk, and a model.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use liststore::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Identity, Item, ItemKey, ListKey,
    ManualClock, MaxItems, NewItem, Order, Timestamp, Ttl, ValueDigest, VersionLabel,
};
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore, Fsync, OpenError};
use liststore::items::{Bounds, ItemPage, ItemSession, ItemStore, OpContext, Range, Removal, StoreError, ToAwait};
use liststore_testkit::in_turn::InTurn;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::sim_disk::{Rng, SimDisk};

pub const SECOND: u64 = 1_000_000_000;
/// When the tests begin.
pub const START: u64 = 1_700_000_000 * SECOND;

pub fn list(i: u64) -> ListKey {
    let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
    let feature = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
    ListKey::new(feature, EntityId::new(&format!("u-{i}")).unwrap())
}

pub fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos).unwrap()
}

/// Far more than any operation takes, also in the idle time of busy processors.
pub const DEADLINE: Duration = Duration::from_secs(600);

pub fn operation(now: u64, ttl_secs: u64) -> OpContext {
    OpContext::new(at(now), Ttl::from_secs(ttl_secs).unwrap(), Instant::now() + DEADLINE)
}

pub fn everything() -> Range {
    Range {
        min_timestamp: Timestamp::MIN,
        max_timestamp: Timestamp::MAX,
        after: None,
        limit: usize::MAX,
        value_bytes_max: usize::MAX,
        order: Order::Newest,
    }
}

pub fn newest(limit: usize) -> Range {
    Range { limit, ..everything() }
}

pub fn item(timestamp: u64, value: &[u8], ttl_secs: u64) -> NewItem {
    let expires_at = Ttl::from_secs(ttl_secs).unwrap().expiry_of(at(timestamp));
    NewItem { timestamp: at(timestamp), value: Bytes::copy_from_slice(value), expires_at }
}

/// Small segments, files and caches, so that everything happens often.
pub fn small_options(fsync: Fsync) -> EmbeddedOptions {
    EmbeddedOptions {
        fsync,
        cache_bytes: 4 << 20,
        log_segment_bytes: 4 << 10,
        data_file_bytes: 2_000,
        read_threads: 1,
        ..EmbeddedOptions::new("/data")
    }
}

pub const DIR: &str = "/data/items";

pub struct Opened {
    pub store: EmbeddedStore,
    pub session: Rc<dyn ItemSession>,
    pub clock: Arc<ManualClock>,
    registry: prometheus::Registry,
}

impl Opened {
    /// A counter of the engine's metrics.
    pub fn counted(&self, name: &str) -> u64 {
        let family = self.registry.gather().into_iter().find(|family| family.name() == name).unwrap();
        family.get_metric()[0].get_counter().get_value() as u64
    }

    /// Flushes and compacts, each with a probability of one in `one_in`.
    pub fn flush_or_compact_at_times(&self, rng: &mut Rng, one_in: u64) {
        match rng.below(one_in) {
            0 => drop(self.store.flush()),
            1 => drop(self.store.compact()),
            _ => {}
        }
    }
}

pub async fn try_open(disk: &SimDisk, options: EmbeddedOptions) -> Result<Opened, OpenError> {
    try_open_at(disk, options, START).await
}

/// Opens a store with a clock that begins at a moment.
pub async fn open_at(disk: &SimDisk, options: EmbeddedOptions, now: u64) -> Opened {
    try_open_at(disk, options, now).await.unwrap()
}

async fn try_open_at(disk: &SimDisk, options: EmbeddedOptions, now: u64) -> Result<Opened, OpenError> {
    let clock = Arc::new(ManualClock::at(at(now)));
    let registry = prometheus::Registry::new();
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), options, clock.clone(), &registry)?;
    let session = InTurn::around(store.open_session().await.unwrap());
    Ok(Opened { store, session, clock, registry })
}

pub async fn open(disk: &SimDisk, options: EmbeddedOptions) -> Opened {
    try_open(disk, options).await.unwrap()
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The contents of the lists, as a plain map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model(pub BTreeMap<u64, BTreeMap<ItemKey, (Bytes, u64)>>);

/// A change to one list.
#[derive(Debug, Clone)]
pub enum Change {
    Add(Vec<NewItem>),
    RemoveValue(Vec<u8>),
    /// Items, or the items of a time range.
    Remove(Removal),
    RemoveAll,
}

impl Change {
    /// Whether it removes an item.
    pub fn takes(&self, item: &Item) -> bool {
        match self {
            Self::Add(_) => false,
            Self::RemoveValue(value) => item.value == *value,
            Self::Remove(removal) => removal.takes(Identity::Item, item.timestamp, &item.value),
            Self::RemoveAll => true,
        }
    }
}

impl Model {
    pub fn apply(&mut self, list: u64, change: &Change) {
        let items = self.0.entry(list).or_default();
        match change {
            Change::Add(added) => {
                for NewItem { timestamp, value, expires_at } in added {
                    items.insert(ItemKey::new(*timestamp, ValueDigest::of(value)), (value.clone(), *expires_at));
                }
            }
            Change::RemoveValue(value) => items.retain(|_, (stored, _)| stored != value),
            Change::Remove(removal) => {
                items.retain(|key, (stored, _)| !removal.takes(Identity::Item, key.timestamp, stored))
            }
            Change::RemoveAll => items.clear(),
        }
    }

    /// The visible items of a list, newest first.
    pub fn visible(&self, list: u64, op: &OpContext) -> Vec<(ItemKey, Item, u64)> {
        let items = self.0.get(&list).into_iter().flatten().rev();
        let unexpired = items.filter(|(key, (_, expires_at))| {
            let expires = op.ttl.expiry_of(key.timestamp).min(*expires_at);
            op.now.as_nanos() < expires
        });
        unexpired
            .take(op.max_items.map_or(usize::MAX, MaxItems::get))
            .map(|(key, (value, expires_at))| {
                (*key, Item { timestamp: key.timestamp, value: value.clone() }, *expires_at)
            })
            .collect()
    }

    pub fn page(&self, list: u64, op: &OpContext, range: &Range) -> ItemPage {
        let mut page = ItemPage::default();
        let mut value_bytes = 0;
        let mut visible = self.visible(list, op);
        if range.order == Order::Oldest {
            visible.reverse();
        }
        for (key, item, _) in visible {
            let follows = |after| if range.order == Order::Newest { key < after } else { key > after };
            if !range.bounds().contain(key.timestamp) || !range.after.is_none_or(follows) {
                continue;
            }
            value_bytes += item.value.len();
            if page.items.len() == range.limit || (!page.items.is_empty() && value_bytes > range.value_bytes_max) {
                page.more = true;
                break;
            }
            page.items.push(item);
        }
        page
    }
}

pub async fn carry_out(
    session: &Rc<dyn ItemSession>,
    op: &OpContext,
    list_number: u64,
    change: &Change,
) -> Result<Option<u64>, StoreError> {
    let key = list(list_number);
    match change {
        // Either way in.
        Change::Add(items) if items.len() % 2 == 0 => session.add(op, &key, items.clone()).await.map(|()| None),
        Change::Add(items) => {
            let (added, waits) = start_add(session, *op, key, items.clone());
            if let Some(waits) = waits {
                waits.await;
            }
            added.await.unwrap().map(|()| None)
        }
        Change::RemoveValue(value) => session.remove_value(op, &key, value).await.map(Some),
        Change::Remove(removal) => session.remove(op, &key, removal).await.map(Some),
        Change::RemoveAll => session.remove_all(op, &key).await.map(|()| None),
    }
}

/// Starts an add: its outcome, and a future to await first.
pub fn start_add(
    session: &Rc<dyn ItemSession>,
    op: OpContext,
    list: ListKey,
    items: Vec<NewItem>,
) -> (oneshot::Receiver<Result<(), StoreError>>, Option<ToAwait>) {
    let (reply, added) = oneshot::channel();
    let done = Box::new(|result| {
        let _nobody_waits = reply.send(result);
    });
    (added, Rc::clone(session).start_add(op, list, items, done))
}

/// A change that makes ties, repetitions and overlaps likely.
pub fn random_change(rng: &mut Rng, now: u64) -> Change {
    let moment = |rng: &mut Rng| at((now + 3 * SECOND).saturating_sub(rng.below(12) * SECOND / 2));
    match rng.below(14) {
        0 => Change::RemoveAll,
        1 | 2 => Change::RemoveValue(random_value(rng)),
        3 => {
            let items = (0..1 + rng.below(5)).map(|_| (moment(rng), random_value(rng).into()));
            Change::Remove(Removal::Items(items.collect()))
        }
        4 => {
            let (a, b) = (moment(rng), moment(rng));
            Change::Remove(Removal::Between(Bounds { min_timestamp: a.min(b), max_timestamp: a.max(b) }))
        }
        _ => {
            let ttl_secs = [5, 20, 60][rng.below(3) as usize];
            let count = if rng.one_in(8) { 60 } else { 1 + rng.below(6) };
            let items = (0..count).map(|_| {
                let age = rng.below(12) * SECOND / 2;
                item((now + 3 * SECOND).saturating_sub(age), &random_value(rng), ttl_secs)
            });
            let live: Vec<_> = items.filter(|item| item.expires_at > now).collect();
            if live.is_empty() { Change::Add(vec![item(now, b"live", 60)]) } else { Change::Add(live) }
        }
    }
}

pub fn random_value(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0 => Vec::new(),
        1 => vec![7; 300 + rng.below(2) as usize],
        2 if rng.one_in(6) => vec![8; 6_000],
        n => format!("value-{n}").into_bytes(),
    }
}
