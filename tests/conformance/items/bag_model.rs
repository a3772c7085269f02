//! Random swaps of bags and their entries, next to a plain model.

use std::collections::BTreeMap;

use bytes::Bytes;
use liststore::domain::NewItem;
use liststore::items::{BagSwap, EntryChange, OpContext, Swapped};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::Backend;
use super::bags::{Bag, place};
use super::probe::{SECOND, ttl};

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
