//! The bodies of operations on many lists in one call.

use std::borrow::Cow;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::batch_body::count;
use super::members::{checked, raw};
use super::refused::want;
use super::{Added, AggregateInput, Aggregated, ItemInput, ItemPage, Problem, ProblemBody, body, members, texts};
use crate::domain::{ADD_ITEMS_MAX, EntityId, EntityType, FeatureName, Limit, Order, Timestamp, VersionLabel};

/// The most lists of one call.
pub const BATCH_LISTS_MAX: usize = 1_000;
/// The most items of all adds of one call.
pub const BATCH_ITEMS_MAX: usize = 10_000;

/// The requests of one call, in order. An invalid name, ID or timestamp is a problem of its request only.
pub type Requests<T> = Vec<Result<T, Problem>>;

/// Lists to read, of any features.
#[derive(Debug, PartialEq, Eq, ToSchema)]
#[schema(example = json!({"requests": [
    {"entity_type": "user", "feature": "story_presented", "entity_id": "u-123", "limit": 50},
    {"entity_type": "user", "feature": "story_presented", "entity_id": "u-124", "limit": 50},
]}))]
#[serde(deny_unknown_fields)]
pub struct BatchGetInput<'a> {
    #[schema(value_type = Vec<GetRequest<'a>>, min_items = 1, max_items = 1000)]
    pub requests: Requests<GetRequest<'a>>,
}

/// A list to read, as in Get List Items. Both bounds are inclusive; `as_of` shows the list at a past time. An invalid
/// name, ID or timestamp is a problem of this request only.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRequest<'a> {
    #[serde(borrow, deserialize_with = "entity_type")]
    #[schema(value_type = String)]
    pub entity_type: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "feature")]
    #[schema(value_type = String)]
    pub feature: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "version")]
    #[schema(value_type = String, required = false)]
    pub version: Cow<'a, str>,
    #[schema(value_type = String)]
    pub entity_id: EntityId,
    #[serde(default, deserialize_with = "limit")]
    #[schema(value_type = u32, minimum = 1, maximum = 10000, default = 100, required = false)]
    pub limit: Option<Limit>,
    #[serde(default, deserialize_with = "members::some_timestamp")]
    #[schema(value_type = texts::TimestampInput, required = false)]
    pub min_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "members::some_timestamp")]
    #[schema(value_type = texts::TimestampInput, required = false)]
    pub max_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "members::some_timestamp")]
    #[schema(value_type = texts::TimestampInput, required = false)]
    pub as_of: Option<Timestamp>,
    #[serde(default, deserialize_with = "order")]
    #[schema(value_type = texts::Order, inline, required = false)]
    pub order: Order,
    /// The `next_page_token` of the previous page, with the same bounds and order.
    #[serde(borrow, default, deserialize_with = "page_token")]
    #[schema(value_type = String, required = false)]
    pub page_token: Option<Cow<'a, str>>,
    /// Aggregates of the list, in place of items: without a limit, bounds, `as_of`, order and page token.
    #[serde(default)]
    #[schema(value_type = AggregateInput, required = false)]
    pub aggregate: Option<Box<AggregateInput>>,
}

/// Items to add to lists of any features.
#[derive(Debug, PartialEq, Eq, ToSchema)]
#[schema(example = json!({"requests": [{
    "entity_type": "user",
    "feature": "story_presented",
    "entity_id": "u-123",
    "items": [{"timestamp": "2024-08-29T16:44:05.43Z", "value": "story-17"}],
}]}))]
#[serde(deny_unknown_fields)]
pub struct BatchAddInput<'a> {
    /// At most 10,000 items in total.
    #[schema(value_type = Vec<AddRequest<'a>>, min_items = 1, max_items = 1000)]
    pub requests: Requests<AddRequest<'a>>,
}

/// Items to add to one list, all or none. An invalid name, ID, key or timestamp is a problem of this request only.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddRequest<'a> {
    #[serde(borrow, deserialize_with = "entity_type")]
    #[schema(value_type = String)]
    pub entity_type: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "feature")]
    #[schema(value_type = String)]
    pub feature: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "version")]
    #[schema(value_type = String, required = false)]
    pub version: Cow<'a, str>,
    #[schema(value_type = String)]
    pub entity_id: EntityId,
    #[serde(borrow, deserialize_with = "members::many::<ADD_ITEMS_MAX, _, _>")]
    #[schema(value_type = Vec<BatchItem>, min_items = 1, max_items = 1000)]
    pub items: Vec<ItemInput<'a>>,
}

fn entity_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    checked(deserializer, EntityType::new)
}

fn feature<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    checked(deserializer, FeatureName::new)
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    checked(deserializer, VersionLabel::new)
}

fn page_token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    body::text(deserializer).map(Some)
}

/// A limit out of bounds refuses the call, as other mistakes of form do.
fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Limit>, D::Error> {
    let limit = count(raw(deserializer)?).and_then(|limit| Limit::of_items(limit).ok());
    limit.map(Some).ok_or_else(|| want(&format!("a whole number from 1 to {}", Limit::ITEMS_MAX)))
}

fn order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Order, D::Error> {
    Order::parse(&body::text(deserializer)?).map_err(|_| want("newest or oldest"))
}

/// An item to add, as in Add List Items.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read as an item of one add")]
pub struct BatchItem {
    #[schema(value_type = texts::TimestampInput)]
    timestamp: (),
    /// The JSON of the feature's value type.
    #[schema(value_type = serde_json::Value)]
    value: (),
    /// Required if the feature has the identity `key`, refused otherwise.
    #[schema(value_type = String, required = false)]
    key: (),
}

/// One result for each request, in order.
#[derive(ToSchema)]
#[expect(dead_code, reason = "rendered from pages that are rendered already")]
pub struct BatchGetResults {
    results: Vec<ReadResult>,
}

/// A page of items, or the aggregates that were asked for in place of items, or the problem.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ReadResult {
    Page(ItemPage),
    Aggregates(Aggregated),
    Failed(RequestFailed),
}

/// A page of items, or the problem.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum PageResult {
    Page(ItemPage),
    Failed(RequestFailed),
}

/// One result for each request, in order.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchAddResults {
    pub results: Vec<AddResult>,
}

/// The result of one add, or the problem.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum AddResult {
    Added(Added),
    Failed(RequestFailed),
}

/// The problem of one request of several.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RequestFailed {
    pub problem: ProblemBody,
}
