//! Answers of JSON.

use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use bytes::Bytes;
use serde::Serialize;

use super::problem::Problem;
use super::response::Response;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Answers with a JSON text that is already rendered.
pub(crate) fn json_text(response: Response, text: impl Into<Bytes>) -> Response {
    response.with(CONTENT_TYPE, JSON).body(text)
}

pub(crate) fn json(response: Response, body: &impl Serialize) -> Result<Response, Problem> {
    let text =
        serde_json::to_vec(body).map_err(|error| Problem::internal(format!("cannot render the response: {error}")))?;
    Ok(json_text(response, text))
}
