//! The data plane: the four list operations.
//!
//! Requests are read before anything is looked up, and every value is encoded before anything is
//! stored. These are the hot paths: nothing is allocated here that an answer can do without.

use actix_web::HttpResponse;
use tokio::time::Instant;

use super::add_body;
use super::call::{Answer, Call, deadline, feature_id, json, json_text, version_label};
use super::object::Object;
use super::openapi::bodies;
use super::openapi::parameters::{GetItemsQuery, ListPath, RequestHeaders, VersionQuery};
use super::problem::{ErrorCode, Problem};
use super::query::{PAGE_TOKEN, Parameter, VERSION, count};
use super::render;
use crate::actors::ResolveError;
use crate::domain::page::ItemWalk;
use crate::domain::{EntityId, Limit, ListKey, Timestamp};
use crate::items::{ItemPage, Range};
use crate::metadata::catalog::CatalogVersion;

const MIN_TIMESTAMP: Parameter = Parameter::new("min_timestamp");
const MAX_TIMESTAMP: Parameter = Parameter::new("max_timestamp");
const LIMIT: Parameter = Parameter::new("limit");

/// Get List Items
///
/// Newest first; equal timestamps by item key, descending. A list that nobody wrote is empty. A
/// page may end before `limit` items: trust the token, not the count.
#[utoipa::path(
    get,
    path = "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
    operation_id = "get_items",
    tag = "lists",
    params(ListPath, GetItemsQuery, RequestHeaders),
    responses((status = 200, description = "A page of items.", body = bodies::ItemPage)),
)]
pub(super) async fn get_items(call: Call<'_>) -> Answer {
    let [version, min_timestamp, max_timestamp, limit, page_token] =
        call.query([VERSION, MIN_TIMESTAMP, MAX_TIMESTAMP, LIMIT, PAGE_TOKEN])?;
    let min_timestamp = timestamp(MIN_TIMESTAMP.name, min_timestamp.as_deref())?;
    let max_timestamp = timestamp(MAX_TIMESTAMP.name, max_timestamp.as_deref())?;
    if let (Some(min), Some(max)) = (min_timestamp, max_timestamp)
        && min > max
    {
        return Err(Problem::argument(MIN_TIMESTAMP.name, "min_timestamp is above max_timestamp"));
    }
    let limit = match limit {
        Some(text) => Limit::of_items(count(LIMIT.name, &text)?).map_err(|e| Problem::from(e).at(LIMIT.name))?,
        None => Limit::DEFAULT,
    };
    let deadline = deadline(call.timeout()?);
    let entity_id = entity_id(&call)?;
    let found = resolve(&call, version.as_deref(), deadline).await?;

    let list = ListKey::new(found.feature_key, entity_id);
    let walk = ItemWalk { list: &list, min_timestamp, max_timestamp };
    let after = page_token
        .map(|token| walk.resume(&token))
        .transpose()
        .map_err(|invalid| Problem::from(invalid).at(PAGE_TOKEN.name))?;
    let bytes_max = call.state.options.response_bytes_max;
    let range = Range {
        min_timestamp: min_timestamp.unwrap_or(Timestamp::MIN),
        max_timestamp: max_timestamp.unwrap_or(Timestamp::MAX),
        after,
        limit: limit.get(),
        // No value renders to much less than it is stored in: what the store leaves out would not
        // have fitted the answer.
        value_bytes_max: bytes_max,
    };
    // A token is bound to the bounds as they were given: where all are given, it is another one.
    let reusable = min_timestamp.is_none() && max_timestamp.is_none() && after.is_none();
    let render = |page: &ItemPage| render::page(page, found.value_type, &walk, bytes_max);
    let page = call.state.lists.get(&list, found.ttl, range, deadline, reusable, render).await?;
    call.state.metrics.items_read.inc_by(page.items as u64);
    Ok(json_text(HttpResponse::Ok(), page.text))
}

