//! JSON objects of the control plane: small, and strict about every member.
//!
//! Members are kept raw until they are asked for, so that each refusal names the member to blame.
//! `null` is no way to leave a member out: it is ill-typed like any other wrong value.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{ErrorCode, Problem};
use crate::domain::Invalid;

/// Characters of a caller's own word that an answer repeats.
const ECHO_CHARS_MAX: usize = 64;

/// The text of a body, which must be one JSON text in UTF-8 (RFC 8259, section 8.1).
pub(crate) fn text_of(body: &[u8]) -> Result<&str, Problem> {
    if body.is_empty() {
        return Err(Problem::new(ErrorCode::InvalidJson, "the body is empty: send a JSON object"));
    }
    std::str::from_utf8(body).map_err(|_| Problem::new(ErrorCode::InvalidJson, "the body is not UTF-8"))
}

/// Refuses what is not JSON at all. The position helps; the text itself is not repeated.
pub(crate) fn check_syntax(text: &str) -> Result<(), Problem> {
    serde_json::from_str::<IgnoredAny>(text).map(|_| ()).map_err(|error| {
        let detail = format!("the body is not valid JSON: error at line {} column {}", error.line(), error.column());
        Problem::new(ErrorCode::InvalidJson, detail)
    })
}

pub(crate) fn unknown_member(prefix: &str, name: &str, known: &[&str]) -> Problem {
    let name: String = name.chars().take(ECHO_CHARS_MAX).collect();
    let detail = format!("unknown field; known fields: {}", known.join(", "));
    Problem::argument(format!("{prefix}{name}"), detail)
}

pub(crate) fn repeated_member(field: String) -> Problem {
    let detail = format!("duplicate {field}");
    Problem::argument(field, detail)
}

pub(crate) fn missing_member(field: String) -> Problem {
    let detail = format!("{field} is missing");
    Problem::argument(field, detail)
}

/// The members of an object, each known and there once.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    members: Vec<(String, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Entries of a list.
    const SET_MAX: usize = 100;

    /// Reads a body that may have the `known` members. `fixed` ones exist, but cannot be given
    /// here, for the reason that stands with them.
    pub fn read(body: &'a [u8], known: &[&str], fixed: &[(&str, &'static str)]) -> Result<Self, Problem> {
        let text = text_of(body)?;
        let Members(members) = serde_json::from_str(text).map_err(|_| match check_syntax(text) {
            Err(problem) => problem,
            Ok(()) => Problem::new(ErrorCode::InvalidArgument, "the body must be a JSON object"),
        })?;
        let mut names = HashSet::new();
        for (name, _) in &members {
            if let Some((name, reason)) = fixed.iter().find(|(fixed, _)| fixed == name) {
                return Err(Problem::argument((*name).to_owned(), *reason));
            }
            if !known.contains(&name.as_str()) {
                return Err(unknown_member("", name, known));
            }
            if !names.insert(name) {
                return Err(repeated_member(name.clone()));
            }
        }
        Ok(Self { members })
    }

    /// The raw JSON of a member, if it is there.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, raw)| raw.get())
    }

    pub fn required_raw(&self, name: &'static str) -> Result<&'a str, Problem> {
        self.raw(name).ok_or_else(|| missing_member(name.to_owned()))
    }

    /// A string member, as its domain type.
    pub fn optional<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let text: String =
            serde_json::from_str(raw).map_err(|_| Problem::argument(name, format!("{name} must be a string")))?;
        parse(&text).map(Some).map_err(|invalid| Problem::from(invalid).at(name))
    }

    pub fn required<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Invalid>,
    ) -> Result<T, Problem> {
        self.optional(name, parse)?.ok_or_else(|| missing_member(name.to_owned()))
    }

    /// A member that is a whole number within bounds.
    pub fn optional_number(
        &self,
        name: &'static str,
        bounds: std::ops::RangeInclusive<usize>,
    ) -> Result<Option<usize>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let number = whole_number(raw).and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|number| bounds.contains(number));
        let refused = || {
            let detail = format!("{name} must be a whole number from {} to {}", bounds.start(), bounds.end());
            Problem::argument(name, detail)
        };
        number.map(Some).ok_or_else(refused)
    }

    /// A member that is a list of strings, each as its domain type; each once, in their order.
    pub fn optional_set<T: Ord>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Invalid>,
    ) -> Result<Option<Vec<T>>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let texts: Vec<String> = serde_json::from_str(raw)
            .map_err(|_| Problem::argument(name, format!("{name} must be a list of strings")))?;
        if texts.is_empty() || texts.len() > Self::SET_MAX {
            return Err(Problem::argument(name, format!("{name} must have 1 to {} entries", Self::SET_MAX)));
        }
        let parsed: Result<BTreeSet<T>, Invalid> = texts.iter().map(|text| parse(text)).collect();
        parsed.map(|set| Some(set.into_iter().collect())).map_err(|invalid| Problem::from(invalid).at(name))
    }

    /// A member that is a map from strings to strings, as its domain type.
    pub fn optional_map<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(BTreeMap<String, String>) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let Members(members) = serde_json::from_str(raw)
            .map_err(|_| Problem::argument(name, format!("{name} must be an object of strings")))?;
        let mut map = BTreeMap::new();
        for (key, raw) in members {
            let echo: String = key.chars().take(ECHO_CHARS_MAX).collect();
            let field = format!("{name}.{echo}");
            let Ok(text) = serde_json::from_str(raw.get()) else {
                let detail = format!("{field} must be a string");
                return Err(Problem::argument(field, detail));
            };
            if map.insert(key, text).is_some() {
                return Err(repeated_member(field));
            }
        }
        parse(map).map(Some).map_err(|invalid| Problem::from(invalid).at(name))
    }
}

