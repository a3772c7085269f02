//! An async client of Liststore.
//!
//! A [`Client`] has typed calls for lists ([`Client::list`]), for bags ([`Client::bag`]) and for definitions of
//! features ([`Client::create_feature`]). Each other operation is a [`Request`] by its row in
//! [`liststore_contract::operations`].
//!
//! ```no_run
#![doc = include_str!("../examples/add_and_get.rs")]
//! ```
//!
//! It uses only the documented API. It must never repeat a request that may have had an effect, unless the request is
//! marked as safe to repeat.

mod bags;
mod error;
mod failure;
mod features;
mod items;
mod lists;
pub mod local;
mod next_step;
mod printable;
mod request;
mod retries;
mod tls;
mod token;
mod url;
mod value_text;

use std::fmt::Display;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use liststore_contract::domain::Author;
use liststore_contract::row::Method;
use liststore_contract::wire::parameters::USER;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, RETRY_AFTER};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

pub use bags::{Bag, Condition, StoredBag};
pub use error::{ClientError, Problem};
pub use failure::Failure;
pub use features::FeaturePage;
pub use items::{Item, ItemPage, NewItem};
pub use lists::{Get, List, ListName, Pages, Within};
pub use liststore_contract::{definition, domain, operations, wire};
pub use next_step::known_versions;
pub use printable::{escaped, excerpt, printable};
pub use request::Request;
pub use retries::Retries;
pub use tls::Tls;
pub use token::Token;
pub use url::ServerUrl;
pub use value_text::{write_json, write_string};

use local::Address;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to one server, with the credentials to present. Cheap to use from many tasks at once.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    url: ServerUrl,
    author: Option<Author>,
    retries: Retries,
    /// For commands: with these names, errors include advice. The client may ask the server for it.
    options: Option<OptionNames>,
    /// The connected address, if it differs from the URL.
    _local: Option<Address>,
}

/// What a command calls the options that select a server. Errors name them.
#[derive(Debug, Clone, Copy)]
pub struct OptionNames {
    /// The role of the server, such as "the target", in a command with several servers.
    pub role: Option<&'static str>,
    pub url: &'static str,
    pub key: &'static str,
    /// Whether errors about missing names have advice. For that, the client asks the server for its names.
    pub knows_names: bool,
}

impl OptionNames {
    const OF_MOST: Self = Self {
        role: None,
        url: "--url or LISTSTORE_URL",
        key: "LISTSTORE_TOKEN or --token-file FILE",
        knows_names: true,
    };
}

/// An answer of success.
#[derive(Debug)]
pub struct Response {
    pub body: Bytes,
    pub etag: Option<String>,
}

/// A page of a listing, whose entries stay as the server wrote them. So commands print members that this version does
/// not support.
#[derive(Debug, Deserialize)]
pub struct RawPage {
    #[serde(
        alias = "items",
        alias = "features",
        alias = "history",
        alias = "keys",
        alias = "changes",
        alias = "entities",
        alias = "jobs",
        alias = "entity_types"
    )]
    pub entries: Vec<Box<RawValue>>,
    pub next_page_token: Option<String>,
}

impl Client {
    /// A client of the server at a URL. An author is named in the audit trail.
    pub fn new(url: ServerUrl, author: Option<Author>, retries: Retries) -> Result<Self, ClientError> {
        Self::build(url, author, retries, None)
    }

    /// A client of the server that uses this data directory, through the socket in it.
    pub fn local(data_dir: &Path, retries: Retries) -> Result<Self, ClientError> {
        let unreachable = |error: io::Error| ClientError::NoSocket {
            path: data_dir.join(local::NAME).display().to_string(),
            reason: error.to_string(),
        };
        let address = Address::of(data_dir).map_err(unreachable)?;
        // The error of the request would have less information.
        UnixStream::connect(&address.path).map_err(unreachable)?;
        let url = ServerUrl::parse("http://localhost").map_err(ClientError::Setup)?;
        Self::build(url, None, retries, Some(address))
    }

    fn build(
        url: ServerUrl,
        author: Option<Author>,
        retries: Retries,
        local: Option<Address>,
    ) -> Result<Self, ClientError> {
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("liststore/", env!("CARGO_PKG_VERSION")));
        // A proxy of the environment is for servers elsewhere.
        let builder = if url.is_loopback() { builder.no_proxy() } else { builder };
        let builder = match url.address() {
            Some((host, address)) => builder.no_proxy().resolve(host, address),
            None => builder,
        };
        let builder = match &local {
            Some(address) => builder.unix_socket(&*address.path),
            None => builder,
        };
        let http = tls::with_tls(builder, url.tls())?.build().map_err(|e| ClientError::Setup(error::causes(&e)))?;
        Ok(Self { http, url, author, retries, options: None, _local: local })
    }

    pub fn with_author(self, author: Option<Author>) -> Self {
        Self { author, ..self }
    }

    /// A client whose errors include advice for people, with these names of options.
    pub fn with_options(self, options: OptionNames) -> Self {
        Self { options: Some(options), ..self }
    }

    /// The same, with the names of most commands.
    pub fn for_people(self) -> Self {
        self.with_options(OptionNames::OF_MOST)
    }

    pub fn with_retries(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// A failure of a request to this server.
    pub fn failed(&self, text: impl Display) -> Failure {
        let role = self.options.and_then(|options| options.role).map(|role| format!("{role}: ")).unwrap_or_default();
        Failure::failed(format!("{role}{text}"))
    }

    /// Sends the request, again where that is safe and may help, and reads the whole answer.
    pub async fn send(&self, request: &Request) -> Result<Response, ClientError> {
        let mut attempt = 0;
        loop {
            let error = match self.send_once(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(pause) = self.retries.pause(attempt, &error, request.repeatable) else {
                return Err(match self.options {
                    Some(options) => self.with_next_step(request, error, options).await,
                    None => error,
                });
            };
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// [`Self::send`], and reads the answer as JSON.
    pub async fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, ClientError> {
        let answer = self.send(request).await?;
        read(&answer.body)
    }

    async fn send_once(&self, request: &Request) -> Result<Response, ClientError> {
        let method = match request.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Patch => reqwest::Method::PATCH,
            Method::Delete => reqwest::Method::DELETE,
        };
        let mut builder = self.http.request(method, self.url.join(&request.path)?);
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
        if request.if_none {
            builder = builder.header(IF_NONE_MATCH, "*");
        }
        if let Some(author) = &self.author {
            builder = builder.header(USER.name, author.as_str());
        }
        if let Some(value) = self.url.token().and_then(Token::header) {
            builder = builder.header(AUTHORIZATION, value);
        }
        let transport =
            |e: &reqwest::Error| ClientError::of_transport(&self.url, e, self.options.map(|options| options.url));
        let response = builder.send().await.map_err(|e| transport(&e))?;
        let status = response.status();
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let (etag, retry_after) = (header(ETAG), header(RETRY_AFTER));
        let is_problem = header(CONTENT_TYPE).is_some_and(|t| t.starts_with("application/problem+json"));
        let body = response.bytes().await.map_err(|e| transport(&e))?;
        if status.is_success() {
            return Ok(Response { body, etag });
        }
        let retry_after = retry_after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        Err(ClientError::of_response(&self.url, status, is_problem, &body, retry_after))
    }
}

/// Reads the body of a response.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|e| ClientError::Unreadable(e.to_string()))
}
