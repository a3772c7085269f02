//! Heads of requests as clients, other programs and attackers send them.

use proptest::prelude::*;

use super::*;

fn parsed(input: &[u8]) -> Parsed {
    parse(input, &Hosts::default(), |_| HeadersWanted::Meaningful)
}

fn head(input: &[u8]) -> Head {
    match parsed(input) {
        Parsed::Whole(head) => head,
        other => panic!("{other:?}: {}", String::from_utf8_lossy(input)),
    }
}

fn with(line: &str) -> String {
    format!("POST /livez HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n")
}

#[test]
fn heads_of_common_clients_are_parsed() {
    let text = b"POST /v1/lists/user/seen/u%20-1/items?version=v1 HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\nAccept: \
                 */*\r\nAccept-Encoding: br\r\nConnection: Keep-Alive\r\ncontent-type: \
                 application/json\r\nX-Request-Id: r-1\r\nif-match: \"1\"\r\nIf-Match: \"2\"\r\nContent-Length: \
                 12\r\n\r\n{\"items\":[]}GET";
    let head = head(text);
    assert_eq!((&head.method, head.framing, head.kept), (&Method::POST, Framing::Length(12), true));
    assert_eq!(&text[head.target], b"/v1/lists/user/seen/u%20-1/items?version=v1");
    assert_eq!(&text[head.bytes..], b"{\"items\":[]}GET");
    let kept: Vec<_> = head.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert!(kept.contains(&("x-request-id", "r-1")) && kept.contains(&("if-match", "\"2\"")), "{kept:?}");
    let Parsed::Whole(all) = parse(text, &Hosts::default(), |_| HeadersWanted::All) else { panic!("refused") };
    assert_eq!(all.headers.len(), 10);
}

#[test]
fn accepted_codings_are_passed_on_where_needed() {
    for (line, expected) in [
        ("Accept: application/json, */*", 0),
        ("Accept: Application/X-NDJSON", 1),
        ("Accept-Encoding: br, GZIP;q=0.5", 1),
        ("Accept-Encoding: deflate, ZSTD", 1),
        ("Accept-Encoding: *", 1),
        ("Accept-Encoding: identity", 0),
    ] {
        assert_eq!(head(with(line).as_bytes()).headers.len(), expected, "{line}");
    }
}

#[test]
fn other_media_types_are_left_to_the_handler() {
    for value in ["text/plain", "application/json; charset=latin1", "Application/JSON"] {
        let head = head(with(&format!("Content-Type: {value}")).as_bytes());
        assert_eq!(head.headers.get("content-type").unwrap().to_str().unwrap(), value);
    }
}

#[test]
fn connection_options_are_honoured() {
    let get = |version: &str, lines: &str| head(format!("GET / HTTP/{version}\r\nHost: x\r\n{lines}\r\n").as_bytes());
    for (version, lines, kept) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: x, CLOSE ,y\r\n", false),
        ("1.1", "Connection: close\r\nConnection: keep-alive\r\n", false),
        ("1.1", "Connection: upgrade\r\nUpgrade: h2c\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        assert_eq!(get(version, lines).kept, kept, "{version} {lines}");
    }
    assert_eq!(head(b"GET / HTTP/1.0\r\n\r\n").version, Version::HTTP_10);
    assert!(head(with("Expect: 100-Continue").as_bytes()).expects_continue);
    let both = head(with("Expect: 100-continue, more").as_bytes());
    assert!(both.expects_continue && both.expects_unknown);
    assert!(!head(with("Expect: 100-continue").as_bytes()).expects_unknown);
    assert!(!get("1.0", "Expect: more\r\n").expects_unknown);
    assert!(!get("1.0", "Expect: 100-continue\r\n").expects_continue);
}

#[test]
fn targets_are_paths_with_or_without_a_host() {
    for (target, path) in [
        ("/", "/"),
        ("/a?b=c", "/a?b=c"),
        ("//x/y", "//x/y"),
        ("/a\"{b}|[c]\\^", "/a\"{b}|[c]\\^"),
        ("http://x", ""),
        ("HTTP://x:80/a?b", "/a?b"),
        ("https://[::1]:8080?b", "?b"),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(&text[head(text.as_bytes()).target], path, "{target}");
    }
    let text = "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(&text[head(text.as_bytes()).target], "*");
    for target in [
        "*",
        "x",
        "x:1",
        "a/b",
        "ftp://x/",
        "http:///a",
        "http://",
        "http://u@x/",
        "http://u:p@x/",
        "http://@x/",
        "http://x:y/",
        "http://x:65536/",
        "http://::1/",
        "http://[::1/",
        "http://[]/",
        "http:/x/",
        "http:x",
        "://x/",
        "/a#b",
        "/a<b",
        "/\u{e9}",
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(matches!(parsed(text.as_bytes()), Parsed::Refused(Refusal::Malformed(_))), "{target}");
    }
}

