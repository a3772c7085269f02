//! Sets: members that are in a list once, by value or by key, in any order of arrival.

use std::collections::BTreeMap;

use bytes::Bytes;
use liststore::domain::{Identity, Item, ItemKey, Keep, MemberKey, Order, ValueDigest};
use liststore::items::{Range, Removal};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::Backend;
use super::probe::{EVERYTHING, HOUR, Probe, SECOND, fresh_feature_key, list_key, ttl};

const VALUES_NEWEST: Identity = Identity::Value(Keep::Newest);
const VALUES_OLDEST: Identity = Identity::Value(Keep::Oldest);
const KEYS_NEWEST: Identity = Identity::Key(Keep::Newest);
const KEYS_OLDEST: Identity = Identity::Key(Keep::Oldest);
const ALL: [Identity; 4] = [VALUES_NEWEST, VALUES_OLDEST, KEYS_NEWEST, KEYS_OLDEST];

async fn open(backend: &dyn Backend, identity: Identity) -> Probe {
    let probe = Probe::open(backend).await;
    probe.with_list(list_key(&fresh_feature_key().with_identity(identity), "u-1"))
}

/// The stored bytes of a keyed item.
fn keyed(key: &str, value: &str) -> Bytes {
    MemberKey::new(key).unwrap().store(value.as_bytes())
}

async fn lookup(probe: &Probe, members: &[&str]) -> Vec<Option<(i64, Bytes)>> {
    let members: Vec<_> = members.iter().map(|member| Bytes::copy_from_slice(member.as_bytes())).collect();
    let found = probe.session.lookup(&probe.op(), &probe.list, &members).await.unwrap();
    found.into_iter().map(|item| item.map(|item| (offset(probe, &item), item.value))).collect()
}

fn offset(probe: &Probe, item: &Item) -> i64 {
    item.timestamp.as_nanos() as i64 - probe.base.as_nanos() as i64
}

async fn all(probe: &Probe) -> Vec<(i64, Bytes)> {
    let page = probe.session.get(&probe.op(), &probe.list, &EVERYTHING).await.unwrap();
    page.items.iter().map(|item| (offset(probe, item), item.value.clone())).collect()
}

async fn remove_members(probe: &Probe, members: &[&str]) -> u64 {
    let members = members.iter().map(|member| Bytes::copy_from_slice(member.as_bytes())).collect();
    probe.session.remove(&probe.op(), &probe.list, &Removal::Members(members)).await.unwrap()
}

pub async fn a_value_occurs_once_at_its_newest_time(backend: &dyn Backend) {
    let probe = open(backend, VALUES_NEWEST).await;
    probe.add(&[(-5, "a"), (-4, "b")]).await;
    probe.add(&[(-3, "a")]).await;
    // A late arrival does not matter.
    probe.add(&[(-9, "b")]).await;
    assert_eq!(all(&probe).await, [(-3, "a".into()), (-4, "b".into())]);
    assert_eq!(
        lookup(&probe, &["b", "x", "a", "b"]).await,
        [Some((-4, "b".into())), None, Some((-3, "a".into())), Some((-4, "b".into()))]
    );
}

pub async fn a_value_occurs_once_at_its_oldest_time(backend: &dyn Backend) {
    let probe = open(backend, VALUES_OLDEST).await;
    probe.add(&[(-5, "a"), (-4, "b")]).await;
    probe.add(&[(-3, "a"), (-9, "b")]).await;
    assert_eq!(all(&probe).await, [(-5, "a".into()), (-9, "b".into())]);
    assert_eq!(lookup(&probe, &["a", "b"]).await, [Some((-5, "a".into())), Some((-9, "b".into()))]);
}

pub async fn a_key_occurs_once_with_any_value(backend: &dyn Backend) {
    let probe = open(backend, KEYS_NEWEST).await;
    probe.add(&[(-5, keyed("u-1", "spam")), (-5, keyed("u-2", "spam"))]).await;
    probe.add(&[(-4, keyed("u-1", "worse"))]).await;
    assert_eq!(all(&probe).await, [(-4, keyed("u-1", "worse")), (-5, keyed("u-2", "spam"))]);
    assert_eq!(
        lookup(&probe, &["u-1", "u-2", "u-3", "spam"]).await,
        [Some((-4, keyed("u-1", "worse"))), Some((-5, keyed("u-2", "spam"))), None, None]
    );
}

