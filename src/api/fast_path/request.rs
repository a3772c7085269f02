//! Which requests are simple, and where their parts are.
//!
//! Simple is what nearly every client sends nearly always: HTTP/1.1 with its whole head in the
//! buffer, one of four methods, a target of plain characters, one `Host`, a body with a
//! `Content-Length` where the method has a use for one, and no header that says anything about the connection beyond `keep-alive`. Everything else has
//! rules of its own, which the framework knows: it is told apart here, never interpreted.

use std::ops::Range;

use actix_web::http::Method;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};

const HEADERS_MAX: usize = 32;
/// Larger bodies are read by the framework, bit by bit.
const BODY_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum Parsed {
    /// There is nothing to parse yet.
    Nothing,
    Simple(Head),
    NotSimple,
}

/// The head of a simple request.
#[derive(Debug)]
pub(super) struct Head {
    /// How long it is.
    pub bytes: usize,
    pub method: Method,
    /// Where its target is: path and query, in ASCII.
    pub target: Range<usize>,
    /// The headers that a handler might read.
    pub headers: HeaderMap,
    pub content_length: usize,
}

/// Parses the request that begins the input.
pub(super) fn parse(input: &[u8]) -> Parsed {
    if input.is_empty() {
        return Parsed::Nothing;
    }
    simple(input).map_or(Parsed::NotSimple, Parsed::Simple)
}

fn simple(input: &[u8]) -> Option<Head> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(bytes) = request.parse(input).ok()? else { return None };
    if request.version? != 1 {
        return None;
    }
    let method = match request.method? {
        "GET" => Method::GET,
        "POST" => Method::POST,
        "DELETE" => Method::DELETE,
        "PATCH" => Method::PATCH,
        _ => return None,
    };
    let target = request.path.filter(|target| is_plain(target))?;
    let begin = target.as_ptr() as usize - input.as_ptr() as usize;
    let target = begin..begin + target.len();
    let (mut kept, mut hosts, mut content_length) = (HeaderMap::new(), 0, None);
    for header in request.headers.iter() {
        match Meaning::of(header) {
            Meaning::None => {}
            Meaning::Host => hosts += 1,
            Meaning::Length => {
                let length = length(header.value)?;
                if content_length.replace(length).is_some() {
                    return None;
                }
            }
            Meaning::Connection => return None,
            Meaning::Handlers => {
                let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
                kept.append(name, HeaderValue::from_bytes(header.value).ok()?);
            }
        }
    }
    let content_length = content_length.unwrap_or(0);
    let has_no_use_for_it = content_length > 0 && matches!(method, Method::GET | Method::DELETE);
    (hosts == 1 && !has_no_use_for_it).then_some(Head { bytes, method, target, headers: kept, content_length })
}

/// Whether a target is a path from the root and perhaps a query, of the characters that RFC 3986
/// allows there, so that there is one way to understand it.
fn is_plain(target: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&b);
    target.starts_with('/') && target.bytes().all(plain)
}

fn length(value: &[u8]) -> Option<usize> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = std::str::from_utf8(value).ok()?.parse().ok()?;
    (length <= BODY_BYTES_MAX).then_some(length)
}

/// Whom a header is for.
enum Meaning {
    /// Nobody: clients send it, and nothing depends on it.
    None,
    /// There is exactly one (RFC 9112, section 3.2).
    Host,
    Length,
    /// The connection, in a way that is not simple.
    Connection,
    /// The handlers: what is not known is theirs to ignore.
    Handlers,
}

