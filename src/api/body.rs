//! Request bodies: read whole, within a bound and a time.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::problem::{ErrorCode, Problem};

/// A request's body.
pub(super) enum RequestBody {
    /// It is read when a handler asks for it.
    Arriving { payload: Payload, ended: bool },
    /// It was there before the handler.
    Whole(Bytes),
    /// It did not come in time.
    Late,
}

impl RequestBody {
    pub fn arriving(payload: Payload) -> Self {
        let ended = matches!(payload, Payload::None);
        Self::Arriving { payload, ended }
    }

    /// Reads a JSON body of at most `bytes_max` bytes; no more than that is held, however it is
    /// sent.
    pub async fn read(&mut self, headers: &HeaderMap, bytes_max: usize, at_most: Duration) -> Result<Bytes, Problem> {
        check_media_type(headers)?;
        let late = || {
            let detail = format!("the body did not arrive within {} s", at_most.as_secs());
            Problem::new(ErrorCode::DeadlineExceeded, detail)
        };
        match self {
            Self::Arriving { payload, ended } => {
                let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
                if announced.is_some_and(|length| length > bytes_max as u64) {
                    return Err(too_large(bytes_max));
                }
                let body = timeout(at_most, collect(payload, bytes_max)).await.map_err(|_| late())??;
                *ended = true;
                Ok(body)
            }
            Self::Whole(body) if body.len() > bytes_max => Err(too_large(bytes_max)),
            Self::Whole(body) => Ok(std::mem::take(body)),
            Self::Late => Err(late()),
        }
    }

    /// The answer to the request that had this body. If some of it was left unread, the connection
    /// ends with the answer.
    pub fn answered_by(self, response: HttpResponse) -> HttpResponse {
        match self {
            Self::Arriving { payload, ended: false } => {
                response.map_body(|_, body| BoxBody::new(WithUnread { body, _unread: payload }))
            }
            Self::Arriving { .. } | Self::Whole(_) | Self::Late => response,
        }
    }
}

async fn collect(payload: &mut Payload, bytes_max: usize) -> Result<Bytes, Problem> {
    let mut body = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(cut_off)?;
        if body.len() + joined.len() + chunk.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        // Most bodies arrive as one chunk, which needs no copy.
        if body.is_empty() && joined.is_empty() {
            body = chunk;
        } else {
            joined.extend_from_slice(&std::mem::take(&mut body));
            joined.extend_from_slice(&chunk);
        }
    }
    Ok(if joined.is_empty() { body } else { joined.freeze() })
}

/// An answer's body that keeps what was not read of the request: actix-web reads on and on when a
/// chunked body has been dropped, for as long as the client sends, but ends the connection where it
/// is still held once the answer is sent (`should_close_for_unread_payload` of its dispatcher).
struct WithUnread {
    body: BoxBody,
    _unread: Payload,
}

impl MessageBody for WithUnread {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_next(context)
    }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(ErrorCode::PayloadTooLarge, format!("a body may have at most {bytes_max} bytes"))
}

fn cut_off(error: PayloadError) -> Problem {
    let detail = "the body ended early, or is not framed as its headers say";
    Problem::new(ErrorCode::InvalidJson, detail).because(error.to_string())
}

/// A missing type is taken as JSON; so is `application/json` with any parameter but a foreign
/// character set (RFC 8259, section 8.1, has UTF-8 only).
fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |detail: &'static str| Err(Problem::new(ErrorCode::UnsupportedMediaType, detail));
    if !headers.get_all(CONTENT_TYPE).all(is_json) {
        return refused("send Content-Type: application/json, in UTF-8, or none");
    }
    if !headers.get_all(CONTENT_ENCODING).all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return refused("a body must not be compressed: leave Content-Encoding out");
    }
    Ok(())
}

fn is_json(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let mut parts = text.split(';').map(str::trim);
    parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
        && parts.filter_map(|parameter| parameter.split_once('=')).all(|(name, value)| {
            !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf_8_is_taken() {
        for good in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\";x=y"] {
            assert!(is_json(&HeaderValue::from_static(good)), "{good}");
        }
        for bad in ["", "text/plain", "application/jsonl", "application/json; charset=latin1", "application/*"] {
            assert!(!is_json(&HeaderValue::from_static(bad)), "{bad}");
        }
    }
}