pub async fn the_order_of_pages_decides_between_equal_timestamps(backend: &dyn Backend) {
    for identity in [KEYS_NEWEST, KEYS_OLDEST] {
        let digest = |value: &&str| ValueDigest::of(&keyed("k", value));
        let mut values = ["a", "b", "c", "d"];
        values.sort_by_key(digest);
        let expected = if identity == KEYS_NEWEST { values[3] } else { values[0] };
        for turned in 0..4 {
            let probe = open(backend, identity).await;
            values.rotate_left(1);
            for value in values {
                probe.add(&[(-5, keyed("k", value))]).await;
            }
            assert_eq!(all(&probe).await, [(-5, keyed("k", expected))], "{identity}, turned {turned}");
        }
    }
}

pub async fn a_member_twice_in_one_add_is_stored_once(backend: &dyn Backend) {
    for (identity, kept) in [(KEYS_NEWEST, 999), (KEYS_OLDEST, 0)] {
        let probe = open(backend, identity).await;
        let items: Vec<_> = (0..1_000).map(|i| (i - 2_000, keyed("k", &format!("{i}")))).collect();
        probe.add(&items).await;
        assert_eq!(all(&probe).await, [(kept - 2_000, keyed("k", &format!("{kept}")))], "{identity}");
    }
}

pub async fn an_expired_member_counts_as_missing(backend: &dyn Backend) {
    for identity in ALL {
        let probe = open(backend, identity).await;
        let stored = |value: &str| if identity.kind().as_str() == "key" { keyed("m", value) } else { "m".into() };
        let long_ago = if identity.keep() == Some(Keep::Newest) { 0 } else { -100 };
        // It lives for a minute of another TTL, and the next comes when that is over.
        let first = probe.op_at(0, ttl(60));
        probe.add_at(&first, &[(long_ago * SECOND / 1_000, stored("first"))]).await;
        let later = probe.op_at(2 * 60 * SECOND, ttl(3_600));
        let second = (-SECOND, stored("second"));
        probe.add_at(&later, std::slice::from_ref(&second)).await;
        // A longer TTL, and a clock that steps back, show nothing of it again.
        for op in [later, probe.op_at(1, ttl(7_200))] {
            let page = probe.session.get(&op, &probe.list, &EVERYTHING).await.unwrap();
            let shown: Vec<_> = page.items.iter().map(|item| (offset(&probe, item), item.value.clone())).collect();
            assert_eq!(shown, std::slice::from_ref(&second), "{identity}");
        }
    }
}

pub async fn a_member_hidden_by_a_shorter_ttl_never_occurs_twice(backend: &dyn Backend) {
    for identity in ALL {
        let probe = open(backend, identity).await;
        let stored = |value: &str| if identity.kind().as_str() == "key" { keyed("m", value) } else { "m".into() };
        probe.add(&[(-600 * SECOND, stored("first"))]).await;
        probe.add_at(&probe.op_at(0, ttl(60)), &[(-SECOND, stored("second"))]).await;
        assert_eq!(all(&probe).await, [(-SECOND, stored("second"))], "{identity}");
        assert_eq!(lookup(&probe, &["m"]).await, [Some((-SECOND, stored("second")))], "{identity}");
    }
}

pub async fn the_last_add_of_the_same_item_sets_its_expiry(backend: &dyn Backend) {
    for identity in ALL {
        let probe = open(backend, identity).await;
        let item = (-5, if identity.kind().as_str() == "key" { keyed("m", "v") } else { "m".into() });
        probe.add_at(&probe.op_at(0, ttl(60)), std::slice::from_ref(&item)).await;
        probe.add(std::slice::from_ref(&item)).await;
        let later = probe.op_at(120 * SECOND, ttl(3_600));
        let found = probe.session.lookup(&later, &probe.list, &[Bytes::from("m")]).await.unwrap();
        assert!(found[0].is_some(), "{identity}");
        assert_eq!(all(&probe).await, [item], "{identity}");
    }
}

