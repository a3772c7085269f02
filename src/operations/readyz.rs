//! Readiness.

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER};
use liststore_contract::operations::readyz::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::health::readiness;
use crate::api::json::json;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::response::Response;
use crate::service::{Caller, Service, ServiceError};
use crate::wire::Check;

pub struct Readyz;

impl Operation for Readyz {
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
        let health = readiness(call.state, call.client.peer);
        if health.status == Check::Fail {
            let response = Response::new(StatusCode::SERVICE_UNAVAILABLE);
            return json(response.with(RETRY_AFTER, HeaderValue::from_static("1")), &health);
        }
        call.json(&health)
    }
}
