//! The pool of list actors, as it is told to callers.

use crate::actors::PoolView;
use crate::wire::{Pool, PoolPermits};

pub(crate) fn body(view: &PoolView) -> Pool {
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
