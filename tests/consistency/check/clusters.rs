//! The items of a list that must be judged together, each such cluster exactly: items that were ever sent in one add
//! (an add is all or nothing), items that share a value, and items that were removed together by their names (a
//! removal counts them). Each get has a result for all items of a cluster at one instant. Counts of removals between
//! two moments are judged in [`super::windows`].

use std::collections::{BTreeMap, HashMap};

use super::Violation;
use super::expiry::Sight;
use super::linear::{Effect, Shares, Step, Verdict, judge, minimal};
use super::story::{Observation, Story, is_removal};
use crate::history::{Call, History, Outcome, Request};

/// Items that no call ever treated differently are one cell: one bit of the cluster's state.
struct Cluster {
    cells: Vec<Vec<usize>>,
}

const CELLS_MAX: usize = 64;

/// Which cluster, and which bit in it, an item belongs to.
#[derive(Clone, Copy)]
struct Home {
    cluster: usize,
    bit: u64,
}

pub fn check(history: &History, story: &Story<'_>) -> Result<Vec<Violation>, String> {
    let (clusters, homes) = gather(history, story)?;
    let mut steps: Vec<Vec<Step>> = vec![Vec::new(); clusters.len()];
    let mut violations = Vec::new();
    let step = |index: usize, effect: Effect| {
        let call = &history.calls[index];
        Step { call: index, from: call.from, to: history.latest(call), optional: call.unknown(), effect }
    };
    for observation in &story.observations {
        match reported(story, &homes, clusters.len(), observation, &history.calls[observation.call]) {
            Ok(reported) => {
                let mut effects: Vec<Effect> =
                    reported.into_iter().map(|(covered, seen)| Effect::reports(covered, seen)).collect();
                // Items that share a value are of one cluster.
                for (places, count) in &observation.some {
                    let shares = places
                        .iter()
                        .map(|place| share(story, homes[*place], *place, &history.calls[observation.call]));
                    effects[homes[places[0]].cluster].counted.push((shares.collect(), *count));
                }
                for (cluster, effect) in effects.into_iter().enumerate() {
                    if effect != Effect::default() {
                        steps[cluster].push(step(observation.call, effect));
                    }
                }
            }
            Err(violation) => violations.push(violation),
        }
    }
    for index in &story.calls {
        let call = &history.calls[*index];
        if !is_removal(call) {
            continue;
        }
        let mut bits: BTreeMap<usize, (u64, Shares)> = BTreeMap::new();
        for place in story.taken(&call.request) {
            let home = homes[place];
            let (clear, counted) = bits.entry(home.cluster).or_default();
            *clear |= home.bit;
            counted.push(share(story, home, place, call));
        }
        let (is_counted, at_once) = (!is_between(call), story.is_at_once(&call.request));
        for (cluster, (clear, counted)) in bits {
            let counted = match call.outcome {
                Outcome::Removed(count) if is_counted => vec![(counted, count)],
                _ => Vec::new(),
            };
            let parts = if at_once { vec![clear] } else { ones(clear).collect() };
            let effects = parts.into_iter().map(|clear| Effect { counted: counted.clone(), ..Effect::clears(clear) });
            steps[cluster].extend(effects.map(|effect| step(*index, effect)));
        }
    }
    for (cluster, Cluster { cells }) in clusters.iter().enumerate() {
        steps[cluster].extend(adds(history, story, cells));
        for clear in &story.clears {
            steps[cluster].push(Step {
                call: clear.call,
                from: clear.from,
                to: clear.latest,
                optional: clear.optional,
                effect: Effect::clears(u64::MAX),
            });
        }
    }
    for (steps, Cluster { cells }) in steps.iter().zip(&clusters) {
        violations.extend(judged(story, steps, cells));
    }
    Ok(violations)
}

/// How many a call counts for an item if its bit is set, at least and at most.
fn share(story: &Story<'_>, home: Home, place: usize, call: &Call) -> (u64, u64, u64) {
    match story.sight(place, call) {
        Sight::Visible => (home.bit, 1, 1),
        Sight::Unsure => (home.bit, 0, 1),
        Sight::Hidden => (home.bit, 0, 0),
    }
}

fn is_between(call: &Call) -> bool {
    matches!(call.request, Request::RemoveBetween { .. })
}

/// Each bit separately.
fn ones(bits: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).map(|place| 1 << place).filter(move |bit| bits & bit != 0)
}

fn judged(story: &Story<'_>, steps: &[Step], cells: &[Vec<usize>]) -> Option<Violation> {
    let items = || cells.iter().flatten().take(8).map(|place| story.items[*place].item.to_string()).collect::<Vec<_>>();
    match judge(steps, 0) {
        Verdict::Possible => None,
        Verdict::Undecided => Some(Violation::new(
            "the history can be judged",
            format!("too many calls of unknown outcome on {}", items().join(" ")),
            [],
        )),
        Verdict::Impossible { step } => {
            let last = steps[step].call;
            let calls = minimal(steps, 0).into_iter().map(|step| step.call);
            Some(Violation::new(
                "linearizable adds, removals and reads of an item",
                format!("no order of these calls on {} explains the answer to call {last}", items().join(" ")),
                calls,
            ))
        }
    }
}

