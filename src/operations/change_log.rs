//! Change the log's configuration.

use std::time::Duration;

use liststore_contract::operations::change_log::{LogInput, ROW};
use liststore_contract::row::Row;
use serde_json::{Value as Json, json};
use tokio::time::{Instant, timeout_at};

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::Invalid;
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::service::{Caller, Service, ServiceError};
use crate::telemetry::{LogState, check_filter};

/// The longest wait for a change of the log.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

pub struct ChangeLog;

impl Operation for ChangeLog {
    const ROW: &'static Row = &ROW;
    type Request<'r> = LogInput;
    type Reply = LogState;

    fn read(call: &Call<'_>) -> Result<LogInput, Problem> {
        LogInput::read(&call.body)
    }

    async fn run(service: &Service, caller: &Caller, request: LogInput) -> Result<LogState, ServiceError> {
        let LogInput { filter, access } = request;
        let invalid = |text: String| ServiceError::Invalid { field: "filter", invalid: Invalid::argument(text) };
        if let Some(filter) = &filter {
            check_filter(filter).map_err(|error| invalid(error.to_string()))?;
        }
        let deadline = Instant::now() + caller.patience(LOG_TIMEOUT);
        // One change at a time, so that the last entry shows the log as it is.
        let late = |_| ServiceError::DeadlineExceeded { outcome_unknown: false };
        let turn = timeout_at(deadline, service.log_turn.clone().lock_owned()).await.map_err(late)?;
        let before = service.log.state();
        let after = LogState {
            filter: filter.clone().unwrap_or_else(|| before.filter.clone()),
            access: access.unwrap_or(before.access),
        };
        let change = ServerChange {
            action: ServerAction::of(&ROW),
            target: "log".to_owned(),
            before: shown(service, &before),
            after: shown(service, &after),
        };
        let (log, who) = (service.log.clone(), caller.principal.clone());
        let making = async move {
            let _turn = turn;
            let write = |state: &LogState| {
                tracing::info!(by = %who, filter = state.filter, access = %state.access, "log settings changed");
            };
            // Before and after: one of the filters may keep it out of the log.
            write(&before);
            let state = log.change(filter, access).map_err(|error| invalid(error.to_string()))?;
            write(&state);
            Ok(state)
        };
        service.noted(change, caller.author(), deadline, making).await
    }

    fn reply(call: &Call<'_>, state: LogState) -> HandlerResult {
        call.json(&reply::log(state))
    }
}

fn shown(service: &Service, LogState { filter, access }: &LogState) -> Option<Json> {
    Some(json!({"server": service.options.server_name, "filter": filter, "access": access.to_string()}))
}
