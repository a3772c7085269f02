//! Checks the places of each member of a set. A member is a separate object, whose state is the timestamp of its item:
//! an add keeps the newest, so it raises the timestamp, and a removal removes it. Each timestamp of a member's adds has
//! a bit, which is set while its item is no older. So an add sets bits and clears none, in any state, and the order of
//! calls can be found as for lists.

use std::collections::{BTreeMap, BTreeSet};

use super::expiry::Expiry;
use super::linear::{Effect, Step, Verdict, judge, minimal};
use super::{Violation, aggregates};
use crate::history::{Aggregated, Call, History, Item, ListName, Outcome, Promises, Reason, Request, Special};

const TIMES_MAX: usize = 63;
/// More than [`TIMES_MAX`] times have no bit.
const NEVER_SET: u64 = 1 << TIMES_MAX;
const ONCE: &str = "a member occurs in a set once";

pub fn check(history: &History) -> Result<Vec<Violation>, String> {
    let mut by_set: BTreeMap<&ListName, Vec<usize>> = BTreeMap::new();
    for (index, call) in history.calls.iter().enumerate() {
        let is_set = |list: &&ListName| history.special.get(&list.version.feature) == Some(&Special::Sets);
        if let Some(list) = call.request.list().filter(is_set) {
            by_set.entry(list).or_default().push(index);
        }
    }
    if !by_set.is_empty() && history.promises != Promises::Linearizable {
        return Err("no store with weaker promises keeps sets".to_owned());
    }
    let mut violations = Vec::new();
    let expiry = Expiry::of(history);
    for (list, calls) in by_set {
        let pages: Vec<_> = calls.iter().filter_map(|index| out_of_shape(history, &expiry, *index)).collect();
        if pages.is_empty() {
            for (value, times) in members(history, &calls) {
                violations.extend(Member::new(list, value, times)?.judged(history, &calls));
            }
        }
        violations.extend(pages);
    }
    Ok(violations)
}

/// Duplicates and disorder in a page, duplicates in aggregates, and aggregates that lack members: sets are shorter than
/// any bound.
fn out_of_shape(history: &History, expiry: &Expiry<'_>, index: usize) -> Option<Violation> {
    let call = &history.calls[index];
    if let Outcome::Aggregated(reported) = &call.outcome {
        if let Err((promise, detail)) = aggregates::check_shape(history, expiry, call) {
            return Some(Violation::new(promise, detail, [index]));
        }
        if reported.windows.iter().any(|window| window.reason.is_some_and(|reason| reason != Reason::Ttl)) {
            let detail = format!("a window of a short set after {} members", reported.items_read);
            return Some(Violation::new(aggregates::COMPLETE, detail, [index]));
        }
        let twice = reported.windows.iter().flat_map(|window| &window.results.values).find(|(_, count)| *count > 1);
        return twice.map(|(value, count)| Violation::new(ONCE, format!("{value} {count} times"), [index]));
    }
    let Call { request: Request::Get { order, .. }, outcome: Outcome::Page { items, .. }, .. } = &history.calls[index]
    else {
        return None;
    };
    let mut met = BTreeSet::new();
    if let Some(twice) = items.iter().find(|item| !met.insert(&item.value)) {
        return Some(Violation::new(ONCE, format!("{twice} again in one page"), [index]));
    }
    let in_order = |pair: &[Item]| match order {
        crate::history::Order::Newest => pair[0].timestamp >= pair[1].timestamp,
        crate::history::Order::Oldest => pair[0].timestamp <= pair[1].timestamp,
    };
    let is_sorted = items.windows(2).all(in_order);
    (!is_sorted).then(|| Violation::new("pages are in order", "a page of a set is not", [index]))
}

/// All members that were ever added, shown, counted or removed, with the times of their items.
fn members<'a>(history: &'a History, calls: &[usize]) -> BTreeMap<&'a str, BTreeSet<u64>> {
    let mut members: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for call in calls.iter().map(|index| &history.calls[*index]) {
        let items = match (&call.request, &call.outcome) {
            (Request::Add { items, .. }, _) | (_, Outcome::Page { items, .. }) => items,
            (Request::RemoveValue { value, .. }, _) => {
                members.entry(value).or_default();
                continue;
            }
            (_, Outcome::Aggregated(reported)) => {
                let values = reported.windows.iter().flat_map(|window| &window.results.values);
                values.for_each(|(value, _)| _ = members.entry(value).or_default());
                continue;
            }
            _ => continue,
        };
        items.iter().for_each(|item| _ = members.entry(&item.value).or_default().insert(item.timestamp));
    }
    for call in calls.iter().map(|index| &history.calls[*index]) {
        if let (Some(values), Outcome::Contained(found)) = (asked(&call.request), &call.outcome) {
            for (value, timestamp) in values.iter().zip(found).filter_map(|(value, at)| Some((value, (*at)?))) {
                members.entry(value).or_default().insert(timestamp);
            }
        }
    }
    members
}

