//! Percent-decoding (RFC 3986, section 2.1), strictly: bytes other than UTF-8 are refused.
//!
//! Paths are percent-encoded. Queries are form-encoded, as HTML forms and `URLSearchParams` write them: there a `+`
//! stands for a space.

use std::borrow::Cow;

use memchr::memchr;
use percent_encoding::percent_decode_str;

/// The text before the first occurrence of an ASCII character, and the text after it, if it occurs.
#[inline]
pub(crate) fn cut(text: &str, separator: u8) -> (&str, Option<&str>) {
    match find(separator, text.as_bytes()) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Whether a text contains an encoded character.
pub(crate) fn is_encoded(raw: &str) -> bool {
    find(b'%', raw.as_bytes()).is_some()
}

/// Checks the first bytes one by one. Segments, names and values are short, and calling a search takes longer.
#[inline]
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    const NEAR: usize = 12;
    let (near, far) = bytes.split_at(bytes.len().min(NEAR));
    let in_far = || memchr(byte, far).map(|at| near.len() + at);
    near.iter().position(|near| *near == byte).or_else(|| if far.is_empty() { None } else { in_far() })
}

/// Decodes a segment of a path. The error completes a sentence whose subject is the segment.
pub(crate) fn decode(raw: &str) -> Result<Cow<'_, str>, &'static str> {
    if !is_encoded(raw) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut escapes = raw.split('%').skip(1);
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    if !escapes.all(is_escape) {
        return Err("must be percent-encoded: \"%\" must be followed by two hexadecimal digits or written as %25");
    }
    percent_decode_str(raw).decode_utf8().map_err(|_| "must be percent-encoded UTF-8: invalid byte sequence")
}

/// Decodes a name or a value of a query.
pub(crate) fn decode_form(raw: &str) -> Result<Cow<'_, str>, &'static str> {
    if find(b'+', raw.as_bytes()).is_none() {
        return decode(raw);
    }
    let spaced = raw.replace('+', " ");
    decode(&spaced).map(|text| Cow::Owned(text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_at_any_position() {
        for before in [0, 1, 11, 12, 13, 40] {
            for behind in [0, 1, 40] {
                let (first, last) = ("x".repeat(before), "y/".repeat(behind));
                assert_eq!(cut(&format!("{first}/{last}"), b'/'), (&*first, Some(&*last)));
                assert_eq!(cut(&first, b'/'), (&*first, None));
                assert!(is_encoded(&format!("{first}%{last}")) && !is_encoded(&format!("{first}{last}")));
            }
        }
    }
}
