//! The conditions at every instant, and whether a page fits them.
//!
//! Each item has spans of time in which it is certainly in its list, and spans in which it certainly is not, for any
//! order of overlapping calls. A page of a linearizable list needs one instant during its call that contradicts none
//! of its items: it is the list at one moment, not a mixture of several. If reads may mix, each item needs one.

use super::expiry::Sight;
use super::story::{Change, Observation, Story};
use super::{Violation, counts};
use crate::history::{Call, History, Moment, NEVER, Promises};

/// An open interval, and the calls that make it certain.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub start: Moment,
    pub end: Moment,
    /// The call that began it, if not the history itself, and the call that ended it.
    began: Option<usize>,
    ended: Option<usize>,
}

impl Window {
    /// From a change that is certain until the first change that could undo it.
    fn opened<'c>(
        start: Moment,
        began: Option<&Change>,
        mut undoing: impl Iterator<Item = &'c Change>,
        not: Option<usize>,
    ) -> Option<Self> {
        let mut window = Self { start, end: NEVER, began: began.map(|change| change.call), ended: None };
        undoing.try_for_each(|change| {
            let after = began.is_none_or(|began| change.latest > began.from);
            if after && Some(change.call) != not && change.from < window.end {
                window.end = change.from;
                window.ended = Some(change.call);
            }
            (window.end > window.start).then_some(())
        })?;
        Some(window)
    }

    pub fn covers(&self, call: &Call) -> bool {
        self.start < call.from && call.to < self.end
    }

    pub fn holds_at(&self, instant: Moment) -> bool {
        self.start < instant && instant < self.end
    }

    pub fn calls(&self) -> impl Iterator<Item = usize> {
        self.began.into_iter().chain(self.ended)
    }
}

pub struct Windows {
    pub present: Vec<Window>,
    pub absent: Vec<Window>,
}

impl Windows {
    /// The windows of an item, as if the call `not` had not been made.
    pub fn of(story: &Story<'_>, place: usize, not: Option<usize>) -> Self {
        let item = &story.items[place];
        let certain = |changes: &[Change]| -> Vec<Change> {
            changes.iter().filter(|change| !change.optional && Some(change.call) != not).copied().collect()
        };
        let present = certain(&item.adds)
            .iter()
            .filter_map(|add| Window::opened(add.latest, Some(add), item.removals.iter(), not))
            .collect();
        // A list starts empty: from before the first moment on.
        let never_added = Window::opened(0, None, item.adds.iter(), not);
        let absent = certain(&item.removals)
            .iter()
            .filter_map(|removal| Window::opened(removal.latest, Some(removal), item.adds.iter(), not))
            .chain(never_added)
            .collect();
        Self { present, absent }
    }
}

pub fn check(history: &History, story: &Story<'_>) -> Vec<Violation> {
    let windows: Vec<Windows> = (0..story.items.len()).map(|place| Windows::of(story, place, None)).collect();
    let mut violations = Vec::new();
    for observation in &story.observations {
        let call = &history.calls[observation.call];
        violations.extend(check_observation(story, &windows, observation, call, history.promises));
        violations.extend(check_behind(story, &windows, observation, call));
    }
    for index in &story.calls {
        violations.extend(counts::check(story, &windows, *index, &history.calls[*index], history.promises));
    }
    violations
}

/// The windows that a page contradicts, including every item that its call overlaps.
fn contradicted<'w>(
    story: &Story<'_>,
    windows: &'w [Windows],
    observation: &Observation,
    call: &Call,
) -> Vec<(usize, &'w Window)> {
    let mut against = Vec::new();
    for place in observation.covered.iter().copied() {
        let there = observation.seen[place];
        let against_it = if there { &windows[place].absent } else { &windows[place].present };
        let overlapping: Vec<_> =
            against_it.iter().filter(|window| window.start < call.to && call.from < window.end).collect();
        // Expiry explains why something is not there, never why it is.
        if overlapping.is_empty() || (!there && story.sight(place, call) != Sight::Visible) {
            continue;
        }
        against.extend(overlapping.into_iter().map(|window| (place, window)));
    }
    against
}

fn check_observation(
    story: &Story<'_>,
    windows: &[Windows],
    observation: &Observation,
    call: &Call,
    promises: Promises,
) -> Option<Violation> {
    let against = contradicted(story, windows, observation, call);
    let reported = |place: usize| {
        let not = if observation.seen[place] { "was" } else { "was not" };
        format!("{} {not} returned", story.items[place].item)
    };
    if let Some((place, window)) = against.iter().find(|(_, window)| window.covers(call)) {
        let promise = if observation.seen[*place] {
            "what was removed, or never added, does not come back"
        } else {
            "what was acknowledged is there"
        };
        return Some(Violation::new(promise, reported(*place), window.calls().chain([observation.call])));
    }
    if promises == Promises::Quorum {
        let expired = |place: &usize| observation.seen[*place] && story.sight(*place, call) == Sight::Hidden;
        let place = observation.covered.iter().copied().find(expired)?;
        return Some(Violation::new("an expired item is never returned", reported(place), [observation.call]));
    }
    let used = no_instant_left(&against, call)?;
    let details: Vec<String> = used.iter().map(|(place, _)| reported(*place)).collect();
    let calls = used.iter().flat_map(|(_, window)| window.calls()).chain([observation.call]);
    Some(Violation::new("a page is the list at one moment", details.join("; "), calls))
}

/// Windows that together leave no instant of a call, if there are such.
fn no_instant_left<'w>(against: &[(usize, &'w Window)], call: &Call) -> Option<Vec<(usize, &'w Window)>> {
    let mut instant = call.from;
    let mut used = Vec::new();
    while instant <= call.to {
        let covering = against.iter().filter(|(_, window)| window.holds_at(instant));
        let longest = covering.max_by_key(|(_, window)| window.end)?;
        used.push(*longest);
        if longest.1.end == NEVER {
            break;
        }
        instant = longest.1.end;
    }
    Some(used)
}

/// A token proves that at least one more item existed.
fn check_behind(story: &Story<'_>, windows: &[Windows], observation: &Observation, call: &Call) -> Option<Violation> {
    let mut behind = observation.behind.clone()?;
    let can_be_there = |place: usize| {
        story.sight(place, call) != Sight::Hidden && !windows[place].absent.iter().any(|window| window.covers(call))
    };
    if behind.any(can_be_there) {
        return None;
    }
    let detail = "no item can have been there after the page's last";
    Some(Violation::new("a token is there exactly when more items are", detail, [observation.call]))
}
