//! The history: every call of a client, with its beginning, its end and its answer.
//!
//! Moments are nanoseconds on one monotonic clock, which starts with the history, so that moments
//! of all clients compare. A history is complete in itself: the checker reads nothing else, and it
//! can be written to a file and judged again.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use crate::bags::{BagOutcome, BagRequest};

/// Nanoseconds since the history began.
pub type Moment = u64;

/// The end of a call without a known end.
pub const NEVER: Moment = Moment::MAX;

pub const NANOS_PER_SEC: u64 = 1_000_000_000;

/// One feature version: it is created and deleted, and lists belong to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VersionName {
    pub feature: String,
    /// `""` is the default version, which lives and dies with its feature.
    pub label: String,
}

/// One list: a feature version and an entity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListName {
    pub version: VersionName,
    pub entity: String,
}

/// An item as callers see it: its nanoseconds, and its value as the API writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Item {
    pub timestamp: u64,
    /// JSON text.
    pub value: String,
}

/// The order of a list's items: the timestamp, then the Base64 of the value's MD5 as text. Lists are read in its
/// descending order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub timestamp: u64,
    pub digest: String,
}

/// The types of value in the workload. The stored form decides ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    String,
    Int64,
    Bytes,
    Json,
}

impl ValueType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int64 => "int64",
            Self::Bytes => "bytes",
            Self::Json => "json",
        }
    }

    /// The stored form of a value, as the API guide defines it, from its JSON text.
    fn stored(self, json: &str) -> Result<Vec<u8>, String> {
        let fail = |error: &dyn fmt::Display| format!("{json} is no {}: {error}", self.as_str());
        match self {
            Self::String => serde_json::from_str::<String>(json).map(String::into_bytes).map_err(|e| fail(&e)),
            Self::Int64 => json.parse::<i64>().map(|n| n.to_be_bytes().to_vec()).map_err(|e| fail(&e)),
            Self::Bytes => {
                let text: String = serde_json::from_str(json).map_err(|e| fail(&e))?;
                STANDARD.decode(text).map_err(|e| fail(&e))
            }
            // The workload writes canonical JSON, and must read it unchanged.
            Self::Json => Ok(json.as_bytes().to_vec()),
        }
    }

    pub fn key(self, item: &Item) -> Result<Key, String> {
        let digest = STANDARD.encode(Md5::digest(self.stored(&item.value)?));
        Ok(Key { timestamp: item.timestamp, digest })
    }
}

/// Which end of a list a page begins at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    Newest,
    Oldest,
}

/// The special property of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Special {
    /// Its lists are sets, of whose members, values, the newest item stays.
    Sets,
    /// Its lists show at most this many items.
    Bounded(u64),
}

/// The most values that an aggregation reports with their counts.
pub const TOP_MAX: usize = 1_000;

/// A window of time of an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedWindow {
    /// The time up to the server's clock.
    Last { secs: u64 },
    /// Both inclusive.
    Between { min: u64, max: u64 },
}

/// The answer for a window: its bounds, and aggregates of the items between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregated {
    pub min: u64,
    pub max: u64,
    pub count: u64,
    pub distinct: u64,
    /// The most frequent values as JSON texts, each with its count.
    pub values: Vec<(String, u64)>,
    /// The values of the oldest and the newest item.
    pub first: Option<String>,
    pub last: Option<String>,
    /// Of numbers.
    pub sum: Option<i64>,
}

impl Aggregated {
    /// Whether each value has its count, and not the most frequent ones alone.
    pub fn has_all_values(&self) -> bool {
        self.values.len() as u64 == self.distinct
    }
}

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
    /// For each requested window.
    Aggregated(Vec<Aggregated>),
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

/// One call of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub client: usize,
    /// Which start of the server it was sent to, from 0.
    pub incarnation: usize,
    pub from: Moment,
    pub to: Moment,
    /// Which of the client's calls on many lists it was a part of, if it was: parts may happen in any order.
    #[serde(default)]
    pub batch: Option<usize>,
    pub request: Request,
    pub outcome: Outcome,
}

/// A step of the server's wall clock: from some moment in `from..=to` on it is `offset_secs` away
/// from the harness's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    pub from: Moment,
    pub to: Moment,
    pub offset_secs: i64,
}

/// The promises of a store beyond those of every store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promises {
    /// One server on the embedded store (or in memory): every list is linearizable.
    #[default]
    Linearizable,
    /// Reads and writes at LOCAL_QUORUM: every later read sees an acknowledged write. Overlapping reads may see it or
    /// not, item by item.
    Quorum,
}

/// How long a transaction can be on its way in Postgres after its server has ended.
const TRANSACTION_OUTLIVES: Moment = 10 * NANOS_PER_SEC;

/// A whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    #[serde(default)]
    pub promises: Promises,
    /// The wall clock at moment 0, in nanoseconds since the Unix epoch.
    pub epoch: u64,
    pub value_types: BTreeMap<String, ValueType>,
    /// The features that are not like others.
    #[serde(default)]
    pub special: BTreeMap<String, Special>,
    /// The versions that existed, with their TTL in seconds, before the first call.
    pub versions: Vec<(VersionName, u64)>,
    /// When each start of the server ended, its process being gone.
    pub ends: Vec<Moment>,
    pub clock_steps: Vec<ClockStep>,
    pub calls: Vec<Call>,
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

impl Call {
    pub fn unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown { .. })
    }
}

