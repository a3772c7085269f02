//! The feature key: the first half of a list's partition key.

use std::fmt;
use std::sync::Arc;

use super::{FeatureId, Generation, VersionLabel};

/// `"$entityType#$featureName|$featureVersion"`, with `~n` appended for a generation n above 1.
///
/// Entity types, names and version labels cannot contain `#`, `|` or `~`, so two different
/// (feature, version, generation) never share a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureKey(Arc<str>);

impl FeatureKey {
    pub fn new(id: &FeatureId, version: &VersionLabel, generation: Generation) -> Self {
        let FeatureId { entity_type, name } = id;
        Self(if generation == Generation::FIRST {
            format!("{entity_type}#{name}|{version}").into()
        } else {
            format!("{entity_type}#{name}|{version}~{}", generation.as_u64()).into()
        })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FeatureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EntityType, FeatureName};

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
}
