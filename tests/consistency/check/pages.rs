//! What every page must be, whatever else went on: ordered, within its bounds and limit, without
//! duplicates, of items that somebody added; and what every answer to a write must add up to.

use super::Violation;
use super::story::Story;
use crate::history::{Call, History, Key, Outcome, Request};

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

fn check_call(history: &History, story: &Story<'_>, call: &Call) -> Result<(), (&'static str, String)> {
    match (&call.request, &call.outcome) {
        (Request::Get { min, max, limit, after, .. }, Outcome::Page { items, more }) => {
            let known: Vec<(Key, Option<usize>)> = items
                .iter()
                .map(|item| story.key(item))
                .collect::<Result<_, _>>()
                .map_err(|error| ("values come back as they were sent", error))?;
            let keys: Vec<&Key> = known.iter().map(|(key, _)| key).collect();
            if let Some(pair) = keys.windows(2).find(|pair| pair[0] <= pair[1]) {
                let promise =
                    if pair[0] == pair[1] { "no duplicates in a page" } else { "newest first, ties by item key" };
                return Err((promise, format!("{:?} before {:?}", pair[0], pair[1])));
            }
            if keys.iter().any(|key| after.as_ref().is_some_and(|after| *key >= after)) {
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
            if *more && items.is_empty() {
                return Err(("a page with a token has at least one item", "it is empty".to_owned()));
            }
            for (item, (_, place)) in items.iter().zip(&known) {
                let added = place.is_some_and(|place| story.items[place].adds.iter().any(|add| add.from <= call.to));
                if !added {
                    return Err((
                        "only what was added is returned",
                        format!("{item} was not added before the call ended"),
                    ));
                }
            }
            Ok(())
        }
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
        (Request::RemoveValue { value, .. }, Outcome::Removed(count)) => {
            let can_be = story.by_value.get(value).into_iter().flatten();
            let most = can_be.filter(|place| story.items[**place].adds.iter().any(|add| add.from <= call.to)).count();
            if *count <= most as u64 {
                Ok(())
            } else {
                Err(("exact counts", format!("{count} removed of {most} that can have been there")))
            }
        }
        (
            Request::Get { .. } | Request::Add { .. } | Request::RemoveValue { .. } | Request::RemoveAll { .. },
            outcome,
        ) => {
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