impl History {
    /// The latest moment of a call's effect: its answer or, if that left the outcome open, the end of its server
    /// process.
    ///
    /// On CQL, the cluster may carry out the requests of a killed server later (by a paused node, or from a hint).
    /// Their write timestamps, which decide the order of effects, are still from the life of the process. But a removal
    /// by value affects only the items that it finds, and so not those of a later add.
    pub fn latest(&self, call: &Call) -> Moment {
        if !call.unknown() {
            return call.to;
        }
        let end = self.ends.get(call.incarnation).copied().unwrap_or(NEVER);
        match (self.promises, &call.request) {
            (Promises::Linearizable, _) | (_, Request::RemoveAll { .. }) => end,
            (_, request) if request.removes_some() => end,
            (Promises::Quorum, Request::Add { .. } | Request::Bag(_)) => NEVER,
            (Promises::Quorum, _) => end.saturating_add(TRANSACTION_OUTLIVES),
        }
    }

    pub fn value_type(&self, list: &ListName) -> Result<ValueType, String> {
        let feature = &list.version.feature;
        self.value_types.get(feature).copied().ok_or_else(|| format!("the history knows no feature {feature}"))
    }

    /// The possible times of the server's wall clock during a span, in nanoseconds since the epoch.
    pub fn wall(&self, from: Moment, to: Moment) -> (u64, u64) {
        let shifted = |moment: Moment, secs: i64| {
            self.epoch.saturating_add(moment).saturating_add_signed(secs * NANOS_PER_SEC as i64)
        };
        let (mut low, mut high) = (u64::MAX, 0);
        let mut since = ClockStep { from: 0, to: 0, offset_secs: 0 };
        let mut consider = |step: ClockStep, replaced_by: Moment| {
            if step.from <= to && replaced_by >= from {
                low = low.min(shifted(step.from.max(from), step.offset_secs));
                high = high.max(shifted(replaced_by.min(to), step.offset_secs));
            }
        };
        for step in &self.clock_steps {
            consider(since, step.to);
            since = *step;
        }
        consider(since, NEVER);
        (low, high)
    }

    pub fn save(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_vec(self).map_err(|e| e.to_string())?;
        std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
    }

    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        serde_json::from_slice(&text).map_err(|e| format!("{} is no history: {e}", path.display()))
    }
}

impl fmt::Display for ListName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.version, self.entity)
    }
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.feature, self.label)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.timestamp, self.value)
    }
}

/// A call as one line, for people: time, client, request, and answer.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |moment: Moment| moment as f64 / 1e6;
        write!(f, "{:>12.3}–{:<12.3} ms  client {:<2} ", millis(self.from), millis(self.to), self.client)?;
        match &self.request {
            Request::Get { list, min, max, order, limit, after } => {
                write!(f, "get {list} {order:?} first, min={min:?} max={max:?} limit={limit:?}")?;
                match after {
                    Some(after) => write!(f, " after={}#{}", after.timestamp, after.digest)?,
                    None => write!(f, " from its end")?,
                }
            }
            Request::Count { list, min, max, limit } => {
                write!(f, "count {list} min={min:?} max={max:?} limit={limit:?}")?;
            }
            Request::Contains { list, min, max, values } => {
                write!(f, "look in {list} min={min:?} max={max:?} for {values:?}")?;
            }
            Request::Aggregate { list, windows, .. } => write!(f, "aggregate {list} in {windows:?}")?,
            Request::Lookup { list, values } => write!(f, "look up {values:?} in {list}")?,
            Request::Add { list, items } => {
                write!(f, "add {list}")?;
                items.iter().try_for_each(|item| write!(f, " {item}"))?;
            }
            Request::RemoveValue { list, value } => write!(f, "remove {list} {value}")?,
            Request::RemoveItems { list, items } => {
                write!(f, "remove {list}")?;
                items.iter().try_for_each(|item| write!(f, " {item}"))?;
            }
            Request::RemoveBetween { list, min, max } => write!(f, "remove {list} min={min:?} max={max:?}")?,
            Request::RemoveAll { list } => write!(f, "remove all {list}")?,
            Request::CreateFeature { feature, ttl_secs } => write!(f, "create feature {feature} ttl={ttl_secs}s")?,
            Request::CreateSpecial { feature, special, .. } => write!(f, "create feature {feature}: {special:?}")?,
            Request::DeleteFeature { feature } => write!(f, "delete feature {feature}")?,
            Request::CreateVersion { version, ttl_secs } => write!(f, "create version {version} ttl={ttl_secs}s")?,
            Request::DeleteVersion { version } => write!(f, "delete version {version}")?,
            Request::ChangeTtl { version, ttl_secs } => write!(f, "change {version} to ttl={ttl_secs}s")?,
            Request::ReadTtl { version } => write!(f, "read the ttl of {version}")?,
            Request::Bag(request) => write!(f, "{request}")?,
        }
        match &self.outcome {
            Outcome::Page { items, more } => {
                write!(f, " → {} items{}", items.len(), if *more { ", more" } else { "" })
            }
            Outcome::Added { added, already_expired } => {
                write!(f, " → added {added}, already expired {already_expired}")
            }
            Outcome::Removed(count) => write!(f, " → removed {count}"),
            Outcome::Counted { count, exact } => write!(f, " → {count}{}", if *exact { "" } else { " and more" }),
            Outcome::Aggregated(windows) => write!(f, " → {windows:?}"),
            Outcome::Contained(newest) => write!(f, " → {newest:?}"),
            Outcome::Done => write!(f, " → done"),
            Outcome::Ttl(secs) => write!(f, " → {secs}s"),
            Outcome::Bag(outcome) => write!(f, " → {outcome}"),
            Outcome::FeatureNotFound => write!(f, " → no such feature"),
            Outcome::VersionNotFound => write!(f, " → no such version"),
            Outcome::Exists => write!(f, " → exists"),
            Outcome::NotDone { why } => write!(f, " → not done ({why})"),
            Outcome::Unknown { why } => write!(f, " → unknown ({why})"),
            Outcome::Forbidden { answer } => write!(f, " → {answer}"),
        }
    }
}
