//! The receipt of an erasure.

use super::super::call::{Call, HandlerResult};
use super::super::response::Response;
use super::batch::failed;
use super::json::json;
use crate::service::{ErasedList, Receipt, ServiceError};
use crate::wire;

pub(crate) fn receipt(call: &Call<'_>, response: Response, receipt: Receipt) -> HandlerResult {
    let complete = receipt.is_complete();
    let Receipt { entity_type, entity_id, at, by, lists, bytes_erased_by, .. } = receipt;
    let (bags, lists): (Vec<_>, Vec<_>) = lists.into_iter().enumerate().partition(|(_, list)| list.id.is_of_bags());
    let problem =
        |index, outcome: Result<(), ServiceError>| outcome.err().map(|error| failed(call, index, error).problem);
    let list = |(index, list): (usize, ErasedList)| wire::ErasedList {
        feature: list.id.name.to_string(),
        version: list.version.to_string(),
        generation: list.generation.as_u64(),
        deleted: !list.is_present,
        cleared: list.outcome.is_ok(),
        problem: problem(index, list.outcome),
    };
    let bag = |(index, bag): (usize, ErasedList)| wire::ErasedBag {
        generation: bag.generation.as_u64(),
        deleted: !bag.is_present,
        cleared: bag.outcome.is_ok(),
        problem: problem(index, bag.outcome),
    };
    let body = wire::EntityErased {
        entity_type: entity_type.to_string(),
        entity_id: entity_id.as_str().to_owned(),
        erased_at: at.to_string(),
        erased_by: by.as_str().to_owned(),
        on_behalf_of: by.behalf().map(str::to_owned),
        complete,
        bytes_erased_by: bytes_erased_by.filter(|_| complete).map(|by| by.to_string()),
        lists: lists.into_iter().map(list).collect(),
        bags: bags.into_iter().map(bag).collect(),
    };
    json(response, &body)
}
