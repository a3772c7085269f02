//! Whether items that were shown to a client stay visible for it: of two gets of one list, one after the other on one
//! connection, the second must not lack an item of the first. The order of all calls implies it ([`super::clusters`]);
//! this check reports it plainly, in two calls.

use std::collections::HashMap;

use super::Violation;
use super::expiry::Sight;
use super::story::{Observation, Story};
use crate::history::History;

pub fn check(history: &History, story: &Story<'_>) -> Option<Violation> {
    let mut last_of_client: HashMap<usize, &Observation> = HashMap::new();
    // In the order in which they began, and a client makes one call at a time.
    story.observations.iter().find_map(|observation| {
        let call = &history.calls[observation.call];
        // A search proves nothing about items that it did not request, and parts of one call have no order.
        let before = last_of_client.insert(call.client, observation)?;
        if history.calls[before.call].to > call.from {
            return None;
        }
        let place = lost_between(history, story, before, observation)?;
        let detail = format!("{} was there and then was not", story.items[place].item);
        Some(Violation::new("monotonic reads", detail, [before.call, observation.call]))
    })
}

/// An item that the first page has and the second one lacks, although nothing can have removed it.
fn lost_between(history: &History, story: &Story<'_>, first: &Observation, second: &Observation) -> Option<usize> {
    let (began, ended) = (history.calls[first.call].from, history.calls[second.call].to);
    let removed = |place: usize| {
        let removals = &story.items[place].removals;
        removals.iter().any(|removal| removal.from <= ended && removal.latest >= began)
    };
    second.covered.iter().copied().find(|place| {
        first.seen[*place]
            && !second.seen[*place]
            && story.sight(*place, &history.calls[second.call]) == Sight::Visible
            && !removed(*place)
    })
}
