//! The names and texts of list features.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::entity::parse_name;
use super::{EntityType, Invalid};

/// The name of a list feature, such as `story_presented`: same rule as [`EntityType`]. The empty name belongs to the
/// [bags](FeatureId::of_bags) of an entity type, and no feature can have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureName(Arc<str>);

impl FeatureName {
    pub fn new(text: &str) -> Result<Self, Invalid> {
        parse_name("name", text).map(Self)
    }

    /// Reads a name from where it was stored: of a feature, or of bags.
    pub fn stored(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() { Ok(Self::of_bags()) } else { Self::new(text) }
    }

    fn of_bags() -> Self {
        Self("".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FeatureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The label of a feature version: 0–64 characters of `[A-Za-z0-9_./:-]`, not `.` or `..`.
/// The default version's label is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionLabel(Arc<str>);

impl VersionLabel {
    pub const CHARS_MAX: usize = 64;

    pub fn new(text: &str) -> Result<Self, Invalid> {
        Self::parse("version", text, 0)
    }

    /// The name of an index, which is the label of the version with its entries.
    pub fn of_index(name: &str) -> Result<Self, Invalid> {
        Self::parse("the name of an index", name, 1)
    }

    fn parse(what: &str, text: &str, chars_min: usize) -> Result<Self, Invalid> {
        let well_formed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '-');
        if !(chars_min..=Self::CHARS_MAX).contains(&text.len()) || !text.chars().all(well_formed) {
            let max = Self::CHARS_MAX;
            let characters = format!("{chars_min} to {max} characters of A-Z a-z 0-9 _ . / : -");
            return Err(Invalid::argument(format!("{what} must be {characters}")));
        }
        if text == "." || text == ".." {
            return Err(Invalid::argument(format!("{what} must not be \".\" or \"..\"")));
        }
        Ok(Self(text.into()))
    }

    /// The version that every feature is created with.
    pub fn default_version() -> Self {
        Self("".into())
    }

    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VersionLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of a list feature. Ordered by entity type, then name, in byte order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FeatureId {
    pub entity_type: EntityType,
    pub name: FeatureName,
}

impl FeatureId {
    /// The bags of an entity type. They are defined, counted in generations and stored as a feature with an empty
    /// name, and a bag is its list of an entity. The indexes of the bags are its versions.
    pub fn of_bags(entity_type: EntityType) -> Self {
        Self { entity_type, name: FeatureName::of_bags() }
    }

    pub fn is_of_bags(&self) -> bool {
        self.name.as_str().is_empty()
    }
}

impl fmt::Display for FeatureId {
    /// `user.story_presented`; of bags, the entity type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_bags() {
            return self.entity_type.fmt(f);
        }
        write!(f, "{}.{}", self.entity_type, self.name)
    }
}

fn bounded_text(what: &str, text: String, chars_max: usize) -> Result<String, Invalid> {
    // NUL is valid JSON but no database text: refused everywhere, so that all stores agree.
    if text.contains('\0') {
        return Err(Invalid::argument(format!("{what} must not contain NUL (U+0000)")));
    }
    let chars = text.chars().count();
    if chars > chars_max {
        return Err(Invalid::argument(format!(
            "{what} must have at most {chars_max} characters; this one has {chars}"
        )));
    }
    Ok(text)
}

/// A free text of at most 2,000 characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description(String);

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Description {
    pub const CHARS_MAX: usize = 2_000;

    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        bounded_text("description", text.into(), Self::CHARS_MAX).map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The person or team responsible for a feature: a free text of at most 200 characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner(String);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Owner {
    pub const CHARS_MAX: usize = 200;

    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        bounded_text("owner", text.into(), Self::CHARS_MAX).map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// At most 64 labels; keys of 1–63 characters, values of 0–255.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    pub const COUNT_MAX: usize = 64;
    pub const KEY_CHARS_MAX: usize = 63;
    pub const VALUE_CHARS_MAX: usize = 255;

    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, Invalid> {
        if labels.len() > Self::COUNT_MAX {
            return Err(Invalid::argument(format!("a feature has at most {} labels", Self::COUNT_MAX)));
        }
        for (key, value) in &labels {
            if key.is_empty() {
                return Err(Invalid::argument("a label's key must not be empty"));
            }
            bounded_text("a label's key", key.clone(), Self::KEY_CHARS_MAX)?;
            bounded_text("a label's value", value.clone(), Self::VALUE_CHARS_MAX)?;
        }
        Ok(Self(labels))
    }

    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

/// The author of a change, for the audit trail, in 1–128 characters, and the person that the author acts for, if named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    name: String,
    on_behalf_of: Option<String>,
}

impl Author {
    pub const CHARS_MAX: usize = 128;

    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = bounded_text("Liststore-User", text.into(), Self::CHARS_MAX)?;
        if text.is_empty() {
            return Err(Invalid::argument("Liststore-User must not be empty: leave the header out"));
        }
        Ok(Self { name: text, on_behalf_of: None })
    }

    pub fn anonymous() -> Self {
        Self { name: "anonymous".into(), on_behalf_of: None }
    }

    /// An author who acts for another person, by the author's own statement.
    pub fn on_behalf_of(self, other: Option<&Self>) -> Self {
        Self { on_behalf_of: other.map(|other| other.name.clone()), ..self }
    }

    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The person that the author acts for, by the author's own statement.
    pub fn behalf(&self) -> Option<&str> {
        self.on_behalf_of.as_deref()
    }
}

/// Counts the creations of one (entity type, name, version), from 1. It outlives deletions, so that a definition that
/// is created again starts with empty lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    pub const FIRST: Self = Self(1);

    pub fn new(number: u64) -> Result<Self, Invalid> {
        if number == 0 { Err(Invalid::argument("generations count from 1")) } else { Ok(Self(number)) }
    }

    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// The number of a change to the control plane: strictly increasing over all changes of a store. An entity tag (`ETag`)
/// is the revision of the last change to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_exclude_the_separators_of_the_feature_key() {
        for bad in ["", "a#b", "a|b", "a~b", "a b", "é", ".", "..", &"x".repeat(129)] {
            assert!(FeatureName::new(bad).is_err(), "{bad:?}");
            assert!(EntityType::new(bad).is_err(), "{bad:?}");
        }
        assert!(FeatureName::new(&"x".repeat(128)).is_ok());
        assert!(FeatureName::new("story_presented.v-2").is_ok());
    }

    #[test]
    fn a_version_label_may_be_empty_and_may_hold_slashes() {
        for good in ["", "v1", "2024/08:rc-1", &"x".repeat(64)] {
            assert!(VersionLabel::new(good).is_ok(), "{good:?}");
        }
        for bad in [".", "..", "a#b", "a|b", "a~b", &"x".repeat(65)] {
            assert!(VersionLabel::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn texts_are_bounded_in_characters_not_bytes() {
        assert!(Description::new("é".repeat(2_000)).is_ok());
        assert!(Description::new("é".repeat(2_001)).is_err());
        assert!(Owner::new("a\0b").is_err());
    }

    #[test]
    fn labels_are_bounded() {
        let label = |key: &str, value: &str| Labels::new(BTreeMap::from([(key.to_owned(), value.to_owned())]));
        assert!(label("k", "").is_ok());
        assert!(label("", "v").is_err());
        assert!(label(&"k".repeat(64), "v").is_err());
        assert!(label("k", &"v".repeat(256)).is_err());
        let many = |n: usize| Labels::new((0..n).map(|i| (i.to_string(), String::new())).collect());
        assert!(many(64).is_ok());
        assert!(many(65).is_err());
    }
}
