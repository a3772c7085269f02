//! Problems as HTTP answers.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};

use super::response::Response;

pub(crate) mod translate;

pub use crate::wire::{ErrorCode, Problem};

/// The media type of RFC 9457, section 6.1.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// The challenge of a 401 (RFC 6750, section 3).
pub const CHALLENGE: &str = "Bearer realm=\"liststore\"";

/// Turns a problem into an answer. The contract has the type, and is independent of the framework.
pub(crate) trait ToResponse {
    fn status(&self) -> StatusCode;
    fn to_response(&self) -> Response;
}

impl ToResponse for Problem {
    fn status(&self) -> StatusCode {
        status(self.code.status())
    }

    fn to_response(&self) -> Response {
        let content_type = HeaderValue::from_static(CONTENT_TYPE);
        let mut response = Response::new(self.status()).with(header::CONTENT_TYPE, content_type);
        if let Some(secs) = self.retry_after_secs.or(self.code.row().retry_after_secs.map(u64::from)) {
            response.add(RETRY_AFTER, secs.into());
        }
        if self.code == ErrorCode::Unauthenticated {
            response.add(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        // Names of methods are a valid header value.
        if let Some(allow) = self.allow.as_deref().and_then(|allow| HeaderValue::from_str(allow).ok()) {
            response.add(ALLOW, allow);
        }
        // Serializing texts and numbers to memory does not fail.
        response.body(serde_json::to_vec(&self.body()).unwrap_or_default())
    }
}

/// A status of the tables, which are all valid.
pub(crate) fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_table_is_valid() {
        for number in ErrorCode::table().iter().map(|row| row.status) {
            assert_eq!(StatusCode::from_u16(number).map(|status| status.as_u16()).ok(), Some(number));
        }
    }
}
