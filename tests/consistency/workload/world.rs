//! The lists that there are, each of a kind, and the features that they are of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use clap::ValueEnum;
use fastrand::Rng;
use liststore::domain::{EntityType, FeatureId, FeatureKey, FeatureName, Generation, Token, VersionLabel};

use super::bags::{Bag, bags_of};
use crate::calls::ENTITY_TYPE;
use crate::history::{Item, ListName, Request, Special, ValueType, VersionName};

pub const LONG_TTL_SECS: u64 = 30 * 86_400;
pub(super) const TTLS_SECS: [u64; 3] = [1_800, 3_600, 7_200];
const HOT_LISTS: usize = 3;
const COLD_LISTS: usize = 60;
const BULKY_LISTS: usize = 3;
/// The partition of the embedded store's files for all lists with large values, many items, or expiring items. It has
/// most of the bytes, and is compacted repeatedly.
const FULL_PARTITION: u64 = 11;
/// Lists of each kind that is not like others.
const SPECIAL_LISTS: usize = 2;
/// Items that a bounded list shows.
const BOUND: u64 = 10;

/// Which operations the clients of a run draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    All,
    /// Lists and definitions
    Lists,
    /// Bags of properties, and queries by their indexes
    Bags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Many clients at once, many ties.
    Hot,
    /// Few operations each, at times large ones.
    Cold,
    /// Of versions that are deleted and created again.
    Churned,
    /// Of a version whose TTL changes, with items about to expire.
    Expiring,
    /// More items than a head has, many at each timestamp.
    Long,
    /// Values so large that a few adds fill the queue of a small store, and its memory.
    Bulky,
    /// Sets of few members, which move, leave and return.
    Set,
    /// Lists that show a few items only.
    Bounded,
}

impl Kind {
    /// The share of calls on such a list that remove all of it.
    pub(super) fn percent_emptied(self) -> u8 {
        match self {
            Self::Long => 1,
            Self::Hot => 2,
            // So that runs cover more than one of its pages.
            Self::Bulky => 6,
            _ => 3,
        }
    }
}

/// One list, and its recent requests: items to add again or to remove.
pub struct List {
    pub(super) name: ListName,
    pub(super) kind: Kind,
    pub(super) value_type: ValueType,
    pub(super) sent: Mutex<VecDeque<Vec<Item>>>,
}

pub struct World {
    pub(super) workload: Workload,
    pub(super) lists: Vec<List>,
    pub(super) features: Vec<(String, ValueType, u64)>,
    pub(super) special: BTreeMap<String, Special>,
    pub(super) churned: String,
    pub(super) expiring: VersionName,
    /// The wall clock when the world began, in nanoseconds.
    pub(super) epoch: u64,
    pub(super) values: AtomicU64,
    /// The entity type of the bags.
    pub(super) bag_type: String,
    /// None if clients draw no operations on bags.
    pub(super) bags: Vec<Bag>,
    /// How many pieces of work clients have drawn.
    pub(super) turns: AtomicU64,
}

