//! Reads requests about the server's log.

use super::call::{Call, HandlerResult};
use crate::service::Operation;
use crate::wire::LogInput;

pub(crate) async fn get_log(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetLog).await
}

pub(crate) async fn change_log(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let LogInput { filter, access } = LogInput::read(&call.body().await?)?;
    call.execute(&caller, Operation::ChangeLog { filter, access }).await
}
