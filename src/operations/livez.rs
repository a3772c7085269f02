//! Liveness.

use std::collections::BTreeMap;
use std::time::Instant;

use actix_web::http::StatusCode;
use liststore_contract::operations::livez::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::json::json;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::response::Response;
use crate::service::{Caller, Service, ServiceError};
use crate::wire::{Check, Health};

/// The check of the threads that serve requests and carry out list operations.
const THREADS: &str = "threads";

pub struct Livez;

impl Operation for Livez {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Self;

    fn read(_call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self)
    }

    async fn run(_service: &Service, _caller: &Caller, request: Self) -> Result<Self, ServiceError> {
        Ok(request)
    }

    fn reply(call: &Call<'_>, _reply: Self) -> HandlerResult {
        let Some((threads, silent)) = call.state.lists.pulse().hanging(Instant::now()) else {
            return call.json(&Health { status: Check::Pass, checks: BTreeMap::new(), reasons: BTreeMap::new() });
        };
        let reason = format!("{threads} threads hang, one for {} s", silent.as_secs());
        tracing::error!(threads, silent_secs = silent.as_secs(), "threads of the data plane hang");
        let (checks, reasons) = (BTreeMap::from([(THREADS, Check::Fail)]), BTreeMap::from([(THREADS, reason)]));
        json(Response::new(StatusCode::SERVICE_UNAVAILABLE), &Health { status: Check::Fail, checks, reasons })
    }
}
