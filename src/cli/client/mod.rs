//! The HTTP client behind the commands: requests, retries, and errors in one line.
//!
//! It speaks the documented API and nothing else. It must never send a request a second time whose
//! first sending may have changed something, unless the request says that repeating it is safe.

mod error;
mod retries;
mod url;
pub(super) mod views;

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, ETAG, IF_MATCH, RETRY_AFTER};
use serde::de::DeserializeOwned;

pub(super) use error::{ClientError, Problem};
pub(super) use retries::Retries;
pub(super) use url::{ServerUrl, feature_path, items_path, version_path};

use crate::domain::Author;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Above any deadline that a server keeps for an operation.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Client {
    http: reqwest::Client,
    url: ServerUrl,
    author: Option<Author>,
    retries: Retries,
}

/// A request, with the path below the server's URL.
pub(super) struct Request {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<Bytes>,
    if_match: Option<String>,
    /// Doing it twice is as good as doing it once.
    repeatable: bool,
    timeout: Duration,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub body: Bytes,
    pub etag: Option<String>,
}

impl Request {
    fn new(method: Method, path: String, repeatable: bool) -> Self {
        Self { method, path, query: Vec::new(), body: None, if_match: None, repeatable, timeout: REQUEST_TIMEOUT }
    }

    pub(super) fn get(path: String) -> Self {
        Self::new(Method::GET, path, true)
    }

    pub(super) fn post(path: String, body: Bytes) -> Self {
        Self { body: Some(body), ..Self::new(Method::POST, path, false) }
    }

    pub(super) fn patch(path: String, body: Bytes) -> Self {
        Self { body: Some(body), ..Self::new(Method::PATCH, path, false) }
    }

    pub(super) fn delete(path: String) -> Self {
        Self::new(Method::DELETE, path, false)
    }

    /// Declares that doing it twice is as good as doing it once.
    pub(super) fn repeatable(self) -> Self {
        Self { repeatable: true, ..self }
    }

    pub(super) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Gives the server more time to answer than operations take.
    pub(super) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    pub(super) fn if_match(self, etag: Option<String>) -> Self {
        Self { if_match: etag, ..self }
    }
}

impl Client {
    pub(super) fn new(url: ServerUrl, author: Option<Author>, retries: Retries) -> Result<Self, ClientError> {
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("liststore/", env!("CARGO_PKG_VERSION")));
        // A proxy of the environment is for servers elsewhere.
        let builder = if url.is_loopback() { builder.no_proxy() } else { builder };
        let http = url.with_tls(builder)?.build().map_err(|e| ClientError::Setup(error::causes(&e)))?;
        Ok(Self { http, url, author, retries })
    }

    pub(super) fn with_retries(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// Sends the request, again where that is safe and may help, and reads the whole answer.
    pub(super) async fn send(&self, request: &Request) -> Result<Answer, ClientError> {
        let mut attempt = 0;
        loop {
            let error = match self.send_once(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(pause) = self.retries.pause(attempt, &error, request.repeatable) else {
                return Err(error);
            };
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// [`Self::send`], and reads the answer as JSON.
    pub(super) async fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, ClientError> {
        let answer = self.send(request).await?;
        read(&answer.body)
    }

    async fn send_once(&self, request: &Request) -> Result<Answer, ClientError> {
        let mut builder = self.http.request(request.method.clone(), self.url.join(&request.path)?);
        builder = builder.timeout(request.timeout);
        if !request.query.is_empty() {
            builder = builder.query(&request.query);
        }
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        if let Some(etag) = &request.if_match {
            builder = builder.header(IF_MATCH, etag);
        }
        if let Some(author) = &self.author {
            builder = builder.header("Liststore-User", author.as_str());
        }
        let transport = |e: &reqwest::Error| ClientError::of_transport(&self.url, e);
        let response = builder.send().await.map_err(|e| transport(&e))?;
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let (etag, retry_after) = (header(ETAG), header(RETRY_AFTER));
        let is_problem = header(CONTENT_TYPE).is_some_and(|t| t.starts_with("application/problem+json"));
        let body = response.bytes().await.map_err(|e| transport(&e))?;
        if status.is_success() {
            return Ok(Answer { body, etag });
        }
        let retry_after = retry_after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        Err(ClientError::of_answer(&self.url, status, is_problem, &body, retry_after))
    }
}

/// Reads a successful answer.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|e| ClientError::Unreadable(e.to_string()))
}
