//! Serves one request. The head determines the operation, the caller and the permission. The handler answers once the
//! body has arrived. Every request is counted and logged once, under the ID of its answer.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use actix_web::http::header::{ALLOW, HeaderMap, HeaderValue};
use actix_web::http::{Method, StatusCode};
use bytes::Bytes;
use liststore_contract::operations::openapi;
use liststore_contract::row::{Group, Row};

use super::routes::{Route, find};
use crate::access::{Holder, Principal, SMALL_BYTES, Share};
use crate::api::body::{Lack, RequestBody};
use crate::api::call::{Call, HandlerResult, Segments};
use crate::api::headers::{self, REQUEST_ID};
use crate::api::http1::{Decision, Refusal};
use crate::api::metrics::label;
use crate::api::problem::translate::of_read;
use crate::api::problem::{ErrorCode, Problem, ToResponse};
use crate::api::request::{Peer, Request, RequestHead};
use crate::api::request_log::Accessed;
use crate::api::response::Response;
use crate::api::{ApiState, OperationId, admission, compression, console};
use crate::operations::answer;

/// The delay of an answer to a caller that exceeds its limits permanently. It restricts each such connection to ten
/// requests a second. The delay is random, so that connections do not retry at the same moment and use up the new
/// allowance at once.
const REFUSAL_PAUSE_MILLIS: Range<u64> = 100..200;

/// A permitted request that waits for its body.
pub(crate) struct Admitted<'r> {
    started: Instant,
    request_id: HeaderValue,
    operation: OperationId,
    segments: Segments<'r>,
    /// Whether the request has waited for its body since its admission.
    has_waited: bool,
}

impl Admitted<'_> {
    /// The same request with owned segments.
    pub fn into_owned(self) -> Admitted<'static> {
        let segments = self.segments.map(|segment| Cow::Owned(segment.into_owned()));
        Admitted { segments, ..self }
    }
}

/// Decides on a request by its head. A refusal answers before the body arrives. `lack` is the server's own reason to
/// refuse.
pub(crate) async fn admit<'r>(state: &ApiState, head: RequestHead<'r>, lack: Option<Lack>) -> Decision<Admitted<'r>> {
    let started = Instant::now();
    let request_id = state.request_ids.of(head.headers);
    let RequestHead { method, path, headers: sent, client, .. } = head;
    let (operation, caller, handled) = match find(method, path) {
        Ok(Route::Operation(operation, segments)) => {
            let row = operation.row();
            let (caller, admitted) = admission::of_head(state, row, &segments, &head, lack).await;
            match admitted {
                Ok(()) => {
                    // Only an open server admits an unknown caller to other operations.
                    let is_stranger = admission::is_public(state, row) && is_stranger(state, &caller);
                    let has_waited = !head.has_body;
                    let admitted = Admitted { started, request_id, operation, segments, has_waited };
                    return Decision { caller, is_stranger, outcome: Ok(admitted) };
                }
                Err(problem) => {
                    if lack == Some(Lack::Time) {
                        state.metrics.shed();
                    }
                    (Some(operation), caller, Err(problem))
                }
            }
        }
        Ok(Route::Options(allow)) => {
            (None, Principal::Anonymous, Response::new(StatusCode::NO_CONTENT).with_text(ALLOW, allow))
        }
        // A path outside the table may be a page of the console, on the same address as the API.
        Err(problem) => {
            let is_administration = matches!(client.peer, Peer::Administration(_));
            let page =
                if is_administration { None } else { console::answer(method, path, sent, &state.content_policy) };
            (None, Principal::Anonymous, page.unwrap_or(Err(problem)))
        }
    };
    let is_stranger = is_stranger(state, &caller);
    let asked = Asked { head, started, request_id, operation, caller: &caller };
    // Boxed, so that it takes no space in the allocation of every request.
    let response = Box::pin(complete(state, asked, handled)).await;
    Decision { caller, is_stranger, outcome: Err(response) }
}

