//! Bags: lists of one item that are swapped. `bag_entries` has the entries that find them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use liststore::domain::{
    EntityType, FeatureId, FeatureKey, Generation, Item, ListKey, NewItem, Timestamp, Ttl, VersionLabel,
};
use liststore::items::bags::BAG_BYTES_MAX;
use liststore::items::{BagAfter, BagPage, BagSwap, EntryChange, MemoryReads, OpContext, Range, ReadBag, Swapped};

use super::Backend;
use super::probe::{EVERYTHING, Probe, SECOND, list_key, operation, ttl};

/// The bag of an entity whose type no other case has used, and lists of entries of the same type.
pub struct Bag {
    pub probe: Probe,
    pub entity_type: EntityType,
}

fn fresh_type() -> EntityType {
    EntityType::new(&format!("t{}", uuid::Uuid::new_v4().simple())).unwrap()
}

fn key_of(entity_type: &EntityType, label: &str, generation: u64) -> FeatureKey {
    let (id, label) = (FeatureId::of_bags(entity_type.clone()), VersionLabel::new(label).unwrap());
    FeatureKey::new(&id, &label, Generation::new(generation).unwrap())
}

impl Bag {
    pub async fn open(backend: &dyn Backend) -> Self {
        let (entity_type, probe) = (fresh_type(), Probe::open(backend).await);
        Self { probe: probe.with_list(list_key(&key_of(&entity_type, "", 1), "u-1")), entity_type }
    }

    pub fn of(&self, entity: &str) -> Self {
        let list = list_key(&self.probe.list.feature_key, entity);
        Self { probe: self.probe.with_list(list), entity_type: self.entity_type.clone() }
    }

    pub fn entries(&self, values: &str) -> ListKey {
        list_key(&key_of(&self.entity_type, "by", 1), values)
    }

    /// An entry that ends with a bag of the present.
    pub fn entry(&self, at: u64, value: &str) -> NewItem {
        let expires_at = self.probe.ttl.expiry_of(self.probe.base);
        NewItem { timestamp: place(at), value: value.to_owned().into(), expires_at }
    }

    /// A bag that was written at an offset from the probe's present, and expires by the operation's TTL.
    pub fn item(&self, op: &OpContext, stamp: i64, document: &str) -> NewItem {
        self.probe.new_item(op, stamp, document.as_bytes())
    }

    pub async fn swap_at(&self, op: &OpContext, swap: BagSwap) -> Swapped {
        self.probe.session.swap_bag(op, &self.probe.list, swap).await.unwrap()
    }

    pub async fn swap(&self, before: Option<i64>, after: Option<(i64, &str)>, entries: Vec<EntryChange>) -> Swapped {
        let op = self.probe.op();
        let after = after.map(|(stamp, document)| self.item(&op, stamp, document));
        self.swap_at(
            &op,
            BagSwap {
                before: before.map(|stamp| self.probe.at(stamp)),
                after: after.into(),
                entries,
                row: None,
                entered_in: None,
            },
        )
        .await
    }

    pub async fn put(&self, before: Option<i64>, stamp: i64, document: &str) {
        assert_eq!(self.swap(before, Some((stamp, document)), Vec::new()).await, Swapped::Done);
    }

    /// The bag, as the session returns it. If the store has it in memory, that must be equal.
    pub async fn at(&self, op: &OpContext) -> Option<(i64, String)> {
        let read = async || self.probe.session.bag(op, &self.probe.list).await.unwrap().bag;
        let (mut bag, memory) = (read().await, self.probe.memory());
        let found = loop {
            let look = |memory: &Arc<dyn MemoryReads>| memory.get_from_memory(op, &self.probe.list, &Range::NEWEST);
            let found = memory.as_ref().and_then(look);
            let again = read().await;
            // Otherwise others have changed it in between.
            if again == bag {
                break found;
            }
            bag = again;
        };
        if let Some(found) = found {
            assert_eq!(found.page.items, bag.iter().cloned().collect::<Vec<Item>>());
            assert!(!found.page.more, "a bag is one item");
        }
        bag.map(|bag| (self.probe.offset_of(&bag), String::from_utf8(bag.value.to_vec()).unwrap()))
    }

    pub async fn now(&self) -> Option<(i64, String)> {
        self.at(&self.probe.op()).await
    }

    /// The entries of a list, newest first.
    pub async fn entries_at(&self, now: Timestamp, values: &str) -> Vec<(Timestamp, Bytes)> {
        let op = operation(now, Ttl::ENDLESS);
        let page = self.probe.with_list(self.entries(values)).page(&op, &EVERYTHING).await;
        page.items.into_iter().map(|entry| (entry.timestamp, entry.value)).collect()
    }