pub async fn members_are_removed_without_their_timestamps(backend: &dyn Backend) {
    let probe = open(backend, KEYS_NEWEST).await;
    let items: Vec<_> = (0..300).map(|i| (-i, keyed(&format!("u-{i}"), "v"))).collect();
    probe.add(&items).await;
    assert_eq!(remove_members(&probe, &["u-7", "u-299", "u-7", "nobody"]).await, 2);
    assert_eq!(remove_members(&probe, &["u-7"]).await, 0);
    assert_eq!(lookup(&probe, &["u-7", "u-8"]).await, [None, Some((-8, keyed("u-8", "v")))]);
    assert_eq!(all(&probe).await.len(), 298);
    // A removed member is as if it had never been there.
    probe.add(&[(-1_000, keyed("u-7", "again"))]).await;
    assert_eq!(lookup(&probe, &["u-7"]).await, [Some((-1_000, keyed("u-7", "again")))]);
}

pub async fn every_removal_keeps_rows_and_lookups_consistent(backend: &dyn Backend) {
    for identity in ALL {
        let probe = open(backend, identity).await;
        let stored = |i: i64| match identity.kind().as_str() {
            "key" => keyed(&format!("u-{i}"), &format!("v{}", i % 3)),
            _ => format!("u-{i}").into(),
        };
        let fill: Vec<_> = (0..40).map(|i| (-i, stored(i))).collect();
        let names: Vec<_> = (0..40).map(|i| format!("u-{i}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        probe.add(&fill).await;
        let agree = async |left: usize| {
            let rows = all(&probe).await;
            let found: Vec<_> = lookup(&probe, &names).await.into_iter().flatten().collect();
            let sorted = |mut items: Vec<(i64, Bytes)>| {
                items.sort();
                items
            };
            assert_eq!((rows.len(), sorted(rows)), (left, sorted(found)), "{identity}");
        };
        agree(40).await;
        assert_eq!(probe.remove_between(-9, -5).await, 5);
        agree(35).await;
        assert_eq!(probe.remove_items(&[(-1, stored(1)), (-2, stored(3))]).await, 1);
        agree(34).await;
        let by_value = if identity.kind().as_str() == "key" { ("v0", 12) } else { ("u-12", 1) };
        assert_eq!(probe.remove(by_value.0).await, by_value.1, "{identity}");
        agree(34 - by_value.1 as usize).await;
        probe.remove_all().await;
        agree(0).await;
        probe.add(&[(-500, stored(3))]).await;
        agree(1).await;
    }
}

pub async fn contains_and_counts_compare_values(backend: &dyn Backend) {
    let probe = open(backend, KEYS_NEWEST).await;
    probe.add(&[(-5, keyed("a", "v")), (-4, keyed("b", "v")), (-3, keyed("c", "w"))]).await;
    let values = ["v", "w", "a"].map(Bytes::from);
    let found = probe.session.contains(&probe.op(), &probe.list, &probe.bounds(-HOUR, 0), &values).await.unwrap();
    assert_eq!(found, [Some(probe.at(-4)), Some(probe.at(-3)), None]);
    let count = probe.session.count(&probe.op(), &probe.list, &probe.bounds(-4, 0), 10).await.unwrap();
    assert_eq!((count.items, count.exact), (2, true));
}

pub async fn a_walk_with_moving_members_returns_none_twice(backend: &dyn Backend) {
    for (identity, order) in [(KEYS_NEWEST, Order::Newest), (KEYS_OLDEST, Order::Oldest)] {
        let probe = open(backend, identity).await;
        let names: Vec<_> = (0..50).map(|i| format!("u-{i}")).collect();
        let items: Vec<_> = names.iter().zip(0..).map(|(name, i)| (-1_000 - i, keyed(name, "v"))).collect();
        probe.add(&items).await;
        let (mut seen, mut after, mut moved) = (Vec::new(), None, 0);
        loop {
            let range = Range { limit: 7, after, order, ..EVERYTHING };
            let page = probe.session.get(&probe.op(), &probe.list, &range).await.unwrap();
            seen.extend(page.items.iter().map(|item| identity.member(&item.value).to_vec()));
            after = page.items.last().map(Item::key);
            // One before the current place, and one after it.
            for place in [seen.len() - 1, 49 - moved.min(49)] {
                let at = if order == Order::Newest { -500 + moved as i64 } else { -5_000 - moved as i64 };
                probe.add(&[(at, keyed(&names[place.min(49)], "moved"))]).await;
                moved += 1;
            }
            if !page.more {
                break;
            }
        }
        let met = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), met, "{identity}");
    }
}