/// Add List Items
///
/// All of them or none. The same (timestamp, value) added twice is one item, so that adding again
/// is safe whenever an outcome is unknown. An item that has expired already is counted, not stored.
#[utoipa::path(
    post,
    path = "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
    operation_id = "add_items",
    tag = "lists",
    params(ListPath, VersionQuery, RequestHeaders),
    request_body = bodies::AddItems,
    responses((status = 200, description = "Added.", body = bodies::Added)),
)]
pub(super) async fn add_items(mut call: Call<'_>) -> Answer {
    let [version] = call.query([VERSION])?;
    let deadline = deadline(call.timeout()?);
    let entity_id = entity_id(&call)?;
    let body = call.body().await?;
    let raw_items = add_body::parse(&body)?;
    let found = resolve(&call, version.as_deref(), deadline).await?;

    let mut items = Vec::with_capacity(raw_items.len());
    for (index, (timestamp, raw)) in raw_items.into_iter().enumerate() {
        let value = found
            .value_type
            .encode(raw)
            .map_err(|invalid| Problem::from(invalid).at(format!("items[{index}].value")))?;
        items.push((timestamp, value));
    }
    let list = ListKey::new(found.feature_key, entity_id);
    let outcome = call.state.lists.add(list, found.ttl, items, deadline).await?;
    call.state.metrics.items_added.inc_by(outcome.added as u64);
    call.state.metrics.items_already_expired.inc_by(outcome.already_expired as u64);
    json(HttpResponse::Ok(), &bodies::Added { added: outcome.added, already_expired: outcome.already_expired })
}

/// Remove List Items with Value
///
/// Removes every item of the list that has this value, at whatever time.
#[utoipa::path(
    post,
    path = "/v1/lists/{entity_type}/{feature}/{entity_id}/items:remove",
    operation_id = "remove_items_with_value",
    tag = "lists",
    params(ListPath, VersionQuery, RequestHeaders),
    request_body = bodies::RemoveItems,
    responses((status = 200, description = "Removed.", body = bodies::Removed)),
)]
pub(super) async fn remove_items_with_value(mut call: Call<'_>) -> Answer {
    let [version] = call.query([VERSION])?;
    let deadline = deadline(call.timeout()?);
    let entity_id = entity_id(&call)?;
    let body = call.body().await?;
    let object = Object::read(&body, &["value"], &[])?;
    let raw = object.required_raw("value")?;
    let found = resolve(&call, version.as_deref(), deadline).await?;

    let value = found.value_type.encode(raw).map_err(|invalid| Problem::from(invalid).at("value"))?;
    let list = ListKey::new(found.feature_key, entity_id);
    let removed = call.state.lists.remove_value(list, found.ttl, value, deadline).await?;
    call.state.metrics.items_removed.inc_by(removed);
    json(HttpResponse::Ok(), &bodies::Removed { removed })
}

/// Remove All List Items
#[utoipa::path(
    delete,
    path = "/v1/lists/{entity_type}/{feature}/{entity_id}/items",
    operation_id = "remove_all_items",
    tag = "lists",
    params(ListPath, VersionQuery, RequestHeaders),
    responses((status = 204, description = "The list is empty.")),
)]
pub(super) async fn remove_all_items(call: Call<'_>) -> Answer {
    let [version] = call.query([VERSION])?;
    let deadline = deadline(call.timeout()?);
    let entity_id = entity_id(&call)?;
    let found = resolve(&call, version.as_deref(), deadline).await?;
    let list = ListKey::new(found.feature_key, entity_id);
    call.state.lists.remove_all(list, found.ttl, deadline).await?;
    Ok(HttpResponse::NoContent().finish())
}

fn timestamp(field: &'static str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    text.map(Timestamp::parse).transpose().map_err(|invalid| Problem::from(invalid).at(field))
}

fn entity_id(call: &Call<'_>) -> Result<EntityId, Problem> {
    EntityId::new(&call.segments[2]).map_err(|invalid| Problem::from(invalid).at("entity_id"))
}

/// Finds the feature version that a list operation is about.
async fn resolve(call: &Call<'_>, version: Option<&str>, deadline: Instant) -> Result<CatalogVersion, Problem> {
    let (entity_type, name, version) = (&call.segments[0], &call.segments[1], version.unwrap_or_default());
    let metadata = &call.state.metadata;
    if let Ok(found) = metadata.catalog().version(entity_type, name, version) {
        return Ok(found);
    }
    // What is in the catalog is well-formed, so words are checked only when they were not found.
    let id = feature_id(entity_type, name, "feature")?;
    let label = version_label(version)?;
    metadata.resolve(entity_type, name, version, deadline).await.map_err(|error| match error {
        ResolveError::FeatureNotFound => Problem::new(ErrorCode::FeatureNotFound, format!("there is no feature {id}")),
        ResolveError::VersionNotFound => {
            Problem::new(ErrorCode::VersionNotFound, format!("the feature {id} has no version \"{label}\""))
        }
        ResolveError::Unavailable { .. } => Problem::new(ErrorCode::MetadataUnavailable, error.to_string()),
    })
}
