//! Values: the six value types, from JSON to stored bytes and back.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::{Int64As, Invalid, MemberKey, json};

/// The type of a feature's values. It never changes: stored bytes are read by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueType {
    String,
    Int64,
    Double,
    Bool,
    Bytes,
    Json,
}

impl ValueType {
    pub const ALL: [Self; 6] = [Self::String, Self::Int64, Self::Double, Self::Bool, Self::Bytes, Self::Json];

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|value_type| value_type.as_str() == text)
            .ok_or_else(|| Invalid::argument("value_type must be string, int64, double, bool, bytes or json"))
    }

    #[inline]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::Bytes => "bytes",
            Self::Json => "json",
        }
    }

    /// Encodes the raw JSON of one value: UTF-8; 8-byte big-endian two's complement; 8-byte
    /// big-endian IEEE 754, -0.0 as 0.0; one byte 0 or 1; the raw bytes; the RFC 8785 canonical form.
    pub fn encode(self, raw: &str) -> Result<Value, Invalid> {
        let mismatch = |expected: &str| {
            Invalid::value_type(format!("a value of this feature (value_type {self}) must be {expected}"))
        };
        let stored: Vec<u8> = match self {
            Self::String => json::string(raw).ok_or_else(|| mismatch("a JSON string"))?.into_owned().into_bytes(),
            Self::Int64 => parse_int64(raw)
                .ok_or_else(|| mismatch("an integer from -2^63 to 2^63 - 1, as a JSON number or a decimal string"))?
                .to_be_bytes()
                .into(),
            Self::Double => {
                let number =
                    serde_json::from_str::<f64>(raw).map_err(|_| mismatch("a JSON number in the range of a double"))?;
                // -0.0 equals 0.0, and one value has one form of bytes.
                (number + 0.0).to_be_bytes().into()
            }
            Self::Bool => {
                vec![u8::from(serde_json::from_str::<bool>(raw).map_err(|_| mismatch("true or false"))?)]
            }
            Self::Bytes => {
                let expected = || mismatch("a string of standard, padded Base64");
                let text = json::string(raw).ok_or_else(expected)?;
                STANDARD.decode(text.as_bytes()).map_err(|_| expected())?
            }
            Self::Json => json::canonicalize(raw)?,
        };
        Value::new(stored)
    }

    /// Appends the JSON of a stored value. Fails if the stored bytes do not have this type.
    pub fn write_json(self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), UndecodableValue> {
        JsonForm { value_type: self, int64_as: Int64As::Number }.write_json(stored, out)
    }
}

/// How the stored values of a list become JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonForm {
    pub value_type: ValueType,
    pub int64_as: Int64As,
}

impl JsonForm {
    /// Appends the JSON of a stored value. Fails if the stored bytes do not have its type.
    pub fn write_json(self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), UndecodableValue> {
        let Self { value_type, int64_as } = self;
        let undecodable = || UndecodableValue { value_type };
        match value_type {
            ValueType::String => {
                if is_plain(stored) {
                    out.push(b'"');
                    out.extend_from_slice(stored);
                    out.push(b'"');
                    return Ok(());
                }
                let text = std::str::from_utf8(stored).map_err(|_| undecodable())?;
                serde_json::to_writer(out, text).map_err(|_| undecodable())
            }
            ValueType::Int64 => {
                let number = i64::from_be_bytes(stored.try_into().map_err(|_| undecodable())?);
                match int64_as {
                    Int64As::Number => serde_json::to_writer(out, &number).map_err(|_| undecodable()),
                    Int64As::String => {
                        out.push(b'"');
                        serde_json::to_writer(&mut *out, &number).map_err(|_| undecodable())?;
                        out.push(b'"');
                        Ok(())
                    }
                }
            }
            ValueType::Double => {
                let number = f64::from_be_bytes(stored.try_into().map_err(|_| undecodable())?);
                if !number.is_finite() {
                    return Err(undecodable());
                }
                serde_json::to_writer(out, &number).map_err(|_| undecodable())
            }
            ValueType::Bool => {
                out.extend_from_slice(match stored {
                    [0] => b"false",
                    [1] => b"true",
                    _ => return Err(undecodable()),
                });
                Ok(())
            }
            ValueType::Bytes => {
                out.push(b'"');
                out.extend_from_slice(STANDARD.encode(stored).as_bytes());
                out.push(b'"');
                Ok(())
            }
            ValueType::Json => {
                // Canonical when it was stored. Checked again, so that a damaged row does not break the answer.
                serde_json::from_slice::<serde::de::IgnoredAny>(stored).map_err(|_| undecodable())?;
                out.extend_from_slice(stored);
                Ok(())
            }
        }
    }
}

