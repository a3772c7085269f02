//! Operations, their requests and replies, as values.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::path::PathBuf;

use bytes::Bytes;

use super::bag::{Bag, BagOperation, EntityName, FoundBag};
use super::bag_conditions::BagConditions;
use super::error::ServiceError;
use super::index_view::IndexView;
use super::page_cache::RenderedPage;
use super::receipt::Receipt;
use crate::access::Principal;
use crate::access::{Refusal, token::Secret};
use crate::actors::{AddOutcome, PoolView, Resize};
use crate::background::Command;
use crate::backup::Backup;
use crate::domain::{
    AccessLog, ApiKey, EntityId, EntityType, Feature, FeatureId, FeatureVersion, IndexSpec, Item, JobId, KeyId,
    KeyName, Limit, ListKey, Order, PageToken, RateLimits, Role, Scope, Timestamp, Ttl, ValueType, VersionLabel,
};
use crate::items::{Bounds, Count};
use crate::metadata::jobs::Job;
use crate::metadata::keys::{AuditEntry, AuditFilter};
use crate::metadata::{FeatureFilter, FeaturePatch, HistoryEntry, NewFeature, NewVersion, Precondition, VersionPatch};
use crate::telemetry::LogState;
use crate::wire::{ItemInput, LookupInput, RemoveItemsInput};

/// A list, as callers name it.
///
/// The names of its feature version are looked up as they were sent: what the catalog knows is
/// well-formed, so they are checked only when they are not found there.
#[derive(Debug, Clone)]
pub struct ListName<'r> {
    pub entity_type: &'r str,
    pub feature: &'r str,
    pub version: &'r str,
    pub entity_id: EntityId,
}

/// Get List Items. The bounds are inclusive.
#[derive(Debug, Clone)]
pub struct GetItems<'r> {
    pub list: ListName<'r>,
    pub min_timestamp: Option<Timestamp>,
    pub max_timestamp: Option<Timestamp>,
    /// The moment as of which the list is looked at. None for the present.
    pub as_of: Option<Timestamp>,
    pub order: Order,
    pub limit: Limit,
    pub page_token: Option<&'r str>,
}

/// Add List Items.
#[derive(Debug)]
pub struct AddItems<'r> {
    pub list: ListName<'r>,
    /// At least one, with values as JSON: only the feature knows their type.
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

/// What to purge of a feature.
#[derive(Debug)]
pub struct PurgeFeature {
    pub id: FeatureId,
    /// All versions if there is none.
    pub version: Option<VersionLabel>,
    /// Whether the lists that definitions lead to now are left alone.
    pub deleted_only: bool,
    pub lists_per_second: Option<NonZeroU32>,
}

/// Which indexes of an entity type to clean.
#[derive(Debug)]
pub struct CleanIndexes {
    pub entity_type: EntityType,
    /// All of them if there is none.
    pub index: Option<VersionLabel>,
    pub lists_per_second: Option<NonZeroU32>,
}

/// Create an API key.
#[derive(Debug)]
pub struct CreateKey {
    pub name: KeyName,
    pub roles: Vec<Role>,
    pub scopes: Vec<Scope>,
    pub limits: RateLimits,
    /// How long it is to hold; for ever if there is none.
    pub lifetime: Option<Ttl>,
}

/// Give an API key another secret.
#[derive(Debug)]
pub struct RotateKey {
    pub id: KeyId,
    /// How long the present secret is to hold yet.
    pub overlap: Ttl,
    /// How long the key is to hold from now on; as before if there is none.
    pub lifetime: Option<Ttl>,
}

