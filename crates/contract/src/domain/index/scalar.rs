//! The values that a property is found by: JSON's scalars, each with one text.

use serde_json::value::RawValue;

use super::decimal::Decimal;
use crate::domain::{EntityId, Invalid, json};

/// A value that a property is found by. `1` and `"1"` are two; `1` and `1.0` are one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    Null,
    Bool(bool),
    Number(Decimal),
    String(String),
}

impl Scalar {
    /// `None` for arrays and objects, and for numbers with a huge exponent.
    pub(super) fn of(value: &RawValue) -> Option<Self> {
        let raw = value.get();
        match raw.as_bytes().first()? {
            b'n' => Some(Self::Null),
            b't' => Some(Self::Bool(true)),
            b'f' => Some(Self::Bool(false)),
            b'"' => json::string(raw).map(|text| Self::String(text.into_owned())),
            b'-' | b'0'..=b'9' => Decimal::parse(raw).map(Self::Number),
            _ => None,
        }
    }

    /// Reads a value of a query: the JSON text of a scalar.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let value = serde_json::from_str(text).ok().and_then(Self::of);
        value.ok_or_else(|| {
            Invalid::argument(
                "a value must be a JSON string, number, true, false or null: put strings in quotation marks, such as \
                 \"GB\", which is %22GB%22 in a URL",
            )
        })
    }

    fn write(&self, to: &mut String) {
        match self {
            Self::Null => to.push_str("null"),
            Self::Bool(value) => to.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => number.write(to),
            Self::String(text) if text.bytes().all(is_plain) => {
                to.push('"');
                to.push_str(text);
                to.push('"');
            }
            // Strings always have a JSON text.
            Self::String(text) => to.push_str(&serde_json::to_string(text).unwrap_or_default()),
        }
    }
}

/// Whether a byte needs no escape in a JSON string.
fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}

/// The common name of the values: their canonical JSON array, or a hash of it if that is too long for an entity ID. So
/// different values can have the same name: a reader that finds a bag by a name checks the bag.
pub(super) fn name_of(values: &[Scalar]) -> String {
    let mut name = String::from("[");
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            name.push(',');
        }
        value.write(&mut name);
    }
    name.push(']');
    if name.len() <= EntityId::BYTES_MAX {
        return name;
    }
    let digest: [u8; 16] = <md5::Md5 as md5::Digest>::digest(name.as_bytes()).into();
    format!("#{:032x}", u128::from_be_bytes(digest))
}

/// Whether no other values have this name of some.
pub(super) fn is_of_one(name: &str) -> bool {
    name.starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(values: &[&str]) -> String {
        name_of(&values.iter().map(|value| Scalar::parse(value).unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_typed_and_each_has_one_text() {
        assert_eq!(name(&["1", "\"1\"", "1.0", "true", "null"]), r#"[1,"1",1,true,null]"#);
        assert_eq!(name(&[r#""\u0061\n""#]), r#"["a\n"]"#);
        assert_eq!(name(&[r#""\u0000""#]), r#"["\u0000"]"#);
        assert_ne!(name(&["\"a,b\""]), name(&["\"a\"", "\"b\""]));
    }

    #[test]
    fn long_values_have_a_short_name() {
        let long = |c: &str| name(&[&format!("\"{}\"", c.repeat(100_000))]);
        assert_eq!(long("a").len(), 33);
        assert_ne!(long("a"), long("b"));
        assert_eq!(name(&[&format!("\"{}\"", "a".repeat(508))]).len(), 512);
        assert_eq!(name(&[&format!("\"{}\"", "a".repeat(509))]).len(), 33);
    }

    #[test]
    fn anything_but_a_scalar_is_refused() {
        for bad in ["", "GB", "[1]", "{}", "1 2", "01", "\"a", "1e1234567890123456789", "nul"] {
            assert!(Scalar::parse(bad).is_err(), "{bad}");
        }
    }
}
