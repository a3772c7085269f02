//! Definitions in memory in few bytes: one allocation each, in the order of entity types and names.
//!
//! An allocation has the length of the key, the key, and the packed feature. Only this process uses the form, and it is
//! never stored.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::compact::{Reader, Writer};
use crate::definition::{Feature, FeatureVersion};
use crate::domain::{
    Description, EntityType, FeatureId, FeatureName, Generation, Labels, Limit, Owner, Revision, Timestamp, Ttl,
    ValueType, VersionLabel,
};
use crate::metadata::{FeatureFilter, MetadataError, Page};

/// Between the entity type and the name of a key. No name contains it.
const SEPARATOR: u8 = 0;
const KEY_LEN_BYTES: usize = 2;

/// All features and entity types with bags.
#[derive(Debug, Clone, Default)]
pub struct PackedFeatures(BTreeSet<Packed>);

#[derive(Debug, Clone)]
struct Packed(Box<[u8]>);

impl Packed {
    fn parts(&self) -> (&[u8], &[u8]) {
        let (len, rest) = self.0.split_at_checked(KEY_LEN_BYTES).unwrap_or_default();
        let len = len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
        rest.split_at_checked(len).unwrap_or_default()
    }
}

impl Borrow<[u8]> for Packed {
    fn borrow(&self) -> &[u8] {
        self.parts().0
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Packed {}

impl Ord for Packed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().0.cmp(other.parts().0)
    }
}

impl PartialOrd for Packed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn key_of(id: &FeatureId) -> Vec<u8> {
    [id.entity_type.as_str().as_bytes(), &[SEPARATOR], id.name.as_str().as_bytes()].concat()
}

fn broken() -> MetadataError {
    MetadataError::Internal { reason: "a definition in memory makes no sense".to_owned(), outcome_unknown: false }
}

