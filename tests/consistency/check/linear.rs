//! Decides exactly whether the calls on one small object can be put into a line: one after another,
//! each at some instant between its beginning and its end, each answered as the object's state
//! then demands.
//!
//! The state of most objects is a set of at most 64 bits ([`Effect`]). Bags have another state: any [`Transition`] can
//! be judged. Maintained libraries (porcupine-rs 0.3, todc-utils 0.1, stateright 0.31) search for such an order by
//! backtracking, and do not support a call that may have happened before some moment or never, such as those of a
//! killed server. On bits, the search can be narrow: see [`Explorer::candidates`]. A property test compares it with
//! trying all orders.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;

use crate::history::{Moment, NEVER};

/// The demands of a call on the state of an object, and its effects.
pub trait Transition: Clone + PartialEq {
    type State: Copy + Ord + Hash;

    /// The state after it, or `None` if the answer does not fit the state before.
    fn apply(&self, state: Self::State) -> Option<Self::State>;

    fn is_read(&self) -> bool;
}

/// For each bit, the smallest and the largest number of counted items if it was set.
pub type Shares = Vec<(u64, u64, u64)>;

/// The demands of a call on the state, and its effects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Effect {
    /// The bits that the answer reports, and their reported values.
    pub reported: u64,
    pub reported_set: u64,
    /// How many of the bits' items the answer counted, and the number in the answer. Several counts are of one moment.
    pub counted: Vec<(Shares, u64)>,
    pub set: u64,
    pub clear: u64,
}

impl Effect {
    pub fn sets(bits: u64) -> Self {
        Self { set: bits, ..Self::default() }
    }

    pub fn clears(bits: u64) -> Self {
        Self { clear: bits, ..Self::default() }
    }

    pub fn reports(reported: u64, reported_set: u64) -> Self {
        Self { reported, reported_set, ..Self::default() }
    }
}

impl Transition for Effect {
    type State = u64;

    fn is_read(&self) -> bool {
        self.set == 0 && self.clear == 0
    }

    fn apply(&self, state: u64) -> Option<u64> {
        if state & self.reported != self.reported_set {
            return None;
        }
        for (weights, count) in &self.counted {
            let (low, high) = weights
                .iter()
                .filter(|(bit, ..)| state & bit != 0)
                .fold((0, 0), |(low, high), (_, at_least, at_most)| (low + at_least, high + at_most));
            if !(low..=high).contains(count) {
                return None;
            }
        }
        Some(state & !self.clear | self.set)
    }
}

/// One call on the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<E = Effect> {
    /// Its place in the history, for reports.
    pub call: usize,
    pub from: Moment,
    pub to: Moment,
    /// It may also never have happened.
    pub optional: bool,
    pub effect: E,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Possible,
    /// No order explains this step's answer together with all earlier ended steps.
    Impossible {
        step: usize,
    },
    /// More at once than can be decided: too many calls of unknown outcome.
    Undecided,
}

/// Calls that can be open at once, and ways in which it can have been so far.
const OPEN_MAX: usize = 128;
const WAYS_MAX: usize = 200_000;
/// Ways that are tried for one call.
const TRIED_MAX: usize = 500_000;

/// One way in which it can have been so far: the state, and which of the open calls have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Way<S> {
    state: S,
    happened: u128,
}

struct Explorer<'a, E: Transition> {
    steps: &'a [Step<E>],
    /// The step in each used slot.
    open: Vec<Option<usize>>,
    /// Without duplicates.
    ways: Vec<Way<E::State>>,
}

/// Judges the steps of one object, which starts with this state.
pub fn judge<E: Transition>(steps: &[Step<E>], start: E::State) -> Verdict {
    // A call that ends at the moment at which another begins may still come after it.
    let mut events: Vec<(Moment, bool, usize)> = Vec::with_capacity(steps.len() * 2);
    for (index, step) in steps.iter().enumerate() {
        events.push((step.from, false, index));
        if step.to != NEVER {
            events.push((step.to, true, index));
        }
    }
    events.sort_unstable();
    let mut explorer = Explorer { steps, open: Vec::new(), ways: vec![Way { state: start, happened: 0 }] };
    for (_, ends, index) in events {
        if ends {
            if !explorer.end(index) {
                return Verdict::Undecided;
            }
            if explorer.ways.is_empty() {
                return Verdict::Impossible { step: index };
            }
        } else if !explorer.begin(index) {
            return Verdict::Undecided;
        }
        if explorer.ways.len() > WAYS_MAX {
            return Verdict::Undecided;
        }
    }
    Verdict::Possible
}

