//! The API's bodies and parameters: the form of requests and replies, declared once for the handlers, the OpenAPI
//! document, the command line's client and the load generator.
//!
//! It depends on the domain's types, and on neither clients nor servers. A request body has typed members. Clients
//! write it and servers read it with serde, which [`body`] makes strict: every refusal names the wrong member. A reply
//! has plain texts, because a client must accept the texts of a newer server. [`Type`] names a body in the table of
//! operations.

mod add_body;
mod aggregate;
mod bags;
mod batch;
mod batch_body;
pub(crate) mod body;
mod changes;
pub mod definition;
mod entity_types;
mod erasure;
mod error_code;
mod indexes;
mod item_input;
mod jobs;
mod keys;
mod lists;
mod log;
mod lookup;
mod many;
pub(crate) mod members;
pub mod parameters;
mod plain_add;
mod pool;
mod problem;
pub(crate) mod refused;
mod replies;
mod requests;
mod scanner;
pub mod texts;

use std::borrow::Cow;

use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

pub use aggregate::{
    Aggregate, AggregateFunction, AggregateGroupBy, AggregateInput, AggregateResults, AggregateWhere, AggregateWindow,
    Aggregated, GroupAggregates, WindowAggregates, WindowBounds, WindowLength,
};
pub use bags::{
    BATCH_BAGS_MAX, Bag, BagRequest, BagStored, BatchGetBagsInput, BatchGetBagsResults, Properties, read_document,
    read_joined_lists,
};
pub use batch::{
    AddRequest, AddResult, BATCH_ITEMS_MAX, BATCH_LISTS_MAX, BatchAddInput, BatchAddResults, BatchGetInput,
    BatchGetResults, BatchItem, GetRequest, PageResult, ReadResult, RequestFailed, Requests,
};
pub use changes::{Action, Change, HistoryPage};
pub use entity_types::{EntityType, EntityTypeInput, EntityTypePage, EntityTypePatch, PurgeBagsInput};
pub use erasure::{EntityErased, ErasedBag, ErasedList};
pub use error_code::{CodeRow, ErrorCode};
pub use indexes::{CleanInput, FindBagsInput, FoundBags, Index, IndexInput, IndexList, IndexState};
pub use item_input::{ItemInput, member_key};
pub use jobs::{Job, JobPage, JobPatch, PurgeInput};
pub use keys::{
    AuditPage, Audited, CreatedKey, IdentityProvider, Key, KeyInput, KeyMade, KeyPage, KeyRotation, Me, PrincipalKind,
    SignIn,
};
pub use lists::{
    ContainsInput, RemoveBetweenInput, RemoveItemsInput, RemoveKeyInput, RemoveKeysInput, RemoveNamedInput,
    RemoveValueInput, check_bounds,
};
pub use log::{LogInput, LogState};
pub use lookup::{LookupInput, LookupKeysInput, LookupValuesInput};
pub use pool::{Pool, PoolInput, PoolPermits};
pub use problem::{Problem, ProblemBody};
pub use replies::{
    Added, Backup, Check, Contained, ContainedValue, Counted, Deleted, EntityList, EntityLists, EntityPage, Feature,
    FeaturePage, FeatureVersion, Found, Health, HealthRead, Item, ItemPage, Removed,
};
pub use requests::{AddItemsInput, BackupInput, FeatureInput, FeaturePatch, VersionInput, VersionPatch};

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
