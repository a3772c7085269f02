//! Heads of requests: where a head ends, and how its body is framed (RFC 9112, sections 2 to 6).
//!
//! `httparse` reads the lines. This module refuses the remaining ambiguous forms, which another reader could understand
//! differently:
//! - lines that end with LF alone
//! - a duplicate length, or one together with a transfer coding
//! - a coding other than `chunked`
//! - a target that is not a path
//! - a host that is missing, duplicate or invalid
//!
//! A server may ignore `Upgrade`, and this one does, because it has no other protocol.

#[cfg(test)]
mod tests;

use std::ops::Range;

use actix_web::http::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use actix_web::http::{Method, Version};

use super::hosts::Hosts;
use super::target::{RequestTarget, target};
use super::{HEAD_BYTES_MAX, Refusal};
use crate::api::request::Framing;

/// The capacity that is enough for nearly all requests.
const HEADERS_USUAL: usize = 32;

const HEADERS_MAX: usize = 128;

#[derive(Debug)]
pub(super) enum Parsed {
    Whole(Head),
    /// The head is incomplete.
    Partial,
    Refused(Refusal),
}

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head {
    /// The length of the head.
    pub bytes: usize,
    pub method: Method,
    /// The place of path and query, in ASCII. An absolute target may omit the path.
    pub target: Range<usize>,
    pub version: Version,
    /// The headers that a handler might read.
    pub headers: HeaderMap,
    pub framing: Framing,
    /// Whether the client wants to keep the connection open.
    pub kept: bool,
    pub expects_continue: bool,
    /// Whether it has an expectation other than `100-continue`.
    pub expects_unknown: bool,
}

/// The headers that a request's handler needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadersWanted {
    All,
    /// Without the headers that every client sends and that only the connection uses, or nothing uses.
    Meaningful,
}

/// Parses the head at the beginning of the input, which is not empty. `wanted` receives its target.
pub(super) fn parse(input: &[u8], hosts: &Hosts, wanted: impl Fn(&str) -> HeadersWanted) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_USUAL];
    match parse_into(input, &mut headers, hosts, &wanted) {
        Err(httparse::Error::TooManyHeaders) => {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            parse_into(input, &mut headers, hosts, &wanted).unwrap_or_else(|error| Parsed::Refused(refusal(error)))
        }
        Err(error) => Parsed::Refused(refusal(error)),
        Ok(parsed) => parsed,
    }
}

fn parse_into<'h>(
    input: &'h [u8],
    headers: &mut [httparse::Header<'h>],
    hosts: &Hosts,
    wanted: impl Fn(&str) -> HeadersWanted,
) -> Result<Parsed, httparse::Error> {
    let mut request = httparse::Request::new(headers);
    Ok(match request.parse(input)? {
        httparse::Status::Complete(bytes) if bytes <= HEAD_BYTES_MAX => {
            let wanted = wanted(request.path.unwrap_or_default());
            head(input, bytes, &request, hosts, wanted).map_or_else(Parsed::Refused, Parsed::Whole)
        }
        httparse::Status::Partial if input.len() < HEAD_BYTES_MAX => Parsed::Partial,
        httparse::Status::Complete(_) | httparse::Status::Partial => Parsed::Refused(Refusal::HeadTooLarge),
    })
}

fn refusal(error: httparse::Error) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => Refusal::HeadTooLarge,
        httparse::Error::Version => Refusal::Version,
        httparse::Error::Token => Refusal::Malformed("the request line has an invalid method or target"),
        httparse::Error::HeaderName => Refusal::Malformed("a header name has invalid characters"),
        httparse::Error::HeaderValue => Refusal::Malformed("a header value has invalid characters"),
        httparse::Error::NewLine | httparse::Error::Status => {
            Refusal::Malformed("a line of the request head does not end with CR and LF")
        }
    }
}

