//! Reads requests about indexes of bags, and queries by them.

use std::borrow::Cow;

use liststore_contract::operations::find_bags;

use super::call::{Call, HandlerResult};
use super::headers::if_match;
use super::problem::Problem;
use super::query::{about_plus, count};
use crate::domain::{Limit, Order, VersionLabel};
use crate::service::{CleanIndexes, FindBags, Operation};
use crate::wire::parameters::{BAGS_LIMIT, MAX, MIN, ORDER, VALUE};
use crate::wire::{CleanInput, IndexInput};

pub(crate) async fn create_index(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let entity_type = call.entity_type()?;
    let (name, spec) = IndexInput::read(&call.body().await?)?.spec()?;
    call.execute(&caller, Operation::CreateIndex { entity_type, name, spec }).await
}

pub(crate) async fn clean_indexes(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let entity_type = call.entity_type()?;
    let CleanInput { index, lists_per_second } = CleanInput::read(&call.body().await?)?;
    call.execute(&caller, Operation::CleanIndexes(CleanIndexes { entity_type, index, lists_per_second })).await
}

pub(crate) async fn list_indexes(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::ListIndexes(call.entity_type()?)).await
}

pub(crate) async fn get_index(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetIndex { entity_type: call.entity_type()?, name: name(&call)? }).await
}

pub(crate) async fn delete_index(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let condition = if_match(call.headers)?;
    let (entity_type, name) = (call.entity_type()?, name(&call)?);
    call.execute(&caller, Operation::DeleteIndex { entity_type, name, condition }).await
}

pub(crate) async fn find_bags(call: Call<'_>) -> HandlerResult {
    let [values, min, max, order_text, limit_text, page_token] = call.repeated_query(&find_bags::QUERY)?;
    let caller = call.caller()?;
    let [min, max, order_text, limit_text, page_token] =
        [min, max, order_text, limit_text, page_token].map(|given| given.into_iter().next());
    let order = order_text.map(|text| Order::parse(&text)).transpose();
    // The texts with a space, by their parameters: only the index tells how they are read.
    let with_space = |text: &&Cow<'_, str>| text.contains(' ');
    let spaced = [(VALUE.name, values.iter().find(with_space)), (MIN.name, min.as_ref()), (MAX.name, max.as_ref())];
    let spaced = spaced.map(|(name, text)| (name, text.filter(with_space).map(|text| str::to_owned(text))));
    let request = FindBags {
        entity_type: call.entity_type()?,
        index: name(&call)?,
        values,
        min,
        max,
        order: order.map_err(|invalid| Problem::from(invalid).at(ORDER.name))?.unwrap_or_default(),
        limit: limit(limit_text.as_deref())?,
        page_token,
    };
    call.execute(&caller, Operation::FindBags(request)).await.map_err(|problem| {
        let blamed = spaced.iter().find(|(name, _)| problem.field.as_deref() == Some(*name));
        match blamed.and_then(|(_, text)| text.as_deref()) {
            Some(text) => about_plus(problem, text),
            None => problem,
        }
    })
}

fn limit(text: Option<&str>) -> Result<Limit, Problem> {
    let Some(text) = text else { return Ok(Limit::DEFAULT) };
    Limit::of_found(count(BAGS_LIMIT.name, text)?).map_err(|invalid| Problem::from(invalid).at(BAGS_LIMIT.name))
}

fn name(call: &Call<'_>) -> Result<VersionLabel, Problem> {
    VersionLabel::new(&call.segments[1]).map_err(|invalid| Problem::from(invalid).at("index"))
}
