//! Values as people and CSV files write them, turned into the JSON of a value type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use liststore_contract::domain::{Value, ValueType};

/// Appends the JSON of a value in plain text: a `string` unchanged, `bytes` as Base64, `json` as JSON, and `12`, `1.5`,
/// `true` for the other types.
///
/// The server checks texts that only the canonical form of JSON refuses. After an error, discard the appended text.
pub fn write_json(value_type: ValueType, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let mismatch = |expected: &str| format!("must be {expected} (the feature's value_type is {value_type})");
    match value_type {
        ValueType::String => write_string(text, out)?,
        ValueType::Int64 => {
            // Programs that store integers as doubles, such as pandas with missing values, write 5.0.
            let whole = text.split_once('.').filter(|(_, decimals)| decimals.bytes().all(|digit| digit == b'0'));
            let whole = whole.map_or(text, |(whole, _)| whole);
            // Rust accepts a plus sign, but the server does not.
            let number: Option<i64> = if whole.starts_with('+') { None } else { whole.parse().ok() };
            let number = number.ok_or_else(|| mismatch("an integer from -2^63 to 2^63 - 1"))?;
            out.extend_from_slice(number.to_string().as_bytes());
        }
        ValueType::Double => {
            let number: f64 = text.parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| mismatch("a number"))?;
            serde_json::to_writer(&mut *out, &number).map_err(|e| e.to_string())?;
        }
        ValueType::Bool => match text {
            // Python and spreadsheets write the others.
            "true" | "True" | "TRUE" => out.extend_from_slice(b"true"),
            "false" | "False" | "FALSE" => out.extend_from_slice(b"false"),
            _ => return Err(mismatch("true or false")),
        },
        ValueType::Bytes => {
            let bytes = STANDARD.decode(text).map_err(|_| mismatch("standard, padded Base64"))?;
            check_size(bytes.len())?;
            out.push(b'"');
            out.extend_from_slice(text.as_bytes());
            out.push(b'"');
        }
        ValueType::Json => {
            serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|e| mismatch(&format!("JSON: {e}")))?;
            out.extend_from_slice(text.trim().as_bytes());
        }
    }
    Ok(())
}

/// Appends a text as a JSON string.
pub fn write_string(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    check_size(text.len())?;
    serde_json::to_writer(out, text).map_err(|e| e.to_string())
}

fn check_size(bytes: usize) -> Result<(), String> {
    if bytes <= Value::BYTES_MAX {
        return Ok(());
    }
    Err(format!("a value must have at most {} bytes; this one has {bytes}", Value::BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(value_type: ValueType, text: &str) -> Result<String, String> {
        let mut out = Vec::new();
        write_json(value_type, text, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn texts_become_the_json_of_their_type() {
        for (value_type, text, expected) in [
            (ValueType::String, "a\"b", r#""a\"b""#),
            (ValueType::String, "", r#""""#),
            (ValueType::Int64, "-12", "-12"),
            (ValueType::Int64, "9223372036854775807", "9223372036854775807"),
            (ValueType::Int64, "5.0", "5"),
            (ValueType::Int64, "-9223372036854775808.000", "-9223372036854775808"),
            (ValueType::Double, "1.50", "1.5"),
            (ValueType::Double, ".5", "0.5"),
            (ValueType::Double, "3", "3.0"),
            (ValueType::Bool, "true", "true"),
            (ValueType::Bool, "True", "true"),
            (ValueType::Bool, "FALSE", "false"),
            (ValueType::Bytes, "AP8=", r#""AP8=""#),
            (ValueType::Json, " {\"a\": [1]} ", r#"{"a": [1]}"#),
        ] {
            assert_eq!(json(value_type, text).as_deref(), Ok(expected), "{value_type} {text}");
        }
    }

    #[test]
    fn texts_of_another_type_are_refused() {
        for (value_type, text) in [
            (ValueType::Int64, ""),
            (ValueType::Int64, "+1"),
            (ValueType::Int64, " 1"),
            (ValueType::Int64, "1.5"),
            (ValueType::Int64, ".0"),
            (ValueType::Int64, "1.0e0"),
            (ValueType::Int64, "9223372036854775808"),
            (ValueType::Double, "NaN"),
            (ValueType::Double, "inf"),
            (ValueType::Double, "1e999"),
            (ValueType::Double, "x"),
            (ValueType::Bool, "yes"),
            (ValueType::Bool, "1"),
            (ValueType::Bytes, "AP8"),
            (ValueType::Bytes, "AP-8"),
            (ValueType::Json, "{a}"),
            (ValueType::Json, ""),
        ] {
            assert!(json(value_type, text).is_err(), "{value_type} {text}");
        }
        assert!(json(ValueType::String, &"x".repeat(64_001)).is_err());
        assert!(json(ValueType::Bytes, &STANDARD.encode(vec![0; 64_001])).is_err());
        assert!(json(ValueType::Bytes, &STANDARD.encode(vec![0; 64_000])).is_ok());
    }

    proptest! {
        #[test]
        fn the_server_reads_any_written_text(text in ".{0,40}|-?[0-9]{1,20}(\\.[0-9]{1,9})?|true|[A-Za-z0-9+/]{4}") {
            for value_type in ValueType::ALL {
                if let Ok(json) = json(value_type, &text) {
                    // The canonical form alone refuses more: duplicate keys, and numbers that a double would change.
                    if value_type != ValueType::Json {
                        prop_assert!(value_type.encode(&json).is_ok(), "{} {}", value_type, json);
                    }
                }
            }
        }
    }
}