fn head(
    input: &[u8],
    bytes: usize,
    request: &httparse::Request<'_, '_>,
    hosts: &Hosts,
    wanted: HeadersWanted,
) -> Result<Head, Refusal> {
    check_line_ends(input, bytes, request.headers)?;
    let version = if request.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let method = method(request.method.unwrap_or_default())?;
    let mut seen = Seen::default();
    let mut headers = HeaderMap::new();
    for header in request.headers.iter() {
        let meaning = Meaning::of(header);
        match meaning {
            Meaning::None | Meaning::Handlers => {}
            Meaning::Host => seen.host(hosts.is_local(header.value))?,
            Meaning::Length => seen.length(header.value)?,
            Meaning::Coding => seen.coding(header.value)?,
            Meaning::Connection => seen.connection(header.value),
            Meaning::Expect => seen.expectation(header.value),
        }
        let is_wanted = match meaning {
            Meaning::Handlers => true,
            // A page of another site may have pointed the name here, so the handler compares it.
            Meaning::Host => wanted == HeadersWanted::All || seen.host == Some(false),
            _ => wanted == HeadersWanted::All,
        };
        if is_wanted {
            let malformed = Refusal::Malformed("a header has invalid characters");
            let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| malformed)?;
            headers.append(name, HeaderValue::from_bytes(header.value).map_err(|_| malformed)?);
        }
    }
    if seen.host.is_none() && version == Version::HTTP_11 {
        return Err(Refusal::Malformed("the header Host is missing"));
    }
    let RequestTarget { path: target, host: of_target } = target(input, request.path.unwrap_or_default(), &method)?;
    if let Some(host) = of_target {
        // It replaces the header (RFC 9112, section 3.2.2).
        headers.remove(HOST);
        if wanted == HeadersWanted::All || hosts.is_local(host.as_bytes()) == Some(false) {
            append_host(&mut headers, host.as_bytes());
        }
    }
    if headers.contains_key(ORIGIN) && !headers.contains_key(HOST) {
        // The handler compares a page's site with it.
        let header = || request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
        let host = of_target.map(str::as_bytes).or_else(|| header().map(|host| host.value));
        host.into_iter().for_each(|host| append_host(&mut headers, host));
    }
    let framing = match (seen.length, seen.chunked) {
        (None, false) => Framing::Absent,
        (Some(length), false) => Framing::Length(length),
        (None, true) if version == Version::HTTP_11 => Framing::Chunked,
        (None, true) => return Err(Refusal::Malformed("HTTP/1.0 does not support Transfer-Encoding")),
        (Some(_), true) => {
            return Err(Refusal::Malformed("Content-Length and Transfer-Encoding must not be combined"));
        }
    };
    let kept = !seen.closes && (version == Version::HTTP_11 || seen.keeps_alive);
    // HTTP/1.0 has no expectations (RFC 9110, section 10.1.1).
    let expects_continue = seen.expects_continue && version == Version::HTTP_11;
    let expects_unknown = seen.expects_unknown && version == Version::HTTP_11;
    Ok(Head { bytes, method, target, version, headers, framing, kept, expects_continue, expects_unknown })
}

fn append_host(headers: &mut HeaderMap, host: &[u8]) {
    // A valid host is always a valid header value.
    if let Ok(host) = HeaderValue::from_bytes(host) {
        headers.append(HOST, host);
    }
}

