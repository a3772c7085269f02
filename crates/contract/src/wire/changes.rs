//! The audit trail of definitions.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{EntityType, Feature, FeatureVersion, Index, texts};

/// A page of an audit trail, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct HistoryPage {
    pub history: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_-]+$", required = false)]
    pub next_page_token: Option<String>,
}

/// A change to a feature, to one of its versions, or to an entity type.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Change {
    #[schema(value_type = texts::Timestamp, inline)]
    pub at: String,
    /// `key:` and the name of the API key, or `local`. On an open server, the `Liststore-User` of the request or
    /// `anonymous`.
    pub by: String,
    /// The `Liststore-User` of a request with an API key, which is not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub on_behalf_of: Option<String>,
    #[schema(value_type = Action)]
    pub action: String,
    /// The version that was created, changed or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub version: Option<String>,
    /// The index that was created, changed or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub index: Option<String>,
    /// The feature, version or index before the change; absent for a creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Definition, required = false)]
    pub before: Option<serde_json::Value>,
    /// The feature, version or index after the change; absent for a deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Definition, required = false)]
    pub after: Option<serde_json::Value>,
}

/// The kind of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Action {
    CreateFeature,
    UpdateFeature,
    DeleteFeature,
    CreateVersion,
    UpdateVersion,
    DeleteVersion,
    CreateEntityType,
    UpdateEntityType,
    DeleteEntityType,
    CreateIndex,
    UpdateIndex,
    DeleteIndex,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateFeature => "create_feature",
            Self::UpdateFeature => "update_feature",
            Self::DeleteFeature => "delete_feature",
            Self::CreateVersion => "create_version",
            Self::UpdateVersion => "update_version",
            Self::DeleteVersion => "delete_version",
            Self::CreateEntityType => "create_entity_type",
            Self::UpdateEntityType => "update_entity_type",
            Self::DeleteEntityType => "delete_entity_type",
            Self::CreateIndex => "create_index",
            Self::UpdateIndex => "update_index",
            Self::DeleteIndex => "delete_index",
        }
    }
}

/// A feature, a version, an entity type or an index at that time. A feature has all members of an entity type, so a
/// document can be of several of these types.
pub struct Definition;

impl PartialSchema for Definition {
    fn schema() -> RefOr<Schema> {
        AnyOfBuilder::new()
            .description(Some("A feature, a version, an entity type or an index at that time."))
            .item(Ref::from_schema_name(Feature::name()))
            .item(Ref::from_schema_name(FeatureVersion::name()))
            .item(Ref::from_schema_name(EntityType::name()))
            .item(Ref::from_schema_name(Index::name()))
            .into()
    }
}

impl ToSchema for Definition {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Feature::name().into(), Feature::schema()));
        schemas.push((FeatureVersion::name().into(), FeatureVersion::schema()));
        schemas.push((EntityType::name().into(), EntityType::schema()));
        schemas.push((Index::name().into(), Index::schema()));
        Feature::schemas(schemas);
        FeatureVersion::schemas(schemas);
        EntityType::schemas(schemas);
        Index::schemas(schemas);
    }
}
