//! Reads requests about many lists.

use super::call::{Call, HandlerResult};
use super::problem::Problem;
use crate::service::{AddItems, GetItems, ListName, Operation, ServiceError};
use crate::wire::{AddRequest, BatchAddInput, BatchGetInput, GetRequest};

pub(crate) async fn batch_get(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let body = call.body().await?;
    let BatchGetInput { requests } = BatchGetInput::read(&body)?;
    let requests = requests.iter().map(|request| {
        let request = request.as_ref().map_err(malformed)?;
        let GetRequest { entity_type, feature, version, entity_id, .. } = request;
        Ok(GetItems {
            list: ListName { entity_type, feature, version, entity_id: entity_id.clone() },
            min_timestamp: request.min_timestamp,
            max_timestamp: request.max_timestamp,
            as_of: request.as_of,
            order: request.order,
            limit: request.limit,
            page_token: request.page_token.as_deref(),
        })
    });
    call.execute(&caller, Operation::BatchGet(requests.collect())).await
}

pub(crate) async fn batch_add(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let body = call.body().await?;
    let BatchAddInput { mut requests } = BatchAddInput::read(&body)?;
    let requests = requests.iter_mut().map(|request| {
        let AddRequest { entity_type, feature, version, entity_id, items } =
            request.as_mut().map_err(|problem| malformed(problem))?;
        let list = ListName { entity_type, feature, version, entity_id: entity_id.clone() };
        Ok(AddItems { list, items: std::mem::take(items) })
    });
    call.execute(&caller, Operation::BatchAdd(requests.collect())).await
}

/// One request that asks for what cannot exist: its answer says so in its place.
pub(crate) fn malformed(problem: &Problem) -> ServiceError {
    ServiceError::Malformed(Box::new(problem.clone()))
}
