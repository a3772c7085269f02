//! A bag's document, as far as indexes look into it.

use std::borrow::Cow;
use std::collections::HashMap;

use hashbrown::DefaultHashBuilder;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON object of which only the first level is taken apart.
pub struct Document<'d> {
    /// With a quicker hash than the standard library's: bags are taken apart as they are put, and some as they are
    /// found.
    properties: HashMap<Name<'d>, &'d RawValue, DefaultHashBuilder>,
}

/// The name of a property: where it stands without escapes it is not copied.
#[derive(PartialEq, Eq, Hash, Deserialize)]
struct Name<'d>(#[serde(borrow)] Cow<'d, str>);

impl std::borrow::Borrow<str> for Name<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'d> Document<'d> {
    /// None of what is no JSON object.
    pub fn parse(json: &'d [u8]) -> Option<Self> {
        let properties = serde_json::from_slice(json).ok()?;
        Some(Self { properties })
    }

    pub(super) fn property(&self, name: &str) -> Option<&'d RawValue> {
        self.properties.get(name).copied()
    }
}
