//! The last generations of deleted versions. Features contain the generations of existing versions.

use std::collections::BTreeMap;

use crate::domain::{EntityType, FeatureId, FeatureName, Generation, VersionLabel};
use crate::metadata::LastGeneration;

/// Between the parts of a key. No name or label contains it.
const SEPARATOR: char = '\0';

/// By entity type, name and label.
#[derive(Debug, Clone, Default)]
pub struct PastGenerations(BTreeMap<Box<str>, Generation>);

fn key_of(id: &FeatureId, version: &VersionLabel) -> String {
    format!("{}{SEPARATOR}{}{SEPARATOR}{version}", id.entity_type, id.name)
}

impl PastGenerations {
    pub fn insert(&mut self, id: &FeatureId, version: &VersionLabel, generation: Generation) {
        self.0.insert(key_of(id, version).into(), generation);
    }

    pub(super) fn remove(&mut self, id: &FeatureId, version: &VersionLabel) {
        self.0.remove(key_of(id, version).as_str());
    }

    pub(super) fn get(&self, id: &FeatureId, version: &VersionLabel) -> Option<Generation> {
        self.0.get(key_of(id, version).as_str()).copied()
    }

    /// Of the features of an entity type, and of its bags.
    pub(super) fn of_type(&self, entity_type: &EntityType) -> Vec<LastGeneration> {
        let begin = format!("{entity_type}{SEPARATOR}");
        let from: Box<str> = begin.as_str().into();
        let of_type =
            self.0.range(from..).map_while(|(key, generation)| Some((key.strip_prefix(&begin)?, *generation)));
        let parsed = of_type.filter_map(|(rest, generation)| {
            let (name, label) = rest.split_once(SEPARATOR)?;
            let id = FeatureId { entity_type: entity_type.clone(), name: FeatureName::stored(name).ok()? };
            Some(LastGeneration { id, version: VersionLabel::new(label).ok()?, generation })
        });
        parsed.collect()
    }
}
