//! The outcome of one request of a batch.

use super::super::call::Call;
use super::super::problem::Problem;
use super::super::problem::translate::of_read;
use crate::actors::AddOutcome;
use crate::service::ServiceError;
use crate::wire::{Added, RequestFailed};

/// Counts the items of an add, and returns its outcome.
pub(crate) fn added(call: &Call<'_>, outcome: &AddOutcome) -> Added {
    let AddOutcome { added, already_expired, mistaken_unit } = *outcome;
    call.state.metrics.items_added.inc_by(added as u64);
    call.state.metrics.items_already_expired.inc_by(already_expired as u64);
    Added::new(added, already_expired, mistaken_unit)
}

/// The failure of one request of a batch. It is logged as the failure of a single request.
pub(crate) fn failed(call: &Call<'_>, index: usize, error: ServiceError) -> RequestFailed {
    let problem = Problem::from(error);
    let problem = if problem.field.is_some() { problem.within(&format!("requests[{index}]")) } else { problem };
    noted(call, problem)
}

/// The failure of a part of the call that all of its requests share.
pub(super) fn failed_for_all(call: &Call<'_>, error: ServiceError) -> RequestFailed {
    noted(call, Problem::from(error))
}

fn noted(call: &Call<'_>, problem: Problem) -> RequestFailed {
    let problem = if call.operation.effect.writes() { problem } else { of_read(problem) };
    call.state.request_log.failed(call.request_id, call.operation.name, &problem);
    call.state.note_refusal(call.principal, call.operation.name, &problem);
    call.state.metrics.batch_failures.inc();
    RequestFailed { problem: problem.body() }
}
