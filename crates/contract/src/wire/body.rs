//! Reads JSON bodies of requests as their types declare them with serde's derive.
//!
//! [`Reader`] wraps the deserializer of `serde_json`. Its error is a [`Refused`], not a text: it has the place of the
//! mistake, such as `items[3].timestamp`, and the error code of a refused value. `null` does not stand for an absent
//! member, unless the member's type accepts it. A value is read from its raw JSON, so numbers keep all digits.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::value::RawValue;

use super::refused::{Mistake, Others, Refused, member_place};
use super::{ErrorCode, Problem};
use crate::domain::{Invalid, json};

/// The text of a body, which must be one JSON text in UTF-8 (RFC 8259, section 8.1).
pub(crate) fn text_of(body: &[u8]) -> Result<&str, Problem> {
    if body.is_empty() {
        return Err(Problem::new(ErrorCode::InvalidJson, "the body is empty: send a JSON object"));
    }
    std::str::from_utf8(body).map_err(|_| Problem::new(ErrorCode::InvalidJson, "the body is not UTF-8"))
}

/// Refuses a text that is not JSON. The message has the position of the mistake, and repeats nothing of the text.
pub(crate) fn check_syntax(text: &str) -> Result<(), Problem> {
    serde_json::from_str::<IgnoredAny>(text).map(|_| ()).map_err(|error| {
        let detail = format!("the body is not valid JSON: error at line {} column {}", error.line(), error.column());
        Problem::new(ErrorCode::InvalidJson, detail)
    })
}

/// Reads a body.
pub(crate) fn read<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Problem> {
    read_among(body, Others::default())
}

/// Reads a body with further members.
pub(crate) fn read_among<'de, T: Deserialize<'de>>(body: &'de [u8], others: Others<'_>) -> Result<T, Problem> {
    read_text(text_of(body)?, others)
}

/// Reads the text of a body. A text that is not JSON is reported as such, even if it has other mistakes.
pub(crate) fn read_text<'de, T: Deserialize<'de>>(text: &'de str, others: Others<'_>) -> Result<T, Problem> {
    read_part(text, others.passed).map_err(|refused| match check_syntax(text) {
        Err(problem) => problem,
        Ok(()) => refused.into_problem(others),
    })
}

/// Reads a value from a text that is JSON, except the passed members of its outermost object.
pub(crate) fn read_part<'de, T: Deserialize<'de>>(text: &'de str, passed: &[&str]) -> Result<T, Refused> {
    let trail = Trail::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Reader { json: &mut json, trail: &trail, passed })?;
    json.end().map_err(|_| Refused::wanted("one JSON text"))?;
    Ok(value)
}

/// Carries a refusal through `serde_json`, whose errors are texts: the level that refuses a value stores it here, and
/// the level around it takes it out.
#[derive(Default)]
struct Trail(Cell<Option<Refused>>);

impl Trail {
    fn keep<E: de::Error>(&self, refused: Refused) -> E {
        self.0.set(Some(refused));
        E::custom("refused")
    }

    /// The stored refusal. Without one, the JSON has another type than `wanted`, or a mistake of syntax.
    fn take(&self, wanted: &str) -> Refused {
        self.0.take().unwrap_or_else(|| Refused::wanted(wanted))
    }
}

/// Reads one value.
struct Reader<'t, D> {
    json: D,
    trail: &'t Trail,
    /// Members of this object that are not read.
    passed: &'t [&'t str],
}

impl<'de, D: Deserializer<'de>> Reader<'_, D> {
    /// `refuses_repeated`: a struct refuses repeated members itself, and a map does not.
    fn object<V: Visitor<'de>>(self, visitor: V, refuses_repeated: bool) -> Result<V::Value, Refused> {
        let Self { json, trail, passed } = self;
        let object = Object { visitor, trail, passed, seen: (!refuses_repeated).then(HashSet::new) };
        json.deserialize_map(object).map_err(|_| trail.take("a JSON object"))
    }

    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let raw = <&'de RawValue>::deserialize(self.json).map_err(|_| Refused::wanted("a string"))?.get();
        if !raw.starts_with('"') {
            return Err(Refused::wanted("a string"));
        }
        match json::string(raw) {
            Some(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Some(Cow::Owned(text)) => visitor.visit_string(text),
            // JSON may have halves of surrogate pairs, which no text has.
            None => Err(Invalid::argument("an unpaired surrogate is not a valid character").into()),
        }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Reader<'_, D> {
    type Error = Refused;

    /// For a type that is a text or an object. No type accepts any value.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let Self { json, trail, passed } = self;
        let wanted = (&visitor as &dyn Expected).to_string();
        json.deserialize_any(TextOrObject { visitor, trail, passed }).map_err(|_| trail.take(&wanted))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.json.deserialize_bool(visitor).map_err(|_| Refused::wanted("true or false"))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.text(visitor)
    }

    /// The member is present, with any value.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    /// [`RawValue`] is read so.
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Refused> {
        self.json.deserialize_newtype_struct(name, visitor).map_err(|_| Refused::wanted("a JSON value"))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.json.deserialize_ignored_any(visitor).map_err(|_| Refused::wanted("a JSON value"))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let Self { json, trail, .. } = self;
        json.deserialize_seq(Array { visitor, trail }).map_err(|_| trail.take("an array"))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.object(visitor, false)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _members: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.object(visitor, true)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum
        identifier
    }
}

