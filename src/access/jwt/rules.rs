//! The value of a token's claims: rules of the settings give roles to tokens whose claims match.
//!
//! A token that fits no rule has no role at all.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::access::Grant;

pub(super) type Claims = Map<String, Value>;

/// Claims without duplicates (RFC 7519, section 4), also in the objects in them. Otherwise a client that can write a
/// second member into the first one could set any value.
#[derive(Clone)]
pub(super) struct Unique(pub Claims);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match UniqueValue::deserialize(deserializer)? {
            UniqueValue(Value::Object(claims)) => Ok(Self(claims)),
            UniqueValue(_) => Err(D::Error::custom("claims must be a JSON object")),
        }
    }
}

/// A value whose objects have no member twice.
struct UniqueValue(Value);

impl<'de> Deserialize<'de> for UniqueValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = UniqueValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a claim")
            }

            fn visit_unit<E: Error>(self) -> Result<UniqueValue, E> {
                Ok(UniqueValue(Value::Null))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<UniqueValue, E> {
                Ok(UniqueValue(value.into()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<UniqueValue, E> {
                Ok(UniqueValue(value.into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<UniqueValue, E> {
                Ok(UniqueValue(value.into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<UniqueValue, E> {
                Ok(UniqueValue(value.into()))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<UniqueValue, E> {
                Ok(UniqueValue(value.into()))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut values: S) -> Result<UniqueValue, S::Error> {
                let mut all = Vec::new();
                while let Some(UniqueValue(value)) = values.next_element()? {
                    all.push(value);
                }
                Ok(UniqueValue(Value::Array(all)))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<UniqueValue, M::Error> {
                let mut all = Claims::new();
                while let Some((name, UniqueValue(value))) = members.next_entry::<String, UniqueValue>()? {
                    if all.insert(name, value).is_some() {
                        return Err(M::Error::custom("duplicate claim"));
                    }
                }
                Ok(UniqueValue(Value::Object(all)))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// Claims that are lists of words in one text (RFC 8693, section 4.2).
const WORDS: [&str; 2] = ["scope", "scp"];

/// Gives a grant to callers whose claim has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The name of a claim, or a path to it that begins with a slash (RFC 6901): `/realm_access/roles`.
    pub claim: String,
    /// The value, or one of the values, in full; with a `*` at its end, how it begins.
    pub value: String,
    pub grant: Grant,
    /// Whether the server accepts the persons that they claim to act for.
    pub acts_for_others: bool,
}

impl Rule {
    pub(super) fn fits(&self, claims: &Claims) -> bool {
        let found = match self.claim.strip_prefix('/') {
            None => claims.get(&self.claim),
            Some(path) => {
                let (first, rest) = path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
                let top = claims.get(&first.replace("~1", "/").replace("~0", "~"));
                top.and_then(|top| rest.map_or(Some(top), |rest| top.pointer(&format!("/{rest}"))))
            }
        };
        match found {
            Some(Value::String(text)) if WORDS.contains(&self.claim.as_str()) => {
                text.split(' ').any(|word| self.is_value(word))
            }
            Some(Value::String(text)) => self.is_value(text),
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).any(|text| self.is_value(text)),
            Some(Value::Bool(yes)) => self.is_value(if *yes { "true" } else { "false" }),
            Some(Value::Number(number)) => self.is_value(&number.to_string()),
            Some(Value::Null | Value::Object(_)) | None => false,
        }
    }

    fn is_value(&self, text: &str) -> bool {
        match self.value.strip_suffix('*') {
            Some(start) => text.starts_with(start),
            None => text == self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(claim: &str, value: &str, claims: &Value) -> bool {
        let grant = Grant { roles: vec![], scopes: vec![] };
        let rule = Rule { claim: claim.to_owned(), value: value.to_owned(), grant, acts_for_others: false };
        rule.fits(claims.as_object().unwrap())
    }

    #[test]
    fn duplicate_members_are_refused_at_any_depth() {
        let read = |text: &str| serde_json::from_str::<Unique>(text).map(|Unique(claims)| Value::Object(claims));
        let whole = r#"{"a":[{"b":[1,-1,0.5,"x",null,true]},{"b":{}}],"c":{"a":{"a":18446744073709551615}}}"#;
        assert_eq!(read(whole).unwrap(), serde_json::from_str::<Value>(whole).unwrap());
        for twice in [
            r#"{"sub":"a","s\u0075b":"b"}"#,
            r#"{"realm_access":{"roles":["user"],"roles":["admin"]}}"#,
            r#"{"a":[1,{"b":{"c":1,"d":2,"c":1}}]}"#,
        ] {
            let refused = read(twice).unwrap_err().to_string();
            assert!(refused.contains("duplicate claim"), "{refused}");
        }
        assert!(read("[]").is_err() && read("1").is_err());
    }

    #[test]
    fn claims_are_compared_completely() {
        let claims = json!({
            "sub": "system:serviceaccount:feeds:writer",
            "groups": ["admins", "feed readers"],
            "scope": "openid lists.read",
            "name": "Mallory lists.read admins",
            "realm_access": {"roles": ["editor"], "a/b": "c"},
            "https://example.org/team": "search",
            "admin": true,
            "level": 3,
        });
        for (claim, value) in [
            ("sub", "system:serviceaccount:feeds:writer"),
            ("sub", "system:serviceaccount:feeds:*"),
            ("sub", "*"),
            ("groups", "admins"),
            ("groups", "feed readers"),
            ("scope", "lists.read"),
            ("/realm_access/roles", "editor"),
            ("/realm_access/a~1b", "c"),
            ("https://example.org/team", "search"),
            ("admin", "true"),
            ("level", "3"),
        ] {
            assert!(fits(claim, value, &claims), "{claim} {value}");
        }
        for (claim, value) in [
            ("sub", "system:serviceaccount:feeds"),
            ("sub", "system:serviceaccount:feed:*"),
            ("groups", "admin"),
            ("groups", "readers"),
            // Only some claims are lists of words. A name is free text.
            ("name", "admins"),
            ("scope", "lists"),
            ("realm_access", "*"),
            ("/realm_access", "editor"),
            ("/realm_access/none", "*"),
            ("none", "*"),
        ] {
            assert!(!fits(claim, value, &claims), "{claim} {value}");
        }
    }
}