pub async fn removing_all_of_any_identity_empties_sets_and_lists(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    for identity in [Identity::Item, VALUES_NEWEST, KEYS_OLDEST] {
        let key = fresh_feature_key();
        let probe = probe.with_list(list_key(&key.clone().with_identity(identity), "u-1"));
        let item = if identity.kind().as_str() == "key" { keyed("m", "v") } else { "m".into() };
        probe.add(&[(-5, item.clone())]).await;
        probe.with_list(list_key(&key.of_any_identity(), "u-1")).remove_all().await;
        assert!(all(&probe).await.is_empty(), "{identity}");
        probe.add(&[(-7, item.clone())]).await;
        assert_eq!(all(&probe).await, [(-7, item)], "{identity}");
    }
}

pub async fn members_survive_a_reopening(backend: &dyn Backend) {
    let probe = open(backend, KEYS_NEWEST).await;
    let items: Vec<_> = (0..100).map(|i| (-i, keyed(&format!("u-{i}"), "v"))).collect();
    probe.add(&items).await;
    remove_members(&probe, &["u-3"]).await;
    let (list, probe) = (probe.list.clone(), probe.reopen(backend).await);
    assert_eq!(probe.list, list);
    let probe = probe.with_list(list);
    probe.add(&[(5, keyed("u-4", "moved"))]).await;
    assert_eq!(
        lookup(&probe, &["u-3", "u-4", "u-5"]).await,
        [None, Some((5, keyed("u-4", "moved"))), Some((-5, keyed("u-5", "v")))]
    );
    assert_eq!(all(&probe).await.len(), 99);
    let probe = probe.reopen(backend).await;
    assert_eq!(all(&probe).await.len(), 99);
}

/// The steps on a set, with members and times from small ranges, so that they collide. Times and TTLs are in units.
#[derive(Debug, Clone)]
enum Step {
    Add(Vec<(i64, u8, u8)>),
    RemoveMembers(Vec<u8>),
    RemoveValue(u8),
    RemoveBetween(i64, i64),
    RemoveAll,
    SetTtl(u64),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let item = (-40_i64..1, 0_u8..12, 0_u8..4);
    prop_oneof![
        8 => prop::collection::vec(item, 1..8).prop_map(Step::Add),
        3 => prop::collection::vec(0_u8..12, 1..4).prop_map(Step::RemoveMembers),
        1 => (0_u8..4).prop_map(Step::RemoveValue),
        1 => (-40_i64..1, 0_i64..10).prop_map(|(min, len)| Step::RemoveBetween(min, min + len)),
        1 => Just(Step::RemoveAll),
        1 => prop::sample::select(vec![20_u64, 30, 60]).prop_map(Step::SetTtl),
        1 => (1_i64..10).prop_map(Step::Wait),
    ]
}

/// The rule of sets in a few lines.
struct Model {
    identity: Identity,
    members: BTreeMap<Vec<u8>, (ItemKey, Bytes, u64)>,
}

impl Model {
    fn is_visible(op: &liststore::items::OpContext, (key, _, expires_at): &(ItemKey, Bytes, u64)) -> bool {
        key.timestamp >= op.ttl.visible_from(op.now) && op.now.as_nanos() < *expires_at
    }

    fn add(&mut self, op: &liststore::items::OpContext, item: (ItemKey, Bytes, u64)) {
        let member = self.identity.member(&item.1).to_vec();
        let keep = self.identity.keep().unwrap();
        let stays = self.members.get(&member).filter(|present| Self::is_visible(op, present));
        if stays.is_none_or(|present| keep.replaces(&item.0, &present.0)) {
            self.members.insert(member, item);
        }
    }

    fn remove(&mut self, op: &liststore::items::OpContext, takes: impl Fn(&ItemKey, &Bytes) -> bool) -> u64 {
        let before = self.members.values().filter(|item| Self::is_visible(op, item)).count();
        self.members.retain(|_, (key, stored, _)| !takes(key, stored));
        (before - self.members.values().filter(|item| Self::is_visible(op, item)).count()) as u64
    }

    fn visible(&self, op: &liststore::items::OpContext) -> Vec<(ItemKey, Bytes)> {
        let visible = self.members.values().filter(|item| Self::is_visible(op, item));
        let mut items: Vec<_> = visible.map(|(key, stored, _)| (*key, stored.clone())).collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.0));
        items
    }
}

