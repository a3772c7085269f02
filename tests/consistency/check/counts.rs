//! Checks counts of removals, of Count List Items and of aggregates against the possible items.
//!
//! Counts of removals of a value, or of some items, on a linearizable list are judged exactly ([`super::clusters`]).
//! All other counts concern items that are judged separately: at some instant of the call there were at least the
//! certain items, and at most the possible ones. If reads may mix, and overlapping removals may count an item twice,
//! each item has a separate instant.

use super::Violation;
use super::expiry::Sight;
use super::story::Story;
use super::windows::{Window, Windows};
use crate::history::{Aggregated, Call, Moment, Outcome, Promises, Request};

pub const LIMIT_DEFAULT: u64 = 10_000;

pub fn check(
    story: &Story<'_>,
    windows: &[Windows],
    index: usize,
    call: &Call,
    promises: Promises,
) -> Option<Violation> {
    match (&call.request, &call.outcome) {
        (Request::Count { min, max, limit, .. }, Outcome::Counted { count, exact }) => {
            let limit = limit.unwrap_or(LIMIT_DEFAULT);
            let counted = story.between(*min, *max).map(|place| Counted::new(story, place, &windows[place], call));
            let counted: Vec<_> = counted.collect();
            let fits = |least: u64, most: u64| if *exact { (least..=most).contains(count) } else { most > limit };
            judged(&counted, index, call, promises, *count, fits)
        }
        (_, Outcome::Aggregated(told)) => {
            told.iter().find_map(|window| check_window(story, windows, (index, call), window, promises))
        }
        (request, Outcome::Removed(count)) if promises == Promises::Quorum || is_between(request) => {
            // The reason of a removal does not affect its count.
            let places = story.taken(request);
            let windows: Vec<_> = places.iter().map(|place| Windows::of(story, *place, Some(index))).collect();
            let counted = places.iter().zip(&windows);
            let counted: Vec<_> = counted.map(|(place, windows)| Counted::new(story, *place, windows, call)).collect();
            judged(&counted, index, call, promises, *count, |least, most| (least..=most).contains(count))
        }
        _ => None,
    }
}

/// Judges the count of all items of a window, and of each value of which it is not clear which items were there.
fn check_window(
    story: &Story<'_>,
    windows: &[Windows],
    (index, call): (usize, &Call),
    window: &Aggregated,
    promises: Promises,
) -> Option<Violation> {
    let judged = |places: &mut dyn Iterator<Item = usize>, count: u64| {
        let counted: Vec<_> = places.map(|place| Counted::new(story, place, &windows[place], call)).collect();
        judged(&counted, index, call, promises, count, |least, most| (least..=most).contains(&count))
    };
    judged(&mut story.between(Some(window.min), Some(window.max)), window.count).or_else(|| {
        let mut unclear = story.counted(window).into_iter().filter(|counted| counted.is_clear().is_none());
        unclear.find_map(|counted| judged(&mut counted.places.iter().copied(), counted.count))
    })
}

fn is_between(request: &Request) -> bool {
    matches!(request, Request::RemoveBetween { .. })
}

/// An item that a call counts if it exists.
struct Counted<'w> {
    sight: Sight,
    windows: &'w Windows,
}

impl<'w> Counted<'w> {
    fn new(story: &Story<'_>, place: usize, windows: &'w Windows, call: &Call) -> Self {
        Self { sight: story.sight(place, call), windows }
    }
}

fn judged(
    counted: &[Counted<'_>],
    index: usize,
    call: &Call,
    promises: Promises,
    count: u64,
    fits: impl Fn(u64, u64) -> bool,
) -> Option<Violation> {
    let (least, most) = bounds(counted, |window| window.covers(call));
    let fit = match promises {
        Promises::Quorum => fits(least, most),
        Promises::Linearizable => instants(counted, call).into_iter().any(|instant| {
            let (least, most) = bounds(counted, |window| window.holds_at(instant));
            fits(least, most)
        }),
    };
    let here = || counted.iter().flat_map(|item| item.windows.present.iter().find(|window| window.covers(call)));
    (!fit).then(|| {
        let detail = format!("{count} counted, {least} to {most} can have been there");
        Violation::new("exact counts", detail, here().flat_map(Window::calls).chain([index]))
    })
}

/// How many there are at least and at most, where these windows hold.
fn bounds(counted: &[Counted<'_>], holds: impl Fn(&Window) -> bool) -> (u64, u64) {
    counted.iter().fold((0, 0), |(least, most), Counted { sight, windows }| {
        let is_there = *sight == Sight::Visible && windows.present.iter().any(&holds);
        let can_be = *sight != Sight::Hidden && !windows.absent.iter().any(&holds);
        (least + u64::from(is_there), most + u64::from(can_be))
    })
}

/// The instants of a call with the fewest certainties: windows are open, so the instants at which one begins or ends.
fn instants(counted: &[Counted<'_>], call: &Call) -> Vec<Moment> {
    let windows = counted.iter().flat_map(|item| item.windows.present.iter().chain(&item.windows.absent));
    let borders = windows.flat_map(|window| [window.start, window.end]);
    let mut instants: Vec<Moment> = borders.filter(|border| (call.from..=call.to).contains(border)).collect();
    instants.extend([call.from, call.to]);
    instants.sort_unstable();
    instants.dedup();
    instants
}