/// What is to be done.
#[derive(Debug)]
pub enum Operation<'r> {
    GetItems(GetItems<'r>),
    AddItems(AddItems<'r>),
    RemoveItems {
        list: ListName<'r>,
        /// With values as JSON.
        removal: RemoveItemsInput<'r>,
    },
    CountItems {
        list: ListName<'r>,
        within: Bounds,
        max: Limit,
    },
    ContainsItems {
        list: ListName<'r>,
        within: Bounds,
        /// As JSON.
        values: Vec<&'r str>,
    },
    /// The reverse lookup in a set.
    LookupItems {
        list: ListName<'r>,
        input: LookupInput<'r>,
    },
    ListEntities {
        id: FeatureId,
        version: VersionLabel,
        page_size: Limit,
        page_token: Option<Cow<'r, str>>,
    },
    RemoveAllItems {
        list: ListName<'r>,
    },
    /// Reads of lists of any features.
    BatchGet(Vec<Result<GetItems<'r>, ServiceError>>),
    /// Adds to lists of any features, each of which is all or nothing.
    BatchAdd(Vec<Result<AddItems<'r>, ServiceError>>),
    /// Removes all lists of an entity, and its bag, if that meets the conditions.
    EraseEntity {
        entity: EntityName,
        conditions: BagConditions,
    },
    PurgeFeature(PurgeFeature),
    ListJobs {
        page_size: Limit,
        page_token: Option<String>,
    },
    GetJob(JobId),
    CommandJob {
        id: JobId,
        command: Command,
    },
    ListFeatures {
        filter: FeatureFilter,
        page_size: Limit,
        page_token: Option<Cow<'r, str>>,
    },
    CreateFeature(NewFeature),
    GetFeature(FeatureId),
    UpdateFeature {
        id: FeatureId,
        patch: FeaturePatch,
        condition: Precondition,
    },
    DeleteFeature {
        id: FeatureId,
        condition: Precondition,
    },
    GetHistory {
        id: FeatureId,
        page_size: Limit,
        page_token: Option<Cow<'r, str>>,
    },
    CreateVersion {
        id: FeatureId,
        new: NewVersion,
    },
    GetVersion {
        id: FeatureId,
        version: VersionLabel,
    },
    UpdateVersion {
        id: FeatureId,
        version: VersionLabel,
        patch: VersionPatch,
        condition: Precondition,
    },
    DeleteVersion {
        id: FeatureId,
        version: VersionLabel,
        condition: Precondition,
    },
    ListEntityTypes {
        filter: FeatureFilter,
        page_size: Limit,
        page_token: Option<Cow<'r, str>>,
    },
    CreateEntityType(NewFeature),
    GetEntityType(EntityType),
    UpdateEntityType {
        entity_type: EntityType,
        patch: FeaturePatch,
        condition: Precondition,
    },
    DeleteEntityType {
        entity_type: EntityType,
        condition: Precondition,
    },
    GetEntityTypeHistory {
        entity_type: EntityType,
        page_size: Limit,
        page_token: Option<Cow<'r, str>>,
    },
    /// Of its bags.
    PurgeEntityType(PurgeFeature),
    CleanIndexes(CleanIndexes),
    CreateIndex {
        entity_type: EntityType,
        name: VersionLabel,
        spec: IndexSpec,
    },
    ListIndexes(EntityType),
    GetIndex {
        entity_type: EntityType,
        name: VersionLabel,
    },
    DeleteIndex {
        entity_type: EntityType,
        name: VersionLabel,
        condition: Precondition,
    },
    FindBags(FindBags<'r>),
    Bag(BagOperation),
    GetMe,
    CreateKey(CreateKey),
    ListKeys {
        page_size: Limit,
        page_token: Option<Cow<'r, str>>,
    },
    GetKey(KeyId),
    RotateKey(RotateKey),
    RevokeKey {
        id: KeyId,
        /// Whether the keys that it created go too.
        created_keys: bool,
    },
    ListAudit {
        filter: AuditFilter,
        page_size: Limit,
        page_token: Option<Cow<'r, str>>,
    },
    GetPool,
    ResizePool(Resize),
    GetLog,
    ChangeLog {
        filter: Option<String>,
        access: Option<AccessLog>,
    },
    CreateBackup {
        dir: PathBuf,
    },
}

/// An entry of the audit trail.
#[derive(Debug)]
pub enum Audited {
    Change(Box<AuditEntry>),
    Refusal(Refusal),
}

/// What came of an operation.
#[derive(Debug)]
pub enum Reply {
    Items(RenderedPage),
    Added(AddOutcome),
    /// How many visible items went.
    Removed(u64),
    Counted(Count),
    /// The values that were asked for, and the newest visible item of each.
    Contained {
        value_type: ValueType,
        values: Vec<(Bytes, Option<Timestamp>)>,
    },
    /// The visible item of each member that was looked up.
    Found {
        list: ListKey,
        value_type: ValueType,
        items: Vec<Option<Item>>,
        /// Of the answer, if it has several items.
        bytes_max: usize,
    },
    AllRemoved,
    Bag(Box<Bag>),
    BagStored {
        entity: EntityName,
        updated_at: Timestamp,
        /// Whether there was none before.
        created: bool,
    },
    BagDeleted,
    /// One result for each request, in order.
    EachBag(Vec<Result<Bag, ServiceError>>),
    Entities {
        entities: Vec<EntityId>,
        next_page_token: Option<PageToken>,
    },
    /// One result for each request, in order.
    EachPage(Vec<Result<RenderedPage, ServiceError>>),
    EachAdded(Vec<Result<AddOutcome, ServiceError>>),
    Erased(Receipt),
    Job(Box<Job>),
    Jobs {
        jobs: Vec<Job>,
        next_page_token: Option<PageToken>,
    },
    Features {
        /// Whether these are entity types.
        of_bags: bool,
        features: Vec<Feature>,
        next_page_token: Option<PageToken>,
    },
    Feature(Box<Feature>),
    History {
        entries: Vec<HistoryEntry>,
        next_page_token: Option<PageToken>,
    },
    Version {
        /// The feature that it belongs to.
        feature: FeatureId,
        version: FeatureVersion,
    },
    Index(Box<IndexView>),
    Indexes(Vec<IndexView>),
    IndexDeleted,
    FoundBags {
        entity_type: EntityType,
        bags: Vec<FoundBag>,
        next_page_token: Option<PageToken>,
    },
    Deleted {
        /// When the last items are gone, about.
        items_expire_by: Timestamp,
    },
    /// Who asked.
    Me(Principal),
    /// A key with a new secret.
    KeyMade {
        key: Box<ApiKey>,
        secret: Secret,
    },
    Key {
        key: Box<ApiKey>,
        /// The keys that it created, directly or through another key, without revoked ones.
        created: Vec<ApiKey>,
    },
    Keys {
        keys: Vec<ApiKey>,
        next_page_token: Option<PageToken>,
    },
    Audit {
        entries: Vec<Audited>,
        next_page_token: Option<PageToken>,
    },
    Pool(PoolView),
    Log(LogState),
    Backup(Backup),
}