/// The members of an object as they stand, repeated ones included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// A number without a fraction, however it is written: `5.0` is an integer to JSON Schema (section 6.1.1 of its
/// validation vocabulary) and to many writers of JSON.
pub(crate) fn whole_number(raw: &str) -> Option<u64> {
    /// Beyond it, a double does not tell neighbours from each other.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let of_double = || {
        let number: f64 = serde_json::from_str(raw).ok()?;
        ((0.0..=EXACT_MAX).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    };
    serde_json::from_str(raw).ok().or_else(of_double)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &[u8]) -> (&'static str, String) {
        let read = Object::read(body, &["ttl", "labels"], &[("name", "it never changes")]).and_then(|object| {
            object.optional("ttl", |text| Ok(text.to_owned()))?;
            object.optional_map("labels", Ok).map(|_| object)
        });
        let problem = read.unwrap_err();
        (problem.code.name(), problem.field.unwrap_or_default().into_owned())
    }

    #[test]
    fn whole_numbers_may_have_a_point_and_no_fraction() {
        let read = ["5", "5.0", "5e2", "18446744073709551615", "0.0"].map(|raw| whole_number(raw).unwrap());
        assert_eq!(read, [5, 5, 500, u64::MAX, 0]);
        for raw in ["5.5", "-1", "-1.0", "1e300", "\"5\"", "null", "true", ""] {
            assert_eq!(whole_number(raw), None, "{raw}");
        }
    }

    #[test]
    fn what_is_not_json_is_told_from_what_does_not_fit() {
        for body in
            [&b""[..], b" ", b"{", b"{\"ttl\":}", b"nope", b"{} x", b"{\"ttl\":\"\xff\"}", b"{\"x\":1,\"x\"", b"[1,]"]
        {
            assert_eq!(refusal(body).0, "invalid_json", "{}", String::from_utf8_lossy(body));
        }
        for (body, field) in [
            ("[]", ""),
            ("null", ""),
            ("\"x\"", ""),
            (r#"{"tll":"1d"}"#, "tll"),
            (r#"{"ttl":"1d","ttl":"2d"}"#, "ttl"),
            (r#"{"ttl":null}"#, "ttl"),
            (r#"{"ttl":30}"#, "ttl"),
            (r#"{"name":"x"}"#, "name"),
            (r#"{"labels":["a"]}"#, "labels"),
            (r#"{"labels":{"a":1}}"#, "labels.a"),
            (r#"{"labels":{"a":"1","\u0061":"2"}}"#, "labels.a"),
        ] {
            assert_eq!(refusal(body.as_bytes()), ("invalid_argument", field.to_owned()), "{body}");
        }
    }
}
