//! The place of a property in a bag: a JSON Pointer (RFC 6901).

use std::fmt;

use serde_json::value::RawValue;

use super::ShallowDocument;
use crate::domain::Invalid;

/// A JSON Pointer to a property: `/country`, `/address/city`. It is not empty: a bag as a whole is not a property.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    text: Box<str>,
    first: Box<str>,
    rest: Box<[Box<str>]>,
}

impl Pointer {
    pub const BYTES_MAX: usize = 512;

    pub fn new(text: &str) -> Result<Self, Invalid> {
        if text.len() > Self::BYTES_MAX {
            return Err(Invalid::argument(format!(
                "a property's path must have at most {} bytes; this one has {}",
                Self::BYTES_MAX,
                text.len()
            )));
        }
        let malformed = |why: &str| {
            Invalid::argument(format!(
                "{text:?} is not a property path: {why}; send a JSON Pointer (RFC 6901) such as \"/country\" or \
                 \"/address/city\""
            ))
        };
        let tokens = text.strip_prefix('/').ok_or_else(|| malformed("it must begin with \"/\""))?;
        let mut tokens = tokens
            .split('/')
            .map(unescape)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| malformed("\"~\" must be followed by 0 or 1"))?
            .into_iter();
        let first = tokens.next().unwrap_or_default();
        Ok(Self { text: text.into(), first, rest: tokens.collect() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its reference tokens, unescaped: at least one.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.first).chain(&self.rest).map(|token| &**token)
    }

    /// The value at this place, if there is one.
    pub fn find<'d>(&self, document: &ShallowDocument<'d>) -> Option<&'d RawValue> {
        let property = document.property(&self.first)?;
        self.rest.iter().try_fold(property, |value, token| step(value, token))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// RFC 6901, section 4: `~1` is a slash, and `~0` a tilde.
fn unescape(token: &str) -> Option<Box<str>> {
    let mut parts = token.split('~');
    let mut unescaped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (mark, rest) = part.split_at_checked(1)?;
        unescaped.push(match mark {
            "0" => '~',
            "1" => '/',
            _ => return None,
        });
        unescaped.push_str(rest);
    }
    Some(unescaped.into())
}

fn step<'d>(value: &'d RawValue, token: &str) -> Option<&'d RawValue> {
    if let Some(object) = ShallowDocument::parse(value.get().as_bytes()) {
        return object.property(token);
    }
    let is_index = token == "0" || (!token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()));
    let index: usize = token.parse().ok().filter(|_| is_index)?;
    elements(value)?.get(index).copied()
}

/// The elements of an array.
pub(super) fn elements(value: &RawValue) -> Option<Vec<&RawValue>> {
    value.get().starts_with('[').then(|| serde_json::from_str(value.get()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Code;

    /// RFC 6901, section 5.
    const SAMPLE: &str = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5,
        "k\"l": 6, " ": 7, "m~n": 8}"#;

    fn found(pointer: &str, document: &str) -> Option<String> {
        let document = ShallowDocument::parse(document.as_bytes()).unwrap();
        Pointer::new(pointer).unwrap().find(&document).map(|value| value.get().to_owned())
    }

    #[test]
    fn the_pointers_of_the_rfc_find_its_values() {
        for (pointer, expected) in [
            ("/foo", r#"["bar", "baz"]"#),
            ("/foo/0", r#""bar""#),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ] {
            assert_eq!(found(pointer, SAMPLE).as_deref(), Some(expected), "{pointer}");
        }
    }

    #[test]
    fn missing_values_are_not_found() {
        for pointer in ["/bar", "/foo/2", "/foo/00", "/foo/01", "/foo/-", "/foo/+1", "/foo/bar", "/a~1b/0", "/foo/0/0"]
        {
            assert_eq!(found(pointer, SAMPLE), None, "{pointer}");
        }
        let deep = r#"{"a": {"b": [{"c": null}], "01": true}}"#;
        assert_eq!(found("/a/b/0/c", deep).as_deref(), Some("null"));
        assert_eq!(found("/a/01", deep).as_deref(), Some("true"));
    }

    #[test]
    fn impossible_paths_are_refused() {
        let long = format!("/{}", "a".repeat(Pointer::BYTES_MAX));
        for bad in ["", "a", "a/b", "/a~", "/a~2", "/~é", "$.a", &long] {
            assert_eq!(Pointer::new(bad).map_err(|e| e.code), Err(Code::InvalidArgument), "{bad}");
        }
    }
}
