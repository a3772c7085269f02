//! The rules for every answer with aggregates, independent of other calls: its functions agree with each other, its
//! windows agree where they overlap, and its values were added. Whether the values were there at one moment is judged
//! like a page ([`super::windows`], [`super::clusters`]), and each count like that of Count List Items
//! ([`super::counts`]).

use std::collections::HashMap;

use super::story::{CountedValue, Story};
use crate::history::{Aggregated, AskedWindow, Call, History, Moment, NANOS_PER_SEC, TOP_MAX};

/// Or the promise that was broken, and how.
type Fits = Result<(), (&'static str, String)>;

const AGREE: &str = "aggregates of one answer agree";

/// How far the harness may be wrong about the server's clock.
const CLOCK_TOLERANCE: u64 = NANOS_PER_SEC;

/// What every answer has to fit, of a list of any kind.
pub fn check_shape(history: &History, call: &Call, asked: &[AskedWindow], told: &[Aggregated]) -> Fits {
    if asked.len() != told.len() {
        return Err((AGREE, format!("{} windows for {}", told.len(), asked.len())));
    }
    for (asked, window) in asked.iter().zip(told) {
        check_bounds(history, (call.from, call.to), asked, window)?;
        check_functions(window)?;
    }
    Ok(())
}

fn check_bounds(history: &History, (from, to): (Moment, Moment), asked: &AskedWindow, window: &Aggregated) -> Fits {
    let Aggregated { min, max, .. } = window;
    let fits = match asked {
        AskedWindow::Between { min: asked_min, max: asked_max } => (min, max) == (asked_min, asked_max),
        AskedWindow::Last { secs } => {
            let (low, high) = history.wall(from, to);
            let now = low.saturating_sub(CLOCK_TOLERANCE)..=high.saturating_add(CLOCK_TOLERANCE);
            max.checked_sub(*min) == Some(secs * NANOS_PER_SEC - 1) && now.contains(max)
        }
    };
    if fits { Ok(()) } else { Err(("bounds are kept", format!("{min}..={max} for {asked:?}"))) }
}

fn check_functions(window: &Aggregated) -> Fits {
    let Aggregated { count, distinct, values, first, last, sum, .. } = window;
    let sum_of_counts: u64 = values.iter().map(|(_, count)| count).sum();
    let fits = if window.has_all_values() {
        sum_of_counts == *count
    } else {
        values.len() == TOP_MAX && *distinct > TOP_MAX as u64 && sum_of_counts < *count
    };
    if !fits {
        let detail = format!("{count} items with {distinct} values, of which {} have {sum_of_counts}", values.len());
        return Err((AGREE, detail));
    }
    if !values.is_sorted_by(|(_, more), (_, fewer)| more >= fewer) || values.iter().any(|(_, count)| *count == 0) {
        return Err(("the most frequent values come first", format!("{values:?}")));
    }
    if (*count > 0) != first.is_some() || first.is_some() != last.is_some() {
        return Err((AGREE, format!("{count} items, the first {first:?}, and the last {last:?}")));
    }
    let is_known = |value: &String| values.iter().any(|(known, _)| known == value);
    if window.has_all_values() && !first.iter().chain(last).all(is_known) {
        return Err((AGREE, format!("{first:?} or {last:?} is not among {values:?}")));
    }
    if let Some(sum) = sum.filter(|_| window.has_all_values()) {
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
pub fn check(story: &Story<'_>, call: &Call, told: &[Aggregated]) -> Fits {
    let mut shown: HashMap<usize, bool> = HashMap::new();
    for window in told {
        let counted = story.counted(window);
        for (value, count) in &window.values {
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
        check_ends(story, window, &counted)?;
    }
    Ok(())
}

/// If it is clear which items were there, it is clear which of them was the first and the last.
fn check_ends(story: &Story<'_>, window: &Aggregated, counted: &[CountedValue<'_>]) -> Fits {
    if !window.has_all_values() || counted.iter().any(|counted| counted.is_clear().is_none()) {
        return Ok(());
    }
    let there =
        || counted.iter().filter(|counted| counted.count > 0).flat_map(|counted| counted.places.iter().copied());
    let value = |place: Option<usize>| place.map(|place| &story.items[place].item.value);
    let (first, last) = (value(there().min()), value(there().max()));
    if (first, last) == (window.first.as_ref(), window.last.as_ref()) {
        Ok(())
    } else {
        let detail = format!("{:?} and {:?} instead of {first:?} and {last:?}", window.first, window.last);
        Err(("the first and last value are of the oldest and newest item", detail))
    }
}
