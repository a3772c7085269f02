//! Answers requests that another reader of HTTP has received. No server uses it: `benches/readers.rs` compares other
//! readers with `http1`, in front of the same operations.

use std::net::SocketAddr;

use actix_web::http::Method;
use actix_web::http::header::HeaderMap;
use bytes::Bytes;

use super::server;
use crate::api::ApiState;
use crate::api::body::RequestBody;
use crate::api::request::{Client, Framing, Peer, Request, RequestHead};
use crate::api::response::Response;

/// A request that has arrived completely.
pub struct Whole<'r> {
    pub peer: Option<SocketAddr>,
    pub method: &'r Method,
    /// As sent, still encoded.
    pub path: &'r str,
    pub query: Option<&'r str>,
    pub headers: &'r HeaderMap,
    pub body: Bytes,
}

/// Admits and answers a request by the same functions as `http1`.
pub async fn answer_whole(state: &ApiState, whole: Whole<'_>) -> Response {
    let Whole { peer, method, path, query, headers, body } = whole;
    let client = Client::new(Peer::Network(peer));
    let framing = if body.is_empty() { Framing::Absent } else { Framing::Length(body.len() as u64) };
    let head =
        RequestHead { method, path, query, headers, client: &client, framing, expects_unknown: false, has_body: true };
    let decision = server::admit(state, head, None).await;
    match decision.outcome {
        Ok(admitted) => {
            let request = Request { head, body: RequestBody::Whole(body) };
            server::carry_out(state, request, admitted, decision.caller).await
        }
        Err(refused) => refused,
    }
}
