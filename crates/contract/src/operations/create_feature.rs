//! Create List Feature.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, CREATION, ETAG_OF_FEATURE, WRITE, json};
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{EntityType, FeatureName, ValueType};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, ReplyForm, Row, Subject};
use crate::wire::members::parsed;
use crate::wire::refused::{Mistake, Others, Refused};
use crate::wire::with_properties::with_properties;
use crate::wire::{Annotations, ErrorCode, Feature, Problem, Type, texts};

pub static ROW: Row = Row {
    name: "create_feature",
    summary: "Create a feature",
    description: "Creates the feature with its default version. A feature that is created again after a deletion \
                  starts empty.",
    group: Group::Features,
    permission: Permission::FeaturesWrite,
    subject: Subject::Body,
    effect: Effect::Write,
    method: Method::Post,
    path: "/v1/features",
    headers: CREATION,
    request: Some(Type::of::<FeatureInput>()),
    replies: &[ReplyForm {
        headers: &[("Location", "The feature's path."), ETAG_OF_FEATURE],
        ..json(201, "Created.", Type::of::<Feature>())
    }],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::FeatureExists, ErrorCode::TtlTooLong]],
    ..Row::DEFAULT
};

/// The definition of a new feature. Its `ttl` is required.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"entity_type": "user", "name": "story_presented", "value_type": "string", "ttl": "30d"}))]
#[serde(deny_unknown_fields)]
pub struct FeatureInput {
    #[schema(value_type = texts::Name, inline)]
    pub entity_type: EntityType,
    #[serde(deserialize_with = "feature_name")]
    #[schema(value_type = texts::Name, inline)]
    pub name: FeatureName,
    #[schema(value_type = texts::ValueType)]
    pub value_type: ValueType,
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub properties: GivenProperties,
    #[serde(flatten, skip_deserializing)]
    #[schema(inline)]
    pub annotations: Annotations,
}

fn feature_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FeatureName, D::Error> {
    parsed(deserializer, FeatureName::new)
}

impl FeatureInput {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let apart = [Annotations::NAMES, VersionProperties::NAMES].concat();
        let (input, properties): (Self, GivenProperties) = with_properties(body, &apart, &[])?;
        let annotations = Annotations::of(body)?;
        if properties.ttl.is_none() {
            let missing = Refused { place: "ttl".to_owned(), mistake: Mistake::Missing };
            return Err(missing.into_problem(Others::default()));
        }
        Ok(Self { properties, annotations, ..input })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::domain::{AheadMax, Description, Labels, MaxItems, Ttl, VersionLabel};
    use crate::operations::create_version::VersionInput;
    use crate::operations::update_feature::FeaturePatch;
    use crate::operations::update_version::VersionPatch;

    /// The body that a client writes. The server must read the same.
    fn sent(body: &impl Serialize) -> Vec<u8> {
        serde_json::to_vec(body).unwrap()
    }

