//! Erase an entity.

use liststore_contract::operations::erase_entity::{self, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::bag_conditions;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply::failed;
use crate::service::{BagConditions, Caller, EntityName, ErasedList, Receipt, Service, ServiceError};

/// Erase an entity, if its bag meets the conditions.
pub struct EraseEntity {
    entity: EntityName,
    conditions: BagConditions,
}

impl Operation for EraseEntity {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Receipt;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self { entity: call.entity()?, conditions: bag_conditions(call.headers)? })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Receipt, ServiceError> {
        service.erase_entity(caller, request.entity, request.conditions).await
    }

    fn reply(call: &Call<'_>, receipt: Receipt) -> HandlerResult {
        let complete = receipt.is_complete();
        let Receipt { entity_type, entity_id, at, by, lists, bytes_erased_by, .. } = receipt;
        let (bags, lists): (Vec<_>, Vec<_>) = lists.into_iter().enumerate().partition(|(_, list)| list.id.is_of_bags());
        let problem =
            |index, outcome: Result<(), ServiceError>| outcome.err().map(|error| failed(call, index, error).problem);
        let list = |(index, list): (usize, ErasedList)| erase_entity::ErasedList {
            feature: list.id.name.to_string(),
            version: list.version.to_string(),
            generation: list.generation.as_u64(),
            deleted: !list.is_present,
            cleared: list.outcome.is_ok(),
            problem: problem(index, list.outcome),
        };
        let bag = |(index, bag): (usize, ErasedList)| erase_entity::ErasedBag {
            generation: bag.generation.as_u64(),
            deleted: !bag.is_present,
            cleared: bag.outcome.is_ok(),
            problem: problem(index, bag.outcome),
        };
        call.json(&erase_entity::EntityErased {
            entity_type: entity_type.to_string(),
            entity_id: entity_id.as_str().to_owned(),
            erased_at: at.to_string(),
            erased_by: by.as_str().to_owned(),
            on_behalf_of: by.behalf().map(str::to_owned),
            complete,
            bytes_erased_by: bytes_erased_by.filter(|_| complete).map(|by| by.to_string()),
            lists: lists.into_iter().map(list).collect(),
            bags: bags.into_iter().map(bag).collect(),
        })
    }
}
