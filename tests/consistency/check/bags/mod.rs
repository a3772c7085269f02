//! Judges bags. Each bag is a separate object: a register that a put replaces, a patch changes in part, and a
//! condition guards.
//!
//! All calls on a bag must fit one order ([`effects`]). A query has a result for each bag of its type: a returned bag
//! matched at one moment of the query, and a bag that matched during the whole query was returned.
//!
//! A write of unknown outcome may take effect later. But each change replaces the state that its server read, so the
//! change cannot follow a later change that was acknowledged.

mod effects;
pub mod forbidden;
pub mod proofs;

use std::collections::BTreeMap;

use super::Violation;
use super::linear::{Step, Verdict, judge, minimal};
use crate::bags::{BagIndex, BagName, BagOutcome, BagRequest, FoundBag, Properties};
use crate::history::{Call, History, Moment, Order, Outcome, Promises, Request};
use effects::{BagEffect, Current, Demand, effect_of};

const ONE_STATE: &str = "an entity tag names one state of a bag";
const MADE_ONCE: &str = "a change of a bag is made once";
const LINEAR: &str = "linearizable writes, reads and queries of a bag";
const MATCHES: &str = "a bag that is found matches the query";
const IN_ORDER: &str = "found bags are in order";
const FOUND_ONCE: &str = "a walk finds a bag once";

/// All that a history holds about one bag.
#[derive(Default)]
struct Story<'h> {
    /// The calls on the bag alone.
    calls: Vec<usize>,
    /// The states that answers showed, each with the entity tag and the call.
    shown: Vec<(&'h str, Properties, usize)>,
}

pub fn check(history: &History) -> Vec<Violation> {
    let mut stories: BTreeMap<BagName, Story<'_>> = BTreeMap::new();
    let mut violations = Vec::new();
    for (index, call) in history.calls.iter().enumerate() {
        let Request::Bag(request) = &call.request else { continue };
        if let Some(bag) = request.bag() {
            stories.entry(bag.clone()).or_default().calls.push(index);
        }
        for (bag, tag, properties) in shown(request, &call.outcome) {
            stories.entry(bag).or_default().shown.push((tag, properties, index));
        }
        violations.extend(out_of_shape(index, request, &call.outcome));
    }
    for (name, story) in &stories {
        let ambiguous = story.ambiguous(name);
        if ambiguous.is_some() {
            violations.extend(ambiguous);
            continue;
        }
        violations.extend(Bag { history, name, story }.judged());
    }
    violations
}

/// The states of bags that an answer shows.
fn shown<'h>(request: &BagRequest, outcome: &'h Outcome) -> Vec<(BagName, &'h str, Properties)> {
    let Outcome::Bag(outcome) = outcome else { return Vec::new() };
    match (request, outcome) {
        (BagRequest::Get { bag, .. } | BagRequest::Patch { bag, .. }, BagOutcome::Shown(state)) => {
            vec![(bag.clone(), &*state.tag, state.properties)]
        }
        (BagRequest::Put { bag, properties, .. }, BagOutcome::Stored { tag, .. }) => {
            vec![(bag.clone(), &**tag, *properties)]
        }
        (BagRequest::Find { entity_type, .. }, BagOutcome::Found(found)) => {
            let name = |entity: &str| BagName { entity_type: entity_type.clone(), entity: entity.to_owned() };
            found.iter().map(|bag| (name(&bag.entity), &*bag.state.tag, bag.state.properties)).collect()
        }
        _ => Vec::new(),
    }
}

