//! Requests that several operations share, or that take long.

use std::borrow::Cow;
use std::num::NonZeroU32;

use crate::domain::{EntityId, EntityType, FeatureId, Int64As, Limit, Order, Timestamp, VersionLabel};
use crate::wire::{AggregateInput, ItemInput};

/// A list, as callers name it.
///
/// The names of its feature version are looked up as they were sent. Names in the catalog are well-formed, so only
/// missing ones are checked.
#[derive(Debug, Clone)]
pub struct ListName<'r> {
    pub entity_type: &'r str,
    pub feature: &'r str,
    pub version: Cow<'r, str>,
    pub entity_id: EntityId,
}

/// Get List Items. The bounds are inclusive.
#[derive(Debug, Clone)]
pub struct GetItems<'r> {
    pub list: ListName<'r>,
    pub min_timestamp: Option<Timestamp>,
    pub max_timestamp: Option<Timestamp>,
    /// The moment as of which the list is read. `None` for the present.
    pub as_of: Option<Timestamp>,
    pub order: Order,
    pub limit: Limit,
    pub page_token: Option<Cow<'r, str>>,
    /// How values are written. None for the form of the feature version.
    pub int64_as: Option<Int64As>,
}

/// What a call reads of one of its lists.
#[derive(Debug, Clone)]
pub enum ListRead<'r> {
    Items(GetItems<'r>),
    Aggregates(AggregateList<'r>),
}

/// Aggregate List Items, of one list among several.
#[derive(Debug, Clone)]
pub struct AggregateList<'r> {
    pub list: ListName<'r>,
    pub input: &'r AggregateInput,
    /// The member of the request that has the input: refusals name it.
    pub member: &'r str,
    /// How values are written. None for the form of the feature version.
    pub int64_as: Option<Int64As>,
}

/// Add List Items.
#[derive(Debug)]
pub struct AddItems<'r> {
    pub list: ListName<'r>,
    /// At least one, with values as JSON, because only the feature has their type.
    pub items: Vec<ItemInput<'r>>,
}

/// Find bags by an index.
#[derive(Debug)]
pub struct FindBags<'r> {
    pub entity_type: EntityType,
    pub index: VersionLabel,
    /// JSON texts, one for each property of the index.
    pub values: Vec<Cow<'r, str>>,
    pub min: Option<Cow<'r, str>>,
    pub max: Option<Cow<'r, str>>,
    pub order: Order,
    pub limit: Limit,
    pub page_token: Option<Cow<'r, str>>,
}

/// The extent of a purge.
#[derive(Debug)]
pub struct Purge {
    pub id: FeatureId,
    /// All versions if there is none.
    pub version: Option<VersionLabel>,
    /// Whether the purge spares the lists of the current definitions.
    pub deleted_only: bool,
    pub lists_per_second: Option<NonZeroU32>,
}
