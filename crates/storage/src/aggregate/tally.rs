//! The aggregates of the encountered items. They are the result of a window once they include all its items.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use liststore_contract::wire::{AggregateFunction, AggregateResults, GroupAggregates};
use serde_json::Value;
use tokio::time::Instant;

use super::AggregateFailure;
use super::memory::Memory;
use super::number::{Number, Spread, Sum, Total};
use super::plan::{Aggregation, Source, Wanted};
use super::values::{Form, Values, fold};

/// The value of a source in one item.
#[derive(Debug, Clone, Copy)]
pub struct Field<'v> {
    pub bytes: &'v [u8],
    /// If the source needs it, and the value is one.
    pub number: Option<Number>,
    /// The number of its value, if the source needs it.
    pub identity: u32,
}

/// The items with one value of the grouping source; all items without grouping.
#[derive(Debug, Clone, Copy)]
struct Group {
    value: u32,
    count: u64,
}

#[derive(Debug, Clone)]
enum State {
    Count(u64),
    /// Each value is in [`Tally::times`].
    Distinct(u64),
    Top,
    Sum(Sum),
    Mean(Sum),
    Least(Option<Number>),
    Greatest(Option<Number>),
    Spread(Spread),
    First(Option<Edge>),
    Last(Option<Edge>),
}

/// The value of the first or last item.
#[derive(Debug, Clone)]
struct Edge {
    /// How many items came before, newest first.
    place: u64,
    value: Vec<u8>,
}

/// Hashes pairs of small numbers. Writers choose which pairs exist, so that each tally mixes them with other random
/// numbers.
#[derive(Debug, Clone, Copy)]
struct Mixed {
    seed: u64,
    factor: u64,
}

impl Mixed {
    fn random() -> Self {
        let random = RandomState::new();
        Self { seed: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for Mixed {
    type Hasher = Mixer;

    #[inline]
    fn build_hasher(&self) -> Mixer {
        Mixer { state: self.seed, factor: self.factor }
    }
}

struct Mixer {
    state: u64,
    factor: u64,
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.state = fold(self.state ^ number, self.factor);
    }
}

/// How often each value of a source comes.
enum Times {
    /// By the numbers of values, without grouping.
    Together(Vec<u32>),
    /// By [`pair`]s.
    InGroups(HashMap<u64, u32, Mixed>),
}

fn pair(group: usize, identity: u32) -> u64 {
    (group as u64) << 32 | u64::from(identity)
}

impl Times {
    /// Counts a value once more. Returns whether it is new.
    #[inline]
    fn add(&mut self, group: usize, identity: u32, memory: &mut Memory) -> bool {
        let times = match self {
            Self::Together(times) => {
                let place = identity as usize;
                if place >= times.len() {
                    let before = times.capacity();
                    // Numbers that came in windows with another end alone.
                    while times.len() <= place {
                        times.push(0);
                    }
                    memory.grow_vec(before, times);
                }
                &mut times[place]
            }
            Self::InGroups(times) => {
                /// A pair, its count and a byte of its hash, and as much again that is free.
                const PAIR: usize = 2 * (size_of::<(u64, u32)>() + 1);
                if times.len() == times.capacity() {
                    let before = times.capacity();
                    times.reserve(1);
                    memory.grow(before * PAIR, times.capacity() * PAIR);
                }
                times.entry(pair(group, identity)).or_insert(0)
            }
        };
        *times += 1;
        *times == 1
    }

    /// Passes each group, value and count to `take`.
    fn each(&self, mut take: impl FnMut(usize, u32, u64)) {
        match self {
            Self::Together(times) => {
                let counted = (0..).zip(times).filter(|(_, times)| **times > 0);
                counted.for_each(|(identity, times)| take(0, identity, u64::from(*times)));
            }
            Self::InGroups(times) => {
                times.iter().for_each(|(pair, times)| take((pair >> 32) as usize, *pair as u32, u64::from(*times)));
            }
        }
    }
}

/// The aggregates of a window.
pub struct Rendered {
    pub results: Option<AggregateResults>,
    pub groups: Option<Vec<GroupAggregates>>,
    pub skipped: u64,
    /// The memory of the results, about.
    pub bytes: usize,
}

/// The memory and time that results may take. A few values of a tally can be in the results of many aggregates and
/// groups.
struct Room {
    bytes: usize,
    taken: usize,
    deadline: Instant,
}

impl Room {
    /// Before each result.
    fn check_time(&self) -> Result<(), AggregateFailure> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(AggregateFailure::Late) }
    }

