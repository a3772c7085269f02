//! Content negotiation: `Accept` and `Accept-Encoding` (RFC 9110, section 12.5).
//!
//! No request is refused for these headers. A caller that names no available form gets JSON, uncompressed.

use actix_web::http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderName};

pub(crate) const LINES: &str = "application/x-ndjson";

/// Thousandths of a weight of 1.
type Weight = u16;
const FULL: Weight = 1_000;

/// Whether a caller prefers lines of JSON to one JSON text.
pub(crate) fn prefers_lines(headers: &HeaderMap) -> bool {
    if !headers.contains_key(ACCEPT) {
        return false;
    }
    let weight = |names: &[&str]| of_first(headers, &ACCEPT, names).unwrap_or(0);
    let lines = weight(&[LINES]);
    lines > 0 && lines >= weight(&["application/json", "application/*", "*/*"])
}

/// The coding of a compressed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Zstd,
    Gzip,
}

impl Coding {
    /// Its name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The names that callers use, the best first. `*` selects the coding that all clients can read.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Zstd => &["zstd"],
            Self::Gzip => &["gzip", "x-gzip", "*"],
        }
    }
}

/// The coding that a caller prefers, the first among equals; `None` if the caller prefers an uncompressed answer.
pub(crate) fn preferred_coding(headers: &HeaderMap, offered: &[Coding]) -> Option<Coding> {
    if !headers.contains_key(ACCEPT_ENCODING) {
        return None;
    }
    let weight = |names: &[&str]| of_first(headers, &ACCEPT_ENCODING, names).unwrap_or(0);
    // An unnamed coding is acceptable, and less preferred than a named one.
    let least = weight(&["identity"]).max(1);
    let weighed = offered.iter().rev().map(|coding| (weight(coding.names()), *coding));
    weighed.filter(|(weight, _)| *weight >= least).max_by_key(|(weight, _)| *weight).map(|(_, coding)| coding)
}

/// The weight of the first of these names that the header contains.
fn of_first(headers: &HeaderMap, header: &HeaderName, names: &[&str]) -> Option<Weight> {
    names.iter().find_map(|name| {
        let mut given =
            headers.get_all(header).filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
        given.find_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let named = parts.next()?.eq_ignore_ascii_case(name);
            let mut weight = || parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            named.then(|| weight().map_or(FULL, parse))
        })
    })
}

/// A weight (RFC 9110, section 12.4.2). An invalid weight refuses.
fn parse(text: &str) -> Weight {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_sound = decimals.len() <= 3 && decimals.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "1" if decimals.len() <= 3 && decimals.bytes().all(|byte| byte == b'0') => FULL,
        "0" if is_sound => format!("{decimals:0<3}").parse().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn headers(name: HeaderName, lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        lines.iter().for_each(|line| headers.append(name.clone(), HeaderValue::from_str(line).unwrap()));
        headers
    }

    #[test]
    fn lines_are_sent_only_if_preferred() {
        for (accept, expected) in [
            (&[][..], false),
            (&["*/*"], false),
            (&["text/html,application/xhtml+xml,*/*;q=0.8"], false),
            (&["application/x-ndjson"], true),
            (&["Application/X-NDJSON; charset=utf-8"], true),
            (&["application/x-ndjson, */*"], true),
            (&["application/x-ndjson;q=0.5, application/json"], false),
            (&["application/json;q=0.499", "application/x-ndjson;q=0.5"], true),
            (&["application/x-ndjson;q=0"], false),
            (&["application/x-ndjson;q=0.000, */*;q=0"], false),
            (&["application/x-ndjson;q=nonsense"], false),
        ] {
            assert_eq!(prefers_lines(&headers(ACCEPT, accept)), expected, "{accept:?}");
        }
    }

    #[test]
    fn codings_are_used_only_if_accepted_and_preferred() {
        const NONE: Option<Coding> = None;
        let (zstd, gzip) = (Some(Coding::Zstd), Some(Coding::Gzip));
        // With both codings on offer, and with gzip alone.
        for (accepted, of_both, of_gzip) in [
            (&[][..], NONE, NONE),
            (&[""], NONE, NONE),
            (&["gzip"], gzip, gzip),
            (&["deflate, gzip;q=0.1, br"], gzip, gzip),
            (&["br", "GZIP"], gzip, gzip),
            (&["x-gzip"], gzip, gzip),
            (&["*"], gzip, gzip),
            (&["*;q=0.5, gzip;q=0"], NONE, NONE),
            (&["gzip;q=0"], NONE, NONE),
            (&["gzip; q=0.5, identity"], NONE, NONE),
            (&["gzip, identity;q=0.5"], gzip, gzip),
            (&["identity"], NONE, NONE),
            (&["gzip;q=2"], NONE, NONE),
            (&["gzip;q=1.000"], gzip, gzip),
            (&["gzip;q=1.001"], NONE, NONE),
            (&["zstd"], zstd, NONE),
            (&["gzip, deflate, br, zstd"], zstd, gzip),
            (&["gzip", "ZSTD"], zstd, gzip),
            (&["zstd;q=0.9, gzip"], gzip, gzip),
            (&["zstd;q=0.9, gzip;q=0.8"], zstd, gzip),
            (&["zstd;q=0.9, *"], gzip, gzip),
            (&["zstd;q=0, *"], gzip, gzip),
            (&["zstd;q=0, gzip;q=0"], NONE, NONE),
            (&["zstd;q=0.5, identity, gzip;q=0.9"], NONE, NONE),
            (&["zstd, identity;q=0.5, gzip;q=0.2"], zstd, NONE),
        ] {
            let headers = headers(ACCEPT_ENCODING, accepted);
            assert_eq!(preferred_coding(&headers, &[Coding::Zstd, Coding::Gzip]), of_both, "{accepted:?}");
            assert_eq!(preferred_coding(&headers, &[Coding::Gzip]), of_gzip, "{accepted:?}");
        }
    }
}
