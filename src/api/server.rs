//! Serves one request: finds its operation, lets the handler answer, and keeps the books.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use actix_web::HttpResponse;
use actix_web::http::Method;
use actix_web::http::header::{ALLOW, HeaderMap, HeaderValue};

use super::body::RequestBody;
use super::call::{Answer, Call};
use super::headers::REQUEST_ID;
use super::problem::Problem;
use super::routes::{Found, Operation, find};
use super::{ApiState, backups, features, health, lists, openapi, versions};

/// A request, whichever way it came in.
pub(super) struct Request<'r> {
    pub method: &'r Method,
    /// As it was sent, still encoded.
    pub path: &'r str,
    pub query: Option<&'r str>,
    pub headers: &'r HeaderMap,
    /// Who is at the other end of the connection.
    pub peer: Option<SocketAddr>,
    pub body: RequestBody,
}

pub(super) async fn serve(state: &ApiState, request: Request<'_>) -> HttpResponse {
    let started = Instant::now();
    let Request { method, path, query, headers, peer, mut body } = request;
    let request_id = state.request_ids.of(headers);
    let (operation, answer) = match find(method, path) {
        Ok(Found::Operation(operation, segments)) => {
            let call = Call { state, segments, query, headers, peer, body: &mut body };
            (operation, answer(operation, call).await)
        }
        Ok(Found::Options(allow)) => {
            (Operation::None, Ok(HttpResponse::NoContent().insert_header((ALLOW, allow)).finish()))
        }
        Err(problem) => (Operation::None, Err(problem)),
    };
    let (mut response, code) = match answer {
        Ok(response) => (response, None),
        Err(problem) => {
            // A read has no outcome to be unsure of, whatever its store says.
            let outcome_unknown = problem.outcome_unknown && operation.writes();
            let problem = problem.with_outcome_unknown(outcome_unknown);
            state.request_log.failed(&request_id, operation, &problem);
            (problem.to_response(), Some(problem.code))
        }
    };
    let took = started.elapsed();
    state.metrics.answered(operation, response.status(), code, took);
    state.request_log.answered(&request_id, method, path, operation, response.status(), took);
    finish(state, &mut response, request_id);
    body.answered_by(response)
}

async fn answer(operation: Operation, call: Call<'_>) -> Answer {
    match operation {
        Operation::GetItems => lists::get_items(call).await,
        Operation::AddItems => lists::add_items(call).await,
        Operation::RemoveAllItems => lists::remove_all_items(call).await,
        Operation::RemoveItemsWithValue => lists::remove_items_with_value(call).await,
        Operation::ListFeatures => features::list_features(call).await,
        Operation::CreateFeature => features::create_feature(call).await,
        Operation::GetFeature => features::get_feature(call).await,
        Operation::UpdateFeature => features::update_feature(call).await,
        Operation::DeleteFeature => features::delete_feature(call).await,
        Operation::GetHistory => features::get_history(call).await,
        Operation::CreateVersion => versions::create_version(call).await,
        Operation::GetVersion => versions::get_version(call).await,
        Operation::UpdateVersion => versions::update_version(call).await,
        Operation::DeleteVersion => versions::delete_version(call).await,
        Operation::CreateBackup => backups::create_backup(call).await,
        Operation::Livez => health::livez(call),
        Operation::Readyz => health::readyz(call),
        Operation::Metrics => health::metrics(call),
        Operation::OpenApi => openapi::openapi(call),
        Operation::None => Err(Problem::internal("no handler for a request")),
    }
}

fn finish(state: &ApiState, response: &mut HttpResponse, request_id: HeaderValue) {
    response.headers_mut().insert(REQUEST_ID, request_id);
    if state.draining.load(Ordering::Relaxed) {
        // Callers move on to another server before this one's sockets close.
        response.head_mut().set_connection_type(actix_web::http::ConnectionType::Close);
    }
}
