//! The target of a request, and the host that it names.

use std::ops::Range;

use actix_web::http::Method;

use super::Refusal;

/// A set of bytes, with one table lookup for each byte of a request.
struct Bytes([bool; 256]);

impl Bytes {
    /// All printable ASCII but these.
    const fn printable_but(others: &[u8]) -> Self {
        let mut table = [false; 256];
        let mut byte = b'!';
        while byte <= b'~' {
            table[byte as usize] = true;
            byte += 1;
        }
        let mut at = 0;
        while at < others.len() {
            table[others[at] as usize] = false;
            at += 1;
        }
        Self(table)
    }

    #[inline]
    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }
}

/// All characters of a URL, and the characters that some clients leave unencoded.
static IN_TARGETS: Bytes = Bytes::printable_but(b"#<>`");
/// Unreserved characters, sub-delimiters and percent-encodings (RFC 3986, section 3.2.2).
static IN_HOST_NAMES: Bytes = Bytes::printable_but(b"\"#/:<>?@[\\]^`{|}");

/// The parts of a target.
pub(super) struct RequestTarget<'t> {
    /// The place of path and query.
    pub path: Range<usize>,
    /// The host of an absolute URL, with its port.
    pub host: Option<&'t str>,
}

/// Splits a target. It is a path from the root, `*` for `OPTIONS`, or an absolute URL (RFC 9112, section 3.2).
#[inline]
pub(super) fn target<'t>(input: &[u8], target: &'t str, method: &Method) -> Result<RequestTarget<'t>, Refusal> {
    let malformed = Refusal::Malformed("the request target is neither an absolute path nor an http URL");
    if !target.bytes().all(|byte| IN_TARGETS.has(byte)) {
        return Err(malformed);
    }
    let begin = target.as_ptr() as usize - input.as_ptr() as usize;
    let end = begin + target.len();
    if target.starts_with('/') || (target == "*" && *method == Method::OPTIONS) {
        return Ok(RequestTarget { path: begin..end, host: None });
    }
    let (scheme, rest) = target.split_once("://").ok_or(malformed)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(malformed);
    }
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if !is_authority(host.as_bytes()) {
        return Err(malformed);
    }
    Ok(RequestTarget { path: end - path.len()..end, host: Some(host) })
}

/// Whether this is a host with an optional port (RFC 3986, section 3.2). A request must not contain userinfo.
#[inline]
pub(super) fn is_authority(text: &[u8]) -> bool {
    let (host, port) = match text.iter().rposition(|byte| *byte == b':') {
        // The colons of an IPv6 address stand in brackets.
        Some(colon) if !text.ends_with(b"]") => (&text[..colon], &text[colon + 1..]),
        _ => (text, &b""[..]),
    };
    let in_brackets = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let is_host = match in_brackets {
        Some(address) => {
            !address.is_empty() && address.iter().all(|byte| byte.is_ascii_alphanumeric() || b":.%".contains(byte))
        }
        None => !host.is_empty() && host.iter().all(|byte| IN_HOST_NAMES.has(*byte)),
    };
    is_host && is_port(port)
}

/// Whether this is a valid port, or empty.
fn is_port(digits: &[u8]) -> bool {
    let number = digits.iter().try_fold(0_u16, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_hosts_are_accepted() {
        for host in ["x", "x:80", "example.org:", "127.0.0.1:8080", "[::1]", "[::1]:8080", "a_b", "%41"] {
            assert!(is_authority(host.as_bytes()), "{host}");
        }
        for host in [
            "", ":80", "a b", "a/b", "u@x", "x:y", "x:65536", "x:-1", "::1", "[::1", "[]", "[::1]x", "x\ty", "x#",
            "http://x",
        ] {
            assert!(!is_authority(host.as_bytes()), "{host}");
        }
    }
}
