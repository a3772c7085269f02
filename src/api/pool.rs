//! Reads requests about the pool of list actors.

use super::call::{Call, HandlerResult};
use crate::actors::Resize;
use crate::service::Operation;
use crate::wire::PoolInput;

pub(crate) async fn get_pool(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetPool).await
}

pub(crate) async fn resize_pool(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let PoolInput { actors, permits_per_actor } = PoolInput::read(&call.body().await?)?;
    call.execute(&caller, Operation::ResizePool(Resize { actors, permits_per_actor })).await
}
