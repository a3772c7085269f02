//! The requests of clients, and the answers.

use serde::{Deserialize, Serialize};

use super::aggregates::{Aggregates, AskedWindow, GroupBy};
use super::items::{Item, Key, ListName, Order, Special, VersionName};
use crate::bags::{BagOutcome, BagRequest};

/// The request of a client. Bounds are inclusive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Get {
        list: ListName,
        min: Option<u64>,
        max: Option<u64>,
        #[serde(default)]
        order: Order,
        limit: Option<usize>,
        after: Option<Key>,
    },
    Count {
        list: ListName,
        min: Option<u64>,
        max: Option<u64>,
        limit: Option<u64>,
    },
    Contains {
        list: ListName,
        min: Option<u64>,
        max: Option<u64>,
        values: Vec<String>,
    },
    Aggregate {
        list: ListName,
        windows: Vec<AskedWindow>,
        /// Whether the values have a sum.
        is_of_numbers: bool,
        group_by: Option<GroupBy>,
    },
    /// The places of members of a set, which are values.
    Lookup {
        list: ListName,
        values: Vec<String>,
    },
    Add {
        list: ListName,
        items: Vec<Item>,
    },
    RemoveValue {
        list: ListName,
        value: String,
    },
    RemoveItems {
        list: ListName,
        items: Vec<Item>,
    },
    RemoveBetween {
        list: ListName,
        min: Option<u64>,
        max: Option<u64>,
    },
    RemoveAll {
        list: ListName,
    },
    CreateFeature {
        feature: String,
        ttl_secs: u64,
    },
    /// A feature whose lists are sets of values, or show at most some items.
    CreateSpecial {
        feature: String,
        ttl_secs: u64,
        special: Special,
    },
    DeleteFeature {
        feature: String,
    },
    CreateVersion {
        version: VersionName,
        ttl_secs: u64,
    },
    DeleteVersion {
        version: VersionName,
    },
    ChangeTtl {
        version: VersionName,
        ttl_secs: u64,
    },
    ReadTtl {
        version: VersionName,
    },
    Bag(BagRequest),
}

/// The answer to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A page of items, and whether there was a token for a next one.
    Page {
        items: Vec<Item>,
        more: bool,
    },
    Added {
        added: u64,
        already_expired: u64,
    },
    Removed(u64),
    /// A count, and whether it covers the whole list.
    Counted {
        count: u64,
        exact: bool,
    },
    Aggregated(Aggregates),
    /// For each requested value, the timestamp of its newest item.
    Contained(Vec<Option<u64>>),
    /// Done, without further data: remove all, create, delete, change.
    Done,
    Ttl(u64),
    Bag(BagOutcome),
    /// 404: there is no such feature, or no such version of it.
    FeatureNotFound,
    VersionNotFound,
    /// 409: it exists already.
    Exists,
    /// Certainly not carried out: refused while overloaded, draining or unavailable, or never sent.
    NotDone {
        why: String,
    },
    /// Possibly carried out, now or later: a deadline passed, or the connection broke.
    Unknown {
        why: String,
    },
    /// An answer that no promise allows: its status and code.
    Forbidden {
        answer: String,
    },
}

impl Request {
    /// The list that a call is about, if it is about one.
    pub fn list(&self) -> Option<&ListName> {
        match self {
            Self::Get { list, .. }
            | Self::Count { list, .. }
            | Self::Contains { list, .. }
            | Self::Aggregate { list, .. }
            | Self::Lookup { list, .. }
            | Self::Add { list, .. }
            | Self::RemoveValue { list, .. }
            | Self::RemoveItems { list, .. }
            | Self::RemoveBetween { list, .. }
            | Self::RemoveAll { list } => Some(list),
            _ => None,
        }
    }

    /// Whether it changes nothing, with any outcome.
    pub fn reads(&self) -> bool {
        match self {
            Self::Bag(request) => request.reads(),
            Self::Get { .. }
            | Self::Count { .. }
            | Self::Contains { .. }
            | Self::Aggregate { .. }
            | Self::Lookup { .. }
            | Self::ReadTtl { .. } => true,
            _ => false,
        }
    }

    /// Whether it finds items, and removes and counts them.
    pub fn removes_some(&self) -> bool {
        matches!(self, Self::RemoveValue { .. } | Self::RemoveItems { .. } | Self::RemoveBetween { .. })
    }
}
