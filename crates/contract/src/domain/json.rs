//! JSON values in their canonical form, so that equal values have equal bytes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::Invalid;

/// Arrays and objects within each other; deeper ones are refused.
pub const DEPTH_MAX: usize = 100;

/// The RFC 8785 (JSON Canonicalization Scheme) form of a JSON text.
///
/// Refused, because canonicalising would change them silently: an object with the same key twice,
/// and an integer that an IEEE 754 double cannot hold exactly. Takes time in proportion to the
/// text, however deep it is nested.
pub fn canonicalize(raw: &str) -> Result<Vec<u8>, Invalid> {
    let refused = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_str(raw);
    let read = Strict { depth: 0, refused: &refused }.deserialize(&mut deserializer);
    let value = read
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|e| refused.take().unwrap_or_else(|| Invalid::value_type(format!("no JSON: {e}"))))?;
    NumberLiterals::of(raw).try_for_each(check_number)?;
    serde_json_canonicalizer::to_vec(&value).map_err(|e| Invalid::value_type(format!("not canonical JSON: {e}")))
}

/// The text of a raw JSON string; `None` if it is not a string.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    // RFC 8259, section 7: all characters except the quotation mark, the reverse solidus and control characters need no
    // escape. Most strings contain only such characters.
    let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let plain = |inner: &&str| inner.bytes().fold(true, |all, b| all & (b >= b' ' && b != b'"' && b != b'\\'));
    if let Some(inner) = inner.filter(plain) {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

/// Reads a value that is nested no deeper than allowed and repeats no key.
struct Strict<'r> {
    depth: usize,
    /// Why it was refused, if it was: the deserializer's errors are texts.
    refused: &'r RefCell<Option<Invalid>>,
}

impl Strict<'_> {
    fn refuse<E: Error>(&self, text: String) -> E {
        let error = E::custom(&text);
        self.refused.replace(Some(Invalid::argument(text)));
        error
    }

    fn within<E: Error>(&self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX {
            return Err(self.refuse(format!("a JSON value must be nested at most {DEPTH_MAX} levels deep")));
        }
        Ok(Self { depth: self.depth + 1, refused: self.refused })
    }

    fn again(&self) -> Self {
        Self { depth: self.depth, refused: self.refused }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Value, A::Error> {
        let within = self.within()?;
        let mut values = Vec::new();
        while let Some(value) = array.next_element_seed(within.again())? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let within = self.within()?;
        let mut members = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            match members.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(object.next_value_seed(within.again())?);
                }
                Entry::Occupied(taken) => {
                    return Err(self.refuse(format!("duplicate key {:?} in a JSON object", taken.key())));
                }
            }
        }
        Ok(Value::Object(members))
    }
}

/// The original numbers of a JSON text, because a parser would round the long ones.
pub(super) struct NumberLiterals<'t>(&'t str);

impl<'t> NumberLiterals<'t> {
    pub(super) fn of(json: &'t str) -> Self {
        Self(json)
    }
}

impl<'t> Iterator for NumberLiterals<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        loop {
            let start = self.0.find(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])?;
            let rest = &self.0[start..];
            if let Some(string) = rest.strip_prefix('"') {
                self.0 = after_string(string);
                continue;
            }
            let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(rest.len());
            let (literal, after) = rest.split_at(end);
            self.0 = after;
            return Some(literal);
        }
    }
}

/// The text after a string whose opening quote was already removed.
fn after_string(mut rest: &str) -> &str {
    loop {
        match rest.find(['"', '\\']) {
            None => return "",
            Some(at) if rest.as_bytes()[at] == b'"' => return &rest[at + 1..],
            // An escape is an ASCII character, or begins with one.
            Some(at) => rest = rest.get(at + 2..).unwrap_or_default(),
        }
    }
}

fn check_number(literal: &str) -> Result<(), Invalid> {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(());
    }
    // `{:.0}` writes a double exactly, so the texts are equal if and only if the numbers are. `{}` writes the canonical
    // form, which callers get, and may send again: the fewest digits of the double, padded with zeros.
    let double = literal.parse::<f64>().map_err(|_| Invalid::value_type("not a JSON number"))?.abs();
    if format!("{double:.0}") == digits || format!("{double}") == digits {
        return Ok(());
    }
    Err(Invalid::argument(format!(
        "the integer {literal} would lose precision in canonical JSON, whose numbers are doubles: send it as a string"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Code;

    fn canonical(raw: &str) -> Result<String, Code> {
        canonicalize(raw).map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|e| e.code)
    }

    #[test]
    fn the_form_follows_rfc_8785() {
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

    proptest::proptest! {
        #[test]
        fn strings_are_read_as_a_json_parser_reads_them(raw in "(\"|)([a\"\\\\/u0-9é\u{1}\u{7f} \n]{0,6})(\"|)", any: String) {
            let read = |raw: &str| serde_json::from_str::<String>(raw).ok();
            let quoted = serde_json::to_string(&any).unwrap();
            for raw in [&*raw, &*quoted, &*format!("\"{any}\""), &*any] {
                proptest::prop_assert_eq!(string(raw).map(Cow::into_owned), read(raw));
            }
        }
    }

    #[test]
    fn negative_numbers_stay_negative() {
        assert_eq!(
            canonical(r#"{"b":[-1,-2.5,-9007199254740992],"a":-0}"#).as_deref(),
            Ok(r#"{"a":0,"b":[-1,-2.5,-9007199254740992]}"#)
        );
    }

    proptest::proptest! {
        #[test]
        fn a_canonical_number_is_accepted_unchanged(double in proptest::num::f64::NORMAL, whole in 0..u64::MAX) {
            for raw in [format!("{double:e}"), format!("{:e}", whole as f64)] {
                let form = canonical(&raw).unwrap();
                proptest::prop_assert_eq!(canonical(&form), Ok(form));
            }
        }
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
    fn strings_are_not_numbers() {
        for good in [r#""9007199254740993""#, r#"{"9007199254740993":"\\\"9007199254740993"}"#, r#"["é\\",1]"#] {
            assert!(canonical(good).is_ok(), "{good}");
        }
        for bad in [r#"["\\",9007199254740993]"#, r#"{"a":"\"","b":9007199254740993}"#] {
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
