//! Reads requests that erase items of several lists at once.

use super::bags::entity;
use super::call::{Call, HandlerResult};
use super::headers::bag_conditions;
use crate::service::Operation;

pub(crate) async fn erase_entity(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let (entity, conditions) = (entity(&call)?, bag_conditions(call.headers)?);
    call.execute(&caller, Operation::EraseEntity { entity, conditions }).await
}
