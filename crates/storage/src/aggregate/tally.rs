//! The aggregates of the encountered items. They are the result of a window once they include all its items.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use liststore_contract::wire::{AggregateFunction, AggregateResults, GroupAggregates};
use tokio::time::Instant;

use super::AggregateFailure;
use super::memory::Memory;
use super::plan::{Aggregation, Source, Wanted};
use super::ranks::{Ranked, Shown, keep_most_frequent, top};
use super::room::Room;
use super::state::{Field, State};
use super::times::{Mixed, Times};
use super::values::{Form, Values};

/// The items with one value of the grouping source; all items without grouping.
#[derive(Debug, Clone, Copy)]
struct Group {
    value: u32,
    count: u64,
}

/// The aggregates of a window.
pub struct Rendered {
    pub results: Option<AggregateResults>,
    pub groups: Option<Vec<GroupAggregates>>,
    pub skipped: u64,
    /// The memory of the results, about.
    pub bytes: usize,
}

/// Aggregates of items that come newest first.
pub struct Tally {
    groups: Vec<Group>,
    /// The group of each value of the grouping source, counted from 1; 0 if it has none.
    by_value: Vec<u32>,
    /// The group of the present item.
    group: usize,
    /// Of each group, those that the plan names.
    states: Vec<State>,
    /// Of each source; none if it needs none.
    times: Vec<Option<Times>>,
    mixed: Mixed,
    skipped: u64,
}

impl Tally {
    /// `is_alone` states that every item of the aggregation is taken by this tally, if by any.
    pub fn new(plan: &Aggregation, is_alone: bool, memory: &mut Memory) -> Self {
        let mixed = Mixed::random();
        let times = |source: &Source| {
            // Otherwise the first item with a value shows that it is new.
            let is_needed = source.needs_times || plan.group_by.is_some() || !is_alone;
            (source.needs_identity && is_needed).then(|| match plan.group_by {
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
        self.states.extend(plan.states.iter().map(|function| State::of(*function)));
        memory.grow_vec(groups, &self.groups);
        memory.grow_vec(states, &self.states);
    }

    /// Begins an item whose grouping source has this value. The calls that follow count it in its group.
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
    }

    /// Counts an item in its group.
    #[inline]
    pub fn count(&mut self) {
        if let Some(group) = self.groups.get_mut(self.group) {
            group.count += 1;
        }
    }

    /// Counts an item that at least one aggregate, or the grouping, leaves out.
    #[inline]
    pub fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Takes the value of a source in an item. `place` counts the items before it.
    #[inline]
    pub fn add(&mut self, plan: &Aggregation, source: usize, field: &Field<'_>, place: u64, memory: &mut Memory) {
        let is_new = match &mut self.times[source] {
            Some(times) => times.add(self.group, field.identity, memory),
            None => field.is_first,
        };
        let Range { start, end } = plan.sources[source].states;
        let before = self.group * plan.states.len();
        for state in &mut self.states[before + start..before + end] {
            state.add(field, is_new, place, memory);
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
        let mut room = Room::new(bytes_max, deadline);
        let Some(by) = plan.group_by else {
            let results = self.results(plan, values, Shown { alone: &[0], together: &[] }, &mut room)?.pop();
            return Ok(Rendered { results, groups: None, skipped: self.skipped, bytes: room.taken() });
        };
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        let by_values = &values[by.source];
        let rank = |one: &usize, other: &usize| self.rank(plan.form, by_values, *one, *other);
        let shown_count = by.groups_max.min(order.len());
        if shown_count < order.len() {
            order.select_nth_unstable_by(shown_count, rank);
        }
        order[..shown_count].sort_unstable_by(rank);
        let (alone, together) = order.split_at(shown_count);
        let results = self.results(plan, values, Shown { alone, together }, &mut room)?;
        let mut groups = Vec::with_capacity(results.len());
        for (rank, results) in results.into_iter().enumerate() {
            let (value, count) = if let Some(group) = alone.get(rank) {
                let Group { value, count } = self.groups[*group];
                let value = plan.form.to_json(by_values.get(value)).ok_or(AggregateFailure::Damaged)?;
                room.take(&value).map_err(|_| AggregateFailure::TooLarge)?;
                (Some(value), count)
            } else {
                (None, together.iter().map(|group| self.groups[*group].count).sum())
            };
            groups.push(GroupAggregates { other: value.is_none(), value, count, results });
        }
        Ok(Rendered { results: None, groups: Some(groups), skipped: self.skipped, bytes: room.taken() })
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
        shown: Shown<'_>,
        room: &mut Room,
    ) -> Result<Vec<AggregateResults>, AggregateFailure> {
        let mut results = vec![AggregateResults::new(); shown.count()];
        let mut ranked_by_source: Vec<Option<Ranked>> = plan.sources.iter().map(|_| None).collect();
        for (index, wanted) in plan.aggregates.iter().enumerate() {
            room.check_time()?;
            let values = &values[wanted.source];
            let ranked =
                ranked_by_source[wanted.source].get_or_insert_with(|| self.ranked(plan, wanted, values, shown));
            for (rank, results) in results.iter_mut().enumerate() {
                let state = match shown.alone.get(rank) {
                    Some(group) => self.state(plan, wanted, *group),
                    None => self.merged(plan, wanted, shown.together),
                };
                let value = match &*state {
                    // Takes room for each of its values.
                    State::Top => top(plan.form, wanted.k, values, ranked.most_frequent(rank), room),
                    State::Distinct(count) => {
                        let together = ranked.distinct_together.filter(|_| rank == shown.alone.len());
                        room.taking(together.unwrap_or(*count).into())
                    }
                    state => state.value(plan.form).and_then(|value| room.taking(value)),
                };
                let value = value.map_err(|why| why.of(index))?;
                room.take_bytes(wanted.name.len());
                results.insert(wanted.name.clone(), value);
            }
        }
        Ok(results)
    }

    fn state(&self, plan: &Aggregation, wanted: &Wanted, group: usize) -> Cow<'_, State> {
        match wanted.state {
            Some(place) => Cow::Borrowed(&self.states[group * plan.states.len() + place]),
            None => Cow::Owned(State::Count(self.groups[group].count)),
        }
    }

    /// The state of several groups together, of which there is at least one.
    fn merged(&self, plan: &Aggregation, wanted: &Wanted, groups: &[usize]) -> Cow<'_, State> {
        let mut merged = self.state(plan, wanted, groups[0]);
        groups[1..].iter().for_each(|group| merged.to_mut().merge(&self.state(plan, wanted, *group)));
        merged
    }

    /// Ranks the values of the source of an aggregate, once for all aggregates of it.
    fn ranked(&self, plan: &Aggregation, wanted: &Wanted, values: &Values, shown: Shown<'_>) -> Ranked {
        let of_source = plan.aggregates.iter().filter(|other| other.source == wanted.source);
        let tops = of_source.filter(|wanted| wanted.function == AggregateFunction::Top);
        let k_max = tops.map(|wanted| wanted.k).max().unwrap_or(0);
        let Some(times) = self.times[wanted.source].as_ref().filter(|_| k_max > 0 || shown.is_cut()) else {
            return Ranked { most_frequent: Vec::new(), distinct_together: None };
        };
        let mut values_of = shown.values_of(k_max > 0, times, self.mixed);
        let distinct_together = values_of.last().filter(|_| shown.is_cut()).map(|others| others.len() as u64);
        values_of.iter_mut().for_each(|counts| keep_most_frequent(plan.form, k_max, values, counts));
        Ranked { most_frequent: values_of, distinct_together }
    }
}