    #[test]
    fn the_server_reads_bodies_as_the_client_wrote_them() {
        let labels = Labels::new(BTreeMap::from([("team".to_owned(), "feed \"1\"".to_owned())])).unwrap();
        let properties = json!({"ttl": "1h30m", "max_items": 100_000, "timestamp_ahead_max": "none", "identity": "key",
                                "keep": "oldest", "bucket": "week"});
        let properties = GivenProperties::of_members(properties.as_object().unwrap()).unwrap();
        let input = FeatureInput {
            entity_type: EntityType::new("user").unwrap(),
            name: FeatureName::new("seen").unwrap(),
            value_type: ValueType::Json,
            properties: properties.clone(),
            annotations: Annotations {
                description: Some(Description::new("é\n").unwrap()),
                owner: None,
                labels: Some(labels),
            },
        };
        let read = FeatureInput::read(&sent(&input)).unwrap();
        assert_eq!((read.entity_type, read.name), (input.entity_type, input.name));
        assert_eq!((read.value_type, read.properties), (input.value_type, properties));
        assert_eq!(read.annotations, input.annotations);

        let patch = FeaturePatch::from(GivenProperties { ttl: Ttl::parse("1d").ok(), ..GivenProperties::default() });
        assert_eq!(sent(&patch), br#"{"ttl":"1d"}"#);
        assert_eq!(FeaturePatch::read(&sent(&patch)).unwrap().properties, patch.properties);
        assert!(FeaturePatch::read(b"{}").unwrap().is_empty() && VersionPatch::read(b"{}").unwrap().is_empty());

        let patch = FeaturePatch::from(GivenProperties { max_items: Some(None), ..GivenProperties::default() });
        assert_eq!(sent(&patch), br#"{"max_items":null}"#);
        assert_eq!(FeaturePatch::read(&sent(&patch)).unwrap().properties, patch.properties);

        let version = VersionLabel::new("a/b").unwrap();
        let properties =
            GivenProperties { timestamp_ahead_max: Some(None), bucket: Some(None), ..GivenProperties::default() };
        let version = VersionInput { version, properties, description: None };
        let read = VersionInput::read(&sent(&version)).unwrap();
        assert_eq!((read.version, read.properties), (version.version, version.properties));
    }

    #[test]
    fn max_items_is_a_number_within_bounds_or_null() {
        for bad in ["0", "100001", "-1", "1.5", "\"5\"", "true", "[1]"] {
            let body = format!("{{\"max_items\":{bad}}}");
            let refused = VersionPatch::read(body.as_bytes()).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("max_items"), "{bad}");
            assert!(refused.detail.contains("1 to 100000"), "{}", refused.detail);
        }
        let read = |body: &[u8]| VersionPatch::read(body).unwrap().properties.max_items;
        assert_eq!(read(br#"{"max_items":100000}"#), Some(Some(MaxItems::MAX)));
        assert_eq!((read(br#"{"max_items":null}"#), read(b"{}")), (Some(None), None));
    }

    #[test]
    fn timestamp_ahead_max_is_a_duration_none_or_null() {
        for bad in ["\"\"", "\"1 day\"", "\"0s\"", "\"7301d\"", "\"None\"", "86400", "true", "[\"1d\"]"] {
            let body = format!("{{\"timestamp_ahead_max\":{bad}}}");
            let refused = VersionPatch::read(body.as_bytes()).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("timestamp_ahead_max"), "{bad}");
        }
        let read = |body: &[u8]| VersionPatch::read(body).unwrap().properties.timestamp_ahead_max;
        assert_eq!(read(br#"{"timestamp_ahead_max":"24h"}"#), Some(Some(AheadMax::DAY)));
        assert_eq!(read(br#"{"timestamp_ahead_max":"none"}"#), Some(Some(AheadMax::Unbounded)));
        assert_eq!((read(br#"{"timestamp_ahead_max":null}"#), read(b"{}")), (Some(None), None));
    }

    #[test]
    fn changes_of_fixed_properties_are_refused_with_the_reason() {
        for (field, refused) in [
            ("value_type", FeaturePatch::read(br#"{"value_type":"json"}"#).unwrap_err()),
            ("name", FeaturePatch::read(br#"{"name":"x"}"#).unwrap_err()),
            ("version", VersionPatch::read(br#"{"version":"x"}"#).unwrap_err()),
            ("identity", FeaturePatch::read(br#"{"identity":"key"}"#).unwrap_err()),
            ("keep", FeaturePatch::read(br#"{"keep":"oldest"}"#).unwrap_err()),
            ("identity", VersionPatch::read(br#"{"identity":"value"}"#).unwrap_err()),
            ("bucket", FeaturePatch::read(br#"{"bucket":"day"}"#).unwrap_err()),
            ("bucket", VersionPatch::read(br#"{"bucket":null}"#).unwrap_err()),
            ("keep", VersionPatch::read(br#"{"keep":"newest"}"#).unwrap_err()),
            ("value_type", VersionInput::read(br#"{"version":"x","value_type":"json"}"#).unwrap_err()),
        ] {
            assert_eq!(refused.field.as_deref(), Some(field));
            assert!(refused.detail.contains("cannot be"), "{}", refused.detail);
        }
    }
}
