//! Reads requests about many lists, and renders what came of each.

use actix_web::HttpResponseBuilder;

use super::call::{Call, HandlerResult};
use super::metrics::label;
use super::problem::Problem;
use super::reply::{json, json_text};
use crate::actors::AddOutcome;
use crate::domain::Order;
use crate::service::{AddItems, GetItems, ListName, Operation, RenderedPage, ServiceError, queries};
use crate::wire::{
    AddRequest, AddResult, Added, BatchAddInput, BatchAddResults, BatchGetInput, GetRequest, RequestFailed,
};

pub(super) async fn batch_get(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    let body = call.body().await?;
    let BatchGetInput { requests } = BatchGetInput::read(&body)?;
    let requests = requests.iter().map(|request| {
        let GetRequest { entity_type, feature, version, entity_id, limit, min_timestamp, max_timestamp, page_token } =
            request;
        let (limit, min_timestamp, max_timestamp) = (*limit, *min_timestamp, *max_timestamp);
        let list = ListName { entity_type, feature, version, entity_id: entity_id.clone() };
        let (as_of, order, page_token) = (None, Order::Newest, page_token.as_deref());
        GetItems { list, min_timestamp, max_timestamp, as_of, order, limit, page_token }
    });
    call.execute(&caller, Operation::BatchGet(requests.collect())).await
}

pub(super) async fn batch_add(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    let body = call.body().await?;
    let BatchAddInput { mut requests } = BatchAddInput::read(&body)?;
    let requests = requests.iter_mut().map(|request| {
        let AddRequest { entity_type, feature, version, entity_id, items } = request;
        let list = ListName { entity_type, feature, version, entity_id: entity_id.clone() };
        AddItems { list, items: std::mem::take(items) }
    });
    call.execute(&caller, Operation::BatchAdd(requests.collect())).await
}

/// Pages that are rendered already, one behind the other.
pub(super) fn pages(
    call: &Call<'_>,
    response: HttpResponseBuilder,
    pages: Vec<Result<RenderedPage, ServiceError>>,
) -> HandlerResult {
    /// Of what stands between pages, and of a problem, about.
    const AROUND_PAGE: usize = 1;
    const PROBLEM_BYTES: usize = 256;
    let bytes = pages.iter().map(|page| page.as_ref().map_or(PROBLEM_BYTES, |page| AROUND_PAGE + page.text.len()));
    let mut out = Vec::with_capacity(bytes.sum::<usize>() + 16);
    let (mut items, mut before) = (0, &b"{\"results\":["[..]);
    for (index, page) in pages.into_iter().enumerate() {
        out.extend_from_slice(before);
        before = b",";
        match page {
            Ok(page) => {
                items += page.items as u64;
                out.extend_from_slice(&page.text);
            }
            Err(error) => serde_json::to_writer(&mut out, &failed(call, index, error))
                .map_err(|error| Problem::internal(format!("cannot render an answer: {error}")))?,
        }
    }
    out.extend_from_slice(b"]}");
    call.state.metrics.items_read.inc_by(items);
    Ok(json_text(response, out))
}

pub(super) fn added(
    call: &Call<'_>,
    response: HttpResponseBuilder,
    outcomes: Vec<Result<AddOutcome, ServiceError>>,
) -> HandlerResult {
    let metrics = &call.state.metrics;
    let result = |(index, outcome): (usize, Result<AddOutcome, ServiceError>)| match outcome {
        Ok(AddOutcome { added, already_expired, mistaken_unit }) => {
            metrics.items_added.inc_by(added as u64);
            metrics.items_already_expired.inc_by(already_expired as u64);
            AddResult::Added(Added::new(added, already_expired, mistaken_unit))
        }
        Err(error) => AddResult::Failed(failed(call, index, error)),
    };
    let results = outcomes.into_iter().enumerate().map(result).collect();
    json(response, &BatchAddResults { results })
}

/// Why one request did not succeed. It is logged as one that came alone would be.
pub(super) fn failed(call: &Call<'_>, index: usize, error: ServiceError) -> RequestFailed {
    let problem = Problem::from(error);
    let problem = if problem.field.is_some() { problem.within(&format!("requests[{index}]")) } else { problem };
    // A read has no outcome to be unsure of, whatever its store says.
    let outcome_unknown = problem.outcome_unknown && call.operation.effect.writes();
    let problem = problem.with_outcome_unknown(outcome_unknown);
    call.state.request_log.failed(call.request_id, label(Some(call.operation.id)), &problem);
    call.state.metrics.batch_failures.inc();
    RequestFailed { problem: problem.body() }
}
