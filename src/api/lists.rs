//! Reads requests about lists.
//!
//! A request is read whole before anything is looked up. These are the hot paths: nothing is allocated
//! here that an answer can do without.

use liststore_contract::operations::{
    add_items, contains_items, count_items, get_items, lookup_items, remove_all_items, remove_items,
};

use super::call::{Call, HandlerResult};
use super::problem::Problem;
use super::query::{count, moment};
use crate::domain::{Limit, Order, Timestamp};
use crate::items::Bounds;
use crate::service::{AddItems, GetItems, Operation};
use crate::wire::parameters::{AS_OF, COUNT_MAX, LIMIT, MAX_TIMESTAMP, MIN_TIMESTAMP, ORDER};
use crate::wire::{AddItemsInput, ContainsInput, LookupInput, RemoveItemsInput, check_bounds};

pub(crate) async fn get_items(call: Call<'_>) -> HandlerResult {
    let [version, min_timestamp, max_timestamp, as_of, order, limit, page_token] = call.query(&get_items::QUERY)?;
    let (min_timestamp, max_timestamp) = bounds(min_timestamp.as_deref(), max_timestamp.as_deref())?;
    let as_of = moment(&AS_OF, as_of.as_deref())?;
    let order = order.map(|text| Order::parse(&text)).transpose().map_err(|e| Problem::from(e).at(ORDER.name))?;
    let limit = match limit {
        Some(text) => Limit::of_items(count(LIMIT.name, &text)?).map_err(|e| Problem::from(e).at(LIMIT.name))?,
        None => Limit::DEFAULT,
    };
    let caller = call.caller()?;
    let list = call.list(call.entity_id()?, version.as_deref());
    let (order, page_token) = (order.unwrap_or_default(), page_token.as_deref());
    let request = GetItems { list, min_timestamp, max_timestamp, as_of, order, limit, page_token };
    call.execute(&caller, Operation::GetItems(request)).await
}

pub(crate) async fn add_items(mut call: Call<'_>) -> HandlerResult {
    let [version] = call.query(&add_items::QUERY)?;
    let caller = call.caller()?;
    let entity_id = call.entity_id()?;
    let body = call.body().await?;
    let list = call.list(entity_id, version.as_deref());
    let AddItemsInput { items } = AddItemsInput::read(&body)?;
    call.execute(&caller, Operation::AddItems(AddItems { list, items })).await
}

pub(crate) async fn remove_items(mut call: Call<'_>) -> HandlerResult {
    let [version] = call.query(&remove_items::QUERY)?;
    let caller = call.caller()?;
    let entity_id = call.entity_id()?;
    let body = call.body().await?;
    let list = call.list(entity_id, version.as_deref());
    let removal = RemoveItemsInput::read(&body)?;
    call.execute(&caller, Operation::RemoveItems { list, removal }).await
}

pub(crate) async fn count_items(call: Call<'_>) -> HandlerResult {
    let [version, min_timestamp, max_timestamp, max] = call.query(&count_items::QUERY)?;
    let (min_timestamp, max_timestamp) = bounds(min_timestamp.as_deref(), max_timestamp.as_deref())?;
    let max = match max {
        Some(text) => {
            Limit::of_count(count(COUNT_MAX.name, &text)?).map_err(|e| Problem::from(e).at(COUNT_MAX.name))?
        }
        None => Limit::DEFAULT_COUNT,
    };
    let caller = call.caller()?;
    let list = call.list(call.entity_id()?, version.as_deref());
    let within = Bounds::of(min_timestamp, max_timestamp);
    call.execute(&caller, Operation::CountItems { list, within, max }).await
}

pub(crate) async fn contains_items(mut call: Call<'_>) -> HandlerResult {
    let [version, min_timestamp, max_timestamp] = call.query(&contains_items::QUERY)?;
    let (min_timestamp, max_timestamp) = bounds(min_timestamp.as_deref(), max_timestamp.as_deref())?;
    let caller = call.caller()?;
    let entity_id = call.entity_id()?;
    let body = call.body().await?;
    let list = call.list(entity_id, version.as_deref());
    let ContainsInput { values } = ContainsInput::read(&body)?;
    let within = Bounds::of(min_timestamp, max_timestamp);
    call.execute(&caller, Operation::ContainsItems { list, within, values }).await
}

pub(crate) async fn lookup_items(mut call: Call<'_>) -> HandlerResult {
    let [version] = call.query(&lookup_items::QUERY)?;
    let caller = call.caller()?;
    let entity_id = call.entity_id()?;
    let body = call.body().await?;
    let list = call.list(entity_id, version.as_deref());
    let input = LookupInput::read(&body)?;
    call.execute(&caller, Operation::LookupItems { list, input }).await
}

pub(crate) async fn remove_all_items(call: Call<'_>) -> HandlerResult {
    let [version] = call.query(&remove_all_items::QUERY)?;
    let caller = call.caller()?;
    let list = call.list(call.entity_id()?, version.as_deref());
    call.execute(&caller, Operation::RemoveAllItems { list }).await
}

type Moments = (Option<Timestamp>, Option<Timestamp>);

/// The bounds that a query names.
fn bounds(min: Option<&str>, max: Option<&str>) -> Result<Moments, Problem> {
    let (min, max) = (moment(&MIN_TIMESTAMP, min)?, moment(&MAX_TIMESTAMP, max)?);
    check_bounds(min, max)?;
    Ok((min, max))
}
