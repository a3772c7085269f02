//! What came of each request of a call for many lists.

use super::super::call::{Call, HandlerResult};
use super::super::problem::Problem;
use super::super::response::Response;
use super::json::{json, json_text};
use crate::actors::AddOutcome;
use crate::service::{RenderedPage, ServiceError};
use crate::wire::{AddResult, Added, BatchAddResults, RequestFailed};

/// Pages that are rendered already, one behind the other.
pub(crate) fn pages(
    call: &Call<'_>,
    response: Response,
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
                .map_err(|error| Problem::internal(format!("cannot render the response: {error}")))?,
        }
    }
    out.extend_from_slice(b"]}");
    call.state.metrics.items_read.inc_by(items);
    Ok(json_text(response, out))
}

pub(crate) fn added(
    call: &Call<'_>,
    response: Response,
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
pub(crate) fn failed(call: &Call<'_>, index: usize, error: ServiceError) -> RequestFailed {
    let problem = Problem::from(error);
    let problem = if problem.field.is_some() { problem.within(&format!("requests[{index}]")) } else { problem };
    // A read has no outcome to be unsure of, whatever its store says.
    let outcome_unknown = problem.outcome_unknown && call.operation.effect.writes();
    let problem = problem.with_outcome_unknown(outcome_unknown);
    call.state.request_log.failed(call.request_id, call.operation.name, &problem);
    call.state.note_refusal(call.principal, call.operation.name, &problem);
    call.state.metrics.batch_failures.inc();
    RequestFailed { problem: problem.body() }
}