fn asked(request: &Request) -> Option<&[String]> {
    match request {
        Request::Lookup { values, .. } | Request::Contains { values, min: None, max: None, .. } => Some(values),
        _ => None,
    }
}

/// One member, and its timestamps, oldest first.
struct Member<'a> {
    list: &'a ListName,
    value: &'a str,
    times: Vec<u64>,
}

impl<'a> Member<'a> {
    fn new(list: &'a ListName, value: &'a str, times: BTreeSet<u64>) -> Result<Self, String> {
        if times.len() > TIMES_MAX {
            return Err(format!("{value} was added to {list} at more than {TIMES_MAX} times: fewer please"));
        }
        Ok(Self { list, value, times: times.into_iter().collect() })
    }

    /// The state with its item at this time.
    fn at(&self, timestamp: u64) -> u64 {
        (1 << self.times.partition_point(|time| *time <= timestamp)) - 1
    }

    fn at_timestamp(&self, timestamp: Option<u64>) -> Effect {
        Effect::reports(u64::MAX, timestamp.map_or(0, |timestamp| self.at(timestamp)))
    }

    /// What a window reports: its item is between the bounds, or it is not.
    fn aggregated(&self, window: &Aggregated) -> Option<Effect> {
        let before = self.times.partition_point(|time| *time < window.min);
        let until = self.times.partition_point(|time| *time <= window.max);
        // Set for an item that is not before the window, and for one that is behind it.
        let (reached, passed) = (1 << before, if until < self.times.len() { 1 << until } else { 0 });
        match window.results.values.iter().any(|(value, _)| value == self.value) {
            true if before == until => Some(Effect::reports(NEVER_SET, NEVER_SET)),
            true => Some(Effect::reports(reached | passed, reached)),
            // Nothing certain where it may be behind the window instead of before it.
            false => (before < until && passed == 0).then(|| Effect::reports(reached, 0)),
        }
    }

    fn judged(&self, history: &History, calls: &[usize]) -> Option<Violation> {
        let effects = calls.iter().flat_map(|index| self.effects(&history.calls[*index]).map(move |one| (*index, one)));
        let step = |(index, effect)| {
            let call: &Call = &history.calls[index];
            Step { call: index, from: call.from, to: history.latest(call), optional: call.unknown(), effect }
        };
        let steps: Vec<Step> = effects.map(step).collect();
        let who = || format!("{} in {}", self.value, self.list);
        match judge(&steps, 0) {
            Verdict::Possible => None,
            Verdict::Undecided => {
                Some(Violation::new("the history can be judged", format!("too much at once on {}", who()), []))
            }
            Verdict::Impossible { step } => {
                let last = steps[step].call;
                let calls = minimal(&steps, 0).into_iter().map(|step| step.call);
                let detail = format!("no order of these calls on {} explains the answer to call {last}", who());
                Some(Violation::new("linearizable adds, removals and lookups of a member", detail, calls))
            }
        }
    }

    /// The effects of a call on it, and its reported state.
    fn effects(&self, call: &Call) -> impl Iterator<Item = Effect> + use<'_> {
        let of_value = |item: &&Item| item.value == self.value;
        let happened = call.unknown() || !matches!(call.outcome, Outcome::NotDone { .. });
        let effects: Vec<Effect> = match (&call.request, &call.outcome) {
            (Request::Add { items, .. }, _) if happened => {
                let newest = items.iter().filter(of_value).map(|item| item.timestamp).max();
                newest.map(|newest| Effect::sets(self.at(newest))).into_iter().collect()
            }
            (Request::RemoveValue { value, .. }, outcome) if happened && value == self.value => {
                let counted = match outcome {
                    Outcome::Removed(count) => vec![(vec![(1, 1, 1)], *count)],
                    _ => Vec::new(),
                };
                vec![Effect { counted, ..Effect::clears(u64::MAX) }]
            }
            (Request::RemoveAll { .. }, _) if happened => vec![Effect::clears(u64::MAX)],
            (Request::Get { min: None, max: None, after, .. }, Outcome::Page { items, more }) => {
                let found = items.iter().find(of_value).map(|item| item.timestamp);
                // A part of the set has a result only for the members in it.
                let is_reported = found.is_some() || (after.is_none() && !more);
                is_reported.then(|| self.at_timestamp(found)).into_iter().collect()
            }
            (_, Outcome::Aggregated(reported)) => {
                reported.windows.iter().filter_map(|window| self.aggregated(window)).collect()
            }
            (request, Outcome::Contained(found)) => {
                let of_call = asked(request).unwrap_or_default().iter().zip(found);
                of_call.filter(|(value, _)| *value == self.value).map(|(_, at)| self.at_timestamp(*at)).collect()
            }
            _ => Vec::new(),
        };
        effects.into_iter()
    }
}
