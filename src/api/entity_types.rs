//! Reads requests about entity types, whose entities have bags.

use liststore_contract::operations::{get_entity_type_history, list_entity_types};

use super::call::{Call, HandlerResult};
use super::features::limit;
use super::headers::if_match;
use crate::definition::GivenProperties;
use crate::domain::FeatureId;
use crate::metadata::{FeatureFilter, FeaturePatch, NewFeature};
use crate::service::{Operation, PurgeFeature};
use crate::wire::{EntityTypeInput, EntityTypePatch, PurgeBagsInput};

pub(crate) async fn list_entity_types(call: Call<'_>) -> HandlerResult {
    let [text, page_size, page_token] = call.query(&list_entity_types::QUERY)?;
    let caller = call.caller()?;
    let page_size = limit(page_size.as_deref())?;
    let filter = FeatureFilter { of_bags: true, entity_type: None, text: text.map(Into::into) };
    call.execute(&caller, Operation::ListEntityTypes { filter, page_size, page_token }).await
}

pub(crate) async fn create_entity_type(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let EntityTypeInput { entity_type, ttl, description, owner, labels } = EntityTypeInput::read(&call.body().await?)?;
    let new = NewFeature {
        description: description.unwrap_or_default(),
        owner: owner.unwrap_or_default(),
        labels: labels.unwrap_or_default(),
        ..NewFeature::of_bags(entity_type, ttl)
    };
    call.execute(&caller, Operation::CreateEntityType(new)).await
}

pub(crate) async fn get_entity_type(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetEntityType(call.entity_type()?)).await
}

pub(crate) async fn update_entity_type(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let condition = if_match(call.headers)?;
    let entity_type = call.entity_type()?;
    let EntityTypePatch { ttl, description, owner, labels } = EntityTypePatch::read(&call.body().await?)?;
    let properties = GivenProperties { ttl, ..GivenProperties::default() };
    let patch = FeaturePatch { properties, description, owner, labels };
    call.execute(&caller, Operation::UpdateEntityType { entity_type, patch, condition }).await
}

pub(crate) async fn delete_entity_type(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let condition = if_match(call.headers)?;
    call.execute(&caller, Operation::DeleteEntityType { entity_type: call.entity_type()?, condition }).await
}

pub(crate) async fn get_entity_type_history(call: Call<'_>) -> HandlerResult {
    let [page_size, page_token] = call.query(&get_entity_type_history::QUERY)?;
    let caller = call.caller()?;
    let page_size = limit(page_size.as_deref())?;
    let entity_type = call.entity_type()?;
    call.execute(&caller, Operation::GetEntityTypeHistory { entity_type, page_size, page_token }).await
}

pub(crate) async fn purge_entity_type(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let id = FeatureId::of_bags(call.entity_type()?);
    let PurgeBagsInput { deleted_only, lists_per_second } = PurgeBagsInput::read(&call.body().await?)?;
    let request = PurgeFeature { id, version: None, deleted_only, lists_per_second };
    call.execute(&caller, Operation::PurgeEntityType(request)).await
}
