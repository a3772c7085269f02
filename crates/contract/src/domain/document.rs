//! Documents: the content of bags. They are JSON objects without a schema, whose numbers stay as written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Invalid;
use super::json::{DEPTH_MAX, NumberLiterals};

/// The largest size of a document in bytes, as sent and as stored.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// The approximate size of a member in a text.
const MEMBER_BYTES: usize = 32;

/// A JSON object. Its members are in the order of their names' bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document(BTreeMap<Box<str>, Property>);

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    Null,
    Bool(bool),
    /// As it was written: `1`, `1.0` and `1e0` are three.
    Number(Box<str>),
    Text(Box<str>),
    Array(Vec<Property>),
    Object(Document),
}

impl Document {
    /// Reads a JSON text. It must be an object, nested no deeper than [`DEPTH_MAX`], and repeat no key. Takes time in
    /// proportion to the text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(Invalid::argument(format!("a bag must have at most {DOCUMENT_BYTES_MAX} bytes")));
        }
        let (refused, numbers) = (RefCell::new(None), RefCell::new(NumberLiterals::of(text)));
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let reader = Reader { depth: 0, refused: &refused, numbers: &numbers };
        let read = reader.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
        match read {
            Ok(Property::Object(document)) => Ok(document),
            Ok(_) => Err(Invalid::argument("a bag must be a JSON object: {…}")),
            Err(error) => Err(refused.take().unwrap_or_else(|| {
                Invalid::argument(format!(
                    "invalid at line {} column {}: numbers must be in the range of a double (send others as strings) \
                     and escapes must be whole characters",
                    error.line(),
                    error.column()
                ))
            })),
        }
    }

    /// Reads the output of [`Self::to_bytes`].
    pub fn stored(bytes: &[u8]) -> Result<Self, Invalid> {
        let text = std::str::from_utf8(bytes).map_err(|_| Invalid::argument("a stored document is not UTF-8"))?;
        Self::parse(text)
    }

    pub fn members(&self) -> &BTreeMap<Box<str>, Property> {
        &self.0
    }

    /// The document with a merge patch applied (RFC 7396, section 2): members that are `null` in the patch are
    /// removed, objects are merged, and all other members replace the present ones.
    pub fn merged(mut self, patch: Self) -> Self {
        for (name, value) in patch.0 {
            match value {
                Property::Null => {
                    self.0.remove(&name);
                }
                Property::Object(patch) => {
                    let present = match self.0.remove(&name) {
                        Some(Property::Object(present)) => present,
                        _ => Self::default(),
                    };
                    self.0.insert(name, Property::Object(present.merged(patch)));
                }
                other => {
                    self.0.insert(name, other);
                }
            }
        }
        self
    }

    /// The JSON text without white space, which equal documents share. No text that it was read from is shorter.
    pub fn to_bytes(&self) -> Bytes {
        let mut text = String::with_capacity(self.0.len() * MEMBER_BYTES);
        write_object(self, &mut text);
        text.into()
    }
}

fn write_object(document: &Document, text: &mut String) {
    text.push('{');
    for (place, (name, value)) in document.0.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write_text(name, text);
        text.push(':');
        write(value, text);
    }
    text.push('}');
}

fn write(value: &Property, text: &mut String) {
    match value {
        Property::Null => text.push_str("null"),
        Property::Bool(true) => text.push_str("true"),
        Property::Bool(false) => text.push_str("false"),
        Property::Number(number) => text.push_str(number),
        Property::Text(string) => write_text(string, text),
        Property::Array(values) => {
            text.push('[');
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(value, text);
            }
            text.push(']');
        }
        Property::Object(document) => write_object(document, text),
    }
}

/// RFC 8259, section 7: escapes only the required characters, in the shortest form.
fn write_text(string: &str, text: &mut String) {
    text.push('"');
    let mut rest = string;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        let (plain, special) = rest.split_at(at);
        text.push_str(plain);
        match special.as_bytes()[0] {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x08 => text.push_str("\\b"),
            0x0c => text.push_str("\\f"),
            control => text.push_str(&format!("\\u{control:04x}")),
        }
        rest = &special[1..];
    }
    text.push_str(rest);
    text.push('"');
}

/// Reads a value, with the original texts of its numbers.
#[derive(Clone, Copy)]
struct Reader<'r, 't> {
    depth: usize,
    /// Why it was refused, if it was: the deserializer's errors are texts.
    refused: &'r RefCell<Option<Invalid>>,
    /// The numbers that have not been read yet, in the order of the text, which is the order of reading.
    numbers: &'r RefCell<NumberLiterals<'t>>,
}

impl Reader<'_, '_> {
    fn refuse<E: Error>(&self, text: String) -> E {
        let error = E::custom(&text);
        self.refused.replace(Some(Invalid::argument(text)));
        error
    }