/// Whether a text is ASCII that needs no escape in JSON (RFC 8259, section 7).
fn is_plain(text: &[u8]) -> bool {
    match (text.first_chunk(), text.last_chunk()) {
        // As short as most IDs: two words that overlap.
        (Some(first), Some(last)) if text.len() <= 16 => {
            is_plain_word(u64::from_le_bytes(*first)) && is_plain_word(u64::from_le_bytes(*last))
        }
        // Tests every byte without an early exit, so that the compiler can process many at once.
        _ => text.iter().fold(true, |all, b| all & is_plain_byte(*b)),
    }
}

fn is_plain_byte(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}

/// The same for eight bytes at once: the highest bit of each has the result, and no byte borrows from the next.
fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = 0x80 * ONES;
    let is_not = |byte: u8| (word ^ (u64::from(byte) * ONES) | HIGHEST) - ONES;
    let is_no_control = (word | HIGHEST) - u64::from(b' ') * ONES;
    !word & is_no_control & is_not(b'"') & is_not(b'\\') & is_not(0x7f) & HIGHEST == HIGHEST
}

fn parse_int64(raw: &str) -> Option<i64> {
    if !raw.starts_with('"') {
        return serde_json::from_str(raw).ok();
    }
    let text: String = serde_json::from_str(raw).ok()?;
    // Rust also accepts a plus sign.
    if text.starts_with('+') { None } else { text.parse().ok() }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Stored bytes that are not a value of their feature's type: the row is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stored bytes are not a valid {value_type}")]
pub struct UndecodableValue {
    pub value_type: ValueType,
}

/// The stored bytes of a value: at most 64,000, since ScyllaDB and Cassandra index values, and an
/// indexed value shares 65,535 bytes with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value(Bytes);

impl Value {
    pub const BYTES_MAX: usize = 64_000;

    pub fn new(stored: impl Into<Bytes>) -> Result<Self, Invalid> {
        let stored = stored.into();
        if stored.len() > Self::BYTES_MAX {
            return Err(Invalid::argument(format!(
                "a value must have at most {} stored bytes; this one has {}",
                Self::BYTES_MAX,
                stored.len()
            )));
        }
        Ok(Self(stored))
    }

    /// The stored bytes of an item with a key, which the value's own bound does not count.
    #[inline]
    pub fn with_key(&self, key: &MemberKey<'_>) -> Self {
        Self(key.store(&self.0))
    }

    #[inline]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    #[inline]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Code;

    fn encode(value_type: ValueType, raw: &str) -> Result<Vec<u8>, Code> {
        value_type.encode(raw).map(|v| v.as_bytes().to_vec()).map_err(|e| e.code)
    }

    fn decode(value_type: ValueType, stored: &[u8]) -> Option<String> {
        let mut out = Vec::new();
        value_type.write_json(stored, &mut out).ok()?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn encodings_match_the_documentation() {
        assert_eq!(encode(ValueType::String, r#""a\u00e9\n""#), Ok("aé\n".as_bytes().to_vec()));
        assert_eq!(encode(ValueType::String, r#""""#), Ok(vec![]));
        assert_eq!(encode(ValueType::Int64, "-2"), Ok(vec![255, 255, 255, 255, 255, 255, 255, 254]));
        assert_eq!(encode(ValueType::Int64, r#""9223372036854775807""#), Ok(i64::MAX.to_be_bytes().to_vec()));
        assert_eq!(encode(ValueType::Double, "1.5"), Ok(vec![0x3f, 0xf8, 0, 0, 0, 0, 0, 0]));
        for zero in ["0", "0.0", "-0", "-0.0", "-0e5", "-1e-400"] {
            assert_eq!(encode(ValueType::Double, zero), Ok(vec![0; 8]), "{zero}");
        }
        assert_eq!(encode(ValueType::Bool, "true"), Ok(vec![1]));
        assert_eq!(encode(ValueType::Bytes, r#""AP8=""#), Ok(vec![0, 255]));
        assert_eq!(encode(ValueType::Json, r#"{ "b": 1.0, "a": null }"#), Ok(br#"{"a":null,"b":1}"#.to_vec()));
        assert_eq!(encode(ValueType::Json, "null"), Ok(b"null".to_vec()));
    }

    #[test]
    fn other_types_are_refused() {
        for (value_type, raw) in [
            (ValueType::String, "1"),
            (ValueType::String, "null"),
            (ValueType::Int64, "1.0"),
            (ValueType::Int64, "1e3"),
            (ValueType::Int64, r#""+1""#),
            (ValueType::Int64, r#"" 1""#),
            (ValueType::Int64, r#""""#),
            (ValueType::Int64, "9223372036854775808"),
            (ValueType::Int64, "true"),
            (ValueType::Double, r#""1""#),
            (ValueType::Double, "1e999"),
            (ValueType::Bool, "1"),
            (ValueType::Bytes, r#""AP8""#),
            (ValueType::Bytes, r#""AP8-""#),
            (ValueType::Bytes, "[1]"),
        ] {
            assert_eq!(encode(value_type, raw), Err(Code::ValueTypeMismatch), "{value_type} {raw}");
        }
    }

    #[test]
    fn a_value_may_have_at_most_64_000_bytes() {
        let text = |n: usize| format!("\"{}\"", "x".repeat(n));
        assert!(encode(ValueType::String, &text(64_000)).is_ok());
        assert_eq!(encode(ValueType::String, &text(64_001)), Err(Code::InvalidArgument));
    }

    #[test]
    fn only_integers_become_strings_of_digits() {
        let written = |value_type: ValueType, raw: &str| {
            let (mut out, stored) = (Vec::new(), encode(value_type, raw).unwrap());
            JsonForm { value_type, int64_as: Int64As::String }.write_json(&stored, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for digits in ["0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(written(ValueType::Int64, digits), format!("\"{digits}\""));
            assert_eq!(encode(ValueType::Int64, &format!("\"{digits}\"")), encode(ValueType::Int64, digits));
        }
        assert_eq!(written(ValueType::Double, "1.5"), "1.5");
        assert_eq!(written(ValueType::Json, "[1]"), "[1]");
    }

    #[test]
    fn kinds_of_damaged_rows_are_distinguished() {
        for (value_type, stored) in [
            (ValueType::String, b"\xff".as_slice()),
            (ValueType::Int64, b"1234567"),
            (ValueType::Double, b"123456789"),
            (ValueType::Double, &f64::NAN.to_be_bytes()),
            (ValueType::Bool, b"\x02"),
            (ValueType::Bool, b""),
            (ValueType::Json, b"{"),
        ] {
            assert_eq!(decode(value_type, stored), None, "{value_type}");
        }
    }

    #[test]
    fn bytes_are_classified_at_every_position() {
        for len in [1, 7, 8, 9, 12, 16, 17] {
            for (place, byte) in (0..len).flat_map(|place| (0..=u8::MAX).map(move |byte| (place, byte))) {
                for neighbour in *b" ~" {
                    let mut text = vec![neighbour; len];
                    text[place] = byte;
                    assert_eq!(is_plain(&text), is_plain_byte(byte), "{byte:#x} as number {place} of {len}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_stored_bytes_are_refused_or_are_json(stored: Vec<u8>, eight: [u8; 8]) {
            for value_type in ValueType::ALL {
                for stored in [&stored[..], &eight, &eight[..1]] {
                    if let Some(json) = decode(value_type, stored) {
                        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{value_type}: {json}");
                    }
                }
            }
        }

        #[test]
        fn any_text_is_refused_or_can_be_read_again(
            raw in r#".{0,40}|"(\\u[0-9a-fA-F]{4}|[^"\\]){0,9}"|-?[0-9]{1,22}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?|[\[\]{}:,"a1 ]{1,12}"#,
        ) {
            for value_type in ValueType::ALL {
                if let Ok(stored) = encode(value_type, &raw) {
                    prop_assert!(decode(value_type, &stored).is_some(), "{value_type}: {raw}");
                }
            }
        }

        #[test]
        fn strings_round_trip(text in any::<String>()) {
            let raw = serde_json::to_string(&text).unwrap();
            let stored = encode(ValueType::String, &raw).unwrap();
            prop_assert_eq!(decode(ValueType::String, &stored).unwrap(), raw);
        }

        #[test]
        fn numbers_round_trip(int: i64, double in proptest::num::f64::NORMAL) {
            let stored = encode(ValueType::Int64, &int.to_string()).unwrap();
            prop_assert_eq!(decode(ValueType::Int64, &stored).unwrap(), int.to_string());
            let stored = encode(ValueType::Double, &serde_json::to_string(&double).unwrap()).unwrap();
            prop_assert_eq!(decode(ValueType::Double, &stored).unwrap().parse::<f64>().unwrap(), double);
        }

        #[test]
        fn bytes_round_trip(bytes: Vec<u8>) {
            let raw = format!("\"{}\"", STANDARD.encode(&bytes));
            prop_assert_eq!(encode(ValueType::Bytes, &raw).unwrap(), bytes.clone());
            prop_assert_eq!(decode(ValueType::Bytes, &bytes).unwrap(), raw);
        }
    }
}
