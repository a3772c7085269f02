//! The pool of list actors and the log, as callers see them.

use crate::actors::PoolView;
use crate::telemetry::LogState;
use crate::wire::{self, Pool, PoolPermits};

pub(crate) fn pool(view: &PoolView) -> Pool {
    let PoolView { size, permits, states, resizing_to } = view;
    Pool {
        actors: size.actors,
        permits_per_actor: size.permits_per_actor,
        permits: PoolPermits {
            bound: permits.bound,
            limit: permits.limit,
            in_use: permits.in_use,
            waiting: permits.waiting,
        },
        states: states.iter().map(|state| state.name().to_owned()).collect(),
        resizing_to: resizing_to.map(|size| size.actors),
    }
}

pub(crate) fn log(state: LogState) -> wire::LogState {
    let LogState { filter, access } = state;
    wire::LogState { filter, access: access.to_string() }
}
