//! A call: one request with its operation found, and what its handler needs to answer it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use actix_web::http::header::HeaderValue;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap};
use actix_web::{HttpResponse, HttpResponseBuilder};
use bytes::Bytes;
use serde::Serialize;
use tokio::time::{Instant, timeout};

use super::body::RequestBody;
use super::headers;
use super::problem::Problem;
use super::problem::translate::deadline_exceeded;
use super::query::{self, Parameter};
use super::routes::Segments;
use super::{ApiOptions, ApiState};
use crate::domain::{EntityType, FeatureId, FeatureName, VersionLabel};
use crate::metadata::MetadataError;

/// What a handler returns.
pub(super) type Answer = Result<HttpResponse, Problem>;

pub(super) struct Call<'c> {
    pub state: &'c ApiState,
    pub segments: Segments<'c>,
    pub query: Option<&'c str>,
    pub headers: &'c HeaderMap,
    pub peer: Option<SocketAddr>,
    pub body: &'c mut RequestBody,
}

impl<'c> Call<'c> {
    pub fn query<const N: usize>(&self, parameters: [Parameter; N]) -> Result<[Option<Cow<'c, str>>; N], Problem> {
        query::parse(self.query, parameters)
    }

    pub async fn body(&mut self) -> Result<Bytes, Problem> {
        let ApiOptions { body_bytes_max, body_timeout, .. } = self.state.options;
        self.body.read(self.headers, body_bytes_max, body_timeout).await
    }

    /// When the caller of a list operation stops waiting.
    pub fn timeout(&self) -> Result<Duration, Problem> {
        headers::timeout(self.headers, self.state.options.operation_timeout)
    }

    /// The feature that the path of a control-plane call names.
    pub fn feature_id(&self) -> Result<FeatureId, Problem> {
        feature_id(&self.segments[0], &self.segments[1], "name")
    }

    /// The version that the path of a control-plane call names.
    pub fn version_label(&self) -> Result<VersionLabel, Problem> {
        version_label(&self.segments[2])
    }

    /// Waits for the metadata handle, which has a deadline of its own, or for less if the caller
    /// asks so. `timeout` is [`headers::asked_timeout`]'s, read before anything was done.
    pub async fn within<T>(
        timeout_asked: Option<Duration>,
        writes: bool,
        asked: impl Future<Output = Result<T, MetadataError>>,
    ) -> Result<T, Problem> {
        match timeout_asked {
            None => Ok(asked.await?),
            Some(time) => match timeout(time, asked).await {
                Ok(result) => Ok(result?),
                Err(_) => Err(deadline_exceeded(writes)),
            },
        }
    }
}

pub(super) fn feature_id(entity_type: &str, name: &str, field: &'static str) -> Result<FeatureId, Problem> {
    let entity_type = EntityType::new(entity_type).map_err(|invalid| Problem::from(invalid).at("entity_type"))?;
    let name = FeatureName::new(name).map_err(|invalid| Problem::from(invalid).at(field))?;
    Ok(FeatureId { entity_type, name })
}

pub(super) fn version_label(label: &str) -> Result<VersionLabel, Problem> {
    VersionLabel::new(label).map_err(|invalid| Problem::from(invalid).at("version"))
}

pub(super) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Answers with a JSON text that is already rendered.
pub(super) fn json_text(mut response: HttpResponseBuilder, text: impl Into<Bytes>) -> HttpResponse {
    response.insert_header((CONTENT_TYPE, JSON)).body(text.into())
}

pub(super) fn json(response: HttpResponseBuilder, body: &impl Serialize) -> Answer {
    let text =
        serde_json::to_vec(body).map_err(|error| Problem::internal(format!("cannot render an answer: {error}")))?;
    Ok(json_text(response, text))
}
