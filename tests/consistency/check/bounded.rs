//! The promises of lists that show only their newest items. Items beyond the bound may be removed at any time. So an
//! item must be visible as long as it cannot have been beyond the bound, that is, as long as fewer items than the
//! bound can have been before it.

use std::collections::BTreeMap;

use super::{Violation, aggregates};
use crate::history::{Aggregated, Call, History, Item, Key, ListName, Moment, Outcome, Request, Special};

/// An item, with its possible adds and removals.
#[derive(Default)]
struct Story {
    /// When it may have existed from, and when it certainly existed.
    from: Option<Moment>,
    acknowledged: Option<Moment>,
    /// When the last add of it can have come to be at the latest.
    latest: Moment,
    adds: Vec<usize>,
}

/// A removal, or a clearing, of items.
struct Removal<'a> {
    call: usize,
    from: Moment,
    /// `None` if it may never have been.
    done: Option<Moment>,
    /// All of them, if there is none.
    value: Option<&'a str>,
}

pub fn check(history: &History) -> Result<Vec<Violation>, String> {
    let mut by_list: BTreeMap<&ListName, (u64, Vec<usize>)> = BTreeMap::new();
    for (index, call) in history.calls.iter().enumerate() {
        let Some(list) = call.request.list() else { continue };
        if let Some(Special::Bounded(max_items)) = history.special.get(&list.version.feature) {
            by_list.entry(list).or_insert((*max_items, Vec::new())).1.push(index);
        }
    }
    let mut violations = Vec::new();
    for (list, (max_items, calls)) in by_list {
        violations.extend(Bounded::of(history, list, max_items, &calls)?.check(&calls)?);
    }
    Ok(violations)
}

struct Bounded<'a> {
    history: &'a History,
    list: &'a ListName,
    max_items: u64,
    stories: BTreeMap<Key, (&'a Item, Story)>,
    removals: Vec<Removal<'a>>,
}

impl<'a> Bounded<'a> {
    fn of(history: &'a History, list: &'a ListName, max_items: u64, calls: &[usize]) -> Result<Self, String> {
        let value_type = history.value_type(list)?;
        let mut bounded = Self { history, list, max_items, stories: BTreeMap::new(), removals: Vec::new() };
        for index in calls.iter().copied() {
            let call = &history.calls[index];
            if matches!(call.outcome, Outcome::NotDone { .. }) {
                continue;
            }
            let done = (!call.unknown()).then_some(call.to);
            let removal = |value| Removal { call: index, from: call.from, done, value };
            match &call.request {
                Request::Add { items, .. } => {
                    for item in items {
                        let (_, story) =
                            bounded.stories.entry(value_type.key(item)?).or_insert_with(|| (item, Story::default()));
                        let earlier = |a: Option<Moment>, b: Option<Moment>| a.into_iter().chain(b).min();
                        story.from = earlier(story.from, Some(call.from));
                        story.acknowledged = earlier(story.acknowledged, done);
                        story.latest = story.latest.max(history.latest(call));
                        story.adds.push(index);
                    }
                }
                Request::RemoveValue { value, .. } => bounded.removals.push(removal(Some(value))),
                Request::RemoveAll { .. } => bounded.removals.push(removal(None)),
                _ => {}
            }
        }
        Ok(bounded)
    }

    fn check(&self, calls: &[usize]) -> Result<Vec<Violation>, String> {
        let mut violations = Vec::new();
        for index in calls.iter().copied() {
            let call = &self.history.calls[index];
            if let (Request::Get { min: None, max: None, after: None, .. }, Outcome::Page { items, more }) =
                (&call.request, &call.outcome)
            {
                violations.extend(self.check_page(index, call, items, *more)?);
            }
            if let (Request::Aggregate { windows, .. }, Outcome::Aggregated(told)) = (&call.request, &call.outcome) {
                let shape = aggregates::check_shape(self.history, call, windows, told);
                violations.extend(shape.err().map(|(promise, detail)| Violation::new(promise, detail, [index])));
                for window in told {
                    violations.extend(self.check_window(index, call, window)?);
                }
            }
        }
        Ok(violations)
    }

