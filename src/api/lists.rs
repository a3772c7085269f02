//! Reads requests about lists.
//!
//! A request is read whole before anything is looked up. These are the hot paths: nothing is allocated
//! here that an answer can do without.

use super::call::{Call, HandlerResult};
use super::problem::Problem;
use super::query::count;
use crate::domain::{Limit, Timestamp};
use crate::service::{AddItems, GetItems, Operation, queries};
use crate::wire::parameters::{LIMIT, MAX_TIMESTAMP, MIN_TIMESTAMP, Parameter};
use crate::wire::{AddItemsInput, RemoveItemsInput};

pub(super) async fn get_items(call: Call<'_>) -> HandlerResult {
    let [version, min_timestamp, max_timestamp, limit, page_token] = call.query(&queries::GET_ITEMS)?;
    let min_timestamp = timestamp(&MIN_TIMESTAMP, min_timestamp.as_deref())?;
    let max_timestamp = timestamp(&MAX_TIMESTAMP, max_timestamp.as_deref())?;
    if let (Some(min), Some(max)) = (min_timestamp, max_timestamp)
        && min > max
    {
        return Err(Problem::argument(MIN_TIMESTAMP.name, "min_timestamp is above max_timestamp"));
    }
    let limit = match limit {
        Some(text) => Limit::of_items(count(LIMIT.name, &text)?).map_err(|e| Problem::from(e).at(LIMIT.name))?,
        None => Limit::DEFAULT,
    };
    let caller = call.caller()?;
    let list = call.list(call.entity_id()?, version.as_deref());
    let request = GetItems { list, min_timestamp, max_timestamp, limit, page_token: page_token.as_deref() };
    call.execute(&caller, Operation::GetItems(request)).await
}

pub(super) async fn add_items(mut call: Call<'_>) -> HandlerResult {
    let [version] = call.query(&queries::VERSION_ONLY)?;
    let caller = call.caller()?;
    let entity_id = call.entity_id()?;
    let body = call.body().await?;
    let list = call.list(entity_id, version.as_deref());
    let AddItemsInput { items } = AddItemsInput::read(&body)?;
    call.execute(&caller, Operation::AddItems(AddItems { list, items })).await
}

pub(super) async fn remove_items_with_value(mut call: Call<'_>) -> HandlerResult {
    let [version] = call.query(&queries::VERSION_ONLY)?;
    let caller = call.caller()?;
    let entity_id = call.entity_id()?;
    let body = call.body().await?;
    let list = call.list(entity_id, version.as_deref());
    let RemoveItemsInput { value } = RemoveItemsInput::read(&body)?;
    call.execute(&caller, Operation::RemoveItemsWithValue { list, value }).await
}

pub(super) async fn remove_all_items(call: Call<'_>) -> HandlerResult {
    let [version] = call.query(&queries::VERSION_ONLY)?;
    let caller = call.caller()?;
    let list = call.list(call.entity_id()?, version.as_deref());
    call.execute(&caller, Operation::RemoveAllItems { list }).await
}

fn timestamp(parameter: &Parameter, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    text.map(Timestamp::parse).transpose().map_err(|invalid| Problem::from(invalid).at(parameter.name))
}