    fn within<E: Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH_MAX {
            return Err(self.refuse(format!("a bag must be nested at most {DEPTH_MAX} levels deep")));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn number<E: Error>(&self) -> Result<Property, E> {
        let literal = self.numbers.borrow_mut().next();
        literal
            .map(|literal| Property::Number(literal.into()))
            .ok_or_else(|| self.refuse("a number was lost".to_owned()))
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_, '_> {
    type Value = Property;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Property, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_, '_> {
    type Value = Property;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Property, E> {
        Ok(Property::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Property, E> {
        Ok(Property::Bool(value))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Property, E> {
        self.number()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Property, E> {
        self.number()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Property, E> {
        self.number()
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Property, E> {
        Ok(Property::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Property, A::Error> {
        let within = self.within()?;
        let mut values = Vec::new();
        while let Some(value) = array.next_element_seed(within)? {
            values.push(value);
        }
        Ok(Property::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Property, A::Error> {
        let within = self.within()?;
        let mut members = BTreeMap::new();
        while let Some(key) = object.next_key::<String>()? {
            match members.entry(key.into_boxed_str()) {
                Entry::Vacant(place) => {
                    place.insert(object.next_value_seed(within)?);
                }
                Entry::Occupied(taken) => {
                    let shown: String = taken.key().chars().take(64).collect();
                    return Err(self.refuse(format!("duplicate key {shown:?} in a JSON object")));
                }
            }
        }
        Ok(Property::Object(Document(members)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse(text).unwrap()
    }

    fn kept(text: &str) -> String {
        String::from_utf8(parse(text).to_bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_document_is_stored_without_white_space_in_key_order() {
        assert_eq!(
            kept(" { \"b\" : [ 1 , { } ] ,\n\"a\":null, \"ä\":true,\"\":false } "),
            r#"{"":false,"a":null,"b":[1,{}],"ä":true}"#
        );
        assert_eq!(
            kept(r#"{"\u0061":"\u00e9\/\"\\\b\f\n\r\t\u0001\u007f"}"#),
            "{\"a\":\"é/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\u{7f}\"}"
        );
    }

    #[test]
    fn numbers_keep_their_spelling() {
        let text = r#"{"a":1,"b":1.0,"c":-0,"d":1e2,"e":18446744073709551617,"f":[9007199254740993,0.1000000000000000000001],"g":"12","h":1E-400,"i":123456789012345678901234567890.5}"#;
        assert_eq!(kept(text), text);
        assert_ne!(parse(r#"{"a":1}"#), parse(r#"{"a":1.0}"#));
        // Strings and keys hold none, with any content.
        assert_eq!(kept(r#"{"1":"2\"3\\","x\\\"4":5}"#), r#"{"1":"2\"3\\","x\\\"4":5}"#);
    }

    #[test]
    fn anything_but_a_document_is_refused() {
        for bad in ["[]", "1", "\"a\"", "null", r#"{"a":1e400}"#, r#"{"a":1,"\u0061":2}"#, r#"{"a":[{"b":1,"b":1}]}"#] {
            assert!(Document::parse(bad).is_err(), "{bad}");
        }
        let nested = |depth: usize| format!("{}{}{}{}", "{\"a\":", "[".repeat(depth), "]".repeat(depth), "}");
        assert!(Document::parse(&nested(DEPTH_MAX - 1)).is_ok());
        for depth in [DEPTH_MAX, 200, 50_000] {
            assert!(Document::parse(&nested(depth)).unwrap_err().detail.contains("deep"), "{depth}");
        }
        let of = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
        assert!(Document::parse(&of(DOCUMENT_BYTES_MAX)).is_ok());
        assert!(Document::parse(&of(DOCUMENT_BYTES_MAX + 1)).is_err());
    }

    /// RFC 7396, appendix A, for the cases in which both are objects, and their nested cases.
    #[test]
    fn a_patch_is_merged_by_the_rfc() {
        for (target, patch, merged) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (r#"{"a":[null]}"#, r#"{"b":[null,{"c":null}]}"#, r#"{"a":[null],"b":[null,{"c":null}]}"#),
            (r#"{"a":1}"#, r#"{}"#, r#"{"a":1}"#),
        ] {
            assert_eq!(parse(target).merged(parse(patch)), parse(merged), "{target} {patch}");
        }
    }

    /// Any JSON value as a text, with white space and escapes here and there.
    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_stored_document_equals_the_sent_one(members in prop::collection::btree_map(any::<String>(), value(), 0..4)) {
            let sent = serde_json::Value::Object(members.into_iter().collect());
            let text = serde_json::to_string_pretty(&sent).unwrap();
            let document = Document::parse(&text).unwrap();
            let bytes = document.to_bytes();
            prop_assert!(bytes.len() <= text.len());
            prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&bytes).unwrap(), sent);
            prop_assert_eq!(Document::stored(&bytes).unwrap(), document);
        }

        #[test]
        fn any_text_is_refused_or_stored_without_growing(text in r#"[{}\[\]:,"\\u0-9a-f.eE+ -]{0,40}"#) {
            if let Ok(document) = Document::parse(&text) {
                let bytes = document.to_bytes();
                prop_assert!(bytes.len() <= text.len());
                prop_assert_eq!(Document::stored(&bytes).unwrap(), document);
            }
        }
    }
}
