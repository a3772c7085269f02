//! Reads requests that erase items of several lists at once, and renders what came of them.

use actix_web::HttpResponseBuilder;

use super::batch::failed;
use super::call::{Call, HandlerResult};
use super::problem::Problem;
use super::reply::json;
use crate::domain::{EntityId, EntityType};
use crate::service::{ErasedList, Operation, Receipt, queries};
use crate::wire;

pub(super) async fn erase_entity(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    let [entity_type, entity_id, _] = &call.segments;
    let entity_type = EntityType::new(entity_type).map_err(|invalid| Problem::from(invalid).at("entity_type"))?;
    let entity_id = EntityId::new(entity_id).map_err(|invalid| Problem::from(invalid).at("entity_id"))?;
    call.execute(&caller, Operation::EraseEntity { entity_type, entity_id }).await
}

pub(super) fn receipt(call: &Call<'_>, response: HttpResponseBuilder, receipt: Receipt) -> HandlerResult {
    let Receipt { entity_type, entity_id, at, by, lists } = receipt;
    let complete = lists.iter().all(|list| list.outcome.is_ok());
    let list = |(index, list): (usize, ErasedList)| wire::ErasedList {
        feature: list.id.name.to_string(),
        version: list.version.to_string(),
        generation: list.generation.as_u64(),
        deleted: !list.is_present,
        cleared: list.outcome.is_ok(),
        problem: list.outcome.err().map(|error| failed(call, index, error).problem),
    };
    let body = wire::EntityErased {
        entity_type: entity_type.to_string(),
        entity_id: entity_id.as_str().to_owned(),
        erased_at: at.to_string(),
        erased_by: by.as_str().to_owned(),
        on_behalf_of: by.behalf().map(str::to_owned),
        complete,
        lists: lists.into_iter().enumerate().map(list).collect(),
    };
    json(response, &body)
}