/// The adds as steps. Cells were made so that an add treats all items of one alike.
fn adds(history: &History, story: &Story<'_>, cells: &[Vec<usize>]) -> Vec<Step> {
    // By call: the bits that it certainly set together, and the bits that it may have set one by one.
    let mut by_call: BTreeMap<usize, (u64, Vec<u64>)> = BTreeMap::new();
    for (bit, cell) in cells.iter().enumerate() {
        let Some(place) = cell.first() else { continue };
        for add in &story.items[*place].adds {
            let (sure, unsure) = by_call.entry(add.call).or_default();
            // An add of unknown outcome is one step nevertheless: all of it happened, or nothing.
            if add.optional && !history.calls[add.call].unknown() {
                unsure.push(1 << bit);
            } else {
                *sure |= 1 << bit;
            }
        }
    }
    let mut steps = Vec::new();
    for (index, (sure, unsure)) in by_call {
        let call = &history.calls[index];
        let step = |optional, bits| Step {
            call: index,
            from: call.from,
            to: history.latest(call),
            optional,
            effect: Effect::sets(bits),
        };
        if sure != 0 {
            steps.push(step(call.unknown(), sure));
        }
        steps.extend(unsure.into_iter().map(|bit| step(true, bit)));
    }
    steps
}

/// The result of a page for each cluster: the bits that it covers, and the visible ones.
fn reported(
    story: &Story<'_>,
    homes: &[Home],
    clusters: usize,
    observation: &Observation,
    call: &Call,
) -> Result<Vec<(u64, u64)>, Violation> {
    let mut reported = vec![(0, 0); clusters];
    for place in observation.covered.iter().copied() {
        let there = observation.seen[place];
        match (story.sight(place, call), there) {
            (Sight::Hidden, true) => {
                let item = &story.items[place].item;
                return Err(Violation::new("an expired item is never returned", item.to_string(), [observation.call]));
            }
            (Sight::Hidden | Sight::Unsure, false) => continue,
            (Sight::Visible | Sight::Unsure, true) | (Sight::Visible, false) => {}
        }
        let home = homes[place];
        let (covered, seen) = &mut reported[home.cluster];
        if *covered & home.bit != 0 && (*seen & home.bit != 0) != there {
            let item = &story.items[place];
            let adds = item.adds.iter().map(|add| add.call);
            let detail = format!(
                "{} was {}there without items that it was always added and removed with",
                item.item,
                if there { "" } else { "not " }
            );
            return Err(Violation::new("an add is atomic", detail, adds.chain([observation.call])));
        }
        *covered |= home.bit;
        if there {
            *seen |= home.bit;
        }
    }
    Ok(reported)
}

/// Divides the list's items into clusters, and these into cells.
fn gather(history: &History, story: &Story<'_>) -> Result<(Vec<Cluster>, Vec<Home>), String> {
    let mut parent: Vec<usize> = (0..story.items.len()).collect();
    fn root(parent: &mut [usize], mut place: usize) -> usize {
        while parent[place] != place {
            parent[place] = parent[parent[place]];
            place = parent[place];
        }
        place
    }
    let mut first_of_call: HashMap<usize, usize> = HashMap::new();
    let mut joins: Vec<(usize, usize)> = Vec::new();
    for (place, item) in story.items.iter().enumerate() {
        for add in &item.adds {
            joins.push((*first_of_call.entry(add.call).or_insert(place), place));
        }
    }
    joins.extend(story.by_value.values().flat_map(|places| places.iter().map(|place| (places[0], *place))));
    for call in story.calls.iter().map(|index| &history.calls[*index]) {
        if is_removal(call) && !is_between(call) {
            let places = story.taken(&call.request);
            joins.extend(places.iter().map(|place| (places[0], *place)));
        }
    }
    for (one, other) in joins {
        let (one, other) = (root(&mut parent, one), root(&mut parent, other));
        parent[one] = other;
    }
    // The distinguishing properties of a cluster's items: their adds, how certain these are, their value if it was ever
    // removed, and their other removals.
    let removed: std::collections::HashSet<&str> = story
        .calls
        .iter()
        .filter_map(|index| match &history.calls[*index].request {
            Request::RemoveValue { value, .. } => Some(value.as_str()),
            _ => None,
        })
        .collect();
    let is_of_some = |call: usize| {
        matches!(history.calls[call].request, Request::RemoveItems { .. } | Request::RemoveBetween { .. })
    };
    type Signature<'s> = (Vec<(usize, bool)>, Option<&'s str>, Vec<usize>);
    let mut cells: BTreeMap<usize, BTreeMap<Signature<'_>, Vec<usize>>> = BTreeMap::new();
    for (place, item) in story.items.iter().enumerate() {
        let adds = item.adds.iter().map(|add| (add.call, add.optional)).collect();
        let value = Some(item.item.value.as_str()).filter(|value| removed.contains(value));
        let removals = item.removals.iter().map(|removal| removal.call).filter(|call| is_of_some(*call)).collect();
        cells.entry(root(&mut parent, place)).or_default().entry((adds, value, removals)).or_default().push(place);
    }
    let mut homes = vec![Home { cluster: 0, bit: 0 }; story.items.len()];
    let mut clusters = Vec::with_capacity(cells.len());
    for (cluster, cells) in cells.into_values().enumerate() {
        if cells.len() > CELLS_MAX {
            return Err(format!(
                "{} has items that differ in more than {CELLS_MAX} ways: a smaller cluster please",
                story.list
            ));
        }
        for (bit, places) in cells.values().enumerate() {
            for place in places {
                homes[*place] = Home { cluster, bit: 1 << bit };
            }
        }
        clusters.push(Cluster { cells: cells.into_values().collect() });
    }
    Ok((clusters, homes))
}
