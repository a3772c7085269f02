//! Reads requests about the server's log.

use super::call::{Call, HandlerResult};
use crate::service::{Operation, queries};
use crate::wire::LogInput;

pub(super) async fn get_log(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetLog).await
}

pub(super) async fn change_log(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    let LogInput { filter, access } = LogInput::read(&call.body().await?)?;
    call.execute(&caller, Operation::ChangeLog { filter, access }).await
}
