//! Bags: lists of one item that are swapped, and the entries by which they are found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use liststore::domain::{
    EntityType, FeatureId, FeatureKey, Generation, Item, ListKey, NewItem, Timestamp, Ttl, VersionLabel,
};
use liststore::items::bags::BAG_BYTES_MAX;
use liststore::items::{
    BagAfter, BagEntries, BagPage, BagSwap, EntryChange, MemoryReads, OpContext, Range, ReadBag, Swapped,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::Backend;
use super::probe::{EVERYTHING, Probe, SECOND, list_key, operation, ttl};

/// The bag of an entity whose type no other case has used, and lists of entries of the same type.
struct Bag {
    probe: Probe,
    entity_type: EntityType,
}

fn fresh_type() -> EntityType {
    EntityType::new(&format!("t{}", uuid::Uuid::new_v4().simple())).unwrap()
}

fn key_of(entity_type: &EntityType, label: &str, generation: u64) -> FeatureKey {
    let (id, label) = (FeatureId::of_bags(entity_type.clone()), VersionLabel::new(label).unwrap());
    FeatureKey::new(&id, &label, Generation::new(generation).unwrap())
}

impl Bag {
    async fn open(backend: &dyn Backend) -> Self {
        let (entity_type, probe) = (fresh_type(), Probe::open(backend).await);
        Self { probe: probe.with_list(list_key(&key_of(&entity_type, "", 1), "u-1")), entity_type }
    }

    fn of(&self, entity: &str) -> Self {
        let list = list_key(&self.probe.list.feature_key, entity);
        Self { probe: self.probe.with_list(list), entity_type: self.entity_type.clone() }
    }

    fn entries(&self, values: &str) -> ListKey {
        list_key(&key_of(&self.entity_type, "by", 1), values)
    }

    /// An entry that ends with a bag of the present.
    fn entry(&self, at: u64, value: &str) -> NewItem {
        let expires_at = self.probe.ttl.expiry_of(self.probe.base);
        NewItem { timestamp: place(at), value: value.to_owned().into(), expires_at }
    }

    /// A bag that was written at an offset from the probe's present, and expires by the operation's TTL.
    fn item(&self, op: &OpContext, stamp: i64, document: &str) -> NewItem {
        self.probe.new_item(op, stamp, document.as_bytes())
    }

    async fn swap_at(&self, op: &OpContext, swap: BagSwap) -> Swapped {
        self.probe.session.swap_bag(op, &self.probe.list, swap).await.unwrap()
    }

    async fn swap(&self, before: Option<i64>, after: Option<(i64, &str)>, entries: Vec<EntryChange>) -> Swapped {
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

    async fn put(&self, before: Option<i64>, stamp: i64, document: &str) {
        assert_eq!(self.swap(before, Some((stamp, document)), Vec::new()).await, Swapped::Done);
    }

    /// The bag, as the session returns it. If the store has it in memory, that must be equal.
    async fn at(&self, op: &OpContext) -> Option<(i64, String)> {
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

    async fn now(&self) -> Option<(i64, String)> {
        self.at(&self.probe.op()).await
    }

    /// The entries of a list, newest first.
    async fn entries_at(&self, now: Timestamp, values: &str) -> Vec<(Timestamp, Bytes)> {
        let op = operation(now, Ttl::ENDLESS);
        let page = self.probe.with_list(self.entries(values)).page(&op, &EVERYTHING).await;
        page.items.into_iter().map(|entry| (entry.timestamp, entry.value)).collect()
    }

    async fn entries_now(&self, values: &str) -> Vec<(Timestamp, Bytes)> {
        self.entries_at(self.probe.base, values).await
    }

    async fn walk(&self, op: &OpContext) -> Vec<String> {
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

fn place(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos).unwrap()
}

fn some(stamp: i64, document: &str) -> Option<(i64, String)> {
    Some((stamp, document.to_owned()))
}

pub async fn a_bag_is_what_was_swapped_in_last(backend: &dyn Backend) {
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

pub async fn a_swap_for_another_bag_than_is_there_is_lost(backend: &dyn Backend) {
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

pub async fn a_bag_that_was_taken_out_is_gone(backend: &dyn Backend) {
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

pub async fn a_bag_that_is_hidden_is_as_if_it_were_not_there(backend: &dyn Backend) {
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

pub async fn a_bag_ends_by_the_expiry_that_it_was_stored_with(backend: &dyn Backend) {
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

pub async fn entries_come_and_go_with_their_bag(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    let change = |values: &str, removed: &[(u64, &str)], added: &[(u64, &str)]| EntryChange {
        list: bag.entries(values),
        removed: removed.iter().map(|(at, value)| (place(*at), value.to_string().into())).collect(),
        added: added.iter().map(|(at, value)| bag.entry(*at, value)).collect(),
    };
    let last = Timestamp::MAX.as_nanos();
    let first = vec![change("paris", &[], &[(0, "u-1"), (last, "u-2")]), change("rome", &[], &[(7, "u-1")])];
    assert_eq!(bag.swap(None, Some((-9, "{}")), first).await, Swapped::Done);
    // Places are no moments: places of 1970 are visible, too.
    let shown = |entries: &[(u64, &str)]| -> Vec<_> {
        entries.iter().map(|(at, value)| (place(*at), Bytes::from(value.to_string()))).collect()
    };
    assert_eq!(bag.entries_now("paris").await, shown(&[(last, "u-2"), (0, "u-1")]));
    assert_eq!(bag.entries_now("rome").await, shown(&[(7, "u-1")]));
    // It moves, in one list and to another; a missing entry is ignored.
    let moved =
        vec![change("paris", &[(0, "u-1"), (3, "u-1")], &[(9, "u-1")]), change("rome", &[(7, "u-1"), (8, "u-9")], &[])];
    assert_eq!(bag.swap(Some(-9), Some((-8, "{}")), moved).await, Swapped::Done);
    assert_eq!(bag.entries_now("paris").await, shown(&[(last, "u-2"), (9, "u-1")]));
    assert_eq!(bag.entries_now("rome").await, []);
    let gone = vec![change("paris", &[(9, "u-1"), (last, "u-2")], &[])];
    assert_eq!(bag.swap(Some(-8), None, gone).await, Swapped::Done);
    assert_eq!((bag.now().await, bag.entries_now("paris").await), (None, Vec::new()));
    // Entries may change without their bag: this repairs errors.
    bag.put(None, -7, "{}").await;
    let op = bag.probe.op();
    let mended = |before| {
        let entries = vec![change("oslo", &[], &[(1, "u-1")])];
        BagSwap { before: Some(bag.probe.at(before)), after: BagAfter::Same, entries, row: None, entered_in: None }
    };
    assert_eq!(bag.swap_at(&op, mended(-6)).await, Swapped::Lost);
    assert_eq!(bag.entries_now("oslo").await, []);
    assert_eq!(bag.swap_at(&op, mended(-7)).await, Swapped::Done);
    assert_eq!((bag.now().await, bag.entries_now("oslo").await), (some(-7, "{}"), shown(&[(1, "u-1")])));
}

pub async fn an_entry_ends_by_its_own_expiry_the_last_one_given(backend: &dyn Backend) {
    if !backend.steps_clock() {
        return;
    }
    let bag = Bag::open(backend).await;
    let change = |expires: i64| {
        let expires_at = bag.probe.at(expires).as_nanos();
        let added = vec![NewItem { timestamp: place(1), value: "u-1".into(), expires_at }];
        vec![EntryChange { list: bag.entries("v"), removed: Vec::new(), added }]
    };
    assert_eq!(bag.swap(None, Some((-9, "{}")), change(60 * SECOND)).await, Swapped::Done);
    assert_eq!(bag.entries_at(bag.probe.at(60 * SECOND - 1), "v").await.len(), 1);
    assert_eq!(bag.entries_at(bag.probe.at(60 * SECOND), "v").await.len(), 0);
    assert_eq!(bag.swap(Some(-9), Some((-8, "{}")), change(90 * SECOND)).await, Swapped::Done);
    assert_eq!(bag.entries_at(bag.probe.at(90 * SECOND - 1), "v").await.len(), 1);
    assert_eq!(bag.swap(Some(-8), Some((-7, "{}")), change(30 * SECOND)).await, Swapped::Done);
    assert_eq!(bag.entries_at(bag.probe.at(30 * SECOND), "v").await.len(), 0);
}

pub async fn of_many_swaps_at_once_one_is_done(backend: &dyn Backend) {
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

pub async fn a_walk_meets_every_bag_once(backend: &dyn Backend) {
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

pub async fn a_walk_tells_the_bags_that_it_meets(backend: &dyn Backend) {
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
        let (mut met, mut told, mut from) = (BTreeMap::new(), 0, None);
        loop {
            let (op, key) = (bag.probe.op(), &bag.probe.list.feature_key);
            let BagPage { bags, next } = bag.probe.session.bags(&op, key, from.as_ref(), limit).await.unwrap();
            assert!(bags.len() <= limit && (next.is_none() || next != from), "a walk goes on, {limit} at a time");
            told += bags.len();
            met.extend(bags.into_iter().map(|(entity, found)| {
                let document = String::from_utf8(found.value.to_vec()).unwrap();
                (entity.to_string(), (bag.probe.offset_of(&found), document))
            }));
            from = next;
            if from.is_none() {
                break;
            }
        }
        assert!((told, &met) == (expected.len(), &expected), "limit {limit}");
    }
}

pub async fn entries_of_many_bags_are_added_together(backend: &dyn Backend) {
    // More lists in all than a store may change in one write.
    const BAGS: usize = 60;
    const LISTS: usize = 5;
    let bag = Bag::open(backend).await;
    let name = |n: usize| format!("u-{n}");
    // Each has separate lists of entries, and one shared list.
    let own = |n: usize| (0..LISTS).map(move |list| format!("of {n}: {list}"));
    let entries = |n: usize| {
        let added = |values: String| {
            let added = vec![bag.entry(n as u64, &name(n))];
            EntryChange { list: bag.entries(&values), removed: Vec::new(), added }
        };
        own(n).chain(["all".to_owned()]).map(added).collect()
    };
    let is_other = |n: usize| n % 7 == 3;
    let is_gone = |n: usize| n % 7 == 5;
    for n in 0..BAGS {
        let bag = bag.of(&name(n));
        bag.put(None, -9, "{}").await;
        if is_other(n) {
            bag.put(Some(-9), -8, "{}").await;
        } else if is_gone(n) {
            assert_eq!(bag.swap(Some(-9), None, Vec::new()).await, Swapped::Done);
        }
    }
    let of = |n: usize| BagEntries {
        bag: bag.of(&name(n)).probe.list.clone(),
        stamp: bag.probe.at(-9),
        entries: entries(n),
    };
    // Again, it changes nothing.
    for _ in 0..2 {
        let swapped = bag.probe.session.enter_bags(&bag.probe.op(), (0..BAGS).map(of).collect()).await.unwrap();
        for (n, swapped) in swapped.iter().enumerate() {
            let expected = if is_other(n) || is_gone(n) { Swapped::Lost } else { Swapped::Done };
            assert_eq!(*swapped, expected, "{n}");
        }
        assert_eq!(swapped.len(), BAGS);
        let shown = |n: usize| (place(n as u64), Bytes::from(name(n)));
        let there = |n: &usize| !is_other(*n) && !is_gone(*n);
        let all: Vec<_> = (0..BAGS).rev().filter(there).map(shown).collect();
        assert_eq!(bag.entries_now("all").await, all);
        for (n, values) in (0..BAGS).flat_map(|n| own(n).map(move |values| (n, values))) {
            let expected: Vec<_> = Some(n).filter(there).map(shown).into_iter().collect();
            assert_eq!(bag.entries_now(&values).await, expected, "{values}");
        }
    }
    assert_eq!(bag.probe.session.enter_bags(&bag.probe.op(), Vec::new()).await.unwrap(), []);
}

pub async fn bags_are_apart_from_other_generations_and_lists(backend: &dyn Backend) {
    let bag = Bag::open(backend).await;
    bag.put(None, -9, "{}").await;
    let anew = Bag {
        probe: bag.probe.with_list(list_key(&key_of(&bag.entity_type, "", 2), "u-1")),
        entity_type: bag.entity_type.clone(),
    };
    assert_eq!((anew.now().await, anew.walk(&anew.probe.op()).await), (None, Vec::new()));
    anew.put(None, -8, "[]").await;
    assert_eq!((bag.now().await, anew.now().await), (some(-9, "{}"), some(-8, "[]")));
    let feature = super::probe::feature_key("seen", "", 1);
    let list = bag.probe.with_list(list_key(&feature, &format!("{}", bag.entity_type)));
    list.add(&[(-1, "a")]).await;
    assert_eq!((list.all().await.len(), bag.now().await), (1, some(-9, "{}")));
}

/// A swap that names the row that was read is made from that row, and no other.
pub async fn a_swap_may_name_the_row_that_was_read(backend: &dyn Backend) {
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

pub async fn what_was_swapped_is_there_after_a_reopening(backend: &dyn Backend) {
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

/// A change of the list of entries of this number: places that go, and places that come.
type Entries = (u8, Vec<u8>, Vec<u8>);

#[derive(Debug, Clone)]
enum Step {
    /// Of this entity, with the present stamp or a wrong one.
    Swap {
        entity: u8,
        wrong: bool,
        document: Option<u8>,
        entries: Vec<Entries>,
    },
    RemoveAll(u8),
    SetTtl(u64),
    Wait(i64),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let places = || prop::collection::vec(0..6_u8, 0..4);
    let entries = prop::collection::btree_map(0..3_u8, (places(), places()), 0..3);
    let entries = entries.prop_map(|lists| {
        let apart = |(list, (removed, added)): (u8, (Vec<u8>, Vec<u8>))| {
            (list, removed.into_iter().filter(|place| !added.contains(place)).collect(), added)
        };
        lists.into_iter().map(apart).collect::<Vec<Entries>>()
    });
    prop_oneof![
        12 => (0..3_u8, prop::bool::weighted(0.2), prop::option::weighted(0.8, any::<u8>()), entries)
            .prop_map(|(entity, wrong, document, entries)| Step::Swap { entity, wrong, document, entries }),
        1 => (0..3_u8).prop_map(Step::RemoveAll),
        1 => prop_oneof![Just(5), Just(60), Just(3_600)].prop_map(Step::SetTtl),
        2 => (1..20 * SECOND).prop_map(Step::Wait),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    /// By entity: stamp, expiry and document.
    bags: BTreeMap<u8, (i64, u64, String)>,
    /// By list and place: the expiry.
    entries: BTreeMap<(u8, u8), u64>,
}

impl Model {
    fn bag(&self, bag: &Bag, op: &OpContext, entity: u8) -> Option<(i64, String)> {
        let (stamp, expires_at, document) = self.bags.get(&entity)?;
        let is_seen = op.ttl.expiry_of(bag.probe.at(*stamp)) > op.now.as_nanos() && *expires_at > op.now.as_nanos();
        is_seen.then(|| (*stamp, document.clone()))
    }
}

/// Random operations, with reopenings in between if the store is durable.
pub async fn random_swaps_agree_with_the_model(backend: &dyn Backend) {
    if !backend.steps_clock() {
        return;
    }
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..48 {
        let steps = prop::collection::vec(step(), 1..40).new_tree(&mut runner).unwrap();
        agree(backend, &steps.current()).await;
    }
}

async fn agree(backend: &dyn Backend, steps: &[Step]) {
    let mut bag = Bag::open(backend).await;
    let (mut model, mut secs, mut waited) = (Model::default(), 60, 0);
    let entity_name = |entity: u8| format!("u-{entity}");
    for (number, step) in steps.iter().enumerate() {
        let op = bag.probe.op_at(waited, ttl(secs));
        match step {
            Step::Swap { entity, wrong, document, entries } => {
                let of = bag.of(&entity_name(*entity));
                let present = model.bag(&bag, &op, *entity).map(|(stamp, _)| stamp);
                let before = if *wrong { Some(present.map_or(-1_000, |stamp| stamp - 1)) } else { present };
                let stamp = present.map_or(waited, |present| waited.max(present + 1));
                let after = document.map(|document| of.item(&op, stamp, &document.to_string()));
                let expires_at = op.ttl.expiry_of(bag.probe.at(stamp));
                let value = || Bytes::from(entity_name(*entity));
                let change = |(list, removed, added): &Entries| EntryChange {
                    list: bag.entries(&list.to_string()),
                    removed: removed.iter().map(|at| (place(u64::from(*at)), value())).collect(),
                    added: added
                        .iter()
                        .map(|at| NewItem { timestamp: place(u64::from(*at)), value: value(), expires_at })
                        .collect(),
                };
                let changes = entries.iter().map(change).collect();
                let swap = BagSwap {
                    before: before.map(|stamp| bag.probe.at(stamp)),
                    after: after.into(),
                    entries: changes,
                    row: None,
                    entered_in: None,
                };
                let expected = if *wrong { Swapped::Lost } else { Swapped::Done };
                assert_eq!(of.swap_at(&op, swap).await, expected, "step {number} of {steps:?}");
                if *wrong {
                    continue;
                }
                match document {
                    Some(document) => model.bags.insert(*entity, (stamp, expires_at, document.to_string())),
                    None => model.bags.remove(entity),
                };
                for (list, removed, added) in entries {
                    let key = |at: &u8| (list * 3 + entity, *at);
                    removed.iter().for_each(|at| {
                        model.entries.remove(&key(at));
                    });
                    model.entries.extend(added.iter().map(|at| (key(at), expires_at)));
                }
            }
            Step::RemoveAll(entity) => {
                let of = bag.of(&entity_name(*entity));
                of.probe.session.remove_all(&op, &of.probe.list).await.unwrap();
                model.bags.remove(entity);
            }
            Step::SetTtl(other) => secs = *other,
            Step::Wait(nanos) => waited += nanos,
            Step::Reopen if backend.keeps() => {
                let Bag { probe, entity_type } = bag;
                bag = Bag { probe: probe.reopen(backend).await, entity_type };
            }
            Step::Reopen => {}
        }
        let op = bag.probe.op_at(waited, ttl(secs));
        for entity in 0..3 {
            let found = bag.of(&entity_name(entity)).at(&op).await;
            assert_eq!(found, model.bag(&bag, &op, entity), "step {number} of {steps:?}");
        }
        for list in 0..3_u8 {
            let mut expected: Vec<_> = model
                .entries
                .iter()
                .filter(|((of, _), expires_at)| of / 3 == list && **expires_at > op.now.as_nanos())
                .map(|((of, at), _)| (place(u64::from(*at)), Bytes::from(entity_name(of % 3))))
                .collect();
            let mut found = bag.entries_at(op.now, &list.to_string()).await;
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "list {list}, step {number} of {steps:?}");
        }
    }
}
