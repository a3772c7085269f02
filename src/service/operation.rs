//! Operations, their requests and replies, as values.

use std::borrow::Cow;
use std::path::PathBuf;

use super::descriptor::Descriptor;
use super::page_cache::RenderedPage;
use super::table::OPERATIONS;
use crate::actors::AddOutcome;
use crate::backup::Backup;
use crate::domain::{EntityId, Feature, FeatureId, FeatureVersion, Limit, PageToken, Timestamp, VersionLabel};
use crate::metadata::{FeatureFilter, FeaturePatch, HistoryEntry, NewFeature, NewVersion, Precondition, VersionPatch};
use crate::wire::ItemInput;

/// Which operation: the row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationId {
    GetItems,
    AddItems,
    RemoveAllItems,
    RemoveItemsWithValue,
    ListFeatures,
    CreateFeature,
    GetFeature,
    UpdateFeature,
    DeleteFeature,
    GetHistory,
    CreateVersion,
    GetVersion,
    UpdateVersion,
    DeleteVersion,
    CreateBackup,
    Livez,
    Readyz,
    Metrics,
    OpenApi,
}

impl OperationId {
    pub const COUNT: usize = Self::OpenApi as usize + 1;

    pub fn descriptor(self) -> &'static Descriptor {
        &OPERATIONS[self as usize]
    }
}

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

/// What is to be done.
#[derive(Debug)]
pub enum Operation<'r> {
    GetItems(GetItems<'r>),
    AddItems(AddItems<'r>),
    RemoveItemsWithValue {
        list: ListName<'r>,
        /// As JSON.
        value: &'r str,
    },
    RemoveAllItems {
        list: ListName<'r>,
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
    CreateBackup {
        dir: PathBuf,
    },
}

/// What came of an operation.
#[derive(Debug)]
pub enum Reply {
    Items(RenderedPage),
    Added(AddOutcome),
    /// How many visible items went.
    Removed(u64),
    AllRemoved,
    Features {
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
    Deleted {
        /// When the last items are gone, about.
        items_expire_by: Timestamp,
    },
    Backup(Backup),
}
