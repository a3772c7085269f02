//! Reads requests about many lists.

use super::call::{Call, HandlerResult};
use crate::domain::Order;
use crate::service::{AddItems, GetItems, ListName, Operation, queries};
use crate::wire::{AddRequest, BatchAddInput, BatchGetInput, GetRequest};

pub(super) async fn batch_get(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    let body = call.body().await?;
    let BatchGetInput { requests } = BatchGetInput::read(&body)?;
    let requests = requests.iter().map(|request| {
        let GetRequest { entity_type, feature, version, entity_id, limit, min_timestamp, max_timestamp, page_token } =
            request;
        let (limit, min_timestamp, max_timestamp) = (*limit, *min_timestamp, *max_timestamp);
        let list = ListName { entity_type, feature, version, entity_id: entity_id.clone() };
        let (as_of, order, page_token) = (None, Order::Newest, page_token.as_deref());
        GetItems { list, min_timestamp, max_timestamp, as_of, order, limit, page_token }
    });
    call.execute(&caller, Operation::BatchGet(requests.collect())).await
}

pub(super) async fn batch_add(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&queries::NONE)?;
    let caller = call.caller()?;
    let body = call.body().await?;
    let BatchAddInput { mut requests } = BatchAddInput::read(&body)?;
    let requests = requests.iter_mut().map(|request| {
        let AddRequest { entity_type, feature, version, entity_id, items } = request;
        let list = ListName { entity_type, feature, version, entity_id: entity_id.clone() };
        AddItems { list, items: std::mem::take(items) }
    });
    call.execute(&caller, Operation::BatchAdd(requests.collect())).await
}
