//! Heads of answers on the wire.

use std::cell::Cell;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use actix_web::http::{StatusCode, Version};
use bytes::{BufMut, BytesMut};
use httpdate::HttpDate;
use tokio::time::Instant;

use crate::api::response::Response;
use crate::domain::Clock;

/// The length of `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
const DATE_BYTES: usize = 29;
type Date = [u8; DATE_BYTES];
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The `Date` header, made once a second.
#[derive(Debug, Default)]
pub(super) struct Dates {
    /// The text of the current second, and when that second ends.
    last: Cell<Option<(Instant, Date)>>,
}

impl Dates {
    /// The date at this moment. It reads the clock only after the last date's second is over.
    pub fn at(&self, moment: Instant, clock: &dyn Clock) -> Date {
        match self.last.get() {
            Some((until, date)) if moment < until => date,
            _ => {
                let now = clock.now().as_nanos();
                let (secs, nanos) = (now / NANOS_PER_SEC, now % NANOS_PER_SEC);
                let text = HttpDate::from(UNIX_EPOCH + Duration::from_secs(secs)).to_string();
                let mut date = [b' '; DATE_BYTES];
                date.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
                self.last.set(Some((moment + Duration::from_nanos(NANOS_PER_SEC - nanos), date)));
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

/// The connection header of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    /// None: in HTTP/1.1 the connection stays open.
    Implied,
    /// For an older client, whose connection stays open only with this header.
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

/// Writes the head of an answer in the form of HTTP/1.1 (RFC 9112, section 4).
pub(super) fn write_head(
    response: &Response,
    length: Length,
    persistence: Persistence,
    date: &Date,
    out: &mut BytesMut,
) {
    out.reserve(512);
    let status = response.status;
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
                header(out, "content-length", itoa::Buffer::new().format(bytes).as_bytes());
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

/// Writes the line before the bytes of a chunk.
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
    use actix_web::http::header::{ETAG, HeaderValue};

    use super::*;
    use crate::domain::{ManualClock, Timestamp};

    fn at_nanos(nanos: u64) -> ManualClock {
        ManualClock::at(Timestamp::from_nanos(nanos).unwrap())
    }

    fn written(response: &Response, length: Length, persistence: Persistence) -> String {
        let clock = at_nanos(784_111_777_999_999_999);
        let date = Dates::default().at(Instant::now(), &clock);
        let mut out = BytesMut::new();
        write_head(response, length, persistence, &date, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn an_answer_has_a_length_and_a_date() {
        let response = Response::new(StatusCode::OK).with(ETAG, HeaderValue::from_static("\"7\""));
        let lines =
            "HTTP/1.1 200 OK\r\netag: \"7\"\r\ncontent-length: 4\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
        assert_eq!(written(&response, Length::Known(4), Persistence::Implied), lines);
    }

    #[test]
    fn answers_without_content_have_no_length() {
        for response in [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].map(Response::new) {
            let answer = written(&response, Length::Known(0), Persistence::Implied);
            assert!(!answer.contains("content-length"), "{answer}");
        }
    }

    #[test]
    fn keep_alive_is_stated_where_it_is_not_implied() {
        for (kept, version, line) in [
            (true, Version::HTTP_11, None),
            (true, Version::HTTP_10, Some("\r\nconnection: keep-alive\r\n")),
            (false, Version::HTTP_11, Some("\r\nconnection: close\r\n")),
            (false, Version::HTTP_10, Some("\r\nconnection: close\r\n")),
        ] {
            let response = Response::new(StatusCode::OK);
            let answer = written(&response, Length::Known(0), Persistence::of(kept, version));
            assert_eq!(answer.contains("connection"), line.is_some(), "{answer}");
            assert!(line.is_none_or(|line| answer.contains(line)), "{answer}");
        }
    }

    #[test]
    fn dates_advance() {
        let (dates, clock, began) = (Dates::default(), at_nanos(250_000_000), Instant::now());
        let after = |millis: u64| dates.at(began + Duration::from_millis(millis), &clock);
        assert_eq!(&after(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        clock.set(Timestamp::from_nanos(1_000_000_000).unwrap());
        // The clock is not read before its second is over.
        assert_eq!(&after(749), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&after(750), b"Thu, 01 Jan 1970 00:00:01 GMT");
    }
}