/// The mistake in the answer to a query, for any states of the bags.
fn out_of_shape(call: usize, request: &BagRequest, outcome: &Outcome) -> Option<Violation> {
    let (BagRequest::Find { index, city, order, .. }, Outcome::Bag(BagOutcome::Found(found))) = (request, outcome)
    else {
        return None;
    };
    if let Some(other) = found.iter().find(|bag| !index.finds(bag.state.properties, *city)) {
        let detail = format!("{} {} was found by city {city}", other.entity, other.state);
        return Some(Violation::new(MATCHES, detail, [call]));
    }
    let place = |bag: &FoundBag| match index {
        BagIndex::Updated => bag.updated_at,
        BagIndex::Ranked => bag.state.properties.rank.unwrap_or_default(),
    };
    let in_order = |pair: &[FoundBag]| match order {
        Order::Newest => place(&pair[0]) >= place(&pair[1]),
        Order::Oldest => place(&pair[0]) <= place(&pair[1]),
    };
    if let Some(pair) = found.windows(2).find(|pair| !in_order(pair)) {
        let detail = format!("{} {} stands before {} {}", pair[0].entity, pair[0].state, pair[1].entity, pair[1].state);
        return Some(Violation::new(IN_ORDER, detail, [call]));
    }
    // A bag that moves in the direction of the walk is found again, in another state.
    let may_move = *index == BagIndex::Ranked || *order == Order::Oldest;
    let is_twice = |(place, bag): &(usize, &FoundBag)| {
        let same = |other: &FoundBag| other.entity == bag.entity && (!may_move || other.state == bag.state);
        found[..*place].iter().any(same)
    };
    let (_, twice) = found.iter().enumerate().find(is_twice)?;
    Some(Violation::new(FOUND_ONCE, format!("{} {}", twice.entity, twice.state), [call]))
}

impl Story<'_> {
    /// Two states with one entity tag, or two entity tags of one write.
    fn ambiguous(&self, name: &BagName) -> Option<Violation> {
        let (mut by_tag, mut by_writer) = (BTreeMap::new(), BTreeMap::new());
        for (tag, properties, call) in &self.shown {
            let (first, at) = by_tag.entry(tag).or_insert((*properties, *call));
            if *first != *properties {
                return Some(Violation::new(
                    ONE_STATE,
                    format!("{tag} of {name}: {first}, {properties}"),
                    [*at, *call],
                ));
            }
            let (first, at) = by_writer.entry(properties.by).or_insert((*tag, *call));
            if *first != *tag {
                let detail = format!("write {} gave {name} the entity tags {first} and {tag}", properties.by);
                return Some(Violation::new(MADE_ONCE, detail, [*at, *call]));
            }
        }
        None
    }
}

/// A write that was made, or may have been.
struct Change {
    call: usize,
    from: Moment,
    to: Moment,
    optional: bool,
}

struct Bag<'h> {
    history: &'h History,
    name: &'h BagName,
    story: &'h Story<'h>,
}