    pub async fn entries_now(&self, values: &str) -> Vec<(Timestamp, Bytes)> {
        self.entries_at(self.probe.base, values).await
    }

    pub async fn walk(&self, op: &OpContext) -> Vec<String> {
        let (mut met, mut from) = (Vec::new(), None);
        for _ in 0..10_000 {
            let key = &self.probe.list.feature_key;
            let page = self.probe.session.entities(op, key, from.as_ref(), 3).await.unwrap();
            for entity in &page.entities {
                // A walk may find entities without a visible bag.
                if self.of(entity.as_str()).at(op).await.is_some() {
                    met.push(entity.to_string());
                }
            }
            from = page.next;
            if from.is_none() {
                return met;
            }
        }
        panic!("the walk does not end");
    }
}

pub fn place(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos).unwrap()
}

pub fn some(stamp: i64, document: &str) -> Option<(i64, String)> {
    Some((stamp, document.to_owned()))
}

pub async fn a_bag_has_the_content_of_the_last_swap(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    assert_eq!(bag.now().await, None);
    bag.put(None, -9, r#"{"a":1}"#).await;
    assert_eq!(bag.now().await, some(-9, r#"{"a":1}"#));
    bag.put(Some(-9), -8, r#"{"a":2}"#).await;
    // The same document again is another state.
    bag.put(Some(-8), -7, r#"{"a":2}"#).await;
    assert_eq!(bag.now().await, some(-7, r#"{"a":2}"#));
    assert_eq!(bag.of("u-2").now().await, None);
}

pub async fn a_swap_of_a_changed_bag_is_refused(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let added = |value: &'static str| {
        let added = vec![bag.entry(5, value)];
        vec![EntryChange { list: bag.entries("v"), removed: Vec::new(), added }]
    };
    assert_eq!(bag.swap(Some(-20), Some((-9, "{}")), added("lost")).await, Swapped::Lost);
    assert_eq!(bag.swap(Some(-20), None, added("lost")).await, Swapped::Lost);
    assert_eq!(bag.now().await, None);
    bag.put(None, -9, "{}").await;
    for before in [None, Some(-8), Some(-10)] {
        assert_eq!(bag.swap(before, Some((-5, "[]")), added("lost")).await, Swapped::Lost, "{before:?}");
        assert_eq!(bag.swap(before, None, added("lost")).await, Swapped::Lost, "{before:?}");
    }
    assert_eq!((bag.now().await, bag.entries_now("v").await), (some(-9, "{}"), Vec::new()));
}

pub async fn a_removed_bag_is_missing(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    bag.put(None, -9, "{}").await;
    assert_eq!(bag.swap(Some(-9), None, Vec::new()).await, Swapped::Done);
    assert_eq!(bag.now().await, None);
    assert_eq!(bag.swap(Some(-9), None, Vec::new()).await, Swapped::Lost);
    // Deleting a missing bag succeeds and does nothing.
    assert_eq!(bag.swap(None, None, Vec::new()).await, Swapped::Done);
    bag.put(None, -3, "{}").await;
    assert_eq!(bag.now().await, some(-3, "{}"));
}

pub async fn a_hidden_bag_counts_as_missing(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let (long, short) = (bag.probe.op_at(0, ttl(3_600)), bag.probe.op_at(0, ttl(600)));
    let old = bag.item(&long, -1_200 * SECOND, "old");
    assert_eq!(
        bag.swap_at(
            &long,
            BagSwap { before: None, after: BagAfter::Put(old), entries: vec![], row: None, entered_in: None }
        )
        .await,
        Swapped::Done
    );
    assert_eq!((bag.at(&short).await, bag.at(&long).await), (None, some(-1_200 * SECOND, "old")));
    let hidden = BagSwap {
        before: Some(bag.probe.at(-1_200 * SECOND)),
        after: BagAfter::Gone,
        entries: vec![],
        row: None,
        entered_in: None,
    };
    assert_eq!(bag.swap_at(&short, hidden).await, Swapped::Lost);
    let new = bag.item(&short, -5 * SECOND, "new");
    assert_eq!(
        bag.swap_at(
            &short,
            BagSwap { before: None, after: BagAfter::Put(new), entries: vec![], row: None, entered_in: None }
        )
        .await,
        Swapped::Done
    );
    // The replaced bag is gone, and not hidden behind the new one.
    let stamp = Some(bag.probe.at(-5 * SECOND));
    let gone = BagSwap { before: stamp, after: BagAfter::Gone, entries: vec![], row: None, entered_in: None };
    assert_eq!((bag.at(&long).await, bag.swap_at(&long, gone).await), (some(-5 * SECOND, "new"), Swapped::Done));
    assert_eq!(bag.at(&long).await, None);
}

pub async fn a_bag_ends_at_its_stored_expiry(backend: &dyn Backend) {
    if !backend.steps_clock() {
        return;
    }
    let bag = Bag::open(backend).await;
    let op = bag.probe.op_at(0, ttl(60));
    let after = BagAfter::Put(bag.item(&op, -5, "{}"));
    assert_eq!(
        bag.swap_at(&op, BagSwap { before: None, after, entries: vec![], row: None, entered_in: None }).await,
        Swapped::Done
    );
    assert_eq!(bag.at(&bag.probe.op_at(60 * SECOND - 6, ttl(3_600))).await, some(-5, "{}"));
    let later = bag.probe.op_at(60 * SECOND - 5, ttl(3_600));
    assert_eq!(bag.at(&later).await, None);
    let again = BagAfter::Put(bag.item(&later, 60 * SECOND - 5, "again"));
    assert_eq!(
        bag.swap_at(&later, BagSwap { before: None, after: again, entries: vec![], row: None, entered_in: None }).await,
        Swapped::Done
    );
    assert_eq!(bag.at(&later).await, some(60 * SECOND - 5, "again"));
}

pub async fn a_bag_may_have_256_kib(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let document: String = (0..BAG_BYTES_MAX).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    bag.put(None, -9, &document).await;
    bag.put(Some(-9), -8, &document[1..]).await;
    bag.put(Some(-8), -7, &document).await;
    assert_eq!(bag.now().await.map(|(stamp, found)| (stamp, found == document)), Some((-7, true)));
}

pub async fn one_of_many_concurrent_swaps_succeeds(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let first = join_all((0..8_i64).map(|n| bag.swap(None, Some((n - 100, "0")), Vec::new()))).await;
    assert_eq!(first.iter().filter(|swapped| **swapped == Swapped::Done).count(), 1, "{first:?}");
    // Each counts one up, and tries until it has.
    let (stamp, _) = bag.now().await.unwrap();
    let bag = &bag;
    let count = async || {
        loop {
            let (stamp, count) = bag.now().await.unwrap();
            let count = (count.parse::<u64>().unwrap() + 1).to_string();
            if bag.swap(Some(stamp), Some((stamp + 1, &count)), Vec::new()).await == Swapped::Done {
                return;
            }
        }
    };
    join_all((0..8).map(|_| count())).await;
    assert_eq!(bag.now().await, some(stamp + 8, "8"));
}

pub async fn a_walk_returns_every_bag_once(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let names: BTreeSet<String> = (0..20).map(|n| format!("é/{n}")).collect();
    for name in &names {
        bag.of(name).put(None, -9, "{}").await;
        bag.of(name).put(Some(-9), -8, "{}").await;
    }
    bag.of("gone").put(None, -9, "{}").await;
    assert_eq!(bag.of("gone").swap(Some(-9), None, Vec::new()).await, Swapped::Done);
    let met = bag.walk(&bag.probe.op()).await;
    assert_eq!((met.len(), met.into_iter().collect()), (names.len(), names));
}

pub async fn a_walk_returns_the_contents_of_bags(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let document = |n: usize| format!(r#"{{"n":{n},"{}":1}}"#, "é".repeat(1 + n * 2_000));
    let expected: BTreeMap<String, (i64, String)> = (0..20).map(|n| (format!("é/{n}"), (-8, document(n)))).collect();
    for (n, (name, _)) in expected.iter().enumerate() {
        bag.of(name).put(None, -9, "before").await;
        bag.of(name).put(Some(-9), -8, &expected[name].1).await;
        // Others have another type, or no longer exist.
        bag.probe.with_list(bag.entries(&format!("v{n}"))).add(&[(0, "u-1")]).await;
    }
    bag.of("gone").put(None, -9, "{}").await;
    assert_eq!(bag.of("gone").swap(Some(-9), None, Vec::new()).await, Swapped::Done);
    for limit in [1, 3, 20, 21] {
        let (mut met, mut reported, mut from) = (BTreeMap::new(), 0, None);
        loop {
            let (op, key) = (bag.probe.op(), &bag.probe.list.feature_key);
            let BagPage { bags, next } = bag.probe.session.bags(&op, key, from.as_ref(), limit).await.unwrap();
            assert!(bags.len() <= limit && (next.is_none() || next != from), "a walk goes on, {limit} at a time");
            reported += bags.len();
            met.extend(bags.into_iter().map(|(entity, found)| {
                let document = String::from_utf8(found.value.to_vec()).unwrap();
                (entity.to_string(), (bag.probe.offset_of(&found), document))
            }));
            from = next;
            if from.is_none() {
                break;
            }
        }
        assert!((reported, &met) == (expected.len(), &expected), "limit {limit}");
    }
}

pub async fn bags_are_separate_from_other_generations_and_lists(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    bag.put(None, -9, "{}").await;
    let recreated = Bag {
        probe: bag.probe.with_list(list_key(&key_of(&bag.entity_type, "", 2), "u-1")),
        entity_type: bag.entity_type.clone(),
    };
    assert_eq!((recreated.now().await, recreated.walk(&recreated.probe.op()).await), (None, Vec::new()));
    recreated.put(None, -8, "[]").await;
    assert_eq!((bag.now().await, recreated.now().await), (some(-9, "{}"), some(-8, "[]")));
    let feature = super::probe::feature_key("seen", "", 1);
    let list = bag.probe.with_list(list_key(&feature, &format!("{}", bag.entity_type)));
    list.add(&[(-1, "a")]).await;
    assert_eq!((list.all().await.len(), bag.now().await), (1, some(-9, "{}")));
}

/// A swap that names the row that was read is made from that row, and no other.
pub async fn a_swap_may_name_the_read_row(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let op = bag.probe.op();
    let read = async || bag.probe.session.bag(&op, &bag.probe.list).await.unwrap();
    let swap = |read: &ReadBag, after: Option<i64>| BagSwap {
        before: read.bag.as_ref().map(|bag| bag.timestamp),
        row: read.row.clone(),
        after: after.map(|stamp| bag.item(&op, stamp, "{}")).into(),
        entries: Vec::new(),
        entered_in: None,
    };
    for (done, after) in [Some(-9), Some(-8), None, Some(-7)].into_iter().enumerate() {
        let present = read().await;
        assert_eq!(bag.swap_at(&op, swap(&present, after)).await, Swapped::Done, "{done}");
        assert_eq!(bag.now().await, after.and_then(|stamp| some(stamp, "{}")));
        assert_eq!(bag.swap_at(&op, swap(&present, Some(-6))).await, Swapped::Lost, "{done}");
    }
}

pub async fn remove_all_empties_a_bag(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    for identity in [bag.probe.list.feature_key.clone(), bag.probe.list.feature_key.clone().of_any_identity()] {
        bag.put(None, -9, "{}").await;
        bag.of("stays").swap(None, Some((-9, "{}")), Vec::new()).await;
        bag.probe.session.remove_all(&bag.probe.op(), &list_key(&identity, "u-1")).await.unwrap();
        assert_eq!((bag.now().await, bag.of("stays").now().await), (None, some(-9, "{}")));
        assert_eq!(bag.walk(&bag.probe.op()).await, ["stays"]);
    }
    bag.put(None, -8, "again").await;
    assert_eq!(bag.now().await, some(-8, "again"));
}

pub async fn swapped_bags_survive_a_reopening(backend: &dyn Backend) {
    if !backend.keeps() {
        return;
    }
    let bag = Bag::open(backend).await;
    let added = vec![bag.entry(5, "u-1")];
    let entries = vec![EntryChange { list: bag.entries("v"), removed: Vec::new(), added }];
    assert_eq!(bag.swap(None, Some((-9, "old")), entries).await, Swapped::Done);
    bag.put(Some(-9), -8, "new").await;
    bag.of("gone").put(None, -9, "{}").await;
    assert_eq!(bag.of("gone").swap(Some(-9), None, Vec::new()).await, Swapped::Done);
    let Bag { probe, entity_type } = bag;
    let bag = Bag { probe: probe.reopen(backend).await, entity_type };
    assert_eq!((bag.now().await, bag.of("gone").now().await), (some(-8, "new"), None));
    assert_eq!(bag.entries_now("v").await, [(place(5), "u-1".into())]);
    assert_eq!(bag.swap(Some(-9), None, Vec::new()).await, Swapped::Lost);
    bag.put(Some(-8), -7, "newer").await;
    assert_eq!(bag.now().await, some(-7, "newer"));
}
