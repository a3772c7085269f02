//! The feature key: the first half of a list's partition key.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::identity::Keep;
use super::{Bucket, EntityType, FeatureId, FeatureName, Generation, Identity, VersionLabel};

/// `"$entityType#$featureName|$featureVersion"`, with `~n` appended for a generation n above 1.
///
/// Entity types, names and version labels cannot contain `#`, `|` or `~`, so two different (feature, version,
/// generation) never share a key. The key also carries their permanent properties, identity and buckets. These are no
/// part of it: they are neither compared nor written.
#[derive(Debug, Clone)]
pub struct FeatureKey {
    text: Arc<str>,
    identity: Identity,
    bucket: Option<Bucket>,
}

impl FeatureKey {
    /// The key of lists of items.
    pub fn new(id: &FeatureId, version: &VersionLabel, generation: Generation) -> Self {
        let FeatureId { entity_type, name } = id;
        let text = if generation == Generation::FIRST {
            format!("{entity_type}#{name}|{version}").into()
        } else {
            format!("{entity_type}#{name}|{version}~{}", generation.as_u64()).into()
        };
        Self { text, identity: Identity::Item, bucket: None }
    }

    /// The key of lists with this identity.
    #[inline]
    pub fn with_identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// The key of lists that a store may divide into such buckets.
    #[inline]
    pub fn with_bucket(self, bucket: Option<Bucket>) -> Self {
        Self { bucket, ..self }
    }

    /// The key of a generation whose identity and buckets are no longer known, for removing all contents of its lists.
    /// The removal of a set also removes a list of items, and the removal of buckets removes them by their names.
    #[inline]
    pub fn of_any_identity(self) -> Self {
        self.with_identity(Identity::Value(Keep::Newest)).with_bucket(Some(Bucket::Day))
    }

    /// The key's text in the partition of one bucket of a list. `@` follows neither a label nor a generation.
    pub fn in_bucket(&self, name: &str) -> Self {
        Self { text: format!("{}@{name}", self.text).into(), identity: self.identity, bucket: None }
    }

    /// Whether its lists are bags or entries of their indexes: the lists of a feature without a name.
    #[inline]
    pub fn is_of_bags(&self) -> bool {
        self.text.contains("#|")
    }

    /// Whether its lists are bags themselves: the lists of the default version of a feature without a name.
    #[inline]
    pub fn holds_bags(&self) -> bool {
        self.text.split_once("#|").is_some_and(|(_, version)| version.is_empty() || version.starts_with('~'))
    }

    #[inline]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The buckets into which a store may divide its lists.
    #[inline]
    pub fn bucket(&self) -> Option<Bucket> {
        self.bucket
    }

    /// Parses the text of a key; `None` for any other text.
    pub fn parse(text: &str) -> Option<(FeatureId, VersionLabel, Generation)> {
        let (entity_type, rest) = text.split_once('#')?;
        let (name, rest) = rest.split_once('|')?;
        let (label, generation) = match rest.split_once('~') {
            Some((label, generation)) => (label, generation.parse().ok().filter(|number| *number > 1)?),
            None => (rest, 1),
        };
        let id = FeatureId { entity_type: EntityType::new(entity_type).ok()?, name: FeatureName::stored(name).ok()? };
        Some((id, VersionLabel::new(label).ok()?, Generation::new(generation).ok()?))
    }

    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for FeatureKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for FeatureKey {}

impl PartialOrd for FeatureKey {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FeatureKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for FeatureKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for FeatureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(version: &str, generation: u64) -> String {
        let id = FeatureId {
            entity_type: EntityType::new("user").unwrap(),
            name: FeatureName::new("story_presented").unwrap(),
        };
        let key = FeatureKey::new(&id, &VersionLabel::new(version).unwrap(), Generation::new(generation).unwrap());
        key.as_str().to_owned()
    }

    #[test]
    fn the_first_generation_has_the_plain_key() {
        assert_eq!(key("", 1), "user#story_presented|");
        assert_eq!(key("v2", 1), "user#story_presented|v2");
    }

    #[test]
    fn later_generations_append_their_number() {
        assert_eq!(key("", 2), "user#story_presented|~2");
        assert_eq!(key("v2", 12), "user#story_presented|v2~12");
    }

    #[test]
    fn the_key_of_bags_has_no_name_and_no_feature_shares_it() {
        let id = FeatureId::of_bags(EntityType::new("user").unwrap());
        let key = |label: &str, number| {
            FeatureKey::new(&id, &VersionLabel::new(label).unwrap(), Generation::new(number).unwrap())
        };
        for (bags, text) in [(key("", 1), "user#|"), (key("", 3), "user#|~3"), (key("by_city", 2), "user#|by_city~2")] {
            assert_eq!((bags.as_str(), bags.is_of_bags()), (text, true));
            assert_eq!(bags.holds_bags(), !text.contains("by_city"), "{text}");
            assert_eq!(FeatureKey::parse(text).map(|(id, _, _)| id), Some(id.clone()));
        }
        assert!(
            !FeatureKey::new(
                &FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() },
                &VersionLabel::default_version(),
                Generation::FIRST
            )
            .is_of_bags()
        );
        assert_eq!((id.to_string().as_str(), id.is_of_bags()), ("user", true));
    }

    #[test]
    fn a_key_parses_into_its_parts() {
        for (version, generation) in [("", 1), ("v2", 1), ("", 2), ("a/b:c.d-e", 12)] {
            let text = key(version, generation);
            let (id, label, found) = FeatureKey::parse(&text).unwrap();
            assert_eq!((label.as_str(), found.as_u64()), (version, generation));
            assert_eq!(FeatureKey::new(&id, &label, found).as_str(), text);
        }
        for other in [
            "",
            "user",
            "user#seen|@2026",
            "user#seen",
            "user#seen|~1",
            "user#seen|~0",
            "user#seen|~x",
            "us er#seen|",
            "#seen|",
            "#|",
        ] {
            assert_eq!(FeatureKey::parse(other), None, "{other}");
        }
    }
}
