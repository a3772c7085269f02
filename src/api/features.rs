//! The control plane: list features and their history.

use actix_web::HttpResponse;
use actix_web::http::header::{ETAG, LOCATION};
use serde::Serialize;

use super::call::{Answer, Call, json};
use super::headers::{asked_timeout, author, etag, if_match};
use super::object::Object;
use super::openapi::bodies;
use super::openapi::parameters::{
    ChangeHeaders, ConditionHeaders, FeaturePath, ListFeaturesQuery, PageQuery, RequestHeaders,
};
use super::problem::Problem;
use super::query::{PAGE_SIZE, PAGE_TOKEN, Parameter, count};
use crate::domain::{
    Description, EntityType, Feature, FeatureId, FeatureName, Labels, Limit, Owner, PageToken, Revision, Timestamp,
    Ttl, ValueType,
};
use crate::metadata::{FeatureFilter, FeaturePatch, HistoryEntry, NewFeature};

const ENTITY_TYPE: Parameter = Parameter::new("entity_type");
const TEXT: Parameter = Parameter { plus_is_space: true, ..Parameter::new("q") };

/// Why these cannot be changed.
const FIXED: [(&str, &str); 3] = [
    (
        "value_type",
        "the value type of a feature never changes, as stored values are read by it: create another feature",
    ),
    ("entity_type", "the entity type of a feature never changes: create another feature"),
    ("name", "the name of a feature never changes: create another feature"),
];

/// Create List Feature
///
/// Creates the feature with its default version. One that was deleted before starts empty.
#[utoipa::path(
    post,
    path = "/v1/features",
    operation_id = "create_feature",
    tag = "features",
    params(ChangeHeaders, RequestHeaders),
    request_body = bodies::NewFeature,
    responses((status = 201, description = "Created.", body = bodies::Feature, headers(
        ("Location" = String, description = "The feature's path."),
        ("ETag" = String, description = "The feature's entity tag.")
    ))),
)]
pub(super) async fn create_feature(mut call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    let timeout = asked_timeout(call.headers)?;
    let by = author(call.headers)?;
    let body = call.body().await?;
    let known = ["entity_type", "name", "value_type", "ttl", "description", "owner", "labels"];
    let object = Object::read(&body, &known, &[])?;
    let entity_type = object.required("entity_type", EntityType::new)?;
    let name = object.required("name", FeatureName::new)?;
    let new = NewFeature {
        id: FeatureId { entity_type, name },
        value_type: object.required("value_type", ValueType::parse)?,
        ttl: object.required("ttl", Ttl::parse)?,
        description: object.optional("description", |text| Description::new(text))?.unwrap_or_default(),
        owner: object.optional("owner", |text| Owner::new(text))?.unwrap_or_default(),
        labels: labels(&object)?.unwrap_or_default(),
    };
    let feature = Call::within(timeout, true, call.state.metadata.create_feature(new, by)).await?;
    let mut response = HttpResponse::Created();
    // Both names are made of characters that stand for themselves in a path.
    let location = format!("/v1/features/{}/{}", feature.id.entity_type, feature.id.name);
    response.insert_header((LOCATION, location)).insert_header((ETAG, etag(feature.revision)));
    json(response, &feature)
}

/// List features
///
/// Ordered by entity type, then by name, in byte order.
#[utoipa::path(
    get,
    path = "/v1/features",
    operation_id = "list_features",
    tag = "features",
    params(ListFeaturesQuery, PageQuery, RequestHeaders),
    responses((status = 200, description = "A page of features.", body = bodies::FeaturePage)),
)]
pub(super) async fn list_features(call: Call<'_>) -> Answer {
    let [entity_type, text, page_size, page_token] = call.query([ENTITY_TYPE, TEXT, PAGE_SIZE, PAGE_TOKEN])?;
    let timeout = asked_timeout(call.headers)?;
    let page_size = limit(page_size.as_deref())?;
    let entity_type = entity_type
        .map(|text| EntityType::new(&text))
        .transpose()
        .map_err(|invalid| Problem::from(invalid).at(ENTITY_TYPE.name))?;
    let filter = FeatureFilter { entity_type, text: text.map(Into::into) };
    let walk = FeatureWalk(&filter);
    let after = page_token.map(|token| walk.resume(&token)).transpose()?;
    let page = Call::within(timeout, false, call.state.metadata.features(filter.clone(), after, page_size)).await?;
    let last = page.entries.last().filter(|_| page.more);
    let next_page_token = last.map(|feature| walk.token_after(&feature.id));
    json(HttpResponse::Ok(), &FeatureList { features: &page.entries, next_page_token })
}