/// Reads a value within an array or object.
struct Within<'t, S> {
    seed: S,
    trail: &'t Trail,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Within<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<S::Value, D::Error> {
        let trail = self.trail;
        self.seed.deserialize(Reader { json, trail, passed: &[] }).map_err(|refused| trail.keep(refused))
    }
}

struct Array<'t, V> {
    visitor: V,
    trail: &'t Trail,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Array<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<V::Value, A::Error> {
        let trail = self.trail;
        self.visitor.visit_seq(Elements { array, trail, next: 0 }).map_err(|refused| trail.keep(refused))
    }
}

struct Elements<'t, A> {
    array: A,
    trail: &'t Trail,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        let index = self.next;
        self.next += 1;
        let element = self.array.next_element_seed(Within { seed, trail: self.trail });
        element.map_err(|_| self.trail.take("a JSON value").at_index(index))
    }
}

struct Object<'t, 'de, V> {
    visitor: V,
    trail: &'t Trail,
    passed: &'t [&'t str],
    seen: Option<HashSet<Cow<'de, str>>>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Object<'_, 'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        let Self { visitor, trail, passed, seen } = self;
        let members = Members { object, trail, name: Cow::Borrowed(""), passed, seen };
        visitor.visit_map(members).map_err(|refused| trail.keep(refused))
    }
}

struct TextOrObject<'t, V> {
    visitor: V,
    trail: &'t Trail,
    passed: &'t [&'t str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for TextOrObject<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<V::Value, E> {
        self.visitor.visit_borrowed_str(text).map_err(|refused| self.trail.keep(refused))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<V::Value, E> {
        self.visitor.visit_str(text).map_err(|refused| self.trail.keep(refused))
    }

    /// The type that reads the members is a struct.
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        let Self { visitor, trail, passed } = self;
        Object { visitor, trail, passed, seen: None }.visit_map(object)
    }
}

struct Members<'t, 'de, A> {
    object: A,
    trail: &'t Trail,
    /// The name of the current member.
    name: Cow<'de, str>,
    passed: &'t [&'t str],
    /// The names that must not come again.
    seen: Option<HashSet<Cow<'de, str>>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'_, 'de, A> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        loop {
            // A name of a JSON text that is not a text has a half of a surrogate pair.
            let wanted = "an object whose names have no unpaired surrogates";
            let name = self.object.next_key_seed(TextSeed).map_err(|_| Refused::wanted(wanted))?;
            let Some(name) = name else { return Ok(None) };
            let is_passed = self.passed.contains(&&*name);
            if is_passed && self.seen.is_none() {
                self.seen = Some(HashSet::new());
            }
            if let Some(seen) = &mut self.seen
                && !seen.insert(name.clone())
            {
                return Err(Refused { place: member_place(&name), mistake: Mistake::Repeated });
            }
            if is_passed {
                self.object.next_value::<IgnoredAny>().map_err(|_| Refused::wanted("a JSON value"))?;
                continue;
            }
            let key: StrDeserializer<'_, Refused> = (&*name).into_deserializer();
            let key = seed.deserialize(key)?;
            self.name = name;
            return Ok(Some(key));
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        let value = self.object.next_value_seed(Within { seed, trail: self.trail });
        value.map_err(|_| self.trail.take("a JSON value").at_member(&self.name))
    }
}

/// Reads a text, which is copied only if it has escapes.
struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text))
    }
}