/// Random operations, with reopenings in between if the store is durable.
pub async fn random_operations_on_sets_agree_with_the_model(backend: &dyn Backend) {
    let mut runner = TestRunner::new(Config::default());
    // Where each operation is a request of a database, fewer.
    let cases = if backend.steps_clock() { 24 } else { 6 };
    for identity in ALL {
        for _ in 0..cases {
            let steps = prop::collection::vec(step(), 1..40).new_tree(&mut runner).unwrap();
            let steps = proptest::strategy::ValueTree::current(&steps);
            walk(backend, identity, &steps).await;
        }
    }
}

async fn walk(backend: &dyn Backend, identity: Identity, steps: &[Step]) {
    let probe = open(backend, identity).await;
    let mut model = Model { identity, members: BTreeMap::new() };
    // A database expires rows by its own clock, which advances during a case, and must not influence it.
    let unit_secs: u32 = if backend.steps_clock() { 1 } else { 100 };
    let (unit, ttl_of) = (i64::from(unit_secs) * SECOND, |units: u64| ttl(units * u64::from(unit_secs)));
    let (mut lives, mut waited) = (60, 0);
    let name = |member: u8| format!("m{member}");
    let stored = |member: u8, value: u8| match identity.kind().as_str() {
        "key" => keyed(&name(member), &format!("v{value}")),
        _ => Bytes::from(name(member)),
    };
    for (number, step) in steps.iter().enumerate() {
        let op = probe.op_at(waited, ttl_of(lives));
        match step {
            Step::Add(items) => {
                let live = items.iter().map(|(at, member, value)| (at * unit + waited, stored(*member, *value)));
                let live = live.filter(|(at, _)| op.ttl.expiry_of(probe.at(*at)) > op.now.as_nanos());
                let live: Vec<_> = live.collect();
                if !live.is_empty() {
                    probe.add_at(&op, &live).await;
                }
                for (at, stored) in live {
                    let key = ItemKey::new(probe.at(at), ValueDigest::of(&stored));
                    model.add(&op, (key, stored, op.ttl.expiry_of(probe.at(at))));
                }
            }
            Step::RemoveMembers(members) => {
                let members: Vec<_> = members.iter().map(|member| Bytes::from(name(*member))).collect();
                let removal = Removal::Members(members.clone());
                let removed = probe.session.remove(&op, &probe.list, &removal).await.unwrap();
                let expected = model.remove(&op, |_, stored| members.iter().any(|m| m == identity.member(stored)));
                assert_eq!(removed, expected, "{identity}, step {number} of {steps:?}");
            }
            Step::RemoveValue(value) => {
                let value = if identity.kind().as_str() == "key" { format!("v{value}") } else { name(*value) };
                let removal = Removal::Value(value.clone().into());
                let removed = probe.session.remove(&op, &probe.list, &removal).await.unwrap();
                let expected = model.remove(&op, |_, stored| identity.value(stored) == value.as_bytes());
                assert_eq!(removed, expected, "{identity}, step {number} of {steps:?}");
            }
            Step::RemoveBetween(min, max) => {
                let bounds = probe.bounds(min * unit, max * unit);
                let removed = probe.session.remove(&op, &probe.list, &Removal::Between(bounds)).await.unwrap();
                let expected = model.remove(&op, |key, _| bounds.contain(key.timestamp));
                assert_eq!(removed, expected, "{identity}, step {number} of {steps:?}");
            }
            Step::RemoveAll => {
                probe.remove_all().await;
                model.members.clear();
            }
            Step::SetTtl(units) => lives = *units,
            Step::Wait(units) => waited += units * unit,
        }
        let op = probe.op_at(waited, ttl_of(lives));
        let page = probe.session.get(&op, &probe.list, &EVERYTHING).await.unwrap();
        let shown: Vec<_> = page.items.iter().map(|item| (item.key(), item.value.clone())).collect();
        assert_eq!(shown, model.visible(&op), "{identity}, step {number} of {steps:?}");
        let names: Vec<_> = (0..12).map(|member| Bytes::from(name(member))).collect();
        let found = probe.session.lookup(&op, &probe.list, &names).await.unwrap();
        for (name, found) in names.iter().zip(found) {
            let expected = shown.iter().find(|(_, stored)| identity.member(stored) == name);
            let found = found.map(|item| (item.key(), item.value));
            assert_eq!(found.as_ref(), expected, "{identity}, {name:?}, step {number} of {steps:?}");
        }
    }
}
