//! The promises of lists that show only their newest items. Items beyond the bound may be removed at any time. So an
//! item must be visible as long as it cannot have been beyond the bound, that is, as long as fewer items than the
//! bound can have been before it.

use std::collections::BTreeMap;

use super::expiry::Expiry;
use super::{Violation, aggregates};
use crate::history::{
    Aggregated, Aggregates, Call, History, Item, Key, ListName, Moment, Outcome, Reason, Request, Results, Special,
};

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
    let (expiry, mut violations) = (Expiry::of(history), Vec::new());
    for (list, (max_items, calls)) in by_list {
        violations.extend(Bounded::of(history, list, max_items, &calls)?.check(&expiry, &calls)?);
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

    fn check(&self, expiry: &Expiry<'_>, calls: &[usize]) -> Result<Vec<Violation>, String> {
        let mut violations = Vec::new();
        for index in calls.iter().copied() {
            let call = &self.history.calls[index];
            if let (Request::Get { min: None, max: None, after: None, .. }, Outcome::Page { items, more }) =
                (&call.request, &call.outcome)
            {
                violations.extend(self.check_page(index, call, items, *more)?);
            }
            if let Outcome::Aggregated(reported) = &call.outcome {
                let shape = aggregates::check_shape(self.history, expiry, call);
                violations.extend(shape.err().map(|(promise, detail)| Violation::new(promise, detail, [index])));
                violations.extend(self.check_aggregates(index, call, reported)?);
            }
        }
        Ok(violations)
    }

    /// Judges the windows of an answer. One that has room for all items of the list is a page of it, and shows what the
    /// others must have.
    fn check_aggregates(&self, index: usize, call: &Call, reported: &Aggregates) -> Result<Vec<Violation>, String> {
        let (mut shown, mut violations) = (Vec::with_capacity(reported.windows.len()), Vec::new());
        for window in &reported.windows {
            match self.items_of(window)? {
                Ok(items) => shown.push((window, items)),
                Err((promise, detail)) => violations.push(Violation::new(promise, detail, [index])),
            }
        }
        // A window that ends with a clock that was set back does not have all items.
        let whole = shown.iter().find(|(window, _)| self.stories.values().all(|(item, _)| window.spans(item)));
        for (window, items) in &shown {
            if let Some((_, all)) = whole {
                let here: Vec<_> = all.iter().filter(|item| window.spans(item)).collect();
                if !here.iter().copied().eq(items) {
                    let detail = format!("{} items, and {} of a larger window", items.len(), here.len());
                    violations.push(Violation::new("windows of one answer agree", detail, [index]));
                }
            }
            let ends = [items.last(), items.first()].map(|item| item.map(|item| &item.value));
            let Results { first, last, .. } = &window.results;
            if window.groups.is_none() && ends != [first.as_ref(), last.as_ref()] {
                let detail = format!("{first:?} and {last:?} instead of {ends:?}");
                let promise = "the first and last value are of the oldest and newest item";
                violations.push(Violation::new(promise, detail, [index]));
            }
            violations.extend(self.check_reason(index, window, items, whole.map(|(_, all)| all.as_slice())));
        }
        if let Some((_, all)) = whole {
            violations.extend(self.check_page(index, call, all, false)?);
        }
        Ok(violations)
    }

    /// A window lacks items exactly if it reaches back to the last item that the list shows.
    fn check_reason(
        &self,
        index: usize,
        window: &Aggregated,
        items: &[Item],
        all: Option<&[Item]>,
    ) -> Option<Violation> {
        let is_full = |items: &[Item]| items.len() as u64 == self.max_items;
        let must_lack = is_full(items)
            || all.is_some_and(|all| is_full(all) && all.last().is_some_and(|last| window.min <= last.timestamp));
        let fits = match window.reason {
            Some(Reason::Ttl) => true,
            Some(Reason::MaxItems) => must_lack || all.is_none(),
            None => !must_lack,
            // The bound of items is larger.
            Some(Reason::ItemsMax) => false,
        };
        let detail =
            || format!("{:?} of {} items, of which {:?} are shown", window.reason, items.len(), all.map(<[_]>::len));
        (!fits).then(|| Violation::new(aggregates::COMPLETE, detail(), [index]))
    }

    /// The items of a window, newest first: it shows them by their values, and no two items of such a list share one.
    fn items_of(&self, window: &Aggregated) -> Result<Result<Vec<Item>, (&'static str, String)>, String> {
        let value_type = self.history.value_type(self.list)?;
        let mut keyed = Vec::with_capacity(window.results.values.len());
        for (value, count) in &window.results.values {
            let of_value = self.stories.values().rev().map(|(item, _)| *item).find(|item| item.value == *value);
            match of_value.filter(|_| *count == 1) {
                Some(item) if !window.spans(item) => return Ok(Err(("bounds are kept", item.to_string()))),
                Some(item) => keyed.push((value_type.key(item)?, item.clone())),
                None => return Ok(Err(("only what was added is returned", format!("{count} of {value}")))),
            }
        }
        keyed.sort_by(|(one, _), (other, _)| other.cmp(one));
        Ok(Ok(keyed.into_iter().map(|(_, item)| item).collect()))
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
