//! Random sequences of operations: every answer of a store must equal that of the model.
//!
//! Times, values and TTLs come from small sets, so that ties, repeated adds, removals that hit and
//! expiries are common.

use std::sync::Arc;

use bytes::Bytes;
use liststore::domain::{ItemKey, Order, Timestamp, Ttl, ValueDigest};
use liststore::items::memory::MemoryStore;
use liststore::items::{Count, ItemPage, Range, Removal, StoreError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::Backend;
use super::probe::{EVERYTHING, Probe, SECOND, fresh_feature_key, list_key, ttl};

const TTLS_SECS: [u64; 4] = [60, 600, 3_600, 86_400];
/// Where a database expires rows by its own clock: none may expire during a run.
const LONG_TTLS_SECS: [u64; 4] = [3_600, 7_200, 20_000, 86_400];
const TRIES_TO_SHORTEN_MAX: usize = 400;
const VALUES: [&[u8]; 6] = [b"", b"a", b"b", b"ab", b"\0\xff", &[b'x'; 300]];

#[derive(Debug, Clone)]
enum Action {
    Add(Vec<(i64, usize)>),
    Get { min: i64, max: i64, after: Option<(i64, usize)>, limit: usize, value_bytes_max: usize, order: Order },
    Walk { limit: usize, order: Order },
    Contains { min: i64, max: i64, values: Vec<usize> },
    Count { min: i64, max: i64, most: u64 },
    RemoveValue(usize),
    RemoveItems(Vec<(i64, usize)>),
    RemoveBetween { min: i64, max: i64 },
    RemoveAll,
    Advance(i64),
    SetTtl(usize),
    Reopen,
}

fn offset() -> impl Strategy<Value = i64> {
    // A few nanoseconds around a few seconds, past and future.
    (-40..=3_i64, -1..=1_i64).prop_map(|(step, nanos)| step * 20 * SECOND + nanos)
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Newest), Just(Order::Oldest)]
}

fn item() -> impl Strategy<Value = (i64, usize)> {
    (offset(), 0..VALUES.len())
}

fn action(reopens: bool) -> impl Strategy<Value = (usize, Action)> {
    let get = (offset(), offset(), proptest::option::of(item()), 1..12_usize, 0..700_usize, order()).prop_map(
        |(a, b, after, limit, value_bytes_max, order)| Action::Get {
            min: a.min(b),
            max: a.max(b),
            after,
            limit,
            value_bytes_max,
            order,
        },
    );
    let between = || (offset(), offset()).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let contains = (between(), vec(0..VALUES.len(), 1..8));
    let count = (between(), 1..15_u64);
    let action = prop_oneof![
        8 => vec(item(), 1..12).prop_map(Action::Add),
        8 => get,
        4 => (1..6_usize, order()).prop_map(|(limit, order)| Action::Walk { limit, order }),
        3 => contains.prop_map(|((min, max), values)| Action::Contains { min, max, values }),
        3 => count.prop_map(|((min, max), most)| Action::Count { min, max, most }),
        2 => (0..VALUES.len()).prop_map(Action::RemoveValue),
        2 => vec(item(), 1..6).prop_map(Action::RemoveItems),
        1 => between().prop_map(|(min, max)| Action::RemoveBetween { min, max }),
        1 => Just(Action::RemoveAll),
        2 => prop_oneof![1..60 * SECOND, 1..700 * SECOND, 1..4_000 * SECOND].prop_map(Action::Advance),
        2 => (0..TTLS_SECS.len()).prop_map(Action::SetTtl),
        2 => Just(if reopens { Action::Reopen } else { Action::Advance(1) }),
    ];
    // Two lists, so that a store that mixes them up is found out.
    (0..2_usize, action)
}

pub async fn random_operations_agree_with_the_model(backend: &dyn Backend) {
    check(backend, 48, 50, false).await;
}

