//! A server's answer, in either protocol.

use std::borrow::Cow;
use std::ops::Range;

use liststore_contract::domain::Timestamp;

/// One whole response at the beginning of the bytes received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The length of the answer, including its head.
    pub bytes: usize,
    pub body: Range<usize>,
    pub status: ResponseStatus,
    /// Whether the connection may be used again.
    pub keep_alive: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseStatus {
    Done,
    /// An error, by the server's own code.
    Refused {
        code: String,
        retryable: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    Complete(Response),
    /// More bytes are needed; the total number, if it is known yet.
    Partial {
        bytes: Option<usize>,
    },
}

/// A malformed answer. The connection is no longer usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// An item as an answer shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenItem<'a> {
    pub timestamp: Timestamp,
    pub value: Cow<'a, [u8]>,
}
