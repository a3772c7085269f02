//! The answer of a request.
//!
//! The framework's type stores headers in a hash map. An answer has a handful of them, and nearly all answers are pages
//! from memory. For them a list of headers saves a tenth of all instructions.

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::header::{HeaderName, HeaderValue, VARY};
use actix_web::http::{ConnectionType, StatusCode, Version};
use bytes::Bytes;

use super::problem::Problem;
use crate::access::Share;

/// The headers of most answers, so that their list does not grow: type, tag, `Vary`, the request's ID, and one more.
const HEADERS_USUAL: usize = 5;

pub struct Response {
    pub status: StatusCode,
    /// In the order of sending.
    headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Body,
    /// Whether the connection ends after it.
    pub closes: bool,
    /// The memory that was reserved for it, which may be more or less than its size.
    pub reserved: Option<Share>,
}

pub enum Body {
    Whole(Bytes),
    /// A streamed body. Only the framework makes it.
    Stream(BoxBody),
}

impl Body {
    /// The number of bytes, if known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Whole(bytes) => Some(bytes.len() as u64),
            Self::Stream(body) => match body.size() {
                BodySize::None => Some(0),
                BodySize::Sized(bytes) => Some(bytes),
                BodySize::Stream => None,
            },
        }
    }
}

impl Response {
    /// An answer without a body.
    pub fn new(status: StatusCode) -> Self {
        let (headers, body) = (Vec::with_capacity(HEADERS_USUAL), Body::Whole(Bytes::new()));
        Self { status, headers, body, closes: false, reserved: None }
    }

    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        self.body = Body::Whole(bytes.into());
        self
    }

    /// Attaches the memory that was reserved for it.
    pub fn reserving(mut self, reserved: Option<Share>) -> Self {
        self.reserved = reserved;
        self
    }

    /// Adds a header.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.add(name, value);
        self
    }

    /// Adds a header with a text. An invalid text is a server error.
    pub fn with_text(self, name: HeaderName, text: impl Into<Bytes>) -> Result<Self, Problem> {
        let value = HeaderValue::from_maybe_shared(text.into());
        let value =
            value.map_err(|error| Problem::internal(format!("{name} of a response is not a valid header: {error}")))?;
        Ok(self.with(name, value))
    }

    /// Appends a header. Only `Vary` may occur again, because it is a list that may use several lines.
    pub fn add(&mut self, name: HeaderName, value: HeaderValue) {
        debug_assert!(name == VARY || self.header(&name).is_none(), "duplicate {name}");
        self.headers.push((name, value));
    }

    pub fn headers(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.headers.iter().map(|(name, value)| (name, value))
    }

    /// The first header of that name.
    pub fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.headers().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// Converts an answer of the framework.
impl From<HttpResponse> for Response {
    fn from(mut response: HttpResponse) -> Self {
        // With an older version the framework would close the connection. It also reuses heads.
        response.head_mut().version = Version::HTTP_11;
        let closes = response.head().connection_type() == ConnectionType::Close;
        let reserved = response.extensions_mut().remove();
        let (response, body) = response.into_parts();
        let headers = response.headers().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let body = body.try_into_bytes().map_or_else(Body::Stream, Body::Whole);
        Self { status: response.status(), headers, body, closes, reserved }
    }
}

/// Converts an answer for the framework.
impl From<Response> for HttpResponse {
    fn from(Response { status, headers, body, closes, reserved }: Response) -> Self {
        let mut response = Self::new(status);
        if let Some(reserved) = reserved {
            response.extensions_mut().insert(reserved);
        }
        headers.into_iter().for_each(|(name, value)| response.headers_mut().append(name, value));
        if closes {
            response.head_mut().set_connection_type(ConnectionType::Close);
        }
        response.set_body(match body {
            Body::Whole(bytes) => BoxBody::new(bytes),
            Body::Stream(body) => body,
        })
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::ETAG;

    use super::*;

    #[test]
    fn a_response_survives_the_framework_unchanged() {
        let value = HeaderValue::from_static;
        let mut response = Response::new(StatusCode::CREATED).with(VARY, value("Accept")).body("text");
        response.add(VARY, value("Accept-Encoding"));
        response.closes = true;
        let response = Response::from(HttpResponse::from(response.with_text(ETAG, "\"7\"").unwrap()));
        let of = |wanted: HeaderName| {
            response
                .headers()
                .filter(move |(name, _)| *name == wanted)
                .map(|(_, value)| value.to_str().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!((response.status, response.closes), (StatusCode::CREATED, true));
        assert_eq!((of(VARY), of(ETAG)), (vec!["Accept", "Accept-Encoding"], vec!["\"7\""]));
        assert!(matches!(&response.body, Body::Whole(bytes) if bytes == "text"));
        assert!(!Response::from(HttpResponse::Ok().finish()).closes);
    }

    #[test]
    fn an_invalid_header_is_an_internal_error() {
        assert!(Response::new(StatusCode::OK).with_text(ETAG, "\n").is_err());
    }
}
