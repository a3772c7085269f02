//! Reads requests about bags of entities.

use liststore_contract::operations::{batch_get_bags, get_bag, list_bags};

use super::batch::malformed;
use super::call::{Call, HandlerResult};
use super::features::limit;
use super::headers::bag_conditions;
use super::problem::Problem;
use crate::domain::EntityId;
use crate::service::{BagOperation, EntityName, JoinedList, Operation};
use crate::wire::parameters::JOINED_LISTS;
use crate::wire::{BATCH_BAGS_MAX, BagRequest, BatchGetBagsInput, read_document, read_joined_lists};

pub(crate) async fn get_bag(call: Call<'_>) -> HandlerResult {
    let [lists] = call.query(&get_bag::QUERY)?;
    let caller = call.caller()?;
    let (entity, lists) = (entity(&call)?, joined(lists.as_deref())?);
    call.execute(&caller, Operation::Bag(BagOperation::Get { entity, lists })).await
}

pub(crate) async fn put_bag(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let (entity, conditions) = (entity(&call)?, bag_conditions(call.headers)?);
    let document = read_document(&call.body().await?)?;
    call.execute(&caller, Operation::Bag(BagOperation::Put { entity, document, conditions })).await
}

pub(crate) async fn patch_bag(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let (entity, conditions) = (entity(&call)?, bag_conditions(call.headers)?);
    let patch = read_document(&call.body().await?)?;
    call.execute(&caller, Operation::Bag(BagOperation::Patch { entity, patch, conditions })).await
}

pub(crate) async fn delete_bag(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let (entity, conditions) = (entity(&call)?, bag_conditions(call.headers)?);
    call.execute(&caller, Operation::Bag(BagOperation::Delete { entity, conditions })).await
}

pub(crate) async fn create_bag(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let entity_type = call.entity_type()?;
    let document = read_document(&call.body().await?)?;
    call.execute(&caller, Operation::Bag(BagOperation::Create { entity_type, document })).await
}

pub(crate) async fn list_bags(call: Call<'_>) -> HandlerResult {
    let [page_size, page_token] = call.query(&list_bags::QUERY)?;
    let caller = call.caller()?;
    let page_size = limit(page_size.as_deref())?;
    let (entity_type, page_token) = (call.entity_type()?, page_token.map(Into::into));
    call.execute(&caller, Operation::Bag(BagOperation::List { entity_type, page_size, page_token })).await
}

pub(crate) async fn batch_get_bags(mut call: Call<'_>) -> HandlerResult {
    let [lists] = call.query(&batch_get_bags::QUERY)?;
    let caller = call.caller()?;
    let lists = joined(lists.as_deref())?;
    let requests = BatchGetBagsInput::read(&call.body().await?)?;
    if requests.len() * lists.len() > BATCH_BAGS_MAX {
        let detail = format!("a call reads at most {BATCH_BAGS_MAX} lists with its bags: split the request");
        return Err(Problem::argument(JOINED_LISTS.name, detail));
    }
    let entity = |request: BagRequest| EntityName { entity_type: request.entity_type, entity_id: request.entity_id };
    let entities = requests.into_iter().map(|request| request.map(entity).map_err(|problem| malformed(&problem)));
    let entities = entities.collect();
    call.execute(&caller, Operation::Bag(BagOperation::BatchGet { entities, lists })).await
}

/// The entity that the path names.
pub(crate) fn entity(call: &Call<'_>) -> Result<EntityName, Problem> {
    let entity_id = EntityId::new(&call.segments[1]).map_err(|invalid| Problem::from(invalid).at("entity_id"))?;
    Ok(EntityName { entity_type: call.entity_type()?, entity_id })
}

fn joined(text: Option<&str>) -> Result<Vec<JoinedList>, Problem> {
    let lists = text.map(read_joined_lists).transpose()?.unwrap_or_default();
    Ok(lists.into_iter().map(|(feature, limit)| JoinedList { feature, limit }).collect())
}