impl Meaning {
    fn of(header: &httparse::Header<'_>) -> Self {
        let named = |name: &str| header.name.eq_ignore_ascii_case(name);
        // By length first: most names are told apart by that.
        match header.name.len() {
            2 if named("te") => Self::Connection,
            4 if named("host") => Self::Host,
            6 if named("accept") => Self::None,
            6 if named("expect") => Self::Connection,
            7 if named("upgrade") || named("trailer") => Self::Connection,
            10 if named("user-agent") => Self::None,
            10 if named("connection") && header.value.eq_ignore_ascii_case(b"keep-alive") => Self::None,
            10 if named("connection") || named("keep-alive") => Self::Connection,
            // Without the header a body is taken as what this says it is.
            12 if named("content-type") && header.value == b"application/json" => Self::None,
            14 if named("content-length") => Self::Length,
            15 if named("accept-encoding") || named("accept-language") => Self::None,
            16 if named("proxy-connection") => Self::Connection,
            17 if named("transfer-encoding") => Self::Connection,
            _ => Self::Handlers,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(input: &[u8]) -> Option<Head> {
        match parse(input) {
            Parsed::Simple(head) => Some(head),
            Parsed::Nothing | Parsed::NotSimple => None,
        }
    }

    #[test]
    fn what_clients_send_is_simple() {
        let text = b"POST /v1/lists/user/seen/u%20-1/items?version=v1 HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\
            Accept: */*\r\nAccept-Encoding: gzip\r\nConnection: Keep-Alive\r\ncontent-type: application/json\r\n\
            X-Request-Id: r-1\r\nif-match: \"1\"\r\nIf-Match: \"2\"\r\nContent-Length: 12\r\n\r\n{\"items\":[]}GET";
        let head = head(text).unwrap();
        assert_eq!((head.method, head.content_length), (Method::POST, 12));
        assert_eq!(&text[head.target], b"/v1/lists/user/seen/u%20-1/items?version=v1");
        assert_eq!(&text[head.bytes..], b"{\"items\":[]}GET");
        let kept: Vec<_> = head.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(kept.len(), 3, "{kept:?}");
        assert!(kept.contains(&("x-request-id", "r-1")) && kept.contains(&("if-match", "\"2\"")), "{kept:?}");
    }

    #[test]
    fn other_media_types_are_the_handlers_to_judge() {
        for value in ["text/plain", "application/json; charset=latin1", "Application/JSON"] {
            let text = format!("POST /v1/features HTTP/1.1\r\nHost: x\r\nContent-Type: {value}\r\n\r\n");
            let head = head(text.as_bytes()).unwrap();
            assert_eq!(head.headers.get("content-type").unwrap().to_str().unwrap(), value);
        }
    }

    #[test]
    fn what_has_rules_of_its_own_is_not() {
        let with = |line: &str| format!("POST /livez HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n");
        for line in [
            "Transfer-Encoding: chunked",
            "transfer-encoding: identity",
            "Expect: 100-continue",
            "Upgrade: h2c",
            "TE: trailers",
            "Trailer: x",
            "Connection: close",
            "Connection: keep-alive, x",
            "Connection: upgrade",
            "Keep-Alive: timeout=5",
            "Proxy-Connection: keep-alive",
            "Host: x",
            "Content-Length: 1\r\nContent-Length: 1",
            "Content-Length: 1, 1",
            "Content-Length: +1",
            "Content-Length: -1",
            "Content-Length: 0x1",
            "Content-Length:",
            "Content-Length: 65537",
            "Content-Length: 99999999999999999999999",
            "X-Folded: a\r\n b",
            "Bad Name: x",
            "No-Space : x",
        ] {
            assert!(head(with(line).as_bytes()).is_none(), "{line}");
        }
        for line in ["Content-Length: 0", "Content-Length: 65536", "Connection: keep-alive", "X: \u{e9}"] {
            assert!(head(with(line).as_bytes()).is_some(), "{line}");
        }
        for line in [
            "HEAD /livez HTTP/1.1",
            "OPTIONS /livez HTTP/1.1",
            "CONNECT x:1 HTTP/1.1",
            "get /livez HTTP/1.1",
            "GET /livez HTTP/1.0",
            "GET /livez HTTP/2.0",
            "GET /livez",
            "GET http://x/livez HTTP/1.1",
            "GET * HTTP/1.1",
            "GET /a#b HTTP/1.1",
            "GET /\u{e9} HTTP/1.1",
            "GET /a\"b HTTP/1.1",
            "GET  /livez HTTP/1.1",
        ] {
            assert!(head(format!("{line}\r\nHost: x\r\n\r\n").as_bytes()).is_none(), "{line}");
        }
        for method in ["GET", "DELETE"] {
            let text = |length| format!("{method} /livez HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
            assert!(head(text(0).as_bytes()).is_some() && head(text(1).as_bytes()).is_none(), "{method}");
        }
        let many = |count| (0..count).map(|number| format!("X-{number}: y\r\n")).collect::<String>();
        let with = |count| format!("GET /livez HTTP/1.1\r\nHost: x\r\n{}\r\n", many(count));
        assert!(head(with(HEADERS_MAX - 1).as_bytes()).is_some() && head(with(HEADERS_MAX).as_bytes()).is_none());
        assert!(head(b"GET /livez HTTP/1.1\r\n\r\n").is_none());
    }

    #[test]
    fn a_head_is_simple_only_once_it_is_whole() {
        let text = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(matches!(parse(b""), Parsed::Nothing));
        for end in 1..text.len() {
            assert!(matches!(parse(&text[..end]), Parsed::NotSimple), "{end}");
        }
        assert!(head(text).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(input in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&input);
        }

        #[test]
        fn a_target_is_what_stands_between_method_and_version(
            method in prop::sample::select(vec!["GET", "POST", "DELETE", "PATCH"]),
            target in "/[ -~]{0,40}",
        ) {
            let text = format!("{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n");
            if let Some(head) = head(text.as_bytes()) {
                prop_assert_eq!(&text[head.target], &target);
                prop_assert_eq!(head.bytes, text.len());
            }
        }
    }
}