/// Carries out an admitted request. Its body is complete, or failed.
pub(crate) async fn carry_out(
    state: &ApiState,
    request: Request<'_>,
    admitted: Admitted<'_>,
    caller: Principal,
) -> Response {
    let Request { head, mut body } = request;
    let Admitted { started, request_id, operation, segments, has_waited } = admitted;
    // The time until the body has arrived does not count, because it depends on the client.
    let started = if has_waited { Instant::now() } else { started };
    let missing = body.missing(state.options.body_bytes_max, state.options.body_timeout);
    if let RequestBody::NotTaken(Lack::Time) = body {
        state.metrics.shed();
    }
    let again = match missing {
        Some(problem) => Err(problem),
        None if has_waited => admission::again(state, operation.row(), &segments, &head),
        None => Ok(None),
    };
    let mut principal = caller;
    let handled = match again {
        Err(problem) => Err(problem),
        Ok(identified) => {
            principal = identified.unwrap_or(principal);
            let RequestHead { query, headers, client, .. } = head;
            let (row, request_id, principal) = (operation.row(), &request_id, &principal);
            match taken(row, &mut body).await {
                Ok(body) => {
                    let call =
                        Call { state, operation: row, segments, query, headers, client, principal, body, request_id };
                    answer(operation, call).await
                }
                Err(problem) => Err(problem),
            }
        }
    };
    let asked = Asked { head, started, request_id, operation: Some(operation), caller: &principal };
    complete(state, asked, handled).await
}

/// The body for an operation. A write that takes none refuses one: its caller may believe that it removes only what the
/// body names. `{}` is accepted, since some clients send it with every request.
async fn taken(row: &Row, body: &mut RequestBody) -> Result<Bytes, Problem> {
    if row.request.is_some() {
        return body.take().await;
    }
    let is_empty =
        |body: Bytes| matches!(&body.split(u8::is_ascii_whitespace).collect::<Vec<_>>().concat()[..], b"" | b"{}");
    if row.effect.writes() && !is_empty(body.take().await?) {
        let detail =
            "this operation takes no body and applies to all that its path names: send the request without one";
        return Err(Problem::argument("body", detail));
    }
    Ok(Bytes::new())
}

/// An answered request.
struct Asked<'r> {
    head: RequestHead<'r>,
    started: Instant,
    request_id: HeaderValue,
    operation: Option<OperationId>,
    /// The caller, if identified.
    caller: &'r Principal,
}

/// Turns the outcome of a request into its answer, and counts and logs the request.
async fn complete(state: &ApiState, asked: Asked<'_>, handled: HandlerResult) -> Response {
    let Asked { head, started, request_id, operation, caller: principal } = asked;
    let handled = match handled {
        Ok(response) if response.body.size().is_some_and(|bytes| bytes > SMALL_BYTES as u64) => {
            with_room(state, &head, operation, principal, response)
        }
        handled => handled,
    };
    let (mut response, code) = match handled {
        Ok(response) => (response, None),
        Err(problem) => {
            let writes = operation.is_some_and(|id| id.row().effect.writes());
            let problem = if writes { problem } else { of_read(problem) };
            state.metrics.refused(problem.noted());
            state.note_refusal(principal, label(operation), problem.noted());
            state.request_log.failed(&request_id, label(operation), problem.noted());
            (problem.to_response(), Some(problem.code))
        }
    };
    if compression::applies_to(&response, state.options.compression_bytes_min) {
        // Boxed, so that it takes no space in the allocation of every request.
        response = Box::pin(compression::compress(&state.encoders, head.headers, head.method, response)).await;
    }
    if let Some(limiter) = principal.limiter() {
        headers::report_limits(&mut response, limiter);
    }
    let took = started.elapsed();
    state.metrics.answered(operation, response.status, code, took);
    state.request_log.answered(&request_id, head.method, operation, response.status, took);
    state.request_log.accessed(&response, |response| Accessed {
        request_id: &request_id,
        method: Some(head.method),
        operation: operation.map(OperationId::row),
        principal,
        response,
        took,
    });
    finish(state, &mut response, request_id);
    if code == Some(ErrorCode::RateLimited) && principal.limiter().is_some_and(|limiter| limiter.refuses_too_often()) {
        // Boxed, so that it takes no space in the allocation of every request.
        Box::pin(tokio::time::sleep(Duration::from_millis(fastrand::u64(REFUSAL_PAUSE_MILLIS)))).await;
    }
    response
}

