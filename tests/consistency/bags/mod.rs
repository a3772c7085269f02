//! Bags in a history: their content, the calls on them, and the answers.

pub mod calls;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::history::Order;

/// The bag of one entity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BagName {
    pub entity_type: String,
    pub entity: String,
}

/// The content of a bag. Each write has a unique number, so a state shows which write made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Properties {
    /// The number of the last write.
    pub by: u64,
    /// The value by which both indexes find the bag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub city: Option<u64>,
    /// The order of [`BagIndex::Ranked`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// A counter, which clients read and increment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    City,
    Rank,
    Count,
}

impl Property {
    fn as_str(self) -> &'static str {
        match self {
            Self::City => "city",
            Self::Rank => "rank",
            Self::Count => "count",
        }
    }
}

impl Properties {
    /// The bag after a patch of one property. `None` removes the property.
    pub fn patched(mut self, by: u64, property: Property, value: Option<u64>) -> Self {
        self.by = by;
        match property {
            Property::City => self.city = value,
            Property::Rank => self.rank = value,
            Property::Count => self.count = value,
        }
        self
    }
}

/// A bag as an answer shows it, with its entity tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BagState {
    pub tag: String,
    pub properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundBag {
    pub entity: String,
    /// In nanoseconds since the Unix epoch.
    pub updated_at: u64,
    pub state: BagState,
}

/// The condition of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// `If-None-Match: *`
    Absent,
    /// `If-Match` with this entity tag.
    Tag(String),
}

/// The indexes of the entity type. Both find bags by their city.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BagIndex {
    /// In the order of updates.
    Updated,
    /// In the order of ranks. Bags without a rank are not in it.
    Ranked,
}

impl BagIndex {
    pub const ALL: [Self; 2] = [Self::Updated, Self::Ranked];

    fn as_str(self) -> &'static str {
        match self {
            Self::Updated => "by_update",
            Self::Ranked => "by_rank",
        }
    }

    /// Whether the index finds a bag by this city.
    pub fn finds(self, properties: Properties, city: u64) -> bool {
        properties.city == Some(city) && (self == Self::Updated || properties.rank.is_some())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BagRequest {
    Get {
        bag: BagName,
        /// `If-None-Match` with this entity tag.
        unless: Option<String>,
    },
    Put {
        bag: BagName,
        properties: Properties,
        condition: Option<Condition>,
    },
    /// A patch of one property.
    Patch {
        bag: BagName,
        by: u64,
        property: Property,
        value: Option<u64>,
        condition: Option<Condition>,
    },
    Delete {
        bag: BagName,
        condition: Option<Condition>,
    },
    /// A walk over all bags of a city, in pages of `limit`.
    Find {
        entity_type: String,
        index: BagIndex,
        city: u64,
        order: Order,
        limit: usize,
        /// Whether the client waited before until the servers had repaired all entries of indexes.
        #[serde(default)]
        is_settled: bool,
    },
}

impl BagRequest {
    /// The bag that the call is about. A query is about all bags of its type.
    pub fn bag(&self) -> Option<&BagName> {
        match self {
            Self::Get { bag, .. } | Self::Put { bag, .. } | Self::Patch { bag, .. } | Self::Delete { bag, .. } => {
                Some(bag)
            }
            Self::Find { .. } => None,
        }
    }

    pub fn reads(&self) -> bool {
        matches!(self, Self::Get { .. } | Self::Find { .. })
    }

    /// The number of the write, which the bag has afterwards.
    pub fn writer(&self) -> Option<u64> {
        match self {
            Self::Put { properties, .. } => Some(properties.by),
            Self::Patch { by, .. } => Some(*by),
            _ => None,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Get { .. } => "get of a bag",
            Self::Put { .. } => "put of a bag",
            Self::Patch { .. } => "patch of a bag",
            Self::Delete { .. } => "deletion of a bag",
            Self::Find { .. } => "query of bags",
        }
    }

    pub const KINDS: [&str; 5] =
        ["get of a bag", "put of a bag", "patch of a bag", "deletion of a bag", "query of bags"];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BagOutcome {
    /// The bag that a get read, or that a patch made.
    Shown(BagState),
    /// 304: the bag has the entity tag that the client sent.
    NotModified,
    /// The entity tag that a put gave the bag, and whether the entity had no bag before.
    Stored {
        tag: String,
        created: bool,
    },
    Deleted,
    /// All bags of a walk, in its order.
    Found(Vec<FoundBag>),
    /// 404: the entity has no bag.
    NotFound,
    /// 412
    ConditionFailed,
}

impl fmt::Display for BagName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.entity_type, self.entity)
    }
}

impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{by {}", self.by)?;
        let named = [("city", self.city), ("rank", self.rank), ("count", self.count)];
        named.iter().try_for_each(|(name, value)| value.map_or(Ok(()), |value| write!(f, ", {name} {value}")))?;
        write!(f, "}}")
    }
}

impl fmt::Display for BagState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tag, self.properties)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "no bag"),
            Self::Tag(tag) => write!(f, "{tag}"),
        }
    }
}

impl fmt::Display for BagRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let condition = match self {
            Self::Get { bag, unless } => {
                write!(f, "get bag {bag}")?;
                return unless.as_ref().map_or(Ok(()), |tag| write!(f, " unless {tag}"));
            }
            Self::Find { entity_type, index, city, order, limit, is_settled } => {
                let settled = if *is_settled { ", settled" } else { "" };
                let (index, order) = (index.as_str(), format!("{order:?}").to_lowercase());
                return write!(f, "find {entity_type} {index} city={city} {order} first, limit={limit}{settled}");
            }
            Self::Put { bag, properties, condition } => {
                write!(f, "put bag {bag} {properties}")?;
                condition
            }
            Self::Patch { bag, by, property, value, condition } => {
                write!(f, "patch bag {bag} {{by {by}, {} {value:?}}}", property.as_str())?;
                condition
            }
            Self::Delete { bag, condition } => {
                write!(f, "delete bag {bag}")?;
                condition
            }
        };
        condition.as_ref().map_or(Ok(()), |condition| write!(f, " if {condition}"))
    }
}

impl fmt::Display for BagOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shown(state) => write!(f, "{state}"),
            Self::NotModified => write!(f, "not modified"),
            Self::Stored { tag, created } => write!(f, "{} {tag}", if *created { "created" } else { "replaced" }),
            Self::Deleted => write!(f, "deleted"),
            Self::Found(bags) => {
                write!(f, "{} bags", bags.len())?;
                bags.iter().try_for_each(|found| write!(f, ", {} {}", found.entity, found.state))
            }
            Self::NotFound => write!(f, "no bag"),
            Self::ConditionFailed => write!(f, "condition failed"),
        }
    }
}