    /// After each value, so that at most one is too much.
    fn take(&mut self, value: &Value) -> Result<(), NoValue> {
        self.taken += bytes_of(value);
        if self.taken > self.bytes { Err(NoValue::TooLarge) } else { Ok(()) }
    }

    fn taking(&mut self, value: Value) -> Result<Value, NoValue> {
        self.take(&value)?;
        Ok(value)
    }
}

/// The memory of a value, about.
fn bytes_of(value: &Value) -> usize {
    /// Of a value in a map, with its place there.
    const VALUE: usize = 64;
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(bytes_of).sum(),
            Value::Object(members) => members.iter().map(|(name, value)| name.len() + bytes_of(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// Aggregates of items that come newest first.
pub struct Tally {
    groups: Vec<Group>,
    /// The group of each value of the grouping source, counted from 1; 0 if it has none.
    by_value: Vec<u32>,
    /// The group of the present item.
    group: usize,
    /// Of each group, one for each aggregate.
    states: Vec<State>,
    /// Of each source; none if it needs none.
    times: Vec<Option<Times>>,
    mixed: Mixed,
    skipped: u64,
}

impl Tally {
    pub fn new(plan: &Aggregation, memory: &mut Memory) -> Self {
        let mixed = Mixed::random();
        let times = |source: &Source| {
            source.needs_identity.then(|| match plan.group_by {
                None => Times::Together(Vec::new()),
                Some(_) => Times::InGroups(HashMap::with_hasher(mixed)),
            })
        };
        let mut tally = Self {
            groups: Vec::new(),
            by_value: Vec::new(),
            group: 0,
            states: Vec::new(),
            times: plan.sources.iter().map(times).collect(),
            mixed,
            skipped: 0,
        };
        if plan.group_by.is_none() {
            tally.begin_group(plan, 0, memory);
        }
        tally
    }

    fn begin_group(&mut self, plan: &Aggregation, value: u32, memory: &mut Memory) {
        let (groups, states) = (self.groups.capacity(), self.states.capacity());
        self.groups.push(Group { value, count: 0 });
        self.states.extend(plan.aggregates.iter().map(|wanted| State::of(wanted.function)));
        memory.grow_vec(groups, &self.groups);
        memory.grow_vec(states, &self.states);
    }

    /// Counts an item whose grouping source has this value, to whose group [`Self::add`] adds then.
    pub fn enter_group(&mut self, plan: &Aggregation, value: u32, memory: &mut Memory) {
        let place = value as usize;
        if place >= self.by_value.len() {
            let before = self.by_value.capacity();
            self.by_value.resize(place + 1, 0);
            memory.grow_vec(before, &self.by_value);
        }
        if self.by_value[place] == 0 {
            self.begin_group(plan, value, memory);
            self.by_value[place] = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        }
        self.group = self.by_value[place] as usize - 1;
        self.groups[self.group].count += 1;
    }

    /// Counts an item that at least one aggregate, or the grouping, leaves out.
    #[inline]
    pub fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Takes the value of a source in an item. `place` counts the items before it.
    #[inline]
    pub fn add(&mut self, plan: &Aggregation, source: usize, field: Field<'_>, place: u64, memory: &mut Memory) {
        let times = self.times[source].as_mut();
        let is_new = times.is_some_and(|times| times.add(self.group, field.identity, memory));
        let count = plan.aggregates.len();
        let states = &mut self.states[self.group * count..(self.group + 1) * count];
        for aggregate in &plan.sources[source].aggregates {
            states[*aggregate].add(field, is_new, place, memory);
        }
    }

    /// The aggregates of all items so far, if they have at most so many bytes and are there by the deadline.
    pub fn render(
        &self,
        plan: &Aggregation,
        values: &[Values],
        bytes_max: usize,
        deadline: Instant,
    ) -> Result<Rendered, AggregateFailure> {
        let mut room = Room { bytes: bytes_max, taken: 0, deadline };
        let Some(by) = plan.group_by else {
            let shown = Shown { ranks: vec![0], is_cut: false };
            let results = self.results(plan, values, &shown, &mut room)?.pop();
            return Ok(Rendered { results, groups: None, skipped: self.skipped, bytes: room.taken });
        };
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        let by_values = &values[by.source];
        let rank = |one: &usize, other: &usize| self.rank(plan.form, by_values, *one, *other);
        let shown_count = by.groups_max.min(order.len());
        if shown_count < order.len() {
            order.select_nth_unstable_by(shown_count, rank);
        }
        order[..shown_count].sort_unstable_by(rank);
        let mut ranks = vec![shown_count; self.groups.len()];
        (0..).zip(&order[..shown_count]).for_each(|(rank, group)| ranks[*group] = rank);
        let is_cut = shown_count < order.len();
        let results = self.results(plan, values, &Shown { ranks, is_cut }, &mut room)?;
        let mut groups = Vec::with_capacity(results.len());
        for (rank, results) in results.into_iter().enumerate() {
            let (value, count) = if rank < shown_count {
                let Group { value, count } = self.groups[order[rank]];
                let value = plan.form.to_json(by_values.get(value)).ok_or(AggregateFailure::Damaged)?;
                room.take(&value).map_err(|_| AggregateFailure::TooLarge)?;
                (Some(value), count)
            } else {
                (None, order[shown_count..].iter().map(|group| self.groups[*group].count).sum())
            };
            groups.push(GroupAggregates { other: value.is_none(), value, count, results });
        }
        Ok(Rendered { results: None, groups: Some(groups), skipped: self.skipped, bytes: room.taken })
    }

    /// The group with the most items first, and of equal counts the lowest value.
    fn rank(&self, form: Form, values: &Values, one: usize, other: usize) -> Ordering {
        let (one, other) = (self.groups[one], self.groups[other]);
        let by_value = || form.order(values.get(one.value), values.get(other.value));
        other.count.cmp(&one.count).then_with(by_value)
    }

    /// The results of each group that is shown, by rank.
    fn results(
        &self,
        plan: &Aggregation,
        values: &[Values],
        shown: &Shown,
        room: &mut Room,
    ) -> Result<Vec<AggregateResults>, AggregateFailure> {
        let ranks = shown.count();
        let count = plan.aggregates.len();
        let mut results = vec![AggregateResults::new(); ranks];
        let mut ranked_by_source: Vec<Option<Ranked>> = plan.sources.iter().map(|_| None).collect();
        for (index, wanted) in plan.aggregates.iter().enumerate() {
            room.check_time()?;
            let mut states = vec![None::<State>; ranks];
            for (group, rank) in shown.ranks.iter().enumerate() {
                let state = &self.states[group * count + index];
                match &mut states[*rank] {
                    Some(merged) => merged.merge(state),
                    none => *none = Some(state.clone()),
                }
            }
            let values = &values[wanted.source];
            let ranked =
                ranked_by_source[wanted.source].get_or_insert_with(|| self.ranked(plan, wanted, values, shown));
            for (rank, state) in states.into_iter().enumerate() {
                let Some(state) = state else { continue };
                let value = match state {
                    // Takes room for each of its values.
                    State::Top => top(plan.form, wanted.k, values, ranked.most_frequent(rank), room),
                    State::Distinct(count) => {
                        let together = ranked.distinct_together.filter(|_| rank + 1 == ranks);
                        room.taking(together.unwrap_or(count).into())
                    }
                    state => state.value(plan.form).and_then(|value| room.taking(value)),
                };
                let value = value.map_err(|why| why.of(index))?;
                room.taken += wanted.name.len();
                results[rank].insert(wanted.name.clone(), value);
            }
        }
        Ok(results)
    }

    /// Ranks the values of the source of an aggregate, once for all aggregates of it.
    fn ranked(&self, plan: &Aggregation, wanted: &Wanted, values: &Values, shown: &Shown) -> Ranked {
        let of_source = plan.sources[wanted.source].aggregates.iter().map(|index| &plan.aggregates[*index]);
        let tops = of_source.filter(|wanted| wanted.function == AggregateFunction::Top);
        let k_max = tops.map(|wanted| wanted.k).max().unwrap_or(0);
        let Some(times) = self.times[wanted.source].as_ref().filter(|_| k_max > 0 || shown.is_cut) else {
            return Ranked { most_frequent: Vec::new(), distinct_together: None };
        };
        let mut values_of = shown.values_of(k_max > 0, times, self.mixed);
        let distinct_together = values_of.last().filter(|_| shown.is_cut).map(|others| others.len() as u64);
        values_of.iter_mut().for_each(|counts| keep_most_frequent(plan.form, k_max, values, counts));
        Ranked { most_frequent: values_of, distinct_together }
    }
}

/// The values of a source in the results of a window.
struct Ranked {
    /// Of each result, as many values as the longest `top` has, and their counts.
    most_frequent: Vec<Vec<(u32, u64)>>,
    /// How many values the last result has, if that is several groups together.
    distinct_together: Option<u64>,
}

impl Ranked {
    fn most_frequent(&self, rank: usize) -> &[(u32, u64)] {
        self.most_frequent.get(rank).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Which groups are shown.
struct Shown {
    /// The place of each group among the results. The remaining groups share the last place.
    ranks: Vec<usize>,
    is_cut: bool,
}

impl Shown {
    /// How many results there are.
    fn count(&self) -> usize {
        self.ranks.iter().max().map_or(0, |last| last + 1)
    }

    /// How often each value comes in each result, where that is needed: for `top`, and to count the values of several
    /// groups together.
    fn values_of(&self, is_top: bool, all: &Times, mixed: Mixed) -> Vec<Vec<(u32, u64)>> {
        let ranks = self.count();
        let mut values_of = vec![Vec::new(); ranks];
        let mut together: HashMap<u32, u64, Mixed> = HashMap::with_hasher(mixed);
        all.each(|group, identity, times| {
            let rank = self.ranks[group];
            if self.is_cut && rank + 1 == ranks {
                *together.entry(identity).or_insert(0) += times;
            } else if is_top {
                values_of[rank].push((identity, times));
            }
        });
        if self.is_cut
            && let Some(others) = values_of.last_mut()
        {
            *others = together.into_iter().collect();
        }
        values_of
    }
}

/// Why a state has no value.
enum NoValue {
    OutOfRange,
    TooLarge,
    Damaged,
}

impl NoValue {
    fn of(self, aggregate: usize) -> AggregateFailure {
        match self {
            Self::OutOfRange => AggregateFailure::OutOfRange { aggregate },
            Self::TooLarge => AggregateFailure::TooLarge,
            Self::Damaged => AggregateFailure::Damaged,
        }
    }
}

impl State {
    fn of(function: AggregateFunction) -> Self {
        match function {
            AggregateFunction::Count => Self::Count(0),
            AggregateFunction::CountDistinct => Self::Distinct(0),
            AggregateFunction::Sum => Self::Sum(Sum::default()),
            AggregateFunction::Mean => Self::Mean(Sum::default()),
            AggregateFunction::Min => Self::Least(None),
            AggregateFunction::Max => Self::Greatest(None),
            AggregateFunction::Stddev => Self::Spread(Spread::default()),
            AggregateFunction::First => Self::First(None),
            AggregateFunction::Last => Self::Last(None),
            AggregateFunction::Top => Self::Top,
        }
    }

    /// Takes the value of an item. `is_new` states that it has not come in its group before.
    #[inline]
    fn add(&mut self, field: Field<'_>, is_new: bool, place: u64, memory: &mut Memory) {
        match self {
            Self::Count(count) => *count += 1,
            Self::Distinct(count) => *count += u64::from(is_new),
            Self::Top => {}
            Self::First(edge) => {
                let edge = edge.get_or_insert(Edge { place, value: Vec::new() });
                let before = edge.value.capacity();
                edge.place = place;
                edge.value.clear();
                edge.value.extend_from_slice(field.bytes);
                memory.grow_vec(before, &edge.value);
            }
            Self::Last(edge) => {
                if edge.is_none() {
                    let value = field.bytes.to_vec();
                    memory.grow_vec(0, &value);
                    *edge = Some(Edge { place, value });
                }
            }
            _ => field.number.into_iter().for_each(|number| self.add_number(number)),
        }
    }

    #[inline]
    fn add_number(&mut self, number: Number) {
        match self {
            Self::Sum(sum) | Self::Mean(sum) => sum.add(number),
            Self::Least(least) => {
                if least.is_none_or(|least| number.order(least).is_lt()) {
                    *least = Some(number);
                }
            }
            Self::Greatest(greatest) => {
                if greatest.is_none_or(|greatest| number.order(greatest).is_gt()) {
                    *greatest = Some(number);
                }
            }
            Self::Spread(spread) => spread.add(number),
            Self::Count(_) | Self::Distinct(_) | Self::Top | Self::First(_) | Self::Last(_) => {}
        }
    }

    /// Takes the state of another group, of the same function.
    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Count(own), Self::Count(other)) => *own += other,
            (Self::Sum(own), Self::Sum(other)) | (Self::Mean(own), Self::Mean(other)) => own.merge(other),
            (state @ (Self::Least(_) | Self::Greatest(_)), Self::Least(Some(other)) | Self::Greatest(Some(other))) => {
                state.add_number(*other);
            }
            (Self::Spread(own), Self::Spread(other)) => own.merge(other),
            (Self::First(own), Self::First(Some(other))) if own.as_ref().is_none_or(|own| own.place < other.place) => {
                *own = Some(other.clone());
            }
            (Self::Last(own), Self::Last(Some(other))) if own.as_ref().is_none_or(|own| own.place > other.place) => {
                *own = Some(other.clone());
            }
            // Values are counted from their pairs.
            _ => {}
        }
    }

    /// The result of any function but `top`, whose values are ranked for the whole source.
    fn value(self, form: Form) -> Result<Value, NoValue> {
        let double = |double: Option<f64>| match double {
            Some(double) if double.is_finite() => Ok(double.into()),
            Some(_) => Err(NoValue::OutOfRange),
            None => Ok(Value::Null),
        };
        Ok(match self {
            Self::Top => Value::Null,
            Self::Count(count) | Self::Distinct(count) => count.into(),
            Self::Sum(sum) => match sum.total() {
                Total::Int(int) => match i64::try_from(int) {
                    Ok(int) => form.int(int),
                    // JSON has no other numbers than doubles.
                    Err(_) if form.is_json() => double(Some(int as f64))?,
                    Err(_) => return Err(NoValue::OutOfRange),
                },
                Total::Double(sum) => double(Some(sum))?,
            },
            Self::Mean(sum) => double(sum.mean())?,
            Self::Least(number) | Self::Greatest(number) => {
                number.map_or(Value::Null, |number| form.number_to_json(number))
            }
            Self::Spread(spread) => double(spread.deviation())?,
            Self::First(edge) | Self::Last(edge) => match edge {
                Some(edge) => form.to_json(&edge.value).ok_or(NoValue::Damaged)?,
                None => Value::Null,
            },
        })
    }
}

/// Keeps the most frequent values: these first, and of equal counts the lowest value.
fn keep_most_frequent(form: Form, k: usize, values: &Values, counts: &mut Vec<(u32, u64)>) {
    let rank = |(one, ones): &(u32, u64), (other, others): &(u32, u64)| {
        others.cmp(ones).then_with(|| form.order(values.get(*one), values.get(*other)))
    };
    if counts.len() > k {
        if k > 0 {
            counts.select_nth_unstable_by(k, rank);
        }
        counts.truncate(k);
        counts.shrink_to_fit();
    }
    counts.sort_unstable_by(rank);
}

/// The first values of those that are ranked.
fn top(form: Form, k: usize, values: &Values, ranked: &[(u32, u64)], room: &mut Room) -> Result<Value, NoValue> {
    let shown = |(value, count): &(u32, u64)| {
        let value = form.to_json(values.get(*value)).ok_or(NoValue::Damaged)?;
        room.taking([("value", value), ("count", (*count).into())].into_iter().collect())
    };
    ranked.iter().take(k).map(shown).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tally_hashes_pairs_in_its_own_way() {
        let (one, other) = (Mixed::random(), Mixed::random());
        let hashes = |mixed: Mixed| (0..100).map(|group| mixed.hash_one(pair(group, 7))).collect::<Vec<_>>();
        assert_eq!(hashes(one), hashes(one));
        assert!(hashes(one).iter().zip(hashes(other)).all(|(one, other)| *one != other));
    }
}
