//! The server's health. No check asks a database.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::ApiState;
use super::request::Peer;
use crate::actors::{ListPool, MetadataHandle, SlotState};
use crate::wire::{Check, Health};

/// Whether everything that a request needs became ready for the first time.
pub fn is_ready(lists: &ListPool, metadata: &MetadataHandle) -> bool {
    item_store(lists, Peer::Local).0 != Check::Fail && catalog(metadata).0 != Check::Fail
}

pub(crate) fn readiness(state: &ApiState, peer: Peer) -> Health {
    let mut health = Health { status: Check::Pass, checks: BTreeMap::new(), reasons: BTreeMap::new() };
    let mut add = |name: &'static str, (check, reason): (Check, Option<String>)| {
        health.status = health.status.max(check);
        health.checks.insert(name, check);
        health.reasons.extend(reason.map(|reason| (name, reason)));
    };
    add("item_store", item_store(&state.lists, peer));
    add("catalog", catalog(&state.metadata));
    add("metadata_store", metadata_store(&state.metadata));
    add("access", access(state));
    add("accepting", accepting(state));
    health
}

/// The store's own reasons name files, and quote the operating system's errors. Only callers with access to the data
/// directory, and the log, get them.
fn item_store(lists: &ListPool, peer: Peer) -> (Check, Option<String>) {
    let because = |reason: &str| match peer {
        Peer::Local => format!(": {reason}"),
        Peer::Network(_) | Peer::Administration(_) => "; see the server's log".to_owned(),
    };
    let states = lists.states();
    let live = states.iter().filter(|state| **state == SlotState::Live).count();
    let all = states.len();
    let failed = states.iter().find_map(|state| match state {
        SlotState::Failed { reason, .. } => Some(because(reason)),
        _ => None,
    });
    let awaited = lists.awaits_migration().map(|reason| format!(": {reason}"));
    let failed = awaited.or(failed).unwrap_or_default();
    if live == 0 {
        return (Check::Fail, Some(format!("none of {all} list actors is live{failed}")));
    }
    // Only this server would refuse a part of the lists.
    let starting = states.iter().filter(|state| state.awaits_first_session()).count();
    if starting > 0 {
        return (Check::Fail, Some(format!("{starting} of {all} list actors are still starting{failed}")));
    }
    if live < all {
        return (Check::Warn, Some(format!("{live} of {all} list actors are live{failed}")));
    }
    match lists.read_only() {
        Some(reason) => (Check::Warn, Some(format!("the item store refuses some writes{}", because(&reason)))),
        None => lists.warning().map_or((Check::Pass, None), |warning| (Check::Warn, Some(warning))),
    }
}

fn catalog(metadata: &MetadataHandle) -> (Check, Option<String>) {
    match metadata.catalog().snapshot() {
        Some(snapshot) if snapshot.is_stored() => {
            let age = metadata.age_of(snapshot.synced_at());
            (Check::Warn, Some(format!("the definitions come from a snapshot on disk that is {} s old", age.as_secs())))
        }
        Some(_) => (Check::Pass, None),
        None => (Check::Fail, Some("the definitions have not been loaded yet".to_owned())),
    }
}

/// List operations continue without it, so its absence alone takes no server out of service.
fn metadata_store(metadata: &MetadataHandle) -> (Check, Option<String>) {
    match metadata.unavailable_reason() {
        Some(reason) => (Check::Warn, Some(format!("metadata store unavailable: {reason}"))),
        None => (Check::Pass, None),
    }
}

/// Whether strangers have full access. The server reports this while its settings allow it.
fn access(state: &ApiState) -> (Check, Option<String>) {
    match state.access.is_open() {
        Some(true) if state.options.is_insecure => {
            (Check::Warn, Some("anyone on the network has full access: create an API key".to_owned()))
        }
        _ => (Check::Pass, None),
    }
}

fn accepting(state: &ApiState) -> (Check, Option<String>) {
    if state.draining.load(Ordering::Acquire) {
        (Check::Fail, Some("the server is stopping".to_owned()))
    } else {
        (Check::Pass, None)
    }
}
