//! The control plane: versions of list features.

use actix_web::HttpResponse;
use actix_web::http::header::{ETAG, LOCATION};

use super::call::{Answer, Call, json};
use super::features::{find, items_expire_by};
use super::headers::{asked_timeout, author, etag, if_match};
use super::object::Object;
use super::openapi::bodies;
use super::openapi::parameters::{ChangeHeaders, ConditionHeaders, FeaturePath, RequestHeaders, VersionPath};
use crate::domain::{Description, FeatureVersion, Ttl, VersionLabel};
use crate::metadata::{MetadataError, NewVersion, VersionPatch};

/// Why these cannot be changed.
const FIXED: [(&str, &str); 2] = [
    ("version", "the label of a version never changes: create another version"),
    ("value_type", "all versions have the value type of their feature, which never changes: create another feature"),
];

/// Create List Feature Version
///
/// A version has lists of its own. Without a `ttl` it copies the feature's present one.
#[utoipa::path(
    post,
    path = "/v1/features/{entity_type}/{name}/versions",
    operation_id = "create_version",
    tag = "versions",
    params(FeaturePath, ChangeHeaders, RequestHeaders),
    request_body = bodies::NewVersion,
    responses((status = 201, description = "Created.", body = bodies::FeatureVersion, headers(
        ("Location" = String, description = "The version's path."),
        ("ETag" = String, description = "The version's entity tag.")
    ))),
)]
pub(super) async fn create_version(mut call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    let timeout = asked_timeout(call.headers)?;
    let by = author(call.headers)?;
    let id = call.feature_id()?;
    let body = call.body().await?;
    let object = Object::read(&body, &["version", "ttl", "description"], &FIXED[1..])?;
    let new = NewVersion {
        version: object.required("version", VersionLabel::new)?,
        ttl: object.optional("ttl", Ttl::parse)?,
        description: object.optional("description", |text| Description::new(text))?.unwrap_or_default(),
    };
    // Of a label's characters, only the slash does not stand for itself in a segment of a path.
    let segment = new.version.as_str().replace('/', "%2F");
    let location = format!("/v1/features/{}/{}/versions/{segment}", id.entity_type, id.name);
    let version = Call::within(timeout, true, call.state.metadata.create_version(id, new, by)).await?;
    let mut response = HttpResponse::Created();
    response.insert_header((LOCATION, location)).insert_header((ETAG, etag(version.revision)));
    json(response, &version)
}

/// Get a version
#[utoipa::path(
    get,
    path = "/v1/features/{entity_type}/{name}/versions/{version}",
    operation_id = "get_version",
    tag = "versions",
    params(VersionPath, RequestHeaders),
    responses((status = 200, description = "The version.", body = bodies::FeatureVersion, headers(
        ("ETag" = String, description = "The version's entity tag.")
    ))),
)]
pub(super) async fn get_version(call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    let timeout = asked_timeout(call.headers)?;
    let label = call.version_label()?;
    let feature = find(&call, timeout).await?;
    let version = feature.version(&label).ok_or_else(|| MetadataError::VersionNotFound(feature.id.clone(), label))?;
    tagged(version)
}

/// Change a version
///
/// Absent fields stay as they are. The default version changes with its feature only.
#[utoipa::path(
    patch,
    path = "/v1/features/{entity_type}/{name}/versions/{version}",
    operation_id = "update_version",
    tag = "versions",
    params(VersionPath, ConditionHeaders, ChangeHeaders, RequestHeaders),
    request_body = bodies::VersionPatch,
    responses((status = 200, description = "The version as it is now.", body = bodies::FeatureVersion, headers(
        ("ETag" = String, description = "The version's entity tag.")
    ))),
)]
pub(super) async fn update_version(mut call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    let timeout = asked_timeout(call.headers)?;
    let by = author(call.headers)?;
    let condition = if_match(call.headers)?;
    let (id, label) = (call.feature_id()?, call.version_label()?);
    let body = call.body().await?;
    let object = Object::read(&body, &["ttl", "description"], &FIXED)?;
    let patch = VersionPatch {
        ttl: object.optional("ttl", Ttl::parse)?,
        description: object.optional("description", |text| Description::new(text))?,
    };
    let changed = call.state.metadata.update_version(id, label, patch, condition, by);
    tagged(&Call::within(timeout, true, changed).await?)
}

/// Delete a version
///
/// Its items are no longer reachable, and leave the store as they expire. The default version is
/// deleted with its feature only.
#[utoipa::path(
    delete,
    path = "/v1/features/{entity_type}/{name}/versions/{version}",
    operation_id = "delete_version",
    tag = "versions",
    params(VersionPath, ConditionHeaders, ChangeHeaders, RequestHeaders),
    responses((status = 200, description = "Deleted.", body = bodies::Deleted)),
)]
pub(super) async fn delete_version(call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    let timeout = asked_timeout(call.headers)?;
    let by = author(call.headers)?;
    let condition = if_match(call.headers)?;
    let (id, label) = (call.feature_id()?, call.version_label()?);
    let deleted = call.state.metadata.delete_version(id, label, condition, by);
    let ttl_max = Call::within(timeout, true, deleted).await?;
    json(HttpResponse::Ok(), &bodies::Deleted { items_expire_by: items_expire_by(&call, ttl_max).to_string() })
}

fn tagged(version: &FeatureVersion) -> Answer {
    let mut response = HttpResponse::Ok();
    response.insert_header((ETAG, etag(version.revision)));
    json(response, version)
}
