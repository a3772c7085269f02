//! Properties of the checker: on small histories it agrees with trying all orders, and every true history of a plain
//! list is allowed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::check;
use super::linear::{Effect, Step, Transition, Verdict, judge};
use crate::history::{
    Aggregated, Aggregates, AskedWindow, Call, Group, GroupBy, Groups, History, Item, Key, ListName, NANOS_PER_SEC,
    Order, Outcome, Promises, Reason, Request, Results, ValueType, VersionName,
};

pub const CASES: &[(&str, fn())] = &[
    ("agrees_with_trying_all_orders", agrees_with_trying_all_orders),
    ("allows_what_a_list_did", allows_what_a_list_did),
];

pub fn check_cases<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    // Failures are printed with their input, whole: no file is needed to find them again.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(strategy, test).unwrap_or_else(|error| panic!("{error}"));
}

// --- Trying all orders -----------------------------------------------------------------------

fn effect() -> impl Strategy<Value = Effect> {
    let bits = 0_u64..4;
    prop_oneof![
        3 => bits.clone().prop_map(Effect::sets),
        2 => bits.clone().prop_map(Effect::clears),
        3 => (bits.clone(), bits.clone()).prop_map(|(reported, set)| Effect::reports(reported, reported & set)),
        2 => (bits, 0_u64..3).prop_map(|(clear, count)| {
            let weights = [1, 2].into_iter().filter(|bit| clear & bit != 0).map(|bit| (bit, 1, 1)).collect();
            Effect { counted: vec![(weights, count)], ..Effect::clears(clear) }
        }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u64..12, 0_u64..6, proptest::bool::weighted(0.2), effect());
    proptest::collection::vec(step, 1..6).prop_map(|drawn| {
        let numbered = drawn.into_iter().enumerate();
        numbered
            .map(|(call, (from, long, optional, effect))| Step { call, from, to: from + long, optional, effect })
            .collect()
    })
}

/// Whether the remaining steps can follow a state, the slow way: each step that no other must precede is tried first.
fn can_follow(left: &[&Step], state: u64) -> bool {
    if left.iter().all(|step| step.optional) {
        return true;
    }
    let first_end = left.iter().map(|step| step.to).min().unwrap_or_default();
    left.iter().enumerate().filter(|(_, step)| step.from <= first_end || step.optional).any(|(place, step)| {
        let mut rest = left.to_vec();
        rest.remove(place);
        let happened = step.from <= first_end && step.effect.apply(state).is_some_and(|state| can_follow(&rest, state));
        happened || (step.optional && can_follow(&rest, state))
    })
}

fn agrees_with_trying_all_orders() {
    check_cases(20_000, &(steps(), 0_u64..4), |(steps, start)| {
        let slow = can_follow(&steps.iter().collect::<Vec<_>>(), start);
        let fast = judge(&steps, start) == Verdict::Possible;
        prop_assert_eq!(slow, fast);
        Ok(())
    });
}

// --- A plain list with true answers -------------------------------------------------------------

#[derive(Debug, Clone)]
enum Act {
    Add(Vec<usize>),
    Get { limit: usize, min: Option<u64>, order: Order },
    Count { limit: u64, min: Option<u64> },
    Contains { values: Vec<usize>, min: Option<u64> },
    Aggregate { min: u64, span: u64, group_by: Option<GroupBy> },
    Remove(usize),
    RemoveItems(Vec<usize>),
    RemoveBetween(u64, u64),
    Clear,
    Delete,
    Create,
}

/// When it happened, how long before and after that the call was open, and whether its answer was
/// lost.
type Drawn = (Act, u64, u64, u64, bool);

fn acts() -> impl Strategy<Value = Vec<Drawn>> {
    let (min, some) = (|| proptest::option::of(0_u64..4), || proptest::collection::vec(0_usize..8, 1..4));
    let order = prop_oneof![Just(Order::Newest), Just(Order::Oldest)];
    let group_by = (proptest::bool::weighted(0.2), 1_usize..5);
    let group_by = proptest::option::of(group_by.prop_map(|(by_member, max_groups)| GroupBy { by_member, max_groups }));
    let act = prop_oneof![
        5 => some().prop_map(Act::Add),
        6 => (1_usize..6, min(), order).prop_map(|(limit, min, order)| Act::Get { limit, min, order }),
        3 => (1_u64..6, min()).prop_map(|(limit, min)| Act::Count { limit, min }),
        3 => (some(), min()).prop_map(|(values, min)| Act::Contains { values, min }),
        4 => (0_u64..4, 0_u64..4, group_by)
            .prop_map(|(min, span, group_by)| Act::Aggregate { min, span, group_by }),
        2 => (0_usize..8).prop_map(Act::Remove),
        2 => some().prop_map(Act::RemoveItems),
        1 => (0_u64..4, 0_u64..3).prop_map(|(min, span)| Act::RemoveBetween(min, min + span)),
        1 => Just(Act::Clear),
        1 => Just(Act::Delete),
        2 => Just(Act::Create),
    ];
    proptest::collection::vec((act, 1_u64..500, 0_u64..40, 0_u64..40, proptest::bool::weighted(0.1)), 1..40)
}

const BASE: u64 = 1_800_000_000 * NANOS_PER_SEC;

/// Eight items: four values, each at two timestamps, two of them ties.
fn item(number: usize) -> Item {
    Item { timestamp: BASE + number as u64 / 2, value: format!("\"v{}\"", number % 4) }
}

/// The items from a moment on, ascending.
fn from(items: &BTreeMap<Key, Item>, min: Option<u64>) -> Vec<Item> {
    items.values().filter(|item| min.is_none_or(|min| item.timestamp >= min)).cloned().collect()
}

/// The results of items, newest first.
fn results(items: &[&Item]) -> Results {
    let mut counts: BTreeMap<&String, u64> = BTreeMap::new();
    items.iter().for_each(|item| *counts.entry(&item.value).or_default() += 1);
    let mut values: Vec<_> = counts.into_iter().map(|(value, count)| (value.clone(), count)).collect();
    values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let value = |item: Option<&&Item>| item.map(|item| item.value.clone());
    let (count, distinct) = (items.len() as u64, values.len() as u64);
    Results { count, distinct, values, first: value(items.last()), last: value(items.first()), sum: None }
}

/// The groups of items, newest first, and the number of those without a group.
fn grouped(items: &[&Item], by: GroupBy) -> (Groups, u64) {
    let mut groups: BTreeMap<String, Vec<&Item>> = BTreeMap::new();
    for item in items {
        if let Some(group) = by.group_of(&item.value) {
            groups.entry(group.into_owned()).or_default().push(item);
        }
    }
    let skipped = items.len() - groups.values().map(Vec::len).sum::<usize>();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    let others: Vec<String> = groups.iter().skip(by.max_groups).map(|(group, _)| group.clone()).collect();
    groups.truncate(by.max_groups);
    let group = |value, items: &[&Item]| Group { value, count: items.len() as u64, results: results(items) };
    let mut shown: Vec<_> = groups.into_iter().map(|(value, items)| group(Some(value), &items)).collect();
    if !others.is_empty() {
        let is_other =
            |item: &&Item| by.group_of(&item.value).is_some_and(|group| others.contains(&group.into_owned()));
        let rest: Vec<&Item> = items.iter().copied().filter(is_other).collect();
        shown.push(group(None, &rest));
    }
    (Groups { by, shown }, skipped as u64)
}

/// The answer to an aggregation that reads a number of items at most.
fn aggregates(
    items: &BTreeMap<Key, Item>,
    windows: &[(u64, u64)],
    group_by: Option<GroupBy>,
    items_max: usize,
) -> Aggregates {
    let (floor, ceiling) = (windows.iter().map(|(min, _)| *min).min(), windows.iter().map(|(_, max)| *max).max());
    let asked = |item: &&Item| Some(item.timestamp) >= floor && Some(item.timestamp) <= ceiling;
    let all: Vec<&Item> = items.values().rev().filter(asked).collect();
    let read = &all[..all.len().min(items_max)];
    let window = |(min, max): &(u64, u64)| {
        let here: Vec<&Item> = read.iter().copied().filter(|item| (*min..=*max).contains(&item.timestamp)).collect();
        let is_cut = all.get(items_max).is_some_and(|next| *min <= next.timestamp);
        let reason = is_cut.then_some(Reason::ItemsMax);
        let whole = || (results(&here), None, 0);
        let (results, groups, skipped) = group_by.map_or_else(whole, |by| {
            let (groups, skipped) = grouped(&here, by);
            (Results::of_all(groups.shown.iter().map(|group| &group.results)), Some(groups), skipped)
        });
        Aggregated { min: *min, max: *max, reason, skipped, results, groups }
    };
    Aggregates { as_of: 0, windows: windows.iter().map(window).collect(), items_read: read.len() as u64 }
}

/// The request whose answer has these windows.
fn aggregation(list: &ListName, reported: &Aggregates, group_by: Option<GroupBy>) -> Request {
    let windows =
        reported.windows.iter().map(|reported| AskedWindow::Between { min: reported.min, max: reported.max }).collect();
    Request::Aggregate { list: list.clone(), windows, is_of_numbers: false, group_by }
}

fn remove(items: &mut BTreeMap<Key, Item>, takes: impl Fn(&Item) -> bool) -> u64 {
    let before = items.len();
    items.retain(|_, item| !takes(item));
    (before - items.len()) as u64
}

fn lost_outcome(request: &Request) -> Outcome {
    let why = "lost".to_owned();
    if request.reads() { Outcome::NotDone { why } } else { Outcome::Unknown { why } }
}

fn reported_truthfully(mut drawn: Vec<Drawn>, items_max: usize) -> History {
    drawn.sort_by_key(|(_, at, ..)| *at);
    let version = VersionName { feature: "f".into(), label: String::new() };
    let list = ListName { version: version.clone(), entity: "e".into() };
    let mut there = true;
    let mut items: BTreeMap<Key, Item> = BTreeMap::new();
    let mut calls = Vec::new();
    for (client, (act, at, before, after, lost)) in drawn.into_iter().enumerate() {
        let missing = !there;
        let gone = |outcome: Outcome| if missing { Outcome::FeatureNotFound } else { outcome };
        let (request, outcome) = match act {
            Act::Add(numbers) => {
                let sent: Vec<Item> = numbers.into_iter().map(item).collect();
                if there {
                    items.extend(sent.iter().map(|item| (ValueType::String.key(item).unwrap(), item.clone())));
                }
                let added = sent.len() as u64;
                (Request::Add { list: list.clone(), items: sent }, gone(Outcome::Added { added, already_expired: 0 }))
            }
            Act::Get { limit, min, order } => {
                let min = min.map(|min| BASE + min);
                let mut asked: Vec<Item> = from(&items, min);
                if order == Order::Newest {
                    asked.reverse();
                }
                let more = asked.len() > limit;
                asked.truncate(limit);
                let request =
                    Request::Get { list: list.clone(), min, max: None, order, limit: Some(limit), after: None };
                (request, gone(Outcome::Page { items: asked, more }))
            }
            Act::Count { limit, min } => {
                let min = min.map(|min| BASE + min);
                let there = from(&items, min).len() as u64;
                let request = Request::Count { list: list.clone(), min, max: None, limit: Some(limit) };
                (request, gone(Outcome::Counted { count: there.min(limit), exact: there <= limit }))
            }
            Act::Contains { values, min } => {
                let min = min.map(|min| BASE + min);
                let values: Vec<String> = values.into_iter().map(|number| item(number).value).collect();
                let there = from(&items, min);
                let newest =
                    |value: &String| there.iter().rev().find(|one| one.value == *value).map(|one| one.timestamp);
                let found = values.iter().map(newest).collect();
                (Request::Contains { list: list.clone(), min, max: None, values }, gone(Outcome::Contained(found)))
            }
            Act::Aggregate { min, span, group_by } => {
                let windows = [(BASE + min, BASE + min + span), (BASE, BASE + 9)];
                let mut reported = aggregates(&items, &windows, group_by, items_max);
                reported.as_of = BASE + 1_000 + at;
                (aggregation(&list, &reported, group_by), gone(Outcome::Aggregated(reported)))
            }
            Act::Remove(number) => {
                let value = item(number).value;
                let removed = remove(&mut items, |item| item.value == value);
                (Request::RemoveValue { list: list.clone(), value }, gone(Outcome::Removed(removed)))
            }
            Act::RemoveItems(numbers) => {
                let named: Vec<Item> = numbers.into_iter().map(item).collect();
                let removed = remove(&mut items, |item| named.contains(item));
                (Request::RemoveItems { list: list.clone(), items: named }, gone(Outcome::Removed(removed)))
            }
            Act::RemoveBetween(min, max) => {
                let (min, max) = (BASE + min, BASE + max);
                let removed = remove(&mut items, |item| (min..=max).contains(&item.timestamp));
                let request = Request::RemoveBetween { list: list.clone(), min: Some(min), max: Some(max) };
                (request, gone(Outcome::Removed(removed)))
            }
            Act::Clear => {
                items.clear();
                (Request::RemoveAll { list: list.clone() }, gone(Outcome::Done))
            }
            Act::Delete => {
                items.clear();
                there = false;
                (Request::DeleteFeature { feature: "f".into() }, gone(Outcome::Done))
            }
            Act::Create => {
                there = true;
                let outcome = if missing { Outcome::Done } else { Outcome::Exists };
                (Request::CreateFeature { feature: "f".into(), ttl_secs: 86_400 }, outcome)
            }
        };
        let outcome = if lost { lost_outcome(&request) } else { outcome };
        let (from, to) = ((1_000 + at).saturating_sub(before), 1_000 + at + after);
        calls.push(Call { client, incarnation: 0, from, to, batch: None, request, outcome });
    }
    calls.sort_by_key(|call| call.from);
    History {
        epoch: BASE,
        value_types: [("f".to_owned(), ValueType::String)].into(),
        versions: vec![(version, 86_400)],
        ends: vec![10_000],
        aggregate_items_max: Some(items_max as u64),
        calls,
        ..History::default()
    }
}

fn allows_what_a_list_did() {
    check_cases(3_000, &(acts(), 1_usize..9), |(drawn, items_max)| {
        let history = reported_truthfully(drawn, items_max);
        for promises in [Promises::Linearizable, Promises::Quorum] {
            let found = check(&History { promises, ..history.clone() }).map_err(TestCaseError::fail)?;
            let text: Vec<String> = found.iter().map(|violation| violation.explain(&history).to_string()).collect();
            prop_assert!(found.is_empty(), "{:?}: {}", promises, text.join("\n"));
        }
        Ok(())
    });
}
