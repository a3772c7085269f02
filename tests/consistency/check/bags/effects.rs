//! The demands of a call on a bag, and its effects.

use std::collections::BTreeMap;

use super::super::linear::Transition;
use crate::bags::{BagIndex, BagOutcome, BagRequest, Condition, Properties, Property};
use crate::history::Outcome;

/// The state of a bag between two calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Current {
    pub bag: Option<Properties>,
    /// The number of writes of unknown outcome that the changes so far have overtaken: those that ended before one of
    /// these changes began.
    pub overtaken: usize,
}

/// A demand on the state before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    Is(Option<Properties>),
    Present,
    /// The state that this write made.
    MadeBy(u64),
    NotMadeBy(u64),
    /// The query does not find the bag, unless one of these writes made its state.
    NotFoundBy {
        index: BagIndex,
        city: u64,
        unentered: Vec<u64>,
    },
    /// No state fits the answer.
    Impossible,
}

impl Demand {
    fn holds(&self, state: Option<Properties>) -> bool {
        match self {
            Self::Is(expected) => *expected == state,
            Self::Present => state.is_some(),
            Self::MadeBy(writer) => state.is_some_and(|state| state.by == *writer),
            Self::NotMadeBy(writer) => state.is_none_or(|state| state.by != *writer),
            Self::NotFoundBy { index, city, unentered } => {
                state.is_none_or(|state| !index.finds(state, *city) || unentered.contains(&state.by))
            }
            Self::Impossible => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Put(Properties),
    Patch(u64, Property, Option<u64>),
    Delete,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BagEffect {
    demands: Vec<Demand>,
    change: Change,
    /// The bag after the call, if the answer shows it.
    after: Option<Properties>,
    /// How many writes of unknown outcome it overtakes, if it is a change.
    overtakes: usize,
    /// A write of unknown outcome is not made once as many have been overtaken.
    overtaken_by: Option<usize>,
}

impl BagEffect {
    pub fn reads(demands: impl Into<Vec<Demand>>) -> Self {
        Self { demands: demands.into(), change: Change::None, after: None, overtakes: 0, overtaken_by: None }
    }

    /// Orders the change relative to writes of unknown outcome.
    pub fn overtaking(self, overtakes: usize, overtaken_by: Option<usize>) -> Self {
        Self { overtakes, overtaken_by, ..self }
    }
}

impl Transition for BagEffect {
    type State = Current;

    fn apply(&self, Current { bag, overtaken }: Current) -> Option<Current> {
        let is_late = self.overtaken_by.is_some_and(|limit| overtaken >= limit);
        if is_late || !self.demands.iter().all(|demand| demand.holds(bag)) {
            return None;
        }
        let after = match self.change {
            Change::None => bag,
            Change::Put(properties) => Some(properties),
            Change::Patch(by, property, value) => Some(bag?.patched(by, property, value)),
            Change::Delete => None,
        };
        let is_shown = self.after.is_none_or(|shown| after == Some(shown));
        is_shown.then_some(Current { bag: after, overtaken: overtaken.max(self.overtakes) })
    }

    fn is_read(&self) -> bool {
        self.change == Change::None
    }
}

/// The effect of a call on one bag. `None` if the call has no outcome and changes nothing. `writers` has the write
/// that made the state of each entity tag.
pub fn effect_of(request: &BagRequest, outcome: &Outcome, writers: &BTreeMap<&str, u64>) -> Option<BagEffect> {
    let (condition, change) = match request {
        BagRequest::Get { unless, .. } => return read(unless.as_deref(), outcome, writers),
        BagRequest::Find { .. } => return None,
        BagRequest::Put { properties, condition, .. } => (condition, Change::Put(*properties)),
        BagRequest::Patch { by, property, value, condition, .. } => (condition, Change::Patch(*by, *property, *value)),
        BagRequest::Delete { condition, .. } => (condition, Change::Delete),
    };
    let tagged = |tag: &str| writers.get(tag).copied();
    let mut demands = match condition {
        None => Vec::new(),
        Some(Condition::Absent) => vec![Demand::Is(None)],
        Some(Condition::Tag(tag)) => vec![tagged(tag).map_or(Demand::Impossible, Demand::MadeBy)],
    };
    let is_put = matches!(request, BagRequest::Put { .. });
    let mut after = None;
    match outcome {
        Outcome::Unknown { .. } if is_put => {}
        Outcome::Unknown { .. } => demands.push(Demand::Present),
        Outcome::Bag(BagOutcome::Stored { created: true, .. }) => demands.push(Demand::Is(None)),
        Outcome::Bag(BagOutcome::Stored { .. } | BagOutcome::Deleted) => demands.push(Demand::Present),
        Outcome::Bag(BagOutcome::Shown(state)) => {
            demands.push(Demand::Present);
            after = Some(state.properties);
        }
        Outcome::Bag(BagOutcome::NotFound) => {
            demands.push(if is_put { Demand::Impossible } else { Demand::Is(None) });
            return Some(BagEffect::reads(demands));
        }
        Outcome::Bag(BagOutcome::ConditionFailed) => {
            return Some(BagEffect::reads(match condition {
                None => vec![Demand::Impossible],
                Some(Condition::Absent) => vec![Demand::Present],
                // An entity tag that no answer showed can belong to no state.
                Some(Condition::Tag(tag)) => tagged(tag).map(Demand::NotMadeBy).into_iter().collect(),
            }));
        }
        _ => return None,
    }
    Some(BagEffect { demands, change, after, overtakes: 0, overtaken_by: None })
}

fn read(unless: Option<&str>, outcome: &Outcome, writers: &BTreeMap<&str, u64>) -> Option<BagEffect> {
    let Outcome::Bag(outcome) = outcome else { return None };
    let demand = match outcome {
        BagOutcome::Shown(state) => Demand::Is(Some(state.properties)),
        BagOutcome::NotFound => Demand::Is(None),
        BagOutcome::NotModified => {
            let writer = unless.and_then(|tag| writers.get(tag).copied());
            writer.map_or(Demand::Impossible, Demand::MadeBy)
        }
        _ => Demand::Impossible,
    };
    Some(BagEffect::reads([demand]))
}
