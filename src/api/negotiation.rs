//! What callers say they can read: `Accept` and `Accept-Encoding` (RFC 9110, section 12.5).
//!
//! Nobody is refused for what they say: whoever names nothing that there is gets JSON, uncompressed.

use actix_web::http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderName};

pub(super) const LINES: &str = "application/x-ndjson";

/// Thousandths of a weight of 1.
type Weight = u16;
const FULL: Weight = 1_000;

/// Whether a caller prefers lines of JSON to one JSON text.
pub(super) fn prefers_lines(headers: &HeaderMap) -> bool {
    if !headers.contains_key(ACCEPT) {
        return false;
    }
    let weight = |names: &[&str]| of_first(headers, &ACCEPT, names).unwrap_or(0);
    let lines = weight(&[LINES]);
    lines > 0 && lines >= weight(&["application/json", "application/*", "*/*"])
}

/// Whether a caller prefers an answer in gzip to one as it is.
pub(super) fn prefers_gzip(headers: &HeaderMap) -> bool {
    if !headers.contains_key(ACCEPT_ENCODING) {
        return false;
    }
    let weight = |names: &[&str]| of_first(headers, &ACCEPT_ENCODING, names).unwrap_or(0);
    let gzip = weight(&["gzip", "x-gzip", "*"]);
    // What is not named can be taken, and is wanted less than anything that is.
    gzip > 0 && gzip >= weight(&["identity"])
}

/// The weight of the first of these names that is given.
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

/// A weight (RFC 9110, section 12.4.2); what is none refuses.
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
    fn lines_are_for_those_who_prefer_them() {
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
    fn gzip_is_for_those_who_take_it_and_do_not_prefer_none() {
        for (accepted, expected) in [
            (&[][..], false),
            (&[""], false),
            (&["gzip"], true),
            (&["deflate, gzip;q=0.1, br"], true),
            (&["br", "GZIP"], true),
            (&["x-gzip"], true),
            (&["*"], true),
            (&["*;q=0.5, gzip;q=0"], false),
            (&["gzip;q=0"], false),
            (&["gzip; q=0.5, identity"], false),
            (&["gzip, identity;q=0.5"], true),
            (&["identity"], false),
            (&["gzip;q=2"], false),
            (&["gzip;q=1.000"], true),
            (&["gzip;q=1.001"], false),
        ] {
            assert_eq!(prefers_gzip(&headers(ACCEPT_ENCODING, accepted)), expected, "{accepted:?}");
        }
    }
}
