//! The API's bodies and parameters: the form of requests and replies, declared once for the handlers, the OpenAPI
//! document, the command line's client and the load generator.
//!
//! It depends on the domain's types, and on neither clients nor servers. A request body has typed members. Clients
//! write it and servers read it with serde, which [`body`] makes strict: every refusal names the wrong member. A reply
//! has plain texts, because a client must accept the texts of a newer server. [`Type`] names a body in the table of
//! operations.

mod aggregate;
mod annotations;
mod bags;
mod batch;
pub(crate) mod body;
mod changes;
pub mod definition;
mod entity_types;
mod error_code;
mod indexes;
pub(crate) mod item_input;
mod jobs;
mod keys;
mod log;
pub(crate) mod many;
pub(crate) mod members;
pub mod parameters;
pub(crate) mod plain_add;
pub(crate) mod plain_requests;
mod pool;
mod problem;
pub(crate) mod refused;
mod replies;
pub(crate) mod scanner;
pub mod texts;
pub(crate) mod with_properties;

use std::borrow::Cow;

use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

pub use aggregate::{
    Aggregate, AggregateFunction, AggregateGroupBy, AggregateInput, AggregateResults, AggregateWhere, AggregateWindow,
    Aggregated, GroupAggregates, WindowAggregates, WindowBounds, WindowLength,
};
pub use annotations::Annotations;
pub use bags::{BATCH_BAGS_MAX, Bag, BagStored, Properties, read_document, read_joined_lists};
pub use batch::{AggregatedResult, BATCH_ITEMS_MAX, BATCH_LISTS_MAX, PageResult, RequestFailed, Requests};
pub use changes::{Action, Change, HistoryPage};
pub use entity_types::EntityType;
pub use error_code::{CodeRow, ErrorCode};
pub use indexes::{FoundBags, Index, IndexState};
pub use item_input::{ItemInput, member_key};
pub use jobs::Job;
pub use keys::{CreatedKey, Key, KeyMade};
pub use log::LogState;
pub use members::check_bounds;
pub use pool::{Pool, PoolPermits};
pub use problem::{Problem, ProblemBody};
pub use replies::{
    Added, Check, Deleted, EntityList, EntityLists, EntityPage, Feature, FeatureVersion, Health, HealthRead, Item,
    ItemPage,
};

/// The schema of a body, and of all types that it refers to.
#[derive(Debug, Clone, Copy)]
pub struct Type {
    pub name: fn() -> Cow<'static, str>,
    pub schema: fn() -> RefOr<Schema>,
    pub referred: fn(&mut Vec<(String, RefOr<Schema>)>),
}

impl Type {
    pub const fn of<T: ToSchema>() -> Self {
        Self { name: T::name, schema: T::schema, referred: T::schemas }
    }
}
