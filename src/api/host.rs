//! Checks that a request names this server as its host.
//!
//! A page of another site can point its own name to this machine (DNS rebinding). A browser then treats the server as a
//! part of that site, but still sends the name. No site can redirect an address, or a name without a dot, because such
//! a name is never public.

use std::net::{Ipv4Addr, Ipv6Addr};

use actix_web::http::header::{HOST, HeaderMap};

use super::problem::{ErrorCode, Problem};

/// Allows every name, in place of one.
const ANY_HOST: &str = "*";

/// Refuses names outside `allowed`. Names that no foreign page can redirect are always accepted.
pub(crate) fn check(headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let Some(host) = headers.get(HOST).map(|host| host.as_bytes()) else { return Ok(()) };
    let is_allowed = |name: &String| name == ANY_HOST || name_of(host).eq_ignore_ascii_case(name.as_bytes());
    if is_local(host) || allowed.iter().any(is_allowed) {
        return Ok(());
    }
    let detail = "unknown host name: add it to http.allowed_hosts, or use the server's address";
    Err(Problem::new(ErrorCode::UnknownHost, detail).at("Host"))
}

/// The host without its port, and without a final dot.
fn name_of(host: &[u8]) -> &[u8] {
    let name = match host.iter().rposition(|byte| *byte == b':') {
        Some(colon) if host[colon + 1..].iter().all(u8::is_ascii_digit) => &host[..colon],
        _ => host,
    };
    name.strip_suffix(b".").unwrap_or(name)
}

/// Whether a host is an address, or a name that no site can redirect.
pub(crate) fn is_local(host: &[u8]) -> bool {
    let name = name_of(host);
    // The usual host of a server without keys, which listens on loopback. It is not parsed for each request.
    if name == b"127.0.0.1" {
        return true;
    }
    if !name.contains(&b'.') && !name.starts_with(b"[") {
        return true;
    }
    let Ok(text) = std::str::from_utf8(name) else { return false };
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    // RFC 6761, section 6.3: names below localhost are this machine's.
    let below_localhost = text.len() > 10 && text.is_char_boundary(text.len() - 10);
    text.parse::<Ipv4Addr>().is_ok()
        || bracketed.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        || below_localhost && text[text.len() - 10..].eq_ignore_ascii_case(".localhost")
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn taken(host: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        check(&headers, &["lists.example.org".to_owned()]).is_ok()
    }

    #[test]
    fn names_that_others_can_resolve_to_this_server_are_refused() {
        for good in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "10.1.2.3",
            "[::1]:8080",
            "[fe80::1]",
            "liststore:8080",
            "a.localhost",
            "lists.example.org",
            "Lists.Example.org:443",
            "lists.example.org.:443",
        ] {
            assert!(taken(good), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "1.2.3",
            "localhost.evil.example",
            "evillocalhost.example",
            "lists.example.org.evil.example",
            "[evil.example]",
            "xn--.localhost.com",
        ] {
            assert!(!taken(bad), "{bad}");
        }
        assert!(check(&HeaderMap::new(), &[]).is_ok());
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("evil.example"));
        assert!(check(&headers, &["*".to_owned()]).is_ok());
    }
}