    /// A window shows its items by their values. No two items of such a list share one.
    fn check_window(&self, index: usize, call: &Call, window: &Aggregated) -> Result<Option<Violation>, String> {
        let mut items = Vec::with_capacity(window.values.len());
        for (value, count) in &window.values {
            let of_value = self.stories.values().rev().map(|(item, _)| *item).find(|item| item.value == *value);
            match of_value.filter(|_| *count == 1) {
                Some(item) => items.push(item.clone()),
                None => {
                    let detail = format!("{count} of {value}");
                    return Ok(Some(Violation::new("only what was added is returned", detail, [index])));
                }
            }
        }
        let value_type = self.history.value_type(self.list)?;
        let mut keyed =
            items.into_iter().map(|item| Ok((value_type.key(&item)?, item))).collect::<Result<Vec<_>, String>>()?;
        keyed.sort_by(|(one, _), (other, _)| other.cmp(one));
        let items: Vec<Item> = keyed.into_iter().map(|(_, item)| item).collect();
        let is_within = |item: &Item| (window.min..=window.max).contains(&item.timestamp);
        if let Some(outside) = items.iter().find(|item| !is_within(item)) {
            return Ok(Some(Violation::new("bounds are kept", outside.to_string(), [index])));
        }
        // A window that ends with a clock that was set back does not have all items.
        let is_whole = self.stories.values().all(|(item, _)| is_within(item));
        if is_whole { self.check_page(index, call, &items, false) } else { Ok(None) }
    }

    fn check_page(&self, index: usize, call: &Call, items: &[Item], more: bool) -> Result<Option<Violation>, String> {
        let value_type = self.history.value_type(self.list)?;
        let shown = items.iter().map(|item| value_type.key(item)).collect::<Result<Vec<_>, _>>()?;
        let found = |promise, detail: String, calls: &[usize]| {
            Ok(Some(Violation::new(promise, detail, calls.iter().copied().chain([index]))))
        };
        if items.len() as u64 > self.max_items {
            let detail = format!("{} items of {}, which shows {}", items.len(), self.list, self.max_items);
            return found("a list shows no more items than it may", detail, &[]);
        }
        if !shown.is_sorted_by(|newer, older| newer > older) {
            return found("pages are in order", format!("one of {} is not", self.list), &[]);
        }
        for (item, key) in items.iter().zip(&shown) {
            let Some((_, story)) =
                self.stories.get(key).filter(|(_, story)| story.from.is_some_and(|at| at <= call.to))
            else {
                return found("only what was added is returned", item.to_string(), &[]);
            };
            let removed = self.removals.iter().find(|removal| {
                removal.takes(item) && removal.from > story.latest && removal.done.is_some_and(|done| done < call.from)
            });
            if let Some(removal) = removed {
                return found("what was removed does not come back", item.to_string(), &[removal.call]);
            }
        }
        // From the newest on, the items that cannot have been beyond the bound at the time of the answer.
        let started = self.stories.iter().rev().filter(|(_, (_, story))| story.from.is_some_and(|at| at <= call.to));
        for (key, (item, story)) in started.take(usize::try_from(self.max_items).unwrap_or(usize::MAX)) {
            let is_behind = more && shown.last().is_some_and(|last| key < last);
            let may_be_gone = |removal: &Removal<'_>| {
                removal.takes(item)
                    && removal.from <= call.to
                    // A removal that ended before the first add does not concern the item.
                    && story.from.is_none_or(|from| removal.done.is_none_or(|done| done >= from))
            };
            let must_be_there = story.acknowledged.is_some_and(|at| at < call.from)
                && !self.removals.iter().any(may_be_gone)
                && !is_behind;
            if must_be_there && !shown.contains(key) {
                return found("what was acknowledged is there", item.to_string(), &story.adds);
            }
        }
        Ok(None)
    }
}

impl Removal<'_> {
    fn takes(&self, item: &Item) -> bool {
        self.value.is_none_or(|value| value == item.value)
    }
}
