//! Checks counts of removals, of Count List Items and of aggregates against the possible items.
//!
//! Counts of removals of a value, or of some items, on a linearizable list are judged exactly ([`super::clusters`]).
//! All other counts concern items that are judged separately: at some instant of the call there were at least the
//! certain items, and at most the possible ones. If reads may mix, and overlapping removals may count an item twice,
//! each item has a separate instant.

use super::Violation;
use super::aggregates::COMPLETE;
use super::expiry::Sight;
use super::story::Story;
use super::windows::{Window, Windows};
use crate::history::{Aggregated, Aggregates, Call, Moment, Outcome, Promises, Reason, Request};

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
        (_, Outcome::Aggregated(reported)) => {
            let counts = Counts { story, windows, index, call, promises };
            let of_windows = reported.windows.iter().find_map(|window| counts.check_window(reported, window));
            of_windows.or_else(|| counts.check_read(reported))
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

/// Judges the counts of one aggregation.
struct Counts<'c> {
    story: &'c Story<'c>,
    windows: &'c [Windows],
    index: usize,
    call: &'c Call,
    promises: Promises,
}

impl Counts<'_> {
    /// Judges whether the items at these places can have been so many. `fits` has the least and the greatest number.
    fn judged(
        &self,
        places: impl IntoIterator<Item = usize>,
        count: u64,
        fits: impl Fn(u64, u64) -> bool,
    ) -> Option<Violation> {
        let Self { story, windows, index, call, promises } = self;
        let counted: Vec<_> =
            places.into_iter().map(|place| Counted::new(story, place, &windows[place], call)).collect();
        judged(&counted, *index, call, *promises, count, fits)
    }

    /// Judges the count of all items of a window, the count of skipped items, and the count of each value whose items
    /// are not clear. Of a window that may lack items, nothing has to be there.
    fn check_window(&self, reported: &Aggregates, window: &Aggregated) -> Option<Violation> {
        let is_cut = window.is_cut(reported.items_read, self.story.items_max());
        let fits = |count: u64| move |least: u64, most: u64| (is_cut || least <= count) && count <= most;
        let between = || self.story.between(Some(window.min), Some(window.max));
        let (counts, skips): (Vec<usize>, Vec<usize>) =
            between().partition(|place| window.counts(&self.story.items[*place].item.value));
        let of_values = || {
            let counted = self.story.counted(window, reported.items_read).into_iter();
            let mut unclear = counted.filter(|counted| counted.is_clear().is_none());
            unclear.find_map(|counted| self.judged(counted.places, counted.count, fits(counted.count)))
        };
        let (count, skipped) = (window.results.count, window.skipped);
        self.judged(counts, count, fits(count))
            .or_else(|| self.judged(skips, skipped, fits(skipped)))
            .or_else(of_values)
            .or_else(|| self.check_end(reported, window))
    }

    /// Judges where the answer ended. All items of a complete window were read, and more than were read are in a window
    /// that lacks some for their number. Newer ones than a window were read before it. The items of the only window are
    /// all that were read.
    fn check_end(&self, reported: &Aggregates, window: &Aggregated) -> Option<Violation> {
        let ceiling = reported.windows.iter().map(|window| window.max).max();
        let from_window_on = self.story.between(Some(window.min), ceiling);
        let read = reported.items_read;
        let violation = match window.reason {
            None if reported.windows.len() > 1 => self.judged(from_window_on, read, |least, _| least <= read),
            Some(Reason::ItemsMax) => self.judged(from_window_on, read, |_, most| most > read),
            None | Some(Reason::Ttl | Reason::MaxItems) => None,
        };
        violation.map(|violation| Violation { promise: COMPLETE, ..violation })
    }

    /// Judges how many items were read: all from the first beginning of a window to the last end of one, if there was
    /// no bound.
    fn check_read(&self, reported: &Aggregates) -> Option<Violation> {
        if reported.windows.len() == 1 {
            return None;
        }
        let floor = reported.windows.iter().map(|window| window.min).min();
        let ceiling = reported.windows.iter().map(|window| window.max).max();
        let read = reported.items_read;
        let is_bound = read >= self.story.items_max();
        let fits = |least: u64, most: u64| (is_bound || least <= read) && read <= most;
        self.judged(self.story.between(floor, ceiling), read, fits)
    }
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
        let is_present = *sight == Sight::Visible && windows.present.iter().any(&holds);
        let can_be = *sight != Sight::Hidden && !windows.absent.iter().any(&holds);
        (least + u64::from(is_present), most + u64::from(can_be))
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
