//! Reads requests about the pool of list actors.

use super::call::{Call, HandlerResult};
use crate::actors::{PoolView, Resize};
use crate::service::{Operation, queries};
use crate::wire::{Pool, PoolInput, PoolPermits};

pub(super) async fn get_pool(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetPool).await
}

pub(super) async fn resize_pool(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    let PoolInput { actors, permits_per_actor } = PoolInput::read(&call.body().await?)?;
    call.execute(&caller, Operation::ResizePool(Resize { actors, permits_per_actor })).await
}

pub(super) fn body(view: &PoolView) -> Pool {
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
