//! Metrics in Prometheus' text format.

use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use liststore_contract::operations::metrics::ROW;
use liststore_contract::row::Row;
use prometheus::{TEXT_FORMAT, TextEncoder};

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::service::{Caller, Service, ServiceError};

pub struct Metrics;

impl Operation for Metrics {
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
        let state = call.state;
        state.lists.refresh_metrics();
        state.cleaner.refresh_metrics();
        state.metrics.refresh(&state.metadata, &state.budget, &state.unread);
        let text = TextEncoder::new()
            .encode_to_string(&state.registry.gather())
            .map_err(|error| Problem::internal(format!("cannot render metrics: {error}")))?;
        Ok(call.response().with(CONTENT_TYPE, HeaderValue::from_static(TEXT_FORMAT)).body(text))
    }
}
