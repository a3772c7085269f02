//! Answers on the wire.

use std::cell::Cell;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use actix_web::HttpResponse;
use actix_web::body::{MessageBody, to_bytes};
use actix_web::http::StatusCode;
use bytes::{BufMut, BytesMut};
use httpdate::HttpDate;

use crate::domain::Timestamp;

/// The length of `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
const DATE_BYTES: usize = 29;
type Date = [u8; DATE_BYTES];

/// The `Date` header, made once a second.
#[derive(Debug, Default)]
pub(super) struct Dates {
    /// Of which second since the Unix epoch, and its text.
    last: Cell<Option<(u64, Date)>>,
}

impl Dates {
    pub fn at(&self, now: Timestamp) -> Date {
        let secs = now.as_nanos() / 1_000_000_000;
        match self.last.get() {
            Some((made, date)) if made == secs => date,
            _ => {
                let text = HttpDate::from(UNIX_EPOCH + Duration::from_secs(secs)).to_string();
                let mut date = [b' '; DATE_BYTES];
                date.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
                self.last.set(Some((secs, date)));
                date
            }
        }
    }
}

/// Writes an answer as HTTP/1.1 has it (RFC 9112), after which the connection is kept or not. `None` if
/// its body cannot be had.
pub(super) async fn write(response: HttpResponse, kept: bool, date: &Date, out: &mut BytesMut) -> Option<()> {
    let (response, body) = response.into_parts();
    let body = match body.try_into_bytes() {
        Ok(bytes) => bytes,
        Err(body) => to_bytes(body).await.ok()?,
    };
    out.reserve(512 + body.len());
    let status = response.status();
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    for (name, value) in response.headers() {
        header(out, name.as_str(), value.as_bytes());
    }
    if status != StatusCode::NO_CONTENT {
        out.put_slice(b"\r\ncontent-length: ");
        // Writing to memory does not fail.
        write!(out, "{}", body.len()).ok()?;
    }
    if !kept {
        header(out, "connection", b"close");
    }
    header(out, "date", date);
    out.put_slice(b"\r\n\r\n");
    out.put_slice(&body);
    Some(())
}

fn header(out: &mut BytesMut, name: &str, value: &[u8]) {
    out.put_slice(b"\r\n");
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    out.put_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(response: HttpResponse, kept: bool) -> String {
        let dates = Dates::default();
        let date = dates.at(Timestamp::from_nanos(784_111_777_999_999_999).unwrap());
        let mut out = BytesMut::new();
        futures_util::FutureExt::now_or_never(write(response, kept, &date, &mut out)).unwrap().unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn an_answer_has_a_length_and_a_date() {
        let answer = written(HttpResponse::Ok().insert_header(("etag", "\"7\"")).body("four"), true);
        let lines = "HTTP/1.1 200 OK\r\netag: \"7\"\r\ncontent-length: 4\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(answer, format!("{lines}\r\n\r\nfour"));
    }

    #[test]
    fn no_content_has_no_length() {
        let answer = written(HttpResponse::NoContent().finish(), true);
        assert!(answer.starts_with("HTTP/1.1 204 No Content\r\n") && !answer.contains("content-length"), "{answer}");
    }

    #[test]
    fn the_last_answer_says_so() {
        let is_last = |kept| written(HttpResponse::Ok().finish(), kept).contains("\r\nconnection: close\r\n");
        assert!(is_last(false) && !is_last(true));
    }

    #[test]
    fn dates_go_on() {
        let dates = Dates::default();
        let at = |secs: u64| dates.at(Timestamp::from_nanos(secs * 1_000_000_000).unwrap());
        assert_eq!(&at(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&at(59), b"Thu, 01 Jan 1970 00:00:59 GMT");
    }
}
