//! The rules for every page, independent of other calls: ordered, within its bounds and limit, without duplicates, and
//! of added items; and the sums in every answer to a write.

use std::collections::HashMap;

use super::story::Story;
use super::{Violation, aggregates, counts};
use crate::history::{Call, History, Item, Key, Order, Outcome, Request};

/// Or the promise that was broken, and how.
type Fits = Result<(), (&'static str, String)>;

const LIMIT_DEFAULT: usize = 100;

pub fn check(history: &History, story: &Story<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for index in &story.calls {
        let call = &history.calls[*index];
        if let Err((promise, detail)) = check_call(history, story, call) {
            violations.push(Violation::new(promise, detail, [*index]));
        }
    }
    violations
}

fn check_call(history: &History, story: &Story<'_>, call: &Call) -> Fits {
    match (&call.request, &call.outcome) {
        (Request::Get { .. }, Outcome::Page { items, more }) => check_page(story, call, items, *more),
        (Request::Add { items, .. }, Outcome::Added { added, already_expired }) => {
            let sent = items.len() as u64;
            if added + already_expired == sent {
                Ok(())
            } else {
                Err((
                    "added and already expired make up what was sent",
                    format!("{added} + {already_expired} of {sent}"),
                ))
            }
        }
        (Request::Count { limit, .. }, Outcome::Counted { count, exact }) => {
            let limit = limit.unwrap_or(counts::LIMIT_DEFAULT);
            if *count == limit || *exact && *count < limit {
                Ok(())
            } else {
                Err(("a count goes as far as its limit", format!("{count}, exact: {exact}, for a limit of {limit}")))
            }
        }
        (Request::Contains { .. }, Outcome::Contained(newest)) => check_search(story, call, newest),
        (Request::Aggregate { .. }, Outcome::Aggregated(reported)) => {
            aggregates::check_shape(history, story.expiry, call).and_then(|()| aggregates::check(story, call, reported))
        }
        (request, Outcome::Removed(count)) if request.removes_some() => {
            let taken = story.taken(request);
            let most =
                taken.iter().filter(|place| story.items[**place].adds.iter().any(|add| add.from <= call.to)).count();
            if *count <= most as u64 {
                Ok(())
            } else {
                Err(("exact counts", format!("{count} removed of {most} that can have been there")))
            }
        }
        (request, outcome) if request.list().is_some() => {
            let fits = matches!(
                (&call.request, outcome),
                (Request::RemoveAll { .. }, Outcome::Done)
                    | (
                        _,
                        Outcome::FeatureNotFound
                            | Outcome::VersionNotFound
                            | Outcome::NotDone { .. }
                            | Outcome::Unknown { .. }
                            | Outcome::Forbidden { .. }
                    )
            );
            if fits {
                Ok(())
            } else {
                Err(("documented answers only", format!("unexpected: {outcome:?} of {}", history.calls.len())))
            }
        }
        _ => Ok(()),
    }
}

fn check_page(story: &Story<'_>, call: &Call, items: &[Item], more: bool) -> Fits {
    let Request::Get { min, max, order, limit, after, .. } = &call.request else { return Ok(()) };
    let known: Vec<(Key, Option<usize>)> = items
        .iter()
        .map(|item| story.key(item))
        .collect::<Result<_, _>>()
        .map_err(|error| ("values come back as they were sent", error))?;
    let keys: Vec<&Key> = known.iter().map(|(key, _)| key).collect();
    let (ordered, follows): (_, fn(&Key, &Key) -> bool) = match order {
        Order::Newest => ("newest first, ties by item key", |one, other| one > other),
        Order::Oldest => ("oldest first, ties by item key", |one, other| one < other),
    };
    if let Some(pair) = keys.windows(2).find(|pair| !follows(pair[0], pair[1])) {
        let promise = if pair[0] == pair[1] { "no duplicates in a page" } else { ordered };
        return Err((promise, format!("{:?} before {:?}", pair[0], pair[1])));
    }
    if keys.iter().any(|key| after.as_ref().is_some_and(|after| !follows(after, key))) {
        return Err(("a page starts after the one before it", format!("{keys:?} is not after {after:?}")));
    }
    let outside =
        |key: &&&Key| min.is_some_and(|min| key.timestamp < min) || max.is_some_and(|max| key.timestamp > max);
    if let Some(key) = keys.iter().find(outside) {
        return Err(("bounds are kept", format!("{key:?} is outside {min:?}..={max:?}")));
    }
    if items.len() > limit.unwrap_or(LIMIT_DEFAULT) {
        return Err(("the limit is kept", format!("{} items for a limit of {limit:?}", items.len())));
    }
    if more && items.is_empty() {
        return Err(("a page with a token has at least one item", "it is empty".to_owned()));
    }
    for (item, (_, place)) in items.iter().zip(&known) {
        let added = place.is_some_and(|place| story.items[place].adds.iter().any(|add| add.from <= call.to));
        if !added {
            return Err(("only what was added is returned", format!("{item} was not added before the call ended")));
        }
    }
    Ok(())
}

fn check_search(story: &Story<'_>, call: &Call, newest: &[Option<u64>]) -> Fits {
    let Request::Contains { min, max, values, .. } = &call.request else { return Ok(()) };
    let reported: HashMap<&String, &Option<u64>> = values.iter().zip(newest).collect();
    if values.iter().zip(newest).any(|(value, newest)| reported[value] != newest) || values.len() != newest.len() {
        return Err(("a value has one newest item", format!("{newest:?}")));
    }
    for (value, timestamp) in values.iter().zip(newest).filter_map(|(value, newest)| Some((value, (*newest)?))) {
        if min.is_some_and(|min| timestamp < min) || max.is_some_and(|max| timestamp > max) {
            return Err(("bounds are kept", format!("{timestamp} is outside {min:?}..={max:?}")));
        }
        let of_value = story.by_value.get(value).into_iter().flatten();
        let mut found = of_value.map(|place| &story.items[*place]).filter(|one| one.item.timestamp == timestamp);
        if !found.any(|item| item.adds.iter().any(|add| add.from <= call.to)) {
            let detail = format!("{timestamp}={value} was not added before the call ended");
            return Err(("only what was added is returned", detail));
        }
    }
    Ok(())
}
