//! The form of definitions in the audit trail: as the API shows them at the time of the change. Stored entries never
//! change, and contain the number of their format.

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::definition::FORMATS;
use crate::definition::{Feature, FeatureVersion};
use crate::domain::IdentityKind;
use crate::domain::index::{Index, Pointer};
use crate::wire;

/// The number of the form below.
pub fn format() -> u64 {
    FORMATS.present()
}

/// Documents have texts as keys, so they always have a form in JSON.
fn form(document: &impl Serialize) -> Json {
    serde_json::to_value(document).unwrap_or_default()
}

/// The trail omits the identity of lists of items.
fn without_identity_of_items(mut form: Json) -> Json {
    let Some(members) = form.as_object_mut() else { return form };
    members.retain(|name, value| name != "identity" || *value != IdentityKind::Item.as_str());
    if let Some(Json::Array(versions)) = members.get_mut("versions") {
        versions.iter_mut().for_each(|version| *version = without_identity_of_items(version.take()));
    }
    form
}

/// A feature with its versions, or an entity type. Generations, the longest TTLs and revisions are not included.
pub fn feature(feature: &Feature) -> Json {
    if feature.id.is_of_bags() {
        return form(&wire::EntityType::from(feature));
    }
    without_identity_of_items(form(&wire::Feature::from(feature)))
}

/// A version of a feature, or an index of bags, including whether it is built.
pub fn version(version: &FeatureVersion) -> Json {
    if let Some(index) = &version.index {
        return index_of_bags(version, index);
    }
    without_identity_of_items(form(&wire::FeatureVersion::from(version)))
}

/// An index of bags, which is stored as a version of them, as the API shows it.
fn index_of_bags(version: &FeatureVersion, index: &Index) -> Json {
    let text = |pointer: &Pointer| Json::from(pointer.as_str());
    let mut form = json!({
        "name": version.version.as_str(),
        "properties": index.spec.properties().iter().map(text).collect::<Json>(),
        "state": if index.is_ready { "ready" } else { "building" },
        "created_at": version.created_at.to_string(),
    });
    if let Some(order_by) = index.spec.order_by() {
        form["order_by"] = text(order_by);
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Histories contain this text. Changing it requires another format.
    const FEATURE: &str = r#"{"created_at":"1970-01-01T00:00:00.000000001Z","description":"d","entity_type":"user","labels":{"k":"v"},"max_items":7,"name":"seen","owner":"o","timestamp_ahead_max":"none","ttl":"3d","updated_at":"1970-01-01T00:00:02.000000000Z","value_type":"json","versions":[{"created_at":"1970-01-01T00:00:00.000000001Z","description":"x","max_items":7,"timestamp_ahead_max":"none","ttl":"3d","version":""}]}"#;
    const ENTITY_TYPE: &str = r#"{"created_at":"1970-01-01T00:00:00.000000001Z","description":"d","entity_type":"user","labels":{"k":"v"},"owner":"o","ttl":"3d","updated_at":"1970-01-01T00:00:02.000000000Z"}"#;
    const INDEX: &str = r#"{"created_at":"1970-01-01T00:00:00.000000001Z","name":"","order_by":"/b","properties":["/a"],"state":"ready"}"#;

    const STORED: &str = r#"{"format":1,"entity_type":"user","name":"seen","value_type":"json","description":"d","owner":"o","labels":{"k":"v"},"versions":[{"version":"","ttl":"3d","max_items":7,"timestamp_ahead_max":"none","description":"x","created_at":"1970-01-01T00:00:00.000000001Z","generation":2,"ttl_max":"4d","revision":3,"index":{"properties":["/a"],"order_by":"/b","ready":true}}],"created_at":"1970-01-01T00:00:00.000000001Z","updated_at":"1970-01-01T00:00:02.000000000Z","ttl_max":"4d","revision":4}"#;

    #[test]
    fn the_first_format_never_changes() {
        let stored = Feature::of_document(STORED.as_bytes()).unwrap();
        assert_eq!((feature(&stored).to_string().as_str(), format()), (FEATURE, 1));
        assert_eq!(version(&stored.versions[0]).to_string(), INDEX);
        let bags = STORED.replace("\"seen\"", "\"\"");
        assert_eq!(feature(&Feature::of_document(bags.as_bytes()).unwrap()).to_string(), ENTITY_TYPE);
    }
}
