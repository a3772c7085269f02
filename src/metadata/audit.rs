//! The form in which the audit trail keeps definitions: versioned, written out here, and never changed.
//!
//! What is kept stays as it was written for as long as its database lives, so it follows no other form:
//! neither the API's, whose history shows it, nor how the domain's types happen to be laid out. Another
//! form gets another number.

use serde_json::{Map, Value as Json};

use crate::domain::index::{Index, Pointer};
use crate::domain::{AheadMax, Bucket, Feature, FeatureVersion, Identity, MaxItems};

/// The number of the form below.
pub const FORMAT: u32 = 1;

fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn with_max_items(mut form: Json, max_items: Option<MaxItems>) -> Json {
    if let (Some(members), Some(max_items)) = (form.as_object_mut(), max_items) {
        members.insert("max_items".to_owned(), max_items.as_u64().into());
    }
    form
}

/// A definition with how far timestamps may be ahead, where it says so itself.
fn with_ahead_max(mut form: Json, ahead_max: Option<AheadMax>) -> Json {
    if let (Some(members), Some(ahead_max)) = (form.as_object_mut(), ahead_max) {
        members.insert("timestamp_ahead_max".to_owned(), ahead_max.to_string().into());
    }
    form
}

/// An entity type with bags.
fn entity_type(bags: &Feature) -> Json {
    object([
        ("entity_type", bags.id.entity_type.as_str().into()),
        ("ttl", bags.ttl.to_string().into()),
        ("description", bags.description.as_str().into()),
        ("owner", bags.owner.as_str().into()),
        ("labels", labels(bags)),
        ("created_at", bags.created_at.to_string().into()),
        ("updated_at", bags.updated_at.to_string().into()),
    ])
}

fn labels(feature: &Feature) -> Json {
    let labels = feature.labels.as_map().iter().map(|(key, text)| (key.clone(), Json::from(text.as_str())));
    Json::Object(labels.collect())
}

/// A feature with its versions, or an entity type. Generations, the longest TTLs and revisions are no part of it, and
/// `max_items` and `timestamp_ahead_max` are only where the feature has such a bound.
pub fn feature(feature: &Feature) -> Json {
    if feature.id.is_of_bags() {
        return entity_type(feature);
    }
    let form = object([
        ("entity_type", feature.id.entity_type.as_str().into()),
        ("name", feature.id.name.as_str().into()),
        ("value_type", feature.value_type.as_str().into()),
        ("ttl", feature.ttl.to_string().into()),
        ("description", feature.description.as_str().into()),
        ("owner", feature.owner.as_str().into()),
        ("labels", labels(feature)),
        ("versions", feature.versions.iter().map(version).collect()),
        ("created_at", feature.created_at.to_string().into()),
        ("updated_at", feature.updated_at.to_string().into()),
    ]);
    let form = with_ahead_max(with_max_items(form, feature.max_items), feature.timestamp_ahead_max);
    with_bucket(with_identity(form, feature.identity()), feature.bucket())
}

/// A version of a feature.
pub fn version(version: &FeatureVersion) -> Json {
    let form = object([
        ("version", version.version.as_str().into()),
        ("ttl", version.ttl.to_string().into()),
        ("description", version.description.as_str().into()),
        ("created_at", version.created_at.to_string().into()),
    ]);
    let form = with_ahead_max(with_max_items(form, version.max_items), version.timestamp_ahead_max);
    let form = with_identity(form, version.identity);
    with_index(with_bucket(form, version.bucket), version.index.as_ref())
}

/// A definition with the buckets that its lists may be kept in, if there are any.
fn with_bucket(mut form: Json, bucket: Option<Bucket>) -> Json {
    if let (Some(members), Some(bucket)) = (form.as_object_mut(), bucket) {
        members.insert("bucket".to_owned(), bucket.as_str().into());
    }
    form
}

/// An index of bags; whether it is built is part of it.
fn with_index(mut form: Json, index: Option<&Index>) -> Json {
    if let (Some(members), Some(index)) = (form.as_object_mut(), index) {
        let text = |pointer: &Pointer| Json::from(pointer.as_str());
        members.insert("properties".to_owned(), index.spec.properties().iter().map(text).collect());
        members.insert("order_by".to_owned(), index.spec.order_by().map(text).into());
        members.insert("ready".to_owned(), index.is_ready.into());
    }
    form
}