impl Bag<'_> {
    fn judged(&self) -> Option<Violation> {
        let steps = self.steps();
        match judge(&steps, Current::default()) {
            Verdict::Possible => None,
            Verdict::Undecided => {
                let detail = format!("too many calls of unknown outcome on {}", self.name);
                Some(Violation::new("the history can be judged", detail, []))
            }
            Verdict::Impossible { step } => {
                let last = steps[step].call;
                let calls = minimal(&steps, Current::default()).into_iter().map(|step| step.call);
                let detail = format!("no order of these calls on {} explains the answer to call {last}", self.name);
                Some(Violation::new(LINEAR, detail, calls))
            }
        }
    }

    fn steps(&self) -> Vec<Step<BagEffect>> {
        let writers: BTreeMap<&str, u64> = self.story.shown.iter().map(|(tag, shown, _)| (*tag, shown.by)).collect();
        let changes = self.changes();
        let calls = changes.iter().map(|change| &self.history.calls[change.call]);
        let unknown: Vec<Moment> = calls.filter(|call| call.unknown()).map(|call| call.to).collect();
        let mut steps = Vec::with_capacity(self.story.calls.len());
        for index in &self.story.calls {
            let call = &self.history.calls[*index];
            let Request::Bag(request) = &call.request else { continue };
            let Some(effect) = effect_of(request, &call.outcome, &writers) else { continue };
            let step = match changes.iter().find(|change| change.call == *index) {
                None => Step { call: *index, from: call.from, to: call.to, optional: false, effect },
                Some(Change { from, to, optional, .. }) => {
                    // Not by their latest moments: a server reads the state that it replaces before its answer.
                    let ended_before = |moment: Moment| unknown.iter().filter(|ended| **ended < moment).count();
                    let overtaken_by = call.unknown().then(|| ended_before(call.to) + 1);
                    let effect = effect.overtaking(ended_before(*from), overtaken_by);
                    Step { call: *index, from: *from, to: *to, optional: *optional, effect }
                }
            };
            steps.push(step);
        }
        for (index, call) in self.history.calls.iter().enumerate() {
            let effects = self.found(call, &changes);
            let step = |effect| Step { call: index, from: call.from, to: call.to, optional: false, effect };
            steps.extend(effects.into_iter().map(step));
        }
        steps
    }

    /// The writes, each with the latest moment at which it can have been made.
    fn changes(&self) -> Vec<Change> {
        let calls = self.story.calls.iter().map(|index| (*index, &self.history.calls[*index]));
        let writes: Vec<(usize, &Call)> = calls.filter(|(_, call)| !call.request.reads()).collect();
        let made: Vec<&Call> = writes.iter().map(|(_, call)| *call).filter(|call| is_made(call)).collect();
        let change = |(index, call): (usize, &Call)| {
            if is_made(call) {
                return Some(Change { call: index, from: call.from, to: call.to, optional: false });
            }
            if !call.unknown() {
                return None;
            }
            // It replaces a state that its server read before the answer, so it precedes every later change.
            let later = made.iter().filter(|later| later.from > call.to).map(|later| later.to).min();
            let seen = self.seen(index, call);
            let to = [later, seen].into_iter().flatten().min().unwrap_or(Moment::MAX).min(self.history.latest(call));
            Some(Change { call: index, from: call.from, to, optional: seen.is_none() })
        };
        writes.iter().copied().filter_map(change).collect()
    }

    /// When another call had seen the state that a write made.
    fn seen(&self, index: usize, call: &Call) -> Option<Moment> {
        let Request::Bag(request) = &call.request else { return None };
        let writer = request.writer()?;
        let seen = self.story.shown.iter().filter(|(_, shown, at)| shown.by == writer && *at != index);
        seen.map(|(.., at)| self.history.calls[*at].to).min()
    }

    /// The effects on this bag if the call is a query.
    fn found(&self, call: &Call, changes: &[Change]) -> Vec<BagEffect> {
        let Request::Bag(BagRequest::Find { entity_type, index, city, is_settled, .. }) = &call.request else {
            return Vec::new();
        };
        let Outcome::Bag(BagOutcome::Found(found)) = &call.outcome else { return Vec::new() };
        if *entity_type != self.name.entity_type {
            return Vec::new();
        }
        let states = found.iter().filter(|bag| bag.entity == self.name.entity).map(|bag| bag.state.properties);
        let mut effects: Vec<_> = states.map(|state| BagEffect::reads([Demand::Is(Some(state))])).collect();
        // An entry moves with its bag, so a query can pass over a bag that is changed in the meantime.
        let is_stable = || changes.iter().all(|change| change.to < call.from || call.to < change.from);
        if effects.is_empty() && is_stable() {
            let unentered = if *is_settled { Vec::new() } else { self.unentered() };
            effects.push(BagEffect::reads([Demand::NotFoundBy { index: *index, city: *city, unentered }]));
        }
        effects
    }

    /// The writes whose entries may be missing for a while, on a store that writes entries after the bag.
    fn unentered(&self) -> Vec<u64> {
        if self.history.promises == Promises::Linearizable {
            return Vec::new();
        }
        let calls = self.story.calls.iter().map(|index| &self.history.calls[*index]);
        let unknown = calls.filter(|call| call.unknown()).filter_map(|call| match &call.request {
            Request::Bag(request) => request.writer(),
            _ => None,
        });
        unknown.collect()
    }
}

/// Whether a write was acknowledged.
fn is_made(call: &Call) -> bool {
    let is_success = |outcome: &BagOutcome| {
        matches!(outcome, BagOutcome::Shown(_) | BagOutcome::Stored { .. } | BagOutcome::Deleted)
    };
    !call.request.reads() && matches!(&call.outcome, Outcome::Bag(outcome) if is_success(outcome))
}