/// Checks that each line ends with CRLF. `httparse` also accepts LF alone.
fn check_line_ends(input: &[u8], bytes: usize, headers: &[httparse::Header<'_>]) -> Result<(), Refusal> {
    let ends = |at: usize| input.get(..at).is_some_and(|before| before.ends_with(b"\r\n"));
    let place = |header: &httparse::Header<'_>| header.name.as_ptr() as usize - input.as_ptr() as usize;
    let head = input.get(..bytes).unwrap_or_default();
    if head.ends_with(b"\r\n\r\n") && !head.starts_with(b"\n") && headers.iter().all(|header| ends(place(header))) {
        return Ok(());
    }
    Err(refusal(httparse::Error::NewLine))
}

fn method(text: &str) -> Result<Method, Refusal> {
    Ok(match text {
        "GET" => Method::GET,
        "POST" => Method::POST,
        "DELETE" => Method::DELETE,
        "PATCH" => Method::PATCH,
        other => Method::from_bytes(other.as_bytes()).map_err(|_| refusal(httparse::Error::Token))?,
    })
}

/// The meaning of the headers so far for the request as a whole.
#[derive(Default)]
struct Seen {
    /// Whether the host name always belongs to this machine, regardless of the network.
    host: Option<bool>,
    length: Option<u64>,
    chunked: bool,
    closes: bool,
    keeps_alive: bool,
    expects_continue: bool,
    expects_unknown: bool,
}

impl Seen {
    fn host(&mut self, is_local: Option<bool>) -> Result<(), Refusal> {
        if self.host.is_some() {
            return Err(Refusal::Malformed("duplicate header Host"));
        }
        self.host = is_local;
        if is_local.is_some() { Ok(()) } else { Err(Refusal::Malformed("the header Host is not a valid host")) }
    }

    fn length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let length = digits.and_then(|digits| digits.parse().ok());
        let length = length.ok_or(Refusal::Malformed("the header Content-Length is not a number of bytes"))?;
        match self.length.replace(length) {
            None => Ok(()),
            Some(_) => Err(Refusal::Malformed("duplicate header Content-Length")),
        }
    }

    fn coding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal::TransferCoding);
        }
        match std::mem::replace(&mut self.chunked, true) {
            false => Ok(()),
            true => Err(Refusal::Malformed("duplicate header Transfer-Encoding")),
        }
    }

    fn expectation(&mut self, value: &[u8]) {
        for member in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let is_continue = member.eq_ignore_ascii_case(b"100-continue");
            self.expects_continue |= is_continue;
            self.expects_unknown |= !is_continue && !member.is_empty();
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.closes |= option.eq_ignore_ascii_case(b"close");
            self.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

/// Searches the beginning of the input for the end of the trailers, with the empty line after them.
pub(super) fn trailers(input: &[u8]) -> Result<Option<usize>, Refusal> {
    if input.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_USUAL];
    let malformed = |_| Refusal::Malformed("the body's trailers are malformed");
    match httparse::parse_headers(input, &mut headers).map_err(malformed)? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete((bytes, headers)) => {
            // The first of them begins the input.
            let others = headers.get(1..).unwrap_or_default();
            check_line_ends(input, bytes, others).map_err(|_| malformed(httparse::Error::NewLine))?;
            Ok(Some(bytes))
        }
    }
}

/// The recipient of a header.
enum Meaning {
    /// None: clients send it, and nothing depends on it.
    None,
    Host,
    Length,
    Coding,
    Connection,
    Expect,
    /// The handlers, which may ignore unknown headers.
    Handlers,
}

impl Meaning {
    fn of(header: &httparse::Header<'_>) -> Self {
        let named = |name: &str| header.name.eq_ignore_ascii_case(name);
        // By length first, which distinguishes most names.
        match header.name.len() {
            2 if named("te") => Self::None,
            4 if named("host") => Self::Host,
            // A value that names one other form only, or any form, gets the default form.
            6 if named("accept") && !mentions(header.value, b"ndjson") => Self::None,
            6 if named("expect") => Self::Expect,
            7 if named("upgrade") || named("trailer") => Self::None,
            10 if named("user-agent") || named("keep-alive") => Self::None,
            10 if named("connection") => Self::Connection,
            // Without the header, a body has this type by default.
            12 if named("content-type") && header.value == b"application/json" => Self::None,
            14 if named("content-length") => Self::Length,
            15 if named("accept-encoding") && !names_a_coding(header.value) => Self::None,
            15 if named("accept-language") => Self::None,
            16 if named("proxy-connection") => Self::None,
            17 if named("transfer-encoding") => Self::Coding,
            _ => Self::Handlers,
        }
    }
}

/// Whether a caller may take one of the available codings.
fn names_a_coding(value: &[u8]) -> bool {
    value.contains(&b'*') || mentions(value, b"gzip") || mentions(value, b"zstd")
}

fn mentions(value: &[u8], word: &[u8]) -> bool {
    value.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}