#[test]
fn the_host_of_an_absolute_target_counts_in_place_of_the_header() {
    for (target, named) in [
        ("/", Some("header.example")),
        ("http://local/", None),
        ("http://127.0.0.1:80", None),
        ("http://[::1]:80/", None),
        ("http://target.example", Some("target.example")),
        ("HTTPS://target.example:443/a?b", Some("target.example:443")),
        ("http://header.example/", Some("header.example")),
    ] {
        let lines = |host: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let hosts_of = |head: &Head| -> Vec<String> {
            head.headers.get_all(HOST).map(|host| host.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(hosts_of(&head(lines("header.example").as_bytes())), Vec::from_iter(named), "{target}");
        let text = lines("local");
        let Parsed::Whole(all) = parse(text.as_bytes(), &Hosts::default(), |_| HeadersWanted::All) else {
            panic!("refused")
        };
        let expected = target.split_once("://").map_or("local", |(_, rest)| rest.split(['/', '?']).next().unwrap());
        assert_eq!(hosts_of(&all), [expected], "{target}");
        // The handler compares a page's site with it.
        let with_origin = text.replace("\r\n\r\n", "\r\nOrigin: http://a.example\r\n\r\n");
        assert_eq!(hosts_of(&head(with_origin.as_bytes())), [expected], "{target}");
    }
    // The header is still mandatory, once and well-formed (RFC 9112, section 3.2).
    for lines in ["", "Host: a\r\nHost: a\r\n", "Host: a/b\r\n", "Host:\r\n"] {
        let text = format!("GET http://local/ HTTP/1.1\r\n{lines}\r\n");
        assert!(matches!(parsed(text.as_bytes()), Parsed::Refused(Refusal::Malformed(_))), "{lines:?}");
    }
    let old = head(b"GET http://target.example/ HTTP/1.0\r\n\r\n");
    assert_eq!(old.headers.get(HOST).unwrap().to_str().unwrap(), "target.example");
}

#[test]
fn ambiguous_input_is_refused() {
    for line in [
        "Host: x",
        "Content-Length: 1\r\nContent-Length: 1",
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 1, 1",
        "Content-Length: +1",
        "Content-Length: -1",
        "Content-Length: 0x1",
        "Content-Length: 1 1",
        "Content-Length:",
        "Content-Length: 99999999999999999999999",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 1",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding : chunked",
        "X-Folded: a\r\n b",
        "X-Folded: a\r\n\tb",
        " X: leading",
        "Bad Name: x",
        "No-Space : x",
        "No-Colon",
        ": x",
        "X: a\nY: b",
        "X: a\rY: b",
        "X: \0",
        "X\0: a",
    ] {
        let found = parsed(with(line).as_bytes());
        assert!(matches!(found, Parsed::Refused(Refusal::Malformed(_))), "{line:?}: {found:?}");
    }
    for line in ["identity", "gzip", "gzip, chunked", "chunked, chunked", "xchunked", "chunked;x=y", "\"chunked\"", ""]
    {
        let found = parsed(with(&format!("Transfer-Encoding: {line}")).as_bytes());
        assert!(matches!(found, Parsed::Refused(Refusal::TransferCoding)), "{line:?}: {found:?}");
    }
    for text in [
        "\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\rGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\n",
        "GET / HTTP/1.1\n\n",
        "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /\tHTTP/1.1\r\nHost: x\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "G\0T / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "\x16\x03\x01\x02\0\x01\0\x01\u{fc}",
    ] {
        let found = parsed(text.as_bytes());
        assert!(matches!(found, Parsed::Refused(Refusal::Malformed(_))), "{text:?}: {found:?}");
    }
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "http/1.1", "HTTP/11"] {
        let text = format!("GET / {version}\r\nHost: x\r\n\r\n");
        let found = parsed(text.as_bytes());
        assert!(matches!(found, Parsed::Refused(Refusal::Version)), "{version}: {found:?}");
    }
    assert!(matches!(parsed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Parsed::Refused(Refusal::Version)));
}

#[test]
fn heads_are_bounded_in_bytes_and_in_headers() {
    let many = |count| (0..count).map(|number| format!("X-{number}: y\r\n")).collect::<String>();
    let with = |count| format!("GET /livez HTTP/1.1\r\nHost: x\r\n{}\r\n", many(count));
    for count in [0, HEADERS_USUAL - 1, HEADERS_USUAL, HEADERS_MAX - 1] {
        assert_eq!(head(with(count).as_bytes()).headers.len(), count);
    }
    assert!(matches!(parsed(with(HEADERS_MAX).as_bytes()), Parsed::Refused(Refusal::HeadTooLarge)));
    let long = |bytes| format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "y".repeat(bytes));
    let frame = long(0).len();
    assert!(matches!(parsed(long(HEAD_BYTES_MAX - frame).as_bytes()), Parsed::Whole(_)));
    assert!(matches!(parsed(long(HEAD_BYTES_MAX - frame + 1).as_bytes()), Parsed::Refused(Refusal::HeadTooLarge)));
    let begun = "GET /".to_owned() + &"y".repeat(HEAD_BYTES_MAX);
    assert!(matches!(parsed(begun.as_bytes()), Parsed::Refused(Refusal::HeadTooLarge)));
}

#[test]
fn an_incomplete_head_waits() {
    let text = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    for end in 1..text.len() {
        assert!(matches!(parsed(&text[..end]), Parsed::Partial), "{end}");
    }
    assert_eq!(head(text).bytes, text.len());
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_a_panic(input in prop::collection::vec(any::<u8>(), 1..200)) {
        parsed(&input);
        let _ = trailers(&input);
    }

    #[test]
    fn a_target_lies_between_method_and_version(
        method in prop::sample::select(vec!["GET", "POST", "DELETE", "PATCH", "HEAD", "BREW"]),
        target in "/[ -~]{0,40}",
    ) {
        let text = format!("{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        if let Parsed::Whole(head) = parsed(text.as_bytes()) {
            prop_assert_eq!(&text[head.target], &target);
            prop_assert_eq!(head.bytes, text.len());
        }
    }
}