/// Get a feature with its versions
#[utoipa::path(
    get,
    path = "/v1/features/{entity_type}/{name}",
    operation_id = "get_feature",
    tag = "features",
    params(FeaturePath, RequestHeaders),
    responses((status = 200, description = "The feature.", body = bodies::Feature, headers(
        ("ETag" = String, description = "The feature's entity tag.")
    ))),
)]
pub(super) async fn get_feature(call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    let timeout = asked_timeout(call.headers)?;
    let feature = find(&call, timeout).await?;
    tagged(&feature)
}

/// Change a feature
///
/// Absent fields stay as they are; `labels` is replaced whole. `ttl` is that of the default version,
/// and the default of versions that are created later; a shorter one hides items at once.
#[utoipa::path(
    patch,
    path = "/v1/features/{entity_type}/{name}",
    operation_id = "update_feature",
    tag = "features",
    params(FeaturePath, ConditionHeaders, ChangeHeaders, RequestHeaders),
    request_body = bodies::FeaturePatch,
    responses((status = 200, description = "The feature as it is now.", body = bodies::Feature, headers(
        ("ETag" = String, description = "The feature's entity tag.")
    ))),
)]
pub(super) async fn update_feature(mut call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    let timeout = asked_timeout(call.headers)?;
    let by = author(call.headers)?;
    let condition = if_match(call.headers)?;
    let id = call.feature_id()?;
    let body = call.body().await?;
    let object = Object::read(&body, &["ttl", "description", "owner", "labels"], &FIXED)?;
    let patch = FeaturePatch {
        ttl: object.optional("ttl", Ttl::parse)?,
        description: object.optional("description", |text| Description::new(text))?,
        owner: object.optional("owner", |text| Owner::new(text))?,
        labels: labels(&object)?,
    };
    let feature = Call::within(timeout, true, call.state.metadata.update_feature(id, patch, condition, by)).await?;
    tagged(&feature)
}

/// Delete List Feature
///
/// Deletes the feature with all its versions. Its items are no longer reachable, and leave the
/// store as they expire.
#[utoipa::path(
    delete,
    path = "/v1/features/{entity_type}/{name}",
    operation_id = "delete_feature",
    tag = "features",
    params(FeaturePath, ConditionHeaders, ChangeHeaders, RequestHeaders),
    responses((status = 200, description = "Deleted.", body = bodies::Deleted)),
)]
pub(super) async fn delete_feature(call: Call<'_>) -> Answer {
    let [] = call.query([])?;
    let timeout = asked_timeout(call.headers)?;
    let by = author(call.headers)?;
    let condition = if_match(call.headers)?;
    let id = call.feature_id()?;
    let ttl_max = Call::within(timeout, true, call.state.metadata.delete_feature(id, condition, by)).await?;
    json(HttpResponse::Ok(), &bodies::Deleted { items_expire_by: items_expire_by(&call, ttl_max).to_string() })
}

/// Read the audit trail of a feature
///
/// Newest first; still there after the feature's deletion.
#[utoipa::path(
    get,
    path = "/v1/features/{entity_type}/{name}/history",
    operation_id = "get_history",
    tag = "features",
    params(FeaturePath, PageQuery, RequestHeaders),
    responses((status = 200, description = "A page of changes.", body = bodies::HistoryPage)),
)]
pub(super) async fn get_history(call: Call<'_>) -> Answer {
    let [page_size, page_token] = call.query([PAGE_SIZE, PAGE_TOKEN])?;
    let timeout = asked_timeout(call.headers)?;
    let page_size = limit(page_size.as_deref())?;
    let id = call.feature_id()?;
    let walk = HistoryWalk(&id);
    let before = page_token.map(|token| walk.resume(&token)).transpose()?;
    let page = Call::within(timeout, false, call.state.metadata.history(id.clone(), before, page_size)).await?;
    let page = page.ok_or_else(|| not_found(&id))?;
    let last = page.entries.last().filter(|_| page.more);
    let next_page_token = last.map(|entry| walk.token_after(entry.revision));
    let history = page.entries.iter().map(Change::of).collect();
    json(HttpResponse::Ok(), &History { history, next_page_token })
}

/// Reads the feature that the path names.
pub(super) async fn find(call: &Call<'_>, timeout: Option<std::time::Duration>) -> Result<Feature, Problem> {
    let id = call.feature_id()?;
    let feature = Call::within(timeout, false, call.state.metadata.feature(id.clone())).await?;
    feature.ok_or_else(|| not_found(&id))
}

