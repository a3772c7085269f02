//! The rules for every answer with aggregates, independent of other calls: its functions agree with each other, its
//! windows agree where they overlap, and its values were added. Whether the values were there at one moment is judged
//! like a page ([`super::windows`], [`super::clusters`]), and each count like a count of Count List
//! Items ([`super::counts`]).

use std::collections::{HashMap, HashSet};

use super::expiry::Expiry;
use super::groups::{check_groups, ranks_before};
use super::story::{CountedValue, Story};
use crate::history::{
    Aggregated, Aggregates, AskedWindow, Call, History, ListName, NANOS_PER_SEC, Outcome, Reason, Request, Results,
    Special, TOP_MAX, ValueType,
};

/// Or the promise that was broken, and how.
type Fits = Result<(), (&'static str, String)>;

const AGREE: &str = "aggregates of one answer agree";
pub const COMPLETE: &str = "a window that lacks items reports the reason";

/// How far the harness may be wrong about the server's clock.
const CLOCK_TOLERANCE: u64 = NANOS_PER_SEC;

/// What every answer has to fit, of a list of any kind.
pub fn check_shape(history: &History, expiry: &Expiry<'_>, call: &Call) -> Fits {
    let (Request::Aggregate { list, windows: asked, .. }, Outcome::Aggregated(reported)) =
        (&call.request, &call.outcome)
    else {
        return Ok(());
    };
    let value_type = history.value_type(list).map_err(|error| (AGREE, error))?;
    if asked.len() != reported.windows.len() {
        return Err((AGREE, format!("{} windows for {}", reported.windows.len(), asked.len())));
    }
    let (low, high) = history.wall(call.from, call.to);
    if !(low.saturating_sub(CLOCK_TOLERANCE)..=high.saturating_add(CLOCK_TOLERANCE)).contains(&reported.as_of) {
        return Err(("bounds are kept", format!("as of {}, and not {low} to {high}", reported.as_of)));
    }
    for (asked, window) in asked.iter().zip(&reported.windows) {
        check_bounds(reported.as_of, asked, window)?;
        check_reason(expiry, (list, call), reported, window)?;
        window.parts().try_for_each(|results| check_functions(value_type, results))?;
        match &window.groups {
            Some(groups) => check_groups(value_type, groups)?,
            None if window.skipped > 0 => return Err((AGREE, format!("{} skipped for no reason", window.skipped))),
            None => {}
        }
    }
    check_read(history, list, reported)
}

fn check_bounds(as_of: u64, asked: &AskedWindow, window: &Aggregated) -> Fits {
    let Aggregated { min, max, .. } = window;
    let fits = match asked {
        AskedWindow::Between { min: asked_min, max: asked_max } => (min, max) == (asked_min, asked_max),
        AskedWindow::Last { secs } => *max == as_of && max.checked_sub(*min) == Some(secs * NANOS_PER_SEC - 1),
    };
    if fits { Ok(()) } else { Err(("bounds are kept", format!("{min}..={max} for {asked:?} as of {as_of}"))) }
}

/// A window that begins before the oldest visible moment lacks items for the TTL, next to any other reason. A bound of
/// items is a reason only if it was reached.
fn check_reason(
    expiry: &Expiry<'_>,
    (list, call): (&ListName, &Call),
    reported: &Aggregates,
    window: &Aggregated,
) -> Fits {
    // An item at the beginning of the window would expire then.
    let (least, most) = expiry.expiry(&list.version, window.min, call.from, call.to);
    let Aggregates { as_of, items_read, .. } = reported;
    let history = expiry.history();
    let fits = match (window.reason, history.special.get(&list.version.feature)) {
        (Some(Reason::Ttl), _) => least <= *as_of,
        (_, _) if most <= *as_of => false,
        (Some(Reason::MaxItems), Some(Special::Bounded(max_items))) => items_read == max_items,
        (Some(Reason::MaxItems), _) => false,
        (Some(Reason::ItemsMax), _) => *items_read == history.items_max(),
        (None, _) => true,
    };
    let detail = || format!("{:?} after {items_read} items, as of {as_of}", window.reason);
    if fits { Ok(()) } else { Err((COMPLETE, detail())) }
}

/// A call reads all items of its windows, and of one window no others. Of a list that shows only a part of its items,
/// it also reads all newer items.
fn check_read(history: &History, list: &ListName, reported: &Aggregates) -> Fits {
    let Aggregates { windows, items_read, .. } = reported;
    if *items_read > history.items_max() {
        return Err((COMPLETE, format!("{items_read} items read, and not at most {}", history.items_max())));
    }
    let counted = || windows.iter().map(|window| window.results.count + window.skipped);
    let is_bounded = matches!(history.special.get(&list.version.feature), Some(Special::Bounded(_)));
    let fits = match counted().max() {
        Some(count) if windows.len() == 1 && !is_bounded => *items_read == count,
        Some(count) => *items_read >= count,
        None => true,
    };
    let detail = || format!("{items_read} items read, and {:?} counted", counted().collect::<Vec<_>>());
    if fits { Ok(()) } else { Err((AGREE, detail())) }
}

fn check_functions(value_type: ValueType, results: &Results) -> Fits {
    let Results { count, distinct, values, first, last, sum } = results;
    let sum_of_counts: u64 = values.iter().map(|(_, count)| count).sum();
    let fits = if results.has_all_values() {
        sum_of_counts == *count
    } else {
        values.len() == TOP_MAX && *distinct > TOP_MAX as u64 && sum_of_counts < *count
    };
    if !fits {
        let detail = format!("{count} items with {distinct} values, of which {} have {sum_of_counts}", values.len());
        return Err((AGREE, detail));
    }
    let mut is_ranked = values.iter().all(|(_, count)| *count > 0);
    for pair in values.windows(2) {
        is_ranked &= ranks_before(value_type, (pair[0].0.as_str(), pair[0].1), (pair[1].0.as_str(), pair[1].1))?;
    }
    if !is_ranked {
        return Err(("the most frequent values come first", format!("{values:?}")));
    }
    if (*count > 0) != first.is_some() || first.is_some() != last.is_some() {
        return Err((AGREE, format!("{count} items, the first {first:?}, and the last {last:?}")));
    }
    let is_known = |value: &String| values.iter().any(|(known, _)| known == value);
    if results.has_all_values() && !first.iter().chain(last).all(is_known) {
        return Err((AGREE, format!("{first:?} or {last:?} is not among {values:?}")));
    }
    if let Some(sum) = sum.filter(|_| results.has_all_values()) {
        let number = |value: &str| value.parse::<i128>().map_err(|error| (AGREE, format!("{value}: {error}")));
        let mut total = 0;
        for (value, count) in values {
            total += number(value)? * i128::from(*count);
        }
        if total != i128::from(sum) {
            return Err((AGREE, format!("a sum of {sum}, but the values have {total}")));
        }
    }
    Ok(())
}

/// What an answer of a plain list has to fit.
pub fn check(story: &Story<'_>, call: &Call, reported: &Aggregates) -> Fits {
    let mut shown: HashMap<usize, bool> = HashMap::new();
    for window in &reported.windows {
        let counted = story.counted(window, reported.items_read);
        for (value, count) in &window.results.values {
            let places = counted.iter().find(|counted| counted.value == value).map(|counted| &counted.places);
            let was_added = |place: &&usize| story.items[**place].adds.iter().any(|add| add.from <= call.to);
            let most = places.map_or(0, |places| places.iter().filter(was_added).count());
            if *count > most as u64 {
                let detail = format!("{count} of {value}, of which {most} were added before the call ended");
                return Err(("only what was added is returned", detail));
            }
        }
        let clear = counted.iter().filter_map(|counted| Some((&counted.places, counted.is_clear()?)));
        for (places, there) in clear {
            for place in places {
                if *shown.entry(*place).or_insert(there) != there {
                    let item = &story.items[*place].item;
                    return Err(("windows of one answer agree", format!("{item} is in one of them alone")));
                }
            }
        }
        window.parts().try_for_each(|results| check_ends(story, results, &counted))?;
    }
    Ok(())
}

/// If it is clear which items were there, it is clear which of them was the first and the last.
fn check_ends(story: &Story<'_>, results: &Results, counted: &[CountedValue<'_>]) -> Fits {
    if !results.has_all_values() {
        return Ok(());
    }
    let values: HashSet<&str> = results.values.iter().map(|(value, _)| value.as_str()).collect();
    let counted: Vec<_> = counted.iter().filter(|counted| values.contains(counted.value)).collect();
    if counted.iter().any(|counted| counted.is_clear().is_none()) {
        return Ok(());
    }
    let there = || counted.iter().flat_map(|counted| counted.places.iter().copied());
    let value = |place: Option<usize>| place.map(|place| &story.items[place].item.value);
    let (first, last) = (value(there().min()), value(there().max()));
    if (first, last) == (results.first.as_ref(), results.last.as_ref()) {
        Ok(())
    } else {
        let detail = format!("{:?} and {:?} instead of {first:?} and {last:?}", results.first, results.last);
        Err(("the first and last value are of the oldest and newest item", detail))
    }
}
