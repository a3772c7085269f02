//! Problems as HTTP answers.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};

pub(super) mod translate;

pub use crate::wire::{ErrorCode, Problem};

/// The media type of RFC 9457, section 6.1.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// What a 401 asks for (RFC 6750, section 3).
pub const CHALLENGE: &str = "Bearer realm=\"liststore\"";

impl Problem {
    pub fn status(&self) -> StatusCode {
        status(self.code.status())
    }

    pub fn to_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status());
        response.content_type(CONTENT_TYPE);
        if let Some(secs) = self.retry_after_secs.or(self.code.row().retry_after_secs.map(u64::from)) {
            response.insert_header((RETRY_AFTER, secs.to_string()));
        }
        if self.code == ErrorCode::Unauthenticated {
            response.insert_header((WWW_AUTHENTICATE, CHALLENGE));
        }
        if let Some(allow) = &self.allow {
            response.insert_header((ALLOW, &**allow));
        }
        response.json(self.body())
    }
}

/// A status of the tables, all of which are valid.
pub(super) fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::OPERATIONS;

    #[test]
    fn every_status_of_the_tables_is_valid() {
        let replies = OPERATIONS.iter().flat_map(|operation| operation.replies).map(|reply| reply.status);
        for number in ErrorCode::table().iter().map(|row| row.status).chain(replies) {
            assert_eq!(StatusCode::from_u16(number).map(|status| status.as_u16()).ok(), Some(number));
        }
    }
}