/// Runs random sequences. If one fails, finds a shorter failing one, and reports it.
pub async fn check(backend: &dyn Backend, cases: u32, actions_max: usize, reopens: bool) {
    let mut config = Config::default();
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(uuid::Uuid::new_v4().as_u64_pair().1);
    }
    if let RngSeed::Fixed(seed) = config.rng_seed {
        eprintln!("random operations: PROPTEST_RNG_SEED={seed} repeats them");
    }
    let mut runner = TestRunner::new(config);
    let sequences = vec(action(reopens), 1..actions_max);
    let mut probe = Probe::open(backend).await;
    for _ in 0..cases {
        let mut tree = sequences.new_tree(&mut runner).unwrap();
        let mut failure = agree(backend, &mut probe, tree.current()).await.map_err(|reason| (reason, tree.current()));
        let mut tries = 0;
        let mut continues = failure.is_err() && tree.simplify();
        while continues && tries < TRIES_TO_SHORTEN_MAX {
            tries += 1;
            continues = match agree(backend, &mut probe, tree.current()).await {
                Err(reason) => {
                    failure = Err((reason, tree.current()));
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
        }
        if let Err((reason, actions)) = failure {
            panic!("{reason}\nafter {actions:#?}");
        }
    }
}

/// Runs the actions on fresh lists of a store and of the model.
async fn agree(backend: &dyn Backend, probe: &mut Probe, actions: Vec<(usize, Action)>) -> Result<(), String> {
    let feature_key = fresh_feature_key();
    let lists = [list_key(&feature_key, "u"), list_key(&feature_key, "uu")];
    // Rows that are stored have to outlive the run in real time, so the base is the real present.
    let base = backend.now();
    probe.base = base;
    let model = Probe::of(Arc::new(MemoryStore::default()), lists[0].clone(), base, probe.ttl).await;
    let mut now = 0;
    let ttls = if backend.steps_clock() { TTLS_SECS } else { LONG_TTLS_SECS };
    let mut present_ttl = ttl(ttls[3]);
    for (step, (list, action)) in actions.into_iter().enumerate() {
        match action {
            Action::Advance(nanos) => now += nanos,
            Action::SetTtl(n) => present_ttl = next_ttl(backend, present_ttl, ttl(ttls[n])),
            Action::Reopen => *probe = probe.clone().reopen(backend).await,
            action => {
                let (a, b) = (probe.with_list(lists[list].clone()), model.with_list(lists[list].clone()));
                // A database counts a row's life from its own present.
                let added_at = if backend.steps_clock() { now } else { 0 };
                let moment = Moment { now, added_at, ttl: present_ttl };
                let (answer, expected) = (act(&a, &action, moment).await, act(&b, &action, moment).await);
                if answer != expected {
                    return Err(format!("step {step}, {action:?}: the store says {answer:?}, the model {expected:?}"));
                }
            }
        }
    }
    for list in lists {
        let op = model.op_at(now, present_ttl);
        let (answer, expected) =
            (probe.with_list(list.clone()).all_at(&op).await, model.with_list(list).all_at(&op).await);
        if answer != expected {
            return Err(format!("at the end: the store has {answer:?}, the model {expected:?}"));
        }
    }
    Ok(())
}

/// Where a database expires rows by its own clock, a row's own expiry is seen by that clock alone:
/// there TTLs only shrink, so that the present TTL always decides.
fn next_ttl(backend: &dyn Backend, present: Ttl, wanted: Ttl) -> Ttl {
    if backend.steps_clock() { wanted } else { wanted.min(present) }
}

#[derive(Debug, PartialEq)]
enum Answer {
    Done,
    Removed(u64),
    Contained(Vec<Option<Timestamp>>),
    Counted(Count),
    Page(ItemPage),
    Walked(Vec<(i64, Vec<u8>)>),
    Failed(String),
}

fn failed(error: StoreError) -> Answer {
    Answer::Failed(error.to_string())
}

/// When an action happens, as offsets from the base, and under which TTL.
#[derive(Clone, Copy)]
struct Moment {
    now: i64,
    added_at: i64,
    ttl: Ttl,
}

async fn act(probe: &Probe, action: &Action, moment: Moment) -> Answer {
    let Moment { now, added_at, ttl } = moment;
    let op = probe.op_at(now, ttl);
    match action {
        Action::Add(items) => {
            let live = |(offset, _): &&(i64, usize)| ttl.expiry_of(probe.at(*offset)) > op.now.as_nanos();
            let items: Vec<_> = items.iter().filter(live).map(|(offset, n)| (*offset, VALUES[*n])).collect();
            if !items.is_empty() {
                let added = probe.try_add(&probe.op_at(added_at, ttl), &items).await;
                return added.map_or_else(failed, |()| Answer::Done);
            }
            Answer::Done
        }
        Action::Get { min, max, after, limit, value_bytes_max, order } => {
            let range = Range {
                min_timestamp: probe.at(*min),
                max_timestamp: probe.at(*max),
                after: after.map(|(offset, n)| ItemKey::new(probe.at(offset), ValueDigest::of(VALUES[n]))),
                limit: *limit,
                value_bytes_max: *value_bytes_max,
                order: *order,
            };
            Answer::Page(probe.page(&op, &range).await)
        }
        Action::Walk { limit, order } => {
            Answer::Walked(probe.walk(&op, Range { order: *order, ..EVERYTHING }, *limit).await)
        }
        Action::Contains { min, max, values } => {
            let values: Vec<_> = values.iter().map(|n| Bytes::from_static(VALUES[*n])).collect();
            let contained = probe.session.contains(&op, &probe.list, &probe.bounds(*min, *max), &values).await;
            contained.map_or_else(failed, Answer::Contained)
        }
        Action::Count { min, max, most } => {
            let counted = probe.session.count(&op, &probe.list, &probe.bounds(*min, *max), *most).await;
            counted.map_or_else(failed, Answer::Counted)
        }
        Action::RemoveItems(items) => {
            let items = items.iter().map(|(offset, n)| (probe.at(*offset), Bytes::from_static(VALUES[*n]))).collect();
            let removed = probe.session.remove(&op, &probe.list, &Removal::Items(items)).await;
            removed.map_or_else(failed, Answer::Removed)
        }
        Action::RemoveBetween { min, max } => {
            let removal = Removal::Between(probe.bounds(*min, *max));
            probe.session.remove(&op, &probe.list, &removal).await.map_or_else(failed, Answer::Removed)
        }
        Action::RemoveValue(n) => {
            let removed = probe.session.remove_value(&op, &probe.list, VALUES[*n]).await;
            removed.map_or_else(failed, Answer::Removed)
        }
        Action::RemoveAll => {
            let removed = probe.session.remove_all(&op, &probe.list).await;
            removed.map_or_else(failed, |()| Answer::Done)
        }
        Action::Advance(_) | Action::SetTtl(_) | Action::Reopen => Answer::Done,
    }
}
