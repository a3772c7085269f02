//! Reads requests about list features and their history.

use liststore_contract::operations::{get_history, list_entities, list_features};

use super::call::{Call, HandlerResult};
use super::headers::if_match;
use super::problem::Problem;
use super::query::count;
use crate::definition::VersionProperties;
use crate::domain::{EntityType, FeatureId, Limit, VersionLabel};
use crate::metadata::{FeatureFilter, NewFeature};
use crate::service::Operation;
use crate::wire::parameters::{ENTITY_TYPE, PAGE_SIZE, VERSION};
use crate::wire::{FeatureInput, FeaturePatch};

pub(crate) async fn create_feature(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let FeatureInput { entity_type, name, value_type, properties, description, owner, labels } =
        FeatureInput::read(&call.body().await?)?;
    let new = NewFeature {
        id: FeatureId { entity_type, name },
        value_type,
        properties: properties.inheriting(&VersionProperties::default()).map_err(Problem::from)?,
        description: description.unwrap_or_default(),
        owner: owner.unwrap_or_default(),
        labels: labels.unwrap_or_default(),
    };
    call.execute(&caller, Operation::CreateFeature(new)).await
}

pub(crate) async fn list_features(call: Call<'_>) -> HandlerResult {
    let [entity_type, text, page_size, page_token] = call.query(&list_features::QUERY)?;
    let caller = call.caller()?;
    let page_size = limit(page_size.as_deref())?;
    let entity_type = entity_type
        .map(|text| EntityType::new(&text))
        .transpose()
        .map_err(|invalid| Problem::from(invalid).at(ENTITY_TYPE.name))?;
    let filter = FeatureFilter { of_bags: false, entity_type, text: text.map(Into::into) };
    call.execute(&caller, Operation::ListFeatures { filter, page_size, page_token }).await
}

pub(crate) async fn get_feature(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetFeature(call.feature_id()?)).await
}

pub(crate) async fn update_feature(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let condition = if_match(call.headers)?;
    let id = call.feature_id()?;
    let patch = FeaturePatch::read(&call.body().await?)?;
    call.execute(&caller, Operation::UpdateFeature { id, patch, condition }).await
}

pub(crate) async fn delete_feature(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let condition = if_match(call.headers)?;
    call.execute(&caller, Operation::DeleteFeature { id: call.feature_id()?, condition }).await
}

pub(crate) async fn get_history(call: Call<'_>) -> HandlerResult {
    let [page_size, page_token] = call.query(&get_history::QUERY)?;
    let caller = call.caller()?;
    let page_size = limit(page_size.as_deref())?;
    call.execute(&caller, Operation::GetHistory { id: call.feature_id()?, page_size, page_token }).await
}

pub(crate) async fn list_entities(call: Call<'_>) -> HandlerResult {
    let [version, page_size, page_token] = call.query(&list_entities::QUERY)?;
    let caller = call.caller()?;
    let page_size = limit(page_size.as_deref())?;
    let version = VersionLabel::new(version.as_deref().unwrap_or_default())
        .map_err(|invalid| Problem::from(invalid).at(VERSION.name))?;
    call.execute(&caller, Operation::ListEntities { id: call.feature_id()?, version, page_size, page_token }).await
}

pub(crate) fn limit(page_size: Option<&str>) -> Result<Limit, Problem> {
    let Some(text) = page_size else { return Ok(Limit::DEFAULT) };
    Limit::of_page(count(PAGE_SIZE.name, text)?).map_err(|invalid| Problem::from(invalid).at(PAGE_SIZE.name))
}