fn not_found(id: &FeatureId) -> Problem {
    crate::metadata::MetadataError::FeatureNotFound(id.clone()).into()
}

fn tagged(feature: &Feature) -> Answer {
    let mut response = HttpResponse::Ok();
    response.insert_header((ETAG, etag(feature.revision)));
    json(response, feature)
}

/// When the last items of what was deleted just now are gone: other servers may take adds until
/// their catalogs follow.
pub(super) fn items_expire_by(call: &Call<'_>, ttl_max: Ttl) -> Timestamp {
    let lifetime = ttl_max.as_duration() + call.state.options.poll_interval;
    Timestamp::saturating_from_nanos(u128::from(call.state.clock.now().as_nanos()) + lifetime.as_nanos())
}

fn labels(object: &Object<'_>) -> Result<Option<Labels>, Problem> {
    let labels = object.optional_map("labels")?.map(Labels::new).transpose();
    labels.map_err(|invalid| Problem::from(invalid).at("labels"))
}

fn limit(page_size: Option<&str>) -> Result<Limit, Problem> {
    let Some(text) = page_size else { return Ok(Limit::DEFAULT) };
    Limit::of_page(count(PAGE_SIZE.name, text)?).map_err(|invalid| Problem::from(invalid).at(PAGE_SIZE.name))
}

#[derive(Serialize)]
struct FeatureList<'a> {
    features: &'a [Feature],
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

#[derive(Serialize)]
struct History<'a> {
    history: Vec<Change<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

#[derive(Serialize)]
struct Change<'a> {
    at: Timestamp,
    by: &'a str,
    action: crate::metadata::Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a serde_json::Value>,
}

impl<'a> Change<'a> {
    fn of(entry: &'a HistoryEntry) -> Self {
        Self {
            at: entry.at,
            by: entry.by.as_str(),
            action: entry.action,
            version: entry.version.as_ref().map(|label| label.as_str()),
            before: entry.before.as_ref(),
            after: entry.after.as_ref(),
        }
    }
}

fn damaged_token() -> Problem {
    Problem::new(super::problem::ErrorCode::InvalidPageToken, "not a page token of this listing").at(PAGE_TOKEN.name)
}

/// A walk over the features that match a filter.
struct FeatureWalk<'a>(&'a FeatureFilter);

impl FeatureWalk<'_> {
    fn token_after(&self, last: &FeatureId) -> String {
        // Names cannot hold a NUL.
        let payload = format!("{}\0{}", last.entity_type, last.name);
        self.bound(|binding| PageToken::seal(payload.as_bytes(), binding)).as_str().to_owned()
    }

    fn resume(&self, token: &str) -> Result<FeatureId, Problem> {
        let payload = self
            .bound(|binding| PageToken::open(token, binding))
            .map_err(|invalid| Problem::from(invalid).at(PAGE_TOKEN.name))?;
        let text = String::from_utf8(payload).map_err(|_| damaged_token())?;
        let (entity_type, name) = text.split_once('\0').ok_or_else(damaged_token)?;
        let entity_type = EntityType::new(entity_type).map_err(|_| damaged_token())?;
        let name = FeatureName::new(name).map_err(|_| damaged_token())?;
        Ok(FeatureId { entity_type, name })
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        let entity_type = self.0.entity_type.as_ref().map_or("", EntityType::as_str);
        let text = self.0.text.as_deref().unwrap_or_default();
        with(&[b"features", entity_type.as_bytes(), text.as_bytes()])
    }
}

/// A walk over the history of a feature.
struct HistoryWalk<'a>(&'a FeatureId);

impl HistoryWalk<'_> {
    fn token_after(&self, last: Revision) -> String {
        self.bound(|binding| PageToken::seal(&last.0.to_be_bytes(), binding)).as_str().to_owned()
    }

    fn resume(&self, token: &str) -> Result<Revision, Problem> {
        let payload = self
            .bound(|binding| PageToken::open(token, binding))
            .map_err(|invalid| Problem::from(invalid).at(PAGE_TOKEN.name))?;
        Ok(Revision(u64::from_be_bytes(payload.try_into().map_err(|_| damaged_token())?)))
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        let FeatureId { entity_type, name } = self.0;
        with(&[b"history", entity_type.as_str().as_bytes(), name.as_str().as_bytes()])
    }
}
