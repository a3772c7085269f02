//! Aggregations over windows of time, and the answers to them.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::items::Item;

/// The most values that an aggregation reports with their counts.
pub const TOP_MAX: usize = 1_000;

/// The member of values by which some aggregations group them.
pub const GROUP_MEMBER: &str = "g";

/// A window of time of an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedWindow {
    /// The time up to the server's clock.
    Last { secs: u64 },
    /// Both inclusive.
    Between { min: u64, max: u64 },
}

/// A result for each value, or for each value of a member of JSON objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupBy {
    /// By [`GROUP_MEMBER`], and not by the value itself.
    pub by_member: bool,
    /// The groups beyond are one group.
    pub max_groups: usize,
}

impl GroupBy {
    /// The group of a value, as JSON text. `None` if it is in no group.
    pub fn group_of(self, value: &str) -> Option<Cow<'_, str>> {
        if !self.by_member {
            return Some(Cow::Borrowed(value));
        }
        let object: Value = serde_json::from_str(value).ok()?;
        Some(Cow::Owned(object.get(GROUP_MEMBER)?.to_string()))
    }
}

/// The answer to an aggregation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregates {
    /// The server's clock.
    pub as_of: u64,
    /// For each requested window.
    pub windows: Vec<Aggregated>,
    /// The items that the server looked at.
    pub items_read: u64,
}

/// The answer for a window: its bounds, and aggregates of the items between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregated {
    pub min: u64,
    pub max: u64,
    /// Why it may lack items. `None` if it is complete.
    pub reason: Option<Reason>,
    /// The items without a group.
    pub skipped: u64,
    /// Of all groups together, if there are groups. Then the first and the last value are unknown.
    pub results: Results,
    pub groups: Option<Groups>,
}

/// Aggregates of some items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
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

/// The groups of a window, in the order of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    pub by: GroupBy,
    pub shown: Vec<Group>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// As JSON text. `None` if it is all other groups together.
    pub value: Option<String>,
    pub count: u64,
    pub results: Results,
}

/// Why a window may lack items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It begins before the oldest moment whose items are visible.
    Ttl,
    /// The list shows no more items.
    MaxItems,
    /// The call reads no more items.
    ItemsMax,
}

impl Results {
    /// Whether each value has its count, and not the most frequent ones alone.
    pub fn has_all_values(&self) -> bool {
        self.values.len() as u64 == self.distinct
    }

    /// Of groups together, which share no value.
    pub fn of_all<'r>(parts: impl IntoIterator<Item = &'r Self>) -> Self {
        parts.into_iter().fold(Self::default(), |mut all, part| {
            all.count += part.count;
            all.distinct += part.distinct;
            all.values.extend(part.values.iter().cloned());
            all.sum = all.sum.into_iter().chain(part.sum).reduce(i64::wrapping_add);
            all
        })
    }
}

impl Aggregated {
    pub fn spans(&self, item: &Item) -> bool {
        (self.min..=self.max).contains(&item.timestamp)
    }

    /// Whether a value can be among the results. One without a group is skipped.
    pub fn counts(&self, value: &str) -> bool {
        self.groups.as_ref().is_none_or(|groups| groups.by.group_of(value).is_some())
    }

    /// The results with the values of their items alone: of each group, if there are groups.
    pub fn parts(&self) -> impl Iterator<Item = &Results> {
        let whole = self.groups.is_none().then_some(&self.results);
        whole.into_iter().chain(self.groups.iter().flat_map(|groups| groups.shown.iter().map(|group| &group.results)))
    }

    /// Whether the call may have ended before the oldest items of this window.
    pub fn is_cut(&self, items_read: u64, items_max: u64) -> bool {
        match self.reason {
            Some(Reason::ItemsMax) => true,
            // The reason that comes first.
            Some(Reason::Ttl) => items_read >= items_max,
            Some(Reason::MaxItems) | None => false,
        }
    }
}

impl fmt::Display for Aggregates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items read as of {}:", self.items_read, self.as_of)?;
        self.windows.iter().try_for_each(|window| write!(f, " {window:?}"))
    }
}
