//! The two protocols of the generator: a Liststore server's HTTP API, and Redis's RESP for
//! comparisons. Both are driven by the same loop, so that a comparison compares servers and not
//! generators.

use liststore_contract::domain::{ItemKey, ValueDigest};

use super::batch;
use super::http::Http;
use super::operation::{Kind, LoadRequest};
use super::resp::{NANOS_PER_SCORE, Resp};
use super::response::{Malformed, Parsed, SeenItem};

/// Renders requests and reads answers. Shared by all threads, without state.
#[derive(Debug)]
pub enum Protocol {
    Http(Http),
    Resp(Resp),
}

impl Protocol {
    /// Appends the request's bytes.
    pub fn render(&self, operation: &LoadRequest, out: &mut Vec<u8>) {
        match self {
            Self::Http(http) => http.render(operation, out),
            Self::Resp(resp) => resp.render(operation, out),
        }
    }

    pub fn parse(&self, input: &[u8]) -> Result<Parsed, Malformed> {
        match self {
            Self::Http(_) => Http::parse(input),
            Self::Resp(resp) => resp.parse(input),
        }
    }

    /// How many items a successful answer is about: returned, added or removed.
    pub fn items(&self, kind: Kind, body: &[u8]) -> u64 {
        match self {
            Self::Http(http) => http.items(kind, body),
            Self::Resp(resp) => resp.items(kind, body),
        }
    }

    /// The page of each list in a get's answer, in the order of the request.
    pub fn pages<'a>(&self, body: &'a [u8]) -> Result<Vec<&'a [u8]>, Malformed> {
        match self {
            Self::Http(http) if http.gets_several() => batch::pages(body),
            Self::Http(_) => Ok(vec![body]),
            Self::Resp(resp) => resp.pages(body),
        }
    }

    /// Reads a page strictly.
    pub fn read_items<'a>(&self, body: &'a [u8]) -> Result<Vec<SeenItem<'a>>, Malformed> {
        match self {
            Self::Http(_) => Http::read_items(body),
            Self::Resp(_) => Resp::read_items(body),
        }
    }

    /// How many items an add's answer acknowledges.
    pub fn read_added(&self, body: &[u8]) -> Result<u64, Malformed> {
        match self {
            Self::Http(_) => Http::read_added(body),
            Self::Resp(_) => Resp::read_integer(body),
        }
    }

    /// Whether `first` may precede `second` in a list. Equal timestamps are ordered by item key, descending.
    pub fn in_order(&self, first: &SeenItem<'_>, second: &SeenItem<'_>) -> bool {
        let key = |item: &SeenItem<'_>| ItemKey::new(item.timestamp, ValueDigest::of(&item.value));
        match self {
            _ if first.timestamp != second.timestamp => first.timestamp > second.timestamp,
            Self::Http(_) => key(first) > key(second),
            Self::Resp(_) => first.value > second.value,
        }
    }

    /// The stored form of a sent timestamp, so that it can be found in an answer.
    pub fn kept_nanos(&self, timestamp_nanos: u64) -> u64 {
        match self {
            Self::Http(_) => timestamp_nanos,
            Self::Resp(_) => timestamp_nanos / NANOS_PER_SCORE * NANOS_PER_SCORE,
        }
    }
}