impl<E: Transition> Explorer<'_, E> {
    fn begin(&mut self, index: usize) -> bool {
        let slot = match self.open.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if self.open.len() < OPEN_MAX => {
                self.open.push(None);
                self.open.len() - 1
            }
            None => return false,
        };
        self.open[slot] = Some(index);
        if self.steps[index].effect.is_read() {
            let bit = 1_u128 << slot;
            for way in &mut self.ways {
                if self.steps[index].effect.apply(way.state).is_some() {
                    way.happened |= bit;
                }
            }
        }
        true
    }

    /// A call has ended: it must have happened in every way that is still possible (unless it is optional), if
    /// necessary after other open ones. Returns whether that could be decided.
    ///
    /// Ways in which fewer calls happened that need not have come first represent others, see [`Tried::is_new`].
    fn end(&mut self, index: usize) -> bool {
        let Some(slot) = self.open.iter().position(|open| *open == Some(index)) else { return true };
        let bit = 1_u128 << slot;
        if self.ways.iter().all(|way| way.happened & bit != 0) {
            self.ways.iter_mut().for_each(|way| way.happened &= !bit);
            self.open[slot] = None;
            return true;
        }
        let optional = self.optional();
        let (mut done, mut tried) = (Tried::new(optional & !bit), Tried::new(optional));
        let ranked = |way: Way<E::State>| Reverse((rank(way, optional), way));
        let mut left: BinaryHeap<_> = std::mem::take(&mut self.ways).into_iter().map(ranked).collect();
        while let Some(Reverse((_, way))) = left.pop() {
            if !tried.is_new(way) {
                continue;
            }
            if tried.kept.len() > TRIED_MAX {
                return false;
            }
            if way.happened & bit != 0 {
                done.is_new(Way { happened: way.happened & !bit, ..way });
                continue;
            }
            if self.steps[index].optional {
                done.is_new(way);
            }
            for slot in self.candidates(way, index) {
                let Some(step) = self.open[slot].map(|open| &self.steps[open]) else { continue };
                if let Some(state) = step.effect.apply(way.state) {
                    // A call that need not have happened, and changes nothing, is better left open.
                    if !(step.optional && state == way.state) {
                        left.push(ranked(self.with_reads(Way { state, happened: way.happened | 1 << slot })));
                    }
                }
            }
        }
        self.open[slot] = None;
        self.ways = done.kept;
        true
    }

    /// The slots of the open calls that need not happen.
    fn optional(&self) -> u128 {
        let is_optional = |open: &Option<usize>| open.is_some_and(|index| self.steps[index].optional);
        let slots = self.open.iter().enumerate().filter(|(_, open)| is_optional(open));
        slots.fold(0, |bits, (slot, _)| bits | 1 << slot)
    }

    /// The open calls that may happen next. Among several with the same effect, only the one with the earliest end is
    /// tried: any other order remains valid when the two are swapped. An optional call comes after all mandatory ones.
    fn candidates(&self, way: Way<E::State>, wanted: usize) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        let step_in = |slot: usize| self.open[slot].map(|index| (index, &self.steps[index]));
        for slot in 0..self.open.len() {
            let Some((index, step)) = step_in(slot) else { continue };
            // Reads have happened already wherever they fit: see `with_reads`.
            if way.happened & (1 << slot) != 0 || (step.effect.is_read() && index != wanted) {
                continue;
            }
            let makes_redundant = |one: &Step<E>, other: &Step<E>| {
                one.effect == other.effect && one.to <= other.to && (!one.optional || other.optional)
            };
            if chosen.iter().any(|other| step_in(*other).is_some_and(|(_, other)| makes_redundant(other, step))) {
                continue;
            }
            chosen.retain(|other| !step_in(*other).is_some_and(|(_, other)| makes_redundant(step, other)));
            chosen.push(slot);
        }
        chosen
    }

    /// A read changes nothing, so it has happened as soon as its answer fits.
    fn with_reads(&self, mut way: Way<E::State>) -> Way<E::State> {
        for (slot, open) in self.open.iter().enumerate() {
            let Some(step) = open.map(|index| &self.steps[index]) else { continue };
            if step.effect.is_read() && step.effect.apply(way.state).is_some() {
                way.happened |= 1 << slot;
            }
        }
        way
    }
}

/// In how many calls that need not have happened a way is ahead.
fn rank<S>(way: Way<S>, optional: u128) -> u32 {
    (way.happened & optional).count_ones()
}

/// Ways without needless ones. A way is needless if another one differs from it only in that fewer optional calls
/// happened: any continuation of the first is one of the second, too.
struct Tried<S> {
    /// The slots of calls that need not happen.
    optional: u128,
    kept: Vec<Way<S>>,
    /// By the state, and by the calls that have to happen: which of the other calls happened.
    groups: HashMap<(S, u128), Vec<u128>>,
}

impl<S: Copy + Eq + Hash> Tried<S> {
    fn new(optional: u128) -> Self {
        Self { optional, kept: Vec::new(), groups: HashMap::new() }
    }

    /// Keeps a way unless it is needless. Ways must come in the order of [`rank`].
    fn is_new(&mut self, way: Way<S>) -> bool {
        let happened = way.happened & self.optional;
        let group = self.groups.entry((way.state, way.happened & !self.optional)).or_default();
        if group.iter().any(|fewer| fewer & !happened == 0) {
            return false;
        }
        group.push(happened);
        self.kept.push(way);
        true
    }
}

/// The shortest part of an impossible history that is still impossible. It lacks calls that ended later (so that calls
/// in flight may never have happened), and every read that is not needed.
pub fn minimal<E: Transition>(steps: &[Step<E>], start: E::State) -> Vec<Step<E>> {
    let Verdict::Impossible { step } = judge(steps, start) else { return steps.to_vec() };
    let end = steps[step].to;
    let mut kept: Vec<Step<E>> = steps
        .iter()
        .filter(|step| step.from <= end && (step.to <= end || !step.effect.is_read()))
        .map(|step| Step { optional: step.optional || step.to > end, ..step.clone() })
        .collect();
    let mut at = 0;
    while at < kept.len() {
        if kept[at].effect.is_read() {
            let mut fewer = kept.clone();
            fewer.remove(at);
            if matches!(judge(&fewer, start), Verdict::Impossible { .. }) {
                kept = fewer;
                continue;
            }
        }
        at += 1;
    }
    kept
}