impl PackedFeatures {
    /// All of these features.
    pub fn of<E>(features: impl Iterator<Item = Result<Feature, E>>) -> Result<Self, E> {
        let packed: Vec<_> = features.map(|feature| feature.map(|feature| pack(&feature))).collect::<Result<_, _>>()?;
        // Sorted elements make a tree without gaps.
        Ok(Self(packed.into_iter().collect()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError> {
        self.0.get(key_of(id).as_slice()).map(|packed| unpack(packed).ok_or_else(broken)).transpose()
    }

    pub fn insert(&mut self, feature: &Feature) {
        self.0.replace(pack(feature));
    }

    pub fn remove(&mut self, id: &FeatureId) {
        self.0.remove(key_of(id).as_slice());
    }

    pub fn iter(&self) -> impl Iterator<Item = Result<Feature, MetadataError>> {
        self.0.iter().map(|packed| unpack(packed).ok_or_else(broken))
    }

    /// The features of an entity type, and the type itself if it has bags.
    pub fn of_type(&self, entity_type: &EntityType) -> impl Iterator<Item = Result<Feature, MetadataError>> {
        let begin = [entity_type.as_str().as_bytes(), &[SEPARATOR]].concat();
        let from = self.0.range::<[u8], _>((Bound::Included(begin.as_slice()), Bound::Unbounded));
        from.take_while(move |packed| packed.parts().0.starts_with(&begin))
            .map(|packed| unpack(packed).ok_or_else(broken))
    }

    /// As [`MetadataStore::features`](crate::metadata::MetadataStore::features). Unpacks the matches.
    pub fn page(
        &self,
        filter: &FeatureFilter,
        after: Option<&FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        let begin = filter.entity_type.as_ref().map(|entity_type| entity_type.as_str().as_bytes());
        let begin = begin.map(|entity_type| [entity_type, &[SEPARATOR]].concat()).unwrap_or_default();
        let after = after.map(key_of);
        let from = match &after {
            Some(after) if *after >= begin => Bound::Excluded(after.as_slice()),
            _ => Bound::Included(begin.as_slice()),
        };
        let from = self.0.range::<[u8], _>((from, Bound::Unbounded));
        let of_type = from.take_while(|packed| packed.parts().0.starts_with(&begin));
        let mut matches = of_type.filter(|packed| matches(packed, filter).unwrap_or(true));
        let entries = matches.by_ref().take(page_size.get()).map(|packed| unpack(packed).ok_or_else(broken));
        Ok(Page { entries: entries.collect::<Result<_, _>>()?, more: matches.next().is_some() })
    }
}

/// Compares the texts of a packed feature without copying them.
fn matches(packed: &Packed, filter: &FeatureFilter) -> Option<bool> {
    let (key, rest) = packed.parts();
    let (entity_type, name) = std::str::from_utf8(key).ok()?.split_once(char::from(SEPARATOR))?;
    let mut reader = Reader::new(rest);
    Some(filter.matches_texts(entity_type, name, reader.text()?, reader.text()?))
}

fn pack(feature: &Feature) -> Packed {
    let Feature { id, value_type, description, owner, labels, versions, created_at, updated_at, ttl_max, revision } =
        feature;
    let key = key_of(id);
    let mut writer = Writer::with_capacity(KEY_LEN_BYTES + key.len() + 64);
    // Both names have at most 128 characters.
    writer.bytes(&(key.len() as u16).to_le_bytes());
    writer.bytes(&key);
    writer.text(description.as_str());
    writer.text(owner.as_str());
    writer.number(ValueType::ALL.iter().position(|other| other == value_type).unwrap_or_default() as u64);
    writer.number(labels.as_map().len() as u64);
    for (name, text) in labels.as_map() {
        writer.text(name);
        writer.text(text);
    }
    writer.near(0, created_at.as_nanos());
    writer.near(created_at.as_nanos(), updated_at.as_nanos());
    writer.number(ttl_max.as_secs());
    writer.number(revision.0);
    writer.number(versions.len() as u64);
    versions.iter().for_each(|version| pack_version(&mut writer, feature, version));
    Packed(writer.finish())
}

fn pack_version(writer: &mut Writer, feature: &Feature, version: &FeatureVersion) {
    let FeatureVersion { version, properties, index, description, created_at, generation, ttl_max, revision } = version;
    writer.text(version.as_str());
    properties.pack().into_iter().for_each(|number| writer.optional(number));
    // Texts and a flag always have a form in JSON.
    let index = index.as_ref().and_then(|index| serde_json::to_string(index).ok());
    writer.text(&index.unwrap_or_default());
    writer.text(description.as_str());
    writer.near(feature.created_at.as_nanos(), created_at.as_nanos());
    writer.number(generation.as_u64());
    writer.near(properties.ttl.as_secs(), ttl_max.as_secs());
    writer.near(feature.revision.0, revision.0);
}

fn unpack(packed: &Packed) -> Option<Feature> {
    let (key, rest) = packed.parts();
    let (entity_type, name) = std::str::from_utf8(key).ok()?.split_once(char::from(SEPARATOR))?;
    let id = FeatureId { entity_type: EntityType::new(entity_type).ok()?, name: FeatureName::stored(name).ok()? };
    let mut reader = Reader::new(rest);
    let description = Description::new(reader.text()?).ok()?;
    let owner = Owner::new(reader.text()?).ok()?;
    let value_type = *ValueType::ALL.get(usize::try_from(reader.number()?).ok()?)?;
    let mut labels = BTreeMap::new();
    for _ in 0..reader.number()? {
        labels.insert(reader.text()?.to_owned(), reader.text()?.to_owned());
    }
    let labels = Labels::new(labels).ok()?;
    let created_at = reader.timestamp(Timestamp::MIN)?;
    let (updated_at, ttl_max) = (reader.timestamp(created_at)?, Ttl::from_secs(reader.number()?).ok()?);
    let revision = Revision(reader.number()?);
    let mut feature = Feature {
        id,
        value_type,
        description,
        owner,
        labels,
        versions: Vec::new(),
        created_at,
        updated_at,
        ttl_max,
        revision,
    };
    for _ in 0..reader.number()? {
        let version = unpack_version(&mut reader, &feature)?;
        feature.versions.push(version);
    }
    Some(feature)
}

fn unpack_version(reader: &mut Reader<'_>, feature: &Feature) -> Option<FeatureVersion> {
    let version = VersionLabel::new(reader.text()?).ok()?;
    let properties = reader.properties()?;
    let index = match reader.text()? {
        "" => None,
        text => Some(serde_json::from_str(text).ok()?),
    };
    let ttl = properties.ttl;
    Some(FeatureVersion {
        version,
        properties,
        index,
        description: Description::new(reader.text()?).ok()?,
        created_at: reader.timestamp(feature.created_at)?,
        generation: Generation::new(reader.number()?).ok()?,
        ttl_max: reader.ttl(ttl)?,
        revision: Revision(reader.near(feature.revision.0)?),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::definition::VersionProperties;
    use crate::domain::index::{Index, IndexSpec, Pointer};
    use crate::domain::{AheadMax, Bucket, IdentityKind, Keep, MaxItems};

    fn id(entity_type: &str, name: &str) -> FeatureId {
        FeatureId { entity_type: EntityType::new(entity_type).unwrap(), name: FeatureName::stored(name).unwrap() }
    }

    fn version(label: &str) -> FeatureVersion {
        FeatureVersion {
            version: VersionLabel::new(label).unwrap(),
            properties: VersionProperties { ttl: Ttl::MIN, ..VersionProperties::default() },
            index: None,
            description: Description::default(),
            created_at: Timestamp::MIN,
            generation: Generation::FIRST,
            ttl_max: Ttl::MIN,
            revision: Revision(1),
        }
    }

    fn feature(entity_type: &str, name: &str) -> Feature {
        Feature {
            id: id(entity_type, name),
            value_type: ValueType::String,
            description: Description::default(),
            owner: Owner::default(),
            labels: Labels::default(),
            versions: vec![version("")],
            created_at: Timestamp::MIN,
            updated_at: Timestamp::MIN,
            ttl_max: Ttl::MIN,
            revision: Revision(1),
        }
    }

    /// A feature with every property, each with a different value.
    fn full() -> Feature {
        let properties = vec![Pointer::new("/a").unwrap(), Pointer::new("/b/é").unwrap()];
        let spec = Arc::new(IndexSpec::new(properties, Some(Pointer::new("/c").unwrap())).unwrap());
        let long = "x".repeat(2_000);
        let of = |label: &str, properties| FeatureVersion { properties, ..version(label) };
        let sets = [IdentityKind::Value, IdentityKind::Key].map(|kind| Keep::ALL.map(|keep| (kind, keep)));
        let sets = sets.into_iter().flatten().enumerate().map(|(i, (identity, keep))| FeatureVersion {
            generation: Generation::new(300 + i as u64).unwrap(),
            ..of(
                &format!("v{i}"),
                VersionProperties {
                    max_items: MaxItems::new(1 + i as u64).ok(),
                    identity,
                    keep: Some(keep),
                    ..VersionProperties::default()
                },
            )
        });
        let buckets = Bucket::ALL.map(|bucket| {
            of(bucket.as_str(), VersionProperties { bucket: Some(bucket), ..VersionProperties::default() })
        });
        let mut versions: Vec<_> = sets.chain(buckets).collect();
        versions.push(FeatureVersion {
            properties: VersionProperties {
                timestamp_ahead_max: Some(AheadMax::Unbounded),
                ..VersionProperties::default()
            },
            index: Some(Index { spec, is_ready: true }),
            description: Description::new(long.as_str()).unwrap(),
            created_at: Timestamp::MAX,
            ttl_max: Ttl::MAX,
            revision: Revision(u64::MAX),
            ..version("last")
        });
        Feature {
            value_type: ValueType::Json,
            description: Description::new("é\n\"").unwrap(),
            owner: Owner::new("team").unwrap(),
            labels: Labels::new([("k".to_owned(), "v".to_owned()), ("l".to_owned(), String::new())].into()).unwrap(),
            versions,
            created_at: Timestamp::from_nanos(1_700_000_000_000_000_001).unwrap(),
            updated_at: Timestamp::from_nanos(5).unwrap(),
            ttl_max: Ttl::MAX,
            revision: Revision(1 << 40),
            ..feature(&"t".repeat(128), &"n".repeat(128))
        }
    }

    #[test]
    fn a_packed_feature_unpacks_unchanged() {
        let mut packed = PackedFeatures::default();
        let features = [full(), feature("user", ""), feature("user", "seen")];
        features.iter().for_each(|feature| packed.insert(feature));
        for value_type in ValueType::ALL {
            let changed = Feature { value_type, ..feature("user", "seen") };
            packed.insert(&changed);
            assert_eq!(packed.get(&changed.id).unwrap(), Some(changed));
        }
        assert_eq!(packed.get(&features[0].id).unwrap().as_ref(), Some(&features[0]));
        assert_eq!(packed.get(&features[1].id).unwrap().as_ref(), Some(&features[1]));
        assert_eq!(packed.iter().count(), 3);
        packed.remove(&features[0].id);
        assert_eq!(packed.get(&features[0].id).unwrap(), None);
    }

    #[test]
    fn a_plain_feature_takes_few_bytes() {
        let plain = feature("user", "feature_000001");
        assert!(pack(&plain).0.len() < 60, "{}", pack(&plain).0.len());
    }

    #[test]
    fn damage_is_detected_without_a_panic() {
        let whole = pack(&full());
        for len in 0..whole.0.len() {
            assert!(unpack(&Packed(whole.0[..len].into())).is_none(), "cut at {len}");
        }
    }

    #[test]
    fn features_are_listed_in_the_order_of_types_and_names() {
        let mut packed = PackedFeatures::default();
        let names = [("a", ""), ("a", "b"), ("a", "c"), ("a-b", "a"), ("a.b", ""), ("b", "A")];
        for (entity_type, name) in names.iter().rev() {
            packed.insert(&feature(entity_type, name));
        }
        let reported = |features: Vec<Feature>| -> Vec<_> {
            let name = |feature: Feature| (feature.id.entity_type.to_string(), feature.id.name.to_string());
            features.into_iter().map(name).collect()
        };
        let of = |names: &[(&str, &str)]| -> Vec<_> {
            names.iter().map(|(entity_type, name)| ((*entity_type).to_owned(), (*name).to_owned())).collect()
        };
        assert_eq!(reported(packed.iter().map(Result::unwrap).collect()), of(&names));
        assert_eq!(
            reported(packed.of_type(&EntityType::new("a").unwrap()).map(Result::unwrap).collect()),
            of(&names[..3])
        );
        let page = |filter: &FeatureFilter, after: Option<&FeatureId>, size| {
            let page = packed.page(filter, after, Limit::of_page(size).unwrap()).unwrap();
            (reported(page.entries), page.more)
        };
        let all = FeatureFilter::default();
        assert_eq!(page(&all, None, 2), (of(&names[1..3]), true));
        assert_eq!(page(&all, Some(&id("a", "c")), 2), (of(&[("a-b", "a"), ("b", "A")]), false));
        let of_a = FeatureFilter { entity_type: EntityType::new("a").ok(), ..FeatureFilter::default() };
        assert_eq!(page(&of_a, None, 2), (of(&names[1..3]), false));
        assert_eq!(page(&of_a, Some(&id("a", "b")), 2), (of(&names[2..3]), false));
        assert_eq!(page(&of_a, Some(&id("a-b", "a")), 2), (of(&[]), false));
        assert_eq!(page(&of_a, Some(&id("A", "z")), 2), (of(&names[1..3]), false));
        let bags = FeatureFilter { of_bags: true, ..FeatureFilter::default() };
        assert_eq!(page(&bags, None, 5), (of(&[("a", ""), ("a.b", "")]), false));
    }
}
