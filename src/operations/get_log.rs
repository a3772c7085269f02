//! Show the log's configuration.

use liststore_contract::operations::get_log::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::service::{Caller, Service, ServiceError};
use crate::telemetry::LogState;

pub struct GetLog;

impl Operation for GetLog {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = LogState;

    fn read(_call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self)
    }

    async fn run(service: &Service, _caller: &Caller, _request: Self) -> Result<LogState, ServiceError> {
        Ok(service.log.state())
    }

    fn reply(call: &Call<'_>, state: LogState) -> HandlerResult {
        call.json(&reply::log(state))
    }
}
