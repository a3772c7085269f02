//! Heads of answers on the wire.

use std::cell::Cell;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, Version};
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

/// How long an answer's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Known(u64),
    Chunked,
    /// For older clients: the end of the connection is the end of the body.
    UntilTheEnd,
}

/// What an answer says of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    /// Nothing: it goes on, as HTTP/1.1 has it.
    Implied,
    /// An older client must be told that it goes on.
    KeepAlive,
    Close,
}

impl Persistence {
    pub fn of(kept: bool, version: Version) -> Self {
        match (kept, version == Version::HTTP_11) {
            (true, true) => Self::Implied,
            (true, false) => Self::KeepAlive,
            (false, _) => Self::Close,
        }
    }
}

/// Whether answers with this status never have content, nor a length (RFC 9110, section 6.4.1).
pub(super) fn has_no_content(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Writes the head of an answer as HTTP/1.1 has it (RFC 9112, section 4).
pub(super) fn write_head(
    response: &HttpResponse<()>,
    length: Length,
    persistence: Persistence,
    date: &Date,
    out: &mut BytesMut,
) {
    out.reserve(512);
    let status = response.status();
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    for (name, value) in response.headers() {
        header(out, name.as_str(), value.as_bytes());
    }
    if !has_no_content(status) {
        match length {
            Length::Known(bytes) => {
                out.put_slice(b"\r\ncontent-length: ");
                // Writing to memory does not fail.
                let _ = write!(out, "{bytes}");
            }
            Length::Chunked => header(out, "transfer-encoding", b"chunked"),
            Length::UntilTheEnd => {}
        }
    }
    match persistence {
        Persistence::Implied => {}
        Persistence::KeepAlive => header(out, "connection", b"keep-alive"),
        Persistence::Close => header(out, "connection", b"close"),
    }
    header(out, "date", date);
    out.put_slice(b"\r\n\r\n");
}

/// Writes what stands before the bytes of a chunk.
pub(super) fn write_chunk_head(bytes: usize, out: &mut BytesMut) {
    // Writing to memory does not fail.
    let _ = write!(out, "{bytes:x}\r\n");
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

    fn written(response: HttpResponse, length: Length, persistence: Persistence) -> String {
        let date = Dates::default().at(Timestamp::from_nanos(784_111_777_999_999_999).unwrap());
        let mut out = BytesMut::new();
        write_head(&response.into_parts().0, length, persistence, &date, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn an_answer_has_a_length_and_a_date() {
        let response = HttpResponse::Ok().insert_header(("etag", "\"7\"")).finish();
        let lines =
            "HTTP/1.1 200 OK\r\netag: \"7\"\r\ncontent-length: 4\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
        assert_eq!(written(response, Length::Known(4), Persistence::Implied), lines);
    }

    #[test]
    fn what_has_no_content_has_no_length() {
        for response in [HttpResponse::NoContent(), HttpResponse::NotModified()].map(|mut response| response.finish()) {
            let answer = written(response, Length::Known(0), Persistence::Implied);
            assert!(!answer.contains("content-length"), "{answer}");
        }
    }

    #[test]
    fn whether_the_connection_goes_on_is_said_where_it_is_not_implied() {
        for (kept, version, line) in [
            (true, Version::HTTP_11, None),
            (true, Version::HTTP_10, Some("\r\nconnection: keep-alive\r\n")),
            (false, Version::HTTP_11, Some("\r\nconnection: close\r\n")),
            (false, Version::HTTP_10, Some("\r\nconnection: close\r\n")),
        ] {
            let answer = written(HttpResponse::Ok().finish(), Length::Known(0), Persistence::of(kept, version));
            assert_eq!(answer.contains("connection"), line.is_some(), "{answer}");
            assert!(line.is_none_or(|line| answer.contains(line)), "{answer}");
        }
    }

    #[test]
    fn dates_go_on() {
        let dates = Dates::default();
        let at = |secs: u64| dates.at(Timestamp::from_nanos(secs * 1_000_000_000).unwrap());
        assert_eq!(&at(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&at(59), b"Thu, 01 Jan 1970 00:00:59 GMT");
    }
}