/// Reads a text, which is copied only if it has escapes.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    TextSeed.deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::wire::members;
    use crate::wire::refused::refuse;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body<'a> {
        #[serde(borrow, default, deserialize_with = "text")]
        name: Cow<'a, str>,
        #[serde(default)]
        is_on: bool,
        #[serde(default)]
        parts: Vec<Part>,
        owner: Option<String>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        #[serde(borrow, default, deserialize_with = "some_raw")]
        raw: Option<&'a str>,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        size: Size,
    }

    fn some_raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de str>, D::Error> {
        members::raw(deserializer).map(Some)
    }

    /// A text, or an object with a width.
    #[derive(Debug, PartialEq, Eq)]
    enum Size {
        Named(String),
        Exact(Exact),
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Exact {
        #[serde(deserialize_with = "members::whole::<9, u32, _>")]
        width: Option<u32>,
    }

    struct SizeVisitor;

    impl<'de> Visitor<'de> for SizeVisitor {
        type Value = Size;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
            if text == "none" {
                return Err(refuse(Invalid::argument("no such size")));
            }
            Ok(Size::Named(text.to_owned()))
        }

        fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Size, A::Error> {
            Exact::deserialize(de::value::MapAccessDeserializer::new(object)).map(Size::Exact)
        }
    }

    impl<'de> Deserialize<'de> for Size {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(SizeVisitor)
        }
    }

    fn refused(body: &str) -> (&'static str, String, String) {
        let Problem { code, field, detail, .. } = read::<Body<'_>>(body.as_bytes()).unwrap_err();
        (code.name(), field.unwrap_or_default().into(), detail.into())
    }

    #[test]
    fn a_body_is_read_as_its_type_declares_it() {
        let body: Body<'_> = read(
            br#" {"parts": [{"size": "large"}, {"size": {"width": 3}}], "n\u0061me": "a\n", "raw": 1.50,
                  "labels": {"": "x"}, "is_on": true} "#,
        )
        .unwrap();
        let sizes: Vec<_> = body.parts.into_iter().map(|part| part.size).collect();
        assert_eq!(sizes, [Size::Named("large".to_owned()), Size::Exact(Exact { width: Some(3) })]);
        assert_eq!((&*body.name, body.raw, body.is_on, body.owner), ("a\n", Some("1.50"), true, None));
        assert_eq!(body.labels, BTreeMap::from([(String::new(), "x".to_owned())]));
        let plain: Body<'_> = read(br#"{"name":"borrowed"}"#).unwrap();
        assert!(matches!(plain.name, Cow::Borrowed("borrowed")));
    }

    #[test]
    fn every_mistake_has_its_place() {
        for (body, field, detail) in [
            ("7", "", "the body must be a JSON object"),
            (r#"{"x":1}"#, "x", "unknown field; known fields: name, is_on, parts, owner, labels, raw"),
            (r#"{"name":1}"#, "name", "name must be a string"),
            (r#"{"name":null}"#, "name", "name must be a string"),
            (r#"{"name":"\ud800"}"#, "name", "an unpaired surrogate is not a valid character"),
            (r#"{"owner":null}"#, "owner", "owner must be a string"),
            (r#"{"is_on":"yes"}"#, "is_on", "is_on must be true or false"),
            (r#"{"parts":{}}"#, "parts", "parts must be an array"),
            (r#"{"parts":[7]}"#, "parts[0]", "parts[0] must be a JSON object"),
            (r#"{"parts":[{"size":"a"},{}]}"#, "parts[1].size", "parts[1].size is missing"),
            (r#"{"parts":[{"size":7}]}"#, "parts[0].size", "parts[0].size must be a size"),
            (r#"{"parts":[{"size":[]}]}"#, "parts[0].size", "parts[0].size must be a size"),
            (r#"{"parts":[{"size":null}]}"#, "parts[0].size", "parts[0].size must be a size"),
            (r#"{"parts":[{"size":"none"}]}"#, "parts[0].size", "no such size"),
            (r#"{"parts":[{"size":{}}]}"#, "parts[0].size.width", "parts[0].size.width is missing"),
            (
                r#"{"parts":[{"size":{"width":10}}]}"#,
                "parts[0].size.width",
                "parts[0].size.width must be a whole number from 1 to 9",
            ),
            (r#"{"parts":[{"size":{"w":1}}]}"#, "parts[0].size.w", "unknown field; known fields: width"),
            (r#"{"parts":[{"size":{"width":1,"width":1}}]}"#, "parts[0].size.width", "duplicate parts[0].size.width"),
            (r#"{"name":"a","n\u0061me":"b"}"#, "name", "duplicate name"),
            (r#"{"labels":{"a":"1","a":"2"}}"#, "labels.a", "duplicate labels.a"),
            (r#"{"labels":{"":1}}"#, r#"labels[""]"#, r#"labels[""] must be a string"#),
            (r#"{"labels":{"[0]":1}}"#, r#"labels["[0]"]"#, r#"labels["[0]"] must be a string"#),
            (r#"{"":1}"#, r#"[""]"#, "unknown field; known fields: name, is_on, parts, owner, labels, raw"),
            (r#"{"\ud800":1}"#, "", "the body must be an object whose names have no unpaired surrogates"),
        ] {
            assert_eq!(refused(body), ("invalid_argument", field.to_owned(), detail.to_owned()), "{body}");
        }
    }

    #[test]
    fn text_that_is_not_json_is_reported_first() {
        for body in ["", "{", "{}x", "{} {}", r#"{"x":1,}"#, r#"{"name":1"#, "nope"] {
            let (code, field, _) = refused(body);
            assert_eq!((code, field.as_str()), ("invalid_json", ""), "{body}");
        }
        assert_eq!(read::<Body<'_>>(b"{\"name\":\"\xff\"}").unwrap_err().code, ErrorCode::InvalidJson);
    }

    #[test]
    fn passed_members_are_left_to_another_type_and_still_come_once() {
        let others = Others { passed: &["ttl"], ..Others::default() };
        assert!(read_among::<Body<'_>>(br#"{"ttl":[1],"name":"a"}"#, others).is_ok());
        let twice = read_among::<Body<'_>>(br#"{"ttl":1,"ttl":2}"#, others).unwrap_err();
        assert_eq!(twice.field.as_deref(), Some("ttl"));
        // The name means the member of the body, and no member within.
        let within = read_among::<Body<'_>>(br#"{"parts":[{"size":{"ttl":1}}]}"#, others).unwrap_err();
        assert_eq!(within.field.as_deref(), Some("parts[0].size.ttl"));
    }
}
