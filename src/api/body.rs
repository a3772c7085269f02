//! Request bodies: the accepted forms, and the refusals of other bodies.

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use bytes::Bytes;
use futures_util::TryStreamExt;

use super::problem::{ErrorCode, Problem};

/// A request's body. It has arrived completely before the handler is called, or it has failed and nothing is done.
pub(crate) enum RequestBody {
    Whole(Bytes),
    /// As the framework passes it.
    Handed(Payload),
    /// It did not arrive in time.
    Late,
    /// It exceeds the limit of every body.
    TooLarge,
    /// Its chunks are ambiguous. The text names the mistake.
    Malformed(&'static str),
    /// The server refuses the request because it has too little of this resource.
    NotTaken(Lack),
}

/// A resource that the server lacks for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    Connections,
    RoomForBody,
    RoomForAnswer,
    /// The request has waited for too long.
    Time,
}

impl Lack {
    pub fn problem(self) -> Problem {
        let detail = match self {
            Self::Connections => "all connections are in use: retry later or use another server",
            Self::RoomForBody => "the memory for request and response bodies is full: retry later or request less",
            Self::RoomForAnswer => "unread responses fill the memory for responses: retry later or request less",
            Self::Time => "the server is overloaded and this request waited too long; nothing was done",
        };
        Problem::new(ErrorCode::Overloaded, detail)
    }
}

impl RequestBody {
    /// Whether all of it was read, so that the following bytes on the connection are another request.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_) | Self::Handed(_))
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        if let Self::Whole(body) = self { body.len() } else { 0 }
    }

    /// The reason why an incomplete body must not be processed. `at_most` is the time that it had.
    pub fn missing(&self, bytes_max: usize, at_most: Duration) -> Option<Problem> {
        match self {
            Self::Whole(_) | Self::Handed(_) => None,
            Self::Late => {
                let detail = format!("the request body did not arrive within {} s", at_most.as_secs());
                Some(Problem::new(ErrorCode::DeadlineExceeded, detail))
            }
            Self::TooLarge => Some(too_large(bytes_max)),
            Self::Malformed(what) => Some(Problem::new(ErrorCode::MalformedRequest, *what)),
            Self::NotTaken(lack) => Some(lack.problem()),
        }
    }

    /// Takes the complete body.
    pub async fn take(&mut self) -> Result<Bytes, Problem> {
        match self {
            Self::Whole(body) => Ok(std::mem::take(body)),
            Self::Handed(payload) => {
                let unavailable = |error| Problem::internal(format!("cannot take the request body: {error}"));
                let parts: Vec<_> = payload.try_collect().await.map_err(unavailable)?;
                Ok(parts.concat().into())
            }
            Self::Late | Self::TooLarge | Self::Malformed(_) | Self::NotTaken(_) => Ok(Bytes::new()),
        }
    }
}

pub(crate) fn too_large(bytes_max: usize) -> Problem {
    Problem::new(ErrorCode::PayloadTooLarge, format!("the request body must have at most {bytes_max} bytes"))
}

/// The accepted kind of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    /// A merge patch, which may have its own media type (RFC 7396, section 4).
    MergePatch,
}

/// Accepts a missing type as JSON. Also accepts `application/json` with any parameter except a character set other than
/// UTF-8 (RFC 8259, section 8.1).
pub(crate) fn check_media_type(headers: &HeaderMap, kind: BodyKind) -> Result<(), Problem> {
    let refused = |detail: &'static str| Err(Problem::new(ErrorCode::UnsupportedMediaType, detail));
    if !headers.get_all(CONTENT_TYPE).all(|value| is_of(value, kind)) {
        return refused(match kind {
            BodyKind::Json => "send Content-Type: application/json (UTF-8) or omit the header",
            BodyKind::MergePatch => "send Content-Type: application/merge-patch+json (UTF-8) or omit the header",
        });
    }
    if !headers.get_all(CONTENT_ENCODING).all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return refused("the request body must not be compressed: remove Content-Encoding");
    }
    Ok(())
}

fn is_of(value: &HeaderValue, kind: BodyKind) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let mut parts = text.split(';').map(str::trim);
    parts.next().is_some_and(|essence| {
        essence.eq_ignore_ascii_case("application/json")
            || kind == BodyKind::MergePatch && essence.eq_ignore_ascii_case("application/merge-patch+json")
    }) && parts.filter_map(|parameter| parameter.split_once('=')).all(|(name, value)| {
        !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf_8_is_accepted() {
        for good in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\";x=y"] {
            assert!(is_of(&HeaderValue::from_static(good), BodyKind::Json), "{good}");
        }
        for bad in ["", "text/plain", "application/jsonl", "application/json; charset=latin1", "application/*"] {
            assert!(!is_of(&HeaderValue::from_static(bad), BodyKind::MergePatch), "{bad}");
        }
        let patch = HeaderValue::from_static("application/merge-patch+json; charset=utf-8");
        assert!(is_of(&patch, BodyKind::MergePatch) && !is_of(&patch, BodyKind::Json));
    }
}
