//! Reads requests that erase items of several lists at once.

use super::call::{Call, HandlerResult};
use super::problem::Problem;
use crate::domain::{EntityId, EntityType};
use crate::service::{Operation, queries};

pub(super) async fn erase_entity(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    let [entity_type, entity_id, _] = &call.segments;
    let entity_type = EntityType::new(entity_type).map_err(|invalid| Problem::from(invalid).at("entity_type"))?;
    let entity_id = EntityId::new(entity_id).map_err(|invalid| Problem::from(invalid).at("entity_id"))?;
    call.execute(&caller, Operation::EraseEntity { entity_type, entity_id }).await
}
