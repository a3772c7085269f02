//! JSON values in their canonical form, so that equal values have equal bytes.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Invalid;

/// Arrays and objects within each other; deeper ones are refused.
pub const DEPTH_MAX: usize = 100;

/// The RFC 8785 (JSON Canonicalization Scheme) form of a JSON text.
///
/// Refused, because canonicalising would change them silently: an object with the same key twice,
/// and an integer that an IEEE 754 double cannot hold exactly.
pub fn canonicalize(raw: &str) -> Result<Vec<u8>, Invalid> {
    check(raw, 0)?;
    let value: serde_json::Value =
        serde_json::from_str(raw).map_err(|e| Invalid::value_type(format!("no JSON: {e}")))?;
    serde_json_canonicalizer::to_vec(&value).map_err(|e| Invalid::value_type(format!("no canonical JSON: {e}")))
}

fn check(raw: &str, depth: usize) -> Result<(), Invalid> {
    let malformed = |e: serde_json::Error| Invalid::value_type(format!("no JSON: {e}"));
    if depth > DEPTH_MAX {
        return Err(Invalid::argument(format!("a JSON value may be nested at most {DEPTH_MAX} deep")));
    }
    match raw.trim_start().as_bytes().first() {
        Some(b'{') => {
            let object: RawObject<'_> = serde_json::from_str(raw).map_err(malformed)?;
            let mut keys = HashSet::with_capacity(object.0.len());
            for (key, value) in &object.0 {
                if !keys.insert(key) {
                    return Err(Invalid::argument(format!("the key {key:?} stands twice in a JSON object")));
                }
                check(value.get(), depth + 1)?;
            }
            Ok(())
        }
        Some(b'[') => {
            let array: Vec<&RawValue> = serde_json::from_str(raw).map_err(malformed)?;
            array.iter().try_for_each(|value| check(value.get(), depth + 1))
        }
        Some(b'-' | b'0'..=b'9') => check_number(raw.trim()),
        _ => Ok(()),
    }
}

fn check_number(literal: &str) -> Result<(), Invalid> {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(());
    }
    // `{:.0}` writes a double exactly, so the texts are equal if and only if the numbers are.
    let double: f64 = literal.parse().map_err(|_| Invalid::value_type("no JSON number"))?;
    if format!("{:.0}", double.abs()) == digits {
        return Ok(());
    }
    Err(Invalid::argument(format!(
        "the integer {literal} would change in canonical JSON, whose numbers are doubles: send it as a string"
    )))
}

/// The members of an object as they stand, duplicates included.
struct RawObject<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawObject<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawObject(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Code;

    fn canonical(raw: &str) -> Result<String, Code> {
        canonicalize(raw).map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|e| e.code)
    }

    #[test]
    fn the_form_is_that_of_rfc_8785() {
        // RFC 8785, section 3.2.2 (the sample of the serialisation rules) and 3.2.3 (sorting).
        let sample = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                        \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(canonical(sample).as_deref(), Ok(expected));
        assert_eq!(canonical(r#"{"\ufb33":1,"\ud83d\ude00":2}"#).as_deref(), Ok("{\"😀\":2,\"\u{fb33}\":1}"));
    }

    #[test]
    fn integers_that_a_double_would_change_are_refused() {
        for good in ["0", "-0", "9007199254740992", "-9007199254740992", "100000000000000000000", "9007199254740993.5"]
        {
            assert!(canonical(good).is_ok(), "{good}");
        }
        for bad in
            ["9007199254740993", "-9007199254740993", "18446744073709551617", r#"{"a":[{"b":9007199254740993}]}"#]
        {
            assert_eq!(canonical(bad), Err(Code::InvalidArgument), "{bad}");
        }
    }

    #[test]
    fn duplicate_keys_are_refused_at_any_depth_and_in_any_spelling() {
        for bad in [r#"{"a":1,"a":1}"#, r#"[{"x":{"a":1,"b":2,"\u0061":3}}]"#] {
            assert_eq!(canonical(bad), Err(Code::InvalidArgument), "{bad}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(canonical(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(canonical(&nested(DEPTH_MAX + 2)), Err(Code::InvalidArgument));
        assert_eq!(canonical(&nested(50_000)), Err(Code::InvalidArgument));
    }
}
