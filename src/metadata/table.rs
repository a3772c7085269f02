//! The catalog's table: (entity type, feature name, version label) → the data that a list operation needs.
//!
//! It is made for two purposes: a lookup that reads little memory, and a copy that is cheap to change. All versions of
//! a feature are in one of many shards. A copy of the table shares all shards except the changed ones.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::definition::VersionProperties;
use crate::definition::{Feature, FeatureVersion};
use crate::domain::{FeatureId, FeatureKey, Index, ValueType, VersionLabel};

/// A power of two. At 60,000 versions a shard has about 230 entries, which a change copies.
const SHARDS: usize = 256;
/// Before the generation in a feature key. No entity type, name or label contains it.
const GENERATION: char = '~';

/// The data of a feature version that a list operation needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogVersion {
    pub feature_key: FeatureKey,
    pub value_type: ValueType,
    pub properties: VersionProperties,
    /// The index, for a version of bags that is one.
    pub index: Option<Index>,
}

impl CatalogVersion {
    fn of(id: &FeatureId, version: &FeatureVersion, feature: &Feature) -> Self {
        Self {
            feature_key: version.key(id),
            value_type: feature.value_type,
            properties: version.properties.clone(),
            index: version.index.clone(),
        }
    }

    /// Whether it is this version. The feature key contains the three texts, so that no second copy is stored or read.
    fn is(&self, entity_type: &str, name: &str, version: &str) -> bool {
        match self.label_of(entity_type, name).and_then(|label| label.strip_prefix(version)) {
            // A caller may ask for the text of a later generation, which is no label.
            Some("") => !version.contains(GENERATION),
            Some(rest) => rest.starts_with(GENERATION),
            None => false,
        }
    }

    /// The version label, with the generation if it is not the first, if this is a version of that feature. Neither of
    /// the first two texts can contain a separator.
    fn label_of(&self, entity_type: &str, name: &str) -> Option<&str> {
        let key = self.feature_key.as_str();
        key.strip_prefix(entity_type)?.strip_prefix('#')?.strip_prefix(name)?.strip_prefix('|')
    }

    /// Its hash, computed from its key again, because a table rarely grows.
    fn hash(&self, hashes: &DefaultHashBuilder) -> u64 {
        let key = self.feature_key.as_str();
        let plain = key.split_once(GENERATION).map_or(key, |(plain, _)| plain);
        let (entity_type, rest) = plain.split_once('#').unwrap_or((plain, ""));
        let (name, version) = rest.split_once('|').unwrap_or((rest, ""));
        ShardHash::of(hashes, entity_type, name, version).hash
    }
}

/// The place of an entry: the shard of all versions of its feature, and the hash in that shard.
struct ShardHash {
    shard: usize,
    hash: u64,
}

