//! The history: every call of a client, with its beginning, its end and its answer.
//!
//! Moments are nanoseconds on one monotonic clock, which starts with the history, so that moments
//! of all clients compare. A history is complete in itself: the checker reads nothing else, and it
//! can be written to a file and judged again.

mod aggregates;
mod items;
mod lines;
mod requests;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use aggregates::{
    Aggregated, Aggregates, AskedWindow, GROUP_MEMBER, Group, GroupBy, Groups, Reason, Results, TOP_MAX,
};
pub use items::{Item, Key, ListName, Order, Special, ValueType, VersionName};
pub use requests::{Outcome, Request};

/// Nanoseconds since the history began.
pub type Moment = u64;

/// The end of a call without a known end.
pub const NEVER: Moment = Moment::MAX;

pub const NANOS_PER_SEC: u64 = 1_000_000_000;

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
    /// The most items that an aggregation reads, if there is a bound.
    #[serde(default)]
    pub aggregate_items_max: Option<u64>,
    /// The versions that existed, with their TTL in seconds, before the first call.
    pub versions: Vec<(VersionName, u64)>,
    /// When each start of the server ended, its process being gone.
    pub ends: Vec<Moment>,
    pub clock_steps: Vec<ClockStep>,
    pub calls: Vec<Call>,
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

    /// The most items that an aggregation reads.
    pub fn items_max(&self) -> u64 {
        self.aggregate_items_max.unwrap_or(u64::MAX)
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
