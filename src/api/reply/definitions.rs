//! Definitions as answers: features, their versions, and entity types, which are kept as features.

use actix_web::http::header::{ETAG, LOCATION};
use liststore_contract::operations::{
    create_entity_type, create_feature, create_version, get_entity_type, get_feature, get_version,
};

use super::super::call::{Call, HandlerResult};
use super::super::headers::etag;
use super::super::response::Response;
use super::json::json;
use super::text;
use crate::domain::{Feature, FeatureId, FeatureVersion, PageToken};
use crate::wire;

pub(crate) fn feature(call: &Call<'_>, mut response: Response, feature: &Feature) -> HandlerResult {
    let FeatureId { entity_type, name } = &feature.id;
    let path = if call.operation.is(&create_feature::ROW) {
        get_feature::ROW.path_of(&[entity_type.as_str(), name.as_str()])
    } else if call.operation.is(&create_entity_type::ROW) {
        get_entity_type::ROW.path_of(&[entity_type.as_str()])
    } else {
        String::new()
    };
    if !path.is_empty() {
        response = response.with_text(LOCATION, path)?;
    }
    let response = response.with_text(ETAG, etag(feature.revision))?;
    if feature.id.is_of_bags() {
        return json(response, &wire::EntityType::from(feature));
    }
    json(response, &wire::Feature::from(feature))
}

pub(crate) fn features(
    response: Response,
    of_bags: bool,
    features: &[Feature],
    next_page_token: Option<PageToken>,
) -> HandlerResult {
    let next_page_token = text(next_page_token);
    if of_bags {
        let entity_types = features.iter().map(wire::EntityType::from).collect();
        return json(response, &wire::EntityTypePage { entity_types, next_page_token });
    }
    json(response, &wire::FeaturePage { features: features.iter().map(wire::Feature::from).collect(), next_page_token })
}

pub(crate) fn version(
    call: &Call<'_>,
    mut response: Response,
    feature: &FeatureId,
    version: &FeatureVersion,
) -> HandlerResult {
    if call.operation.is(&create_version::ROW) {
        let names = [feature.entity_type.as_str(), feature.name.as_str(), version.version.as_str()];
        response = response.with_text(LOCATION, get_version::ROW.path_of(&names))?;
    }
    let response = response.with_text(ETAG, etag(version.revision))?;
    json(response, &wire::FeatureVersion::from(version))
}
