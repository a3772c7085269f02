//! The parts of a bag's document that indexes read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A JSON object of which only the first level is parsed.
pub struct ShallowDocument<'d> {
    properties: Properties<'d>,
}

/// In the order of the text, which is the order of the names in stored bags.
struct Properties<'d> {
    members: Vec<(Name<'d>, &'d RawValue)>,
    /// Whether each name is greater than the one before it.
    is_sorted: bool,
}

/// The name of a property, without a copy if it contains no escapes.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Name<'d>(#[serde(borrow)] Cow<'d, str>);

impl<'d> ShallowDocument<'d> {
    /// None for a text that is not a JSON object.
    pub fn parse(json: &'d [u8]) -> Option<Self> {
        // As a whole, and so not each of its strings separately.
        let text = std::str::from_utf8(json).ok()?;
        let properties = serde_json::from_str(text).ok()?;
        Some(Self { properties })
    }

    pub(super) fn property(&self, name: &str) -> Option<&'d RawValue> {
        let Properties { members, is_sorted } = &self.properties;
        if *is_sorted {
            let place = members.binary_search_by(|(known, _)| (*known.0).cmp(name)).ok()?;
            return members.get(place).map(|(_, value)| *value);
        }
        // Of duplicate members, the last one counts.
        members.iter().rfind(|(known, _)| known.0 == name).map(|(_, value)| *value)
    }
}

impl<'de: 'd, 'd> Deserialize<'de> for Properties<'d> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Properties<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Properties<'de>, A::Error> {
                let (mut members, mut is_sorted) = (Vec::new(), true);
                while let Some((name, value)) = object.next_entry::<Name<'de>, &'de RawValue>()? {
                    is_sorted &= members.last().is_none_or(|(before, _)| *before < name);
                    members.push((name, value));
                }
                Ok(Properties { members, is_sorted })
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_found_in_any_order() {
        let found = |json: &str, name: &str| {
            let document = ShallowDocument::parse(json.as_bytes()).unwrap();
            document.property(name).map(|value| value.get().to_owned())
        };
        let (sorted, others) = (r#"{"":0,"a":[1],"b":{"c":2},"é\n":3}"#, r#"{"b":1,"\u0061":2,"c":3,"b":4}"#);
        for (json, name, value) in [
            (sorted, "", Some("0")),
            (sorted, "a", Some("[1]")),
            (sorted, "b", Some(r#"{"c":2}"#)),
            (sorted, "é\n", Some("3")),
            (sorted, "c", None),
            (others, "a", Some("2")),
            (others, "b", Some("4")),
            (others, "c", Some("3")),
            (others, "d", None),
            ("{}", "a", None),
        ] {
            assert_eq!(found(json, name).as_deref(), value, "{name} of {json}");
        }
        for bad in ["", "[]", "1", "{\"a\":1", "{\"a\":}"] {
            assert!(ShallowDocument::parse(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(ShallowDocument::parse(b"{\"a\":\"\xff\"}").is_none());
    }
}