/// A definition with what tells its items from each other. That of items, which was there before any other,
/// is not said.
fn with_identity(definition: Json, identity: Identity) -> Json {
    match (definition, identity.keep()) {
        (Json::Object(mut fields), Some(keep)) => {
            fields.insert("identity".to_owned(), identity.kind().as_str().into());
            fields.insert("keep".to_owned(), keep.as_str().into());
            Json::Object(fields)
        }
        (definition, _) => definition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        EntityType, FeatureId, FeatureName, Generation, Labels, Revision, Timestamp, Ttl, ValueType, VersionLabel,
    };

    /// Databases hold this: it must never change. A change of it is another format.
    const FIRST: &str = r#"{"created_at":"1970-01-01T00:00:00.000000001Z","description":"d","entity_type":"user","labels":{"k":"v"},"name":"seen","owner":"o","ttl":"3d","updated_at":"1970-01-01T00:00:02.000000000Z","value_type":"json","versions":[{"created_at":"1970-01-01T00:00:00.000000001Z","description":"x","ttl":"3d","version":""}]}"#;

    const OF_BAGS: &str = r#"{"created_at":"1970-01-01T00:00:00.000000001Z","description":"d","entity_type":"user","labels":{"k":"v"},"owner":"o","ttl":"3d","updated_at":"1970-01-01T00:00:02.000000000Z"}"#;

    #[test]
    fn the_first_format_never_changes() {
        let ttl = Ttl::parse("3d").unwrap();
        let created_at = Timestamp::from_nanos(1).unwrap();
        let version = FeatureVersion {
            version: VersionLabel::default_version(),
            ttl,
            max_items: None,
            timestamp_ahead_max: None,
            identity: Identity::Item,
            bucket: None,
            index: None,
            description: crate::domain::Description::new("x").unwrap(),
            created_at,
            generation: Generation::new(7).unwrap(),
            ttl_max: ttl,
            revision: Revision(8),
        };
        let mut whole = Feature {
            id: FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() },
            value_type: ValueType::Json,
            ttl,
            max_items: None,
            timestamp_ahead_max: None,
            description: crate::domain::Description::new("d").unwrap(),
            owner: crate::domain::Owner::new("o").unwrap(),
            labels: Labels::new([("k".to_owned(), "v".to_owned())].into()).unwrap(),
            versions: vec![version],
            created_at,
            updated_at: Timestamp::from_nanos(2_000_000_000).unwrap(),
            ttl_max: ttl,
            revision: Revision(9),
        };
        assert_eq!((feature(&whole).to_string().as_str(), FORMAT), (FIRST, 1));
        whole.max_items = MaxItems::new(7).ok();
        whole.versions[0].max_items = MaxItems::new(8).ok();
        let bounded = FIRST.replace(r#""name":"seen""#, r#""max_items":7,"name":"seen""#);
        let bounded = bounded.replace(r#""description":"x""#, r#""description":"x","max_items":8"#);
        assert_eq!(feature(&whole).to_string(), bounded);
        whole.max_items = None;
        whole.versions[0].max_items = None;
        whole.timestamp_ahead_max = Some(AheadMax::Unbounded);
        whole.versions[0].timestamp_ahead_max = Some(AheadMax::DAY);
        let ahead = FIRST.replace(r#""owner":"o","ttl""#, r#""owner":"o","timestamp_ahead_max":"none","ttl""#);
        let ahead =
            ahead.replace(r#""description":"x","ttl""#, r#""description":"x","timestamp_ahead_max":"1d","ttl""#);
        assert_eq!(feature(&whole).to_string(), ahead);
        whole.timestamp_ahead_max = None;
        whole.versions[0].timestamp_ahead_max = None;
        whole.versions[0].bucket = Some(Bucket::Week);
        let cut = FIRST.replacen(r#"{"created_at""#, r#"{"bucket":"week","created_at""#, 1);
        let cut = cut.replace(r#"[{"created_at""#, r#"[{"bucket":"week","created_at""#);
        assert_eq!(feature(&whole).to_string(), cut);
        whole.versions[0].bucket = None;
        whole.id = FeatureId::of_bags(EntityType::new("user").unwrap());
        assert_eq!(feature(&whole).to_string(), OF_BAGS);
    }
}