/// Reserves memory for a long answer that has none yet. Answers to changes, health checks and metrics are never refused
/// here.
fn with_room(
    state: &ApiState,
    head: &RequestHead<'_>,
    operation: Option<OperationId>,
    principal: &Principal,
    response: Response,
) -> HandlerResult {
    let is_exempt = operation
        .map(OperationId::row)
        .is_some_and(|row| row.effect.writes() || row.group == Group::Health && !row.is(&openapi::ROW));
    if response.reserved.is_some() || is_exempt || *head.method == Method::HEAD {
        return Ok(response);
    }
    let holder = Holder::of(principal, is_stranger(state, principal));
    let mut share = Share::new(Arc::clone(&state.budget), holder);
    match share.hold(response.body.size().unwrap_or_default() as usize) {
        Ok(()) => Ok(response.reserving(Some(share))),
        Err(_exhausted) => Err(Lack::RoomForAnswer.problem()),
    }
}

/// Whether a caller is unknown and needs a key.
fn is_stranger(state: &ApiState, caller: &Principal) -> bool {
    matches!(caller, Principal::Anonymous) && state.access.is_open() != Some(true)
}

/// Answers a malformed request.
pub(crate) fn refuse(state: &ApiState, refusal: Refusal, took: Duration) -> Response {
    let problem = match refusal {
        Refusal::Malformed(what) => Problem::new(ErrorCode::MalformedRequest, what),
        Refusal::Version => Problem::new(ErrorCode::HttpVersionUnsupported, "only HTTP/1.1 is supported"),
        Refusal::TransferCoding => {
            let detail = "unsupported transfer coding: send the body chunked or with Content-Length";
            Problem::new(ErrorCode::TransferCodingUnsupported, detail)
        }
        Refusal::HeadTooLarge => {
            Problem::new(ErrorCode::HeadTooLarge, "the request head must have at most 32 KiB and 128 headers")
        }
        Refusal::HeadTimeout => {
            Problem::new(ErrorCode::RequestTimeout, "the request head did not arrive within 5 s of its first byte")
        }
        Refusal::Overloaded => {
            Problem::new(ErrorCode::Overloaded, "no connection or memory for this request now; nothing was done")
        }
    };
    let mut response = problem.to_response();
    let request_id = state.request_ids.of(&HeaderMap::new());
    state.metrics.answered(None, problem.status(), Some(problem.code), took);
    state.request_log.refused(&request_id, &problem, took);
    state.request_log.accessed(&response, |response| Accessed {
        request_id: &request_id,
        method: None,
        operation: None,
        principal: &Principal::Anonymous,
        response,
        took,
    });
    finish(state, &mut response, request_id);
    response
}

fn finish(state: &ApiState, response: &mut Response, request_id: HeaderValue) {
    response.add(REQUEST_ID, request_id);
    if state.draining.load(Ordering::Relaxed) {
        // Callers move to another server before this server's sockets close.
        response.closes = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A future is as large as its largest state, and moves into place for every request. One large handler, awaited
    /// without a box, would slow all requests down.
    #[test]
    fn the_future_of_every_request_is_small() {
        fn bytes<'a, F: Future>(_: fn(&'a ApiState, Request<'a>, Admitted<'a>, Principal) -> F) -> usize {
            size_of::<F>()
        }
        fn bytes_of_head<'a, F: Future>(_: fn(&'a ApiState, RequestHead<'a>, Option<Lack>) -> F) -> usize {
            size_of::<F>()
        }
        let (bytes_of_head, bytes) = (bytes_of_head(admit), bytes(carry_out));
        assert!(bytes_of_head <= 2 << 10 && bytes <= 6 << 10, "{bytes_of_head} and {bytes} bytes");
    }
}