impl ShardHash {
    fn of(hashes: &DefaultHashBuilder, entity_type: &str, name: &str, version: &str) -> Self {
        let mut hasher = hashes.build_hasher();
        // The length distinguishes ("ab", "c") from ("a", "bc").
        hasher.write_usize(entity_type.len());
        hasher.write(entity_type.as_bytes());
        hasher.write(name.as_bytes());
        // Bits that the shard's own table does not use first.
        let shard = (hasher.finish() >> 32) as usize % SHARDS;
        hasher.write(version.as_bytes());
        Self { shard, hash: hasher.finish() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Table {
    hashes: DefaultHashBuilder,
    shards: Vec<Arc<HashTable<CatalogVersion>>>,
}

impl Default for Table {
    fn default() -> Self {
        Self { hashes: DefaultHashBuilder::default(), shards: vec![Arc::default(); SHARDS] }
    }
}

impl Table {
    /// A table with capacity for this many versions.
    pub fn expecting(versions: usize) -> Self {
        let shard = |_| Arc::new(HashTable::with_capacity(versions / SHARDS));
        Self { hashes: DefaultHashBuilder::default(), shards: (0..SHARDS).map(shard).collect() }
    }

    pub fn of_versions(versions: Vec<(FeatureId, VersionLabel, CatalogVersion)>) -> Self {
        let mut table = Self::default();
        for (id, label, version) in versions {
            table.insert_entry(&id, &label, version);
        }
        table
    }

    /// All versions, in no order.
    pub fn versions(&self) -> impl Iterator<Item = &CatalogVersion> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    pub fn get(&self, entity_type: &str, name: &str, version: &str) -> Option<&CatalogVersion> {
        let ShardHash { shard, hash } = self.place(entity_type, name, version);
        self.shards[shard].find(hash, |entry| entry.is(entity_type, name, version))
    }

    /// All versions of a feature, in no order.
    pub fn versions_of<'a>(&'a self, id: &'a FeatureId) -> impl Iterator<Item = &'a CatalogVersion> {
        let (entity_type, name) = (id.entity_type.as_str(), id.name.as_str());
        let ShardHash { shard, .. } = self.place(entity_type, name, "");
        self.shards[shard].iter().filter(move |entry| entry.label_of(entity_type, name).is_some())
    }

    /// Replaces a feature with all its versions; `None` removes it.
    pub fn set(&mut self, id: &FeatureId, feature: Option<&Feature>) {
        let (entity_type, name) = (id.entity_type.as_str(), id.name.as_str());
        let ShardHash { shard, .. } = self.place(entity_type, name, "");
        Arc::make_mut(&mut self.shards[shard]).retain(|entry| entry.label_of(entity_type, name).is_none());
        if let Some(feature) = feature {
            self.insert(id, feature);
        }
    }

    /// Adds a new feature.
    pub fn insert(&mut self, id: &FeatureId, feature: &Feature) {
        for version in &feature.versions {
            self.insert_entry(id, &version.version, CatalogVersion::of(id, version, feature));
        }
    }

    fn insert_entry(&mut self, id: &FeatureId, label: &VersionLabel, version: CatalogVersion) {
        let ShardHash { shard, hash } = self.place(id.entity_type.as_str(), id.name.as_str(), label.as_str());
        Arc::make_mut(&mut self.shards[shard]).insert_unique(hash, version, |entry| entry.hash(&self.hashes));
    }

    fn place(&self, entity_type: &str, name: &str, version: &str) -> ShardHash {
        ShardHash::of(&self.hashes, entity_type, name, version)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::domain::{EntityType, FeatureName, Generation, Revision, Timestamp, Ttl};

    fn feature(entity_type: &str, name: &str, versions: &BTreeMap<String, u64>) -> Feature {
        let ttl = Ttl::MIN;
        let versions = versions.iter().map(|(label, generation)| FeatureVersion {
            version: VersionLabel::new(label).unwrap(),
            properties: VersionProperties { ttl, ..VersionProperties::default() },
            index: None,
            description: Default::default(),
            created_at: Timestamp::MIN,
            generation: Generation::new(*generation).unwrap(),
            ttl_max: ttl,
            revision: Revision(1),
        });
        Feature {
            id: FeatureId { entity_type: EntityType::new(entity_type).unwrap(), name: FeatureName::new(name).unwrap() },
            value_type: ValueType::Int64,
            description: Default::default(),
            owner: Default::default(),
            labels: Default::default(),
            versions: versions.collect(),
            created_at: Timestamp::MIN,
            updated_at: Timestamp::MIN,
            ttl_max: ttl,
            revision: Revision(1),
        }
    }

    /// A line of the processor's cache: a lookup reads and copies one, and 100,000 versions take 8 MiB.
    #[test]
    fn a_version_takes_64_bytes() {
        assert!(size_of::<CatalogVersion>() <= 64, "{}", size_of::<CatalogVersion>());
    }

    proptest! {
        /// Few short names, so that features and versions repeat, and hash places are close.
        #[test]
        fn the_table_finds_what_a_map_finds(
            steps in prop::collection::vec(
                ("[ab]{1,2}", "[ab]{1,2}", prop::option::of(prop::collection::btree_map("[12]{0,2}", 1..3_u64, 0..4))),
                0..60,
            )
        ) {
            let (mut table, mut model) = (Table::default(), BTreeMap::new());
            let mut asked = BTreeSet::new();
            for (entity_type, name, versions) in steps {
                let feature = versions.as_ref().map(|versions| feature(&entity_type, &name, versions));
                let id = self::feature(&entity_type, &name, &BTreeMap::new()).id;
                let copy = table.clone();
                table.set(&id, feature.as_ref());
                drop(copy);
                model.insert((entity_type.clone(), name.clone()), versions.unwrap_or_default());
                asked.extend([(entity_type.clone(), name.clone()), (name, entity_type)]);
            }
            for (entity_type, name) in asked {
                for label in ["", "1", "2", "11", "12", "21", "22", "1~2", "~2"] {
                    let known = model.get(&(entity_type.clone(), name.clone())).and_then(|versions| versions.get(label));
                    let expected = known.map(|generation| match generation {
                        1 => format!("{entity_type}#{name}|{label}"),
                        later => format!("{entity_type}#{name}|{label}~{later}"),
                    });
                    let found = table.get(&entity_type, &name, label).map(|v| v.feature_key.to_string());
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
