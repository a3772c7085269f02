//! What a request is answered with.
//!
//! The framework's type keeps headers in a hash map. An answer has a handful of them, and nearly all answers are pages
//! from memory: there a list of headers takes a tenth less of all instructions than such a map.

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::header::{HeaderName, HeaderValue, VARY};
use actix_web::http::{ConnectionType, StatusCode, Version};
use bytes::Bytes;

use super::problem::Problem;
use crate::access::Share;

/// Headers that most answers have, so that their list does not grow: type, tag, `Vary`, the request's id, and one more.
const HEADERS_USUAL: usize = 5;

pub(crate) struct Response {
    pub status: StatusCode,
    /// In the order in which they are sent.
    headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Body,
    /// Whether the connection ends with it.
    pub closes: bool,
    /// Memory that was reserved for it, more or less than it has.
    pub reserved: Option<Share>,
}

pub(crate) enum Body {
    Whole(Bytes),
    /// One that comes bit by bit. Only the framework makes such.
    Stream(BoxBody),
}

impl Body {
    /// How many bytes it has, if that is known.
    pub fn len(&self) -> Option<u64> {
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
    /// Without a body.
    pub fn new(status: StatusCode) -> Self {
        let (headers, body) = (Vec::with_capacity(HEADERS_USUAL), Body::Whole(Bytes::new()));
        Self { status, headers, body, closes: false, reserved: None }
    }

    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        self.body = Body::Whole(bytes.into());
        self
    }

    /// With the memory that was reserved for it.
    pub fn reserving(mut self, reserved: Option<Share>) -> Self {
        self.reserved = reserved;
        self
    }

    /// With one header more.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.add(name, value);
        self
    }

    /// The same of a text, which is an error of ours if it is none that a header may have.
    pub fn with_text(self, name: HeaderName, text: impl Into<Bytes>) -> Result<Self, Problem> {
        let value = HeaderValue::from_maybe_shared(text.into());
        let value =
            value.map_err(|error| Problem::internal(format!("{name} of a response is not a valid header: {error}")))?;
        Ok(self.with(name, value))
    }

    /// Adds a header behind those that there are. `Vary` alone may be there already: it is a list, whose parts may come
    /// in several lines.
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

/// What comes from the framework.
impl From<HttpResponse> for Response {
    fn from(mut response: HttpResponse) -> Self {
        // An older version would say by itself that the connection ends, and heads are used again.
        response.head_mut().version = Version::HTTP_11;
        let closes = response.head().connection_type() == ConnectionType::Close;
        let reserved = response.extensions_mut().remove();
        let (response, body) = response.into_parts();
        let headers = response.headers().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let body = body.try_into_bytes().map_or_else(Body::Stream, Body::Whole);
        Self { status: response.status(), headers, body, closes, reserved }
    }
}

/// What goes to the framework.
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
    fn nothing_is_lost_on_the_way_through_the_framework() {
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
    fn what_is_no_header_is_a_fault_of_ours() {
        assert!(Response::new(StatusCode::OK).with_text(ETAG, "\n").is_err());
    }
}