impl World {
    /// `suffix` separates the features of different worlds on one store.
    pub fn new(suffix: &str, epoch: u64, with_sets: bool, workload: Workload) -> Self {
        let name = |base: &str| format!("{base}{suffix}");
        let mut lists = Vec::new();
        let mut add = |feature: &str, label: &str, entity: String, kind, value_type| {
            let version = VersionName { feature: name(feature), label: label.to_owned() };
            lists.push(List { name: ListName { version, entity }, kind, value_type, sent: Mutex::default() });
        };
        for number in 0..HOT_LISTS {
            // An entity ID may hold any character.
            add("hot", "", format!("hot/{number} ✓"), Kind::Hot, ValueType::String);
        }
        for (feature, value_type) in
            [("cold", ValueType::Json), ("numbers", ValueType::Int64), ("blobs", ValueType::Bytes)]
        {
            for number in 0..COLD_LISTS / 3 {
                add(feature, "", format!("c-{number}"), Kind::Cold, value_type);
            }
        }
        for label in ["", "a", "b/2"] {
            add("churned", label, "u".to_owned(), Kind::Churned, ValueType::String);
        }
        for (feature, kind, count) in
            [("brief", Kind::Expiring, 2), ("long", Kind::Long, 1), ("bulky", Kind::Bulky, BULKY_LISTS)]
        {
            for entity in in_full_partition(&name(feature)).take(count) {
                add(feature, "", entity, kind, ValueType::String);
            }
        }
        let mut special = BTreeMap::from([(name("latest"), Special::Bounded(BOUND))]);
        for number in 0..SPECIAL_LISTS {
            add("latest", "", format!("l-{number}"), Kind::Bounded, ValueType::String);
        }
        if with_sets {
            special.insert(name("members"), Special::Sets);
            for number in 0..SPECIAL_LISTS {
                add("members", "", format!("s-{number}"), Kind::Set, ValueType::String);
            }
        }
        let mut features = vec![
            (name("hot"), ValueType::String, LONG_TTL_SECS),
            (name("cold"), ValueType::Json, LONG_TTL_SECS),
            (name("numbers"), ValueType::Int64, LONG_TTL_SECS),
            (name("blobs"), ValueType::Bytes, LONG_TTL_SECS),
            (name("churned"), ValueType::String, LONG_TTL_SECS),
            (name("brief"), ValueType::String, TTLS_SECS[1]),
            (name("long"), ValueType::String, LONG_TTL_SECS),
            (name("bulky"), ValueType::String, LONG_TTL_SECS),
        ];
        features.extend(special.keys().map(|feature| (feature.clone(), ValueType::String, LONG_TTL_SECS)));
        let expiring = VersionName { feature: name("brief"), label: String::new() };
        if workload == Workload::Bags {
            lists.clear();
            features.clear();
            special.clear();
        }
        let bag_type = name("person");
        Self {
            workload,
            lists,
            features,
            special,
            churned: name("churned"),
            expiring,
            epoch,
            values: AtomicU64::new(1),
            bags: if workload == Workload::Lists { Vec::new() } else { bags_of(&bag_type) },
            bag_type,
            turns: AtomicU64::new(0),
        }
    }

    /// The features that are not like others.
    pub fn special(&self) -> BTreeMap<String, Special> {
        self.special.clone()
    }

    /// The entity type that is created before the first operation, if the run has bags.
    pub fn bag_type(&self) -> Option<&str> {
        (!self.bags.is_empty()).then_some(&*self.bag_type)
    }

    /// The definitions that exist before the first operation.
    pub fn features(&self) -> &[(String, ValueType, u64)] {
        &self.features
    }

    pub fn lists(&self) -> impl Iterator<Item = &ListName> {
        self.lists.iter().map(|list| &list.name)
    }

    /// Whether every one of several servers must give the promised answer: a change of a definition reaches the others
    /// only after a while, so calls about it stay on one.
    pub fn is_for_any_server(&self, request: &Request) -> bool {
        let constant = |list: &ListName| list.version.feature != self.churned && list.version != self.expiring;
        matches!(request, Request::Bag(_)) || request.list().is_some_and(constant)
    }

    pub(super) fn of_kind(&self, kind: Kind) -> Vec<&List> {
        self.lists.iter().filter(|list| list.kind == kind).collect()
    }

    /// A list for the next operation.
    pub(super) fn draw(&self, rng: &mut Rng) -> &List {
        let kind = match rng.u8(0..94) {
            0..48 => Kind::Hot,
            48..69 => Kind::Cold,
            69..75 => Kind::Long,
            75..80 => Kind::Bulky,
            80..87 => Kind::Churned,
            _ => Kind::Expiring,
        };
        let of_kind = self.of_kind(kind);
        of_kind[rng.usize(0..of_kind.len())]
    }
}

/// Entity IDs of a feature whose lists are in the full partition.
fn in_full_partition(feature: &str) -> impl Iterator<Item = String> {
    let id = FeatureId {
        entity_type: EntityType::new(ENTITY_TYPE).expect("a name"),
        name: FeatureName::new(feature).expect("a name"),
    };
    let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
    let hash = move |entity: &str| Token::of_bytes(format!("{}\0{entity}", key.as_str()).as_bytes()).as_i64();
    (0..).map(|number| format!("f-{number}")).filter(move |entity| hash(entity).cast_unsigned() >> 60 == FULL_PARTITION)
}
