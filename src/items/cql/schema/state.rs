//! Judges the schema in the cluster against the one that this program knows, in words for an operator.

use std::fmt;

use super::dialect::Dialect;
use super::found::{FoundSchema, IndexDefect};
use super::names::{BAGS, BUCKETS, SETS, SWAPS, TABLE};

/// How the schema in the cluster relates to the one that this program knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    Current,
    /// Nothing of ours is there.
    Missing,
    /// Some files were applied, and later ones were not.
    Older {
        applied: i32,
        wanted: i32,
    },
    /// A later release has migrated the schema, and records that this release may serve it.
    NewerServed {
        applied: i32,
        known: i32,
    },
    /// A later release of this program was here.
    Newer {
        applied: i32,
        known: i32,
    },
    /// The index of values is not as it must be: nothing can be removed by value.
    NoIndex(IndexDefect),
    /// This table of items was there once.
    TableDropped(&'static str),
    /// Something of our name is there that is not ours, or not whole.
    Foreign {
        detail: String,
    },
}

impl fmt::Display for SchemaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => f.write_str("the schema is up to date"),
            Self::Missing => f.write_str("the schema is missing: run `liststore migrate`"),
            Self::Older { applied, wanted } => write!(
                f,
                "the schema is older than this program (version {applied}, wanted {wanted}): run `liststore migrate`"
            ),
            Self::Newer { applied, known } => write!(
                f,
                "the schema is newer than this program supports (version {applied}, known {known}): run the release \
                 that created it, or a later one"
            ),
            Self::NewerServed { applied, known } => {
                write!(f, "the schema is newer than this program (version {applied}, known {known}), but compatible")
            }
            Self::NoIndex(defect) => defect.fmt(f),
            Self::TableDropped(table) => write!(
                f,
                "the table {table} has disappeared: restore it from a snapshot of the cluster, or set \
                 items.cql.keyspace to a new name to start with empty lists"
            ),
            Self::Foreign { detail } => {
                write!(f, "the keyspace has a foreign schema ({detail}): set items.cql.keyspace to another name")
            }
        }
    }
}

impl SchemaState {
    /// Whether list operations may be carried out on it.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Current | Self::NewerServed { .. } | Self::NoIndex(_))
    }

    /// Whether `liststore migrate` brings it to where it is served.
    pub fn awaits_migration(&self) -> bool {
        matches!(self, Self::Missing | Self::Older { .. })
    }

    pub fn is_current(&self) -> bool {
        *self == Self::Current
    }
}

/// The columns of the items' table as `system_schema.columns` describes them in both databases.
const COLUMNS: [&str; 4] = [
    "entity_id partition_key 1 text none",
    "feature_key partition_key 0 text none",
    "item_key clustering 0 text desc",
    "value regular -1 blob none",
];

/// The columns of the table of sets.
const SET_COLUMNS: [&str; 6] = [
    "entity_id partition_key 1 text none",
    "feature_key partition_key 0 text none",
    "items regular -1 map<int, frozen<tuple<text, bigint, bigint, blob>>> none",
    "kind clustering 0 text asc",
    "member regular -1 text none",
    "sort clustering 1 text desc",
];

/// The columns of the table of bags.
const BAG_COLUMNS: [&str; 8] = [
    "document regular -1 blob none",
    "entity_id partition_key 1 text none",
    "expires_at regular -1 bigint none",
    "feature_key partition_key 0 text none",
    "stamp regular -1 bigint none",
    "state regular -1 uuid none",
    "states regular -1 blob none",
    "written regular -1 bigint none",
];

/// The columns that later files add: file, table and column.
const ADDED_COLUMNS: &[(i32, &str, &str)] = &[];

/// The columns of the table of swaps.
const SWAP_COLUMNS: [&str; 7] = [
    "entity_id regular -1 text none",
    "feature_key regular -1 text none",
    "id clustering 0 uuid asc",
    "minute partition_key 0 bigint none",
    "removed regular -1 blob none",
    "shard partition_key 1 int none",
    "written regular -1 bigint none",
];

/// The columns of the table of directories of buckets.
const BUCKET_COLUMNS: [&str; 4] = [
    "bucket clustering 0 text desc",
    "entity_id partition_key 1 text none",
    "feature_key partition_key 0 text none",
    "until clustering 1 bigint desc",
];

impl FoundSchema {
    /// Compares the keyspace with the files of a dialect.
    pub fn state(&self, dialect: Dialect) -> SchemaState {
        let known: Vec<i32> = dialect.migrations().iter().map(|migration| migration.version).collect();
        let wanted = known.last().copied().unwrap_or(0);
        let foreign = |detail: String| SchemaState::Foreign { detail };
        let newer = self.applied.last().copied().filter(|applied| *applied > wanted);
        let tables = [
            (TABLE, &self.columns, &COLUMNS[..]),
            (SETS, &self.set_columns, &SET_COLUMNS),
            (BAGS, &self.bag_columns, &BAG_COLUMNS),
            (SWAPS, &self.swap_columns, &SWAP_COLUMNS),
            (BUCKETS, &self.bucket_columns, &BUCKET_COLUMNS),
        ];
        for (table, found, wanted) in tables {
            let added = || ADDED_COLUMNS.iter().filter(|(_, to, _)| *to == table);
            let applied = added().filter(|(file, ..)| self.applied.contains(file)).map(|(.., column)| *column);
            let mut required = wanted.iter().copied().chain(applied);
            // A later release may have added columns.
            let ours = found.is_empty() || required.all(|column| found.iter().any(|found| found == column));
            let is_known = |found: &str| wanted.contains(&found) || added().any(|(.., column)| *column == found);
            let mut others = found.iter().filter(|found| !is_known(found));
            let only_added = others.all(|found| newer.is_some() && found.contains(" regular "));
            if !ours || !only_added {
                return foreign(format!("the table {table} has unexpected columns: {}", found.join(", ")));
            }
        }
        match newer {
            Some(applied) if !self.may_serve(wanted) => return SchemaState::Newer { applied, known: wanted },
            _ if !self.columns.is_empty() || !self.applied.is_empty() => {}
            _ => return SchemaState::Missing,
        }
        if known.iter().any(|version| !self.applied.contains(version)) {
            let gap = known.iter().find(|version| !self.applied.contains(version)).copied().unwrap_or(wanted);
            return SchemaState::Older { applied: gap - 1, wanted };
        }
        if let Some((dropped, ..)) = tables.iter().find(|(_, found, _)| found.is_empty()) {
            return SchemaState::TableDropped(dropped);
        }
        if let Some(defect) = self.index_defect(dialect) {
            return SchemaState::NoIndex(defect);
        }
        newer.map_or(SchemaState::Current, |applied| SchemaState::NewerServed { applied, known: wanted })
    }

    /// Whether each file that a program of `wanted` files does not know lets it serve.
    fn may_serve(&self, wanted: i32) -> bool {
        let mut unknown = self.applied.iter().filter(|version| **version > wanted);
        unknown.all(|version| self.served_from.get(version).is_some_and(|from| *from <= wanted))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::items::cql::schema::found::FoundIndex;

    fn index(target: &str, kind: &str) -> FoundIndex {
        let options = HashMap::from([("target".to_owned(), target.to_owned())]);
        FoundIndex { kind: kind.to_owned(), options, building_on: 0 }
    }

    fn whole() -> FoundSchema {
        FoundSchema {
            keyspace: true,
            columns: COLUMNS.map(str::to_owned).to_vec(),
            set_columns: SET_COLUMNS.map(str::to_owned).to_vec(),
            bag_columns: BAG_COLUMNS.map(str::to_owned).to_vec(),
            swap_columns: SWAP_COLUMNS.map(str::to_owned).to_vec(),
            bucket_columns: BUCKET_COLUMNS.map(str::to_owned).to_vec(),
            index: Some(index("value", "COMPOSITES")),
            record: true,
            applied: Dialect::Cassandra.migrations().iter().map(|migration| migration.version).collect(),
            served_from: BTreeMap::new(),
            default_ttl_secs: Some(60),
            sets_default_ttl_secs: Some(60),
            bags_default_ttl_secs: Some(60),
            buckets_default_ttl_secs: Some(60),
        }
    }

    #[test]
    fn states_of_a_schema_are_distinguished() {
        let state = |found: FoundSchema| found.state(Dialect::Cassandra);
        assert_eq!(state(whole()), SchemaState::Current);
        assert_eq!(state(FoundSchema::default()), SchemaState::Missing);
        assert_eq!(state(FoundSchema { keyspace: true, ..FoundSchema::default() }), SchemaState::Missing);
        let unrecorded = FoundSchema { applied: vec![], record: false, ..whole() };
        assert_eq!(state(unrecorded), SchemaState::Older { applied: 0, wanted: 1 });
        let newer = (1..=3).collect();
        assert_eq!(state(FoundSchema { applied: newer, ..whole() }), SchemaState::Newer { applied: 3, known: 1 });
        assert_eq!(state(FoundSchema { columns: vec![], ..whole() }), SchemaState::TableDropped(TABLE));
        assert_eq!(state(FoundSchema { set_columns: vec![], ..whole() }), SchemaState::TableDropped(SETS));
        assert_eq!(state(FoundSchema { bag_columns: vec![], ..whole() }), SchemaState::TableDropped(BAGS));
        assert_eq!(state(FoundSchema { bucket_columns: vec![], ..whole() }), SchemaState::TableDropped(BUCKETS));
        assert_eq!(state(FoundSchema { swap_columns: vec![], ..whole() }), SchemaState::TableDropped(SWAPS));
        // A migration that broke off.
        let begun = FoundSchema { applied: vec![], set_columns: vec![], ..whole() };
        assert_eq!(state(begun), SchemaState::Older { applied: 0, wanted: 1 });
        let lost = BAG_COLUMNS.map(str::to_owned)[1..].to_vec();
        assert!(matches!(state(FoundSchema { bag_columns: lost, ..whole() }), SchemaState::Foreign { .. }));
    }

    #[test]
    fn unknown_tables_are_foreign() {
        let is_foreign = |found: FoundSchema| matches!(found.state(Dialect::Scylla), SchemaState::Foreign { .. });
        let mut other = whole();
        other.columns[3] = "value regular -1 text none".to_owned();
        assert!(is_foreign(other));
        let mut other = whole();
        other.set_columns[3] = "kind clustering 0 int asc".to_owned();
        assert!(is_foreign(other));
        assert!(is_foreign(FoundSchema { columns: COLUMNS[..3].iter().map(ToString::to_string).collect(), ..whole() }));
    }

    /// An older release finds the schema of a newer one.
    #[test]
    fn a_newer_schema_is_served_if_each_of_its_files_permits_it() {
        let mut found = FoundSchema { applied: (1..=3).collect(), ..whole() };
        found.columns.push("weight regular -1 int none".to_owned());
        let with = |served_from: &[(i32, i32)]| {
            let served_from = served_from.iter().copied().collect();
            FoundSchema { served_from, ..found.clone() }.state(Dialect::Cassandra)
        };
        assert_eq!(with(&[(2, 1), (3, 1)]), SchemaState::NewerServed { applied: 3, known: 1 });
        assert!(with(&[(2, 1), (3, 1)]).is_served());
        for reported in [&[(3, 1)][..], &[(2, 1), (3, 2)], &[]] {
            assert_eq!(with(reported), SchemaState::Newer { applied: 3, known: 1 }, "{reported:?}");
        }
        let mut other = whole();
        other.columns.push("weight regular -1 int none".to_owned());
        assert!(matches!(other.state(Dialect::Cassandra), SchemaState::Foreign { .. }), "no release adds that column");
    }

    #[test]
    fn an_index_is_recognized_by_its_column() {
        let state = |dialect, found| FoundSchema { index: Some(found), ..whole() }.state(dialect);
        let local = r#"{"pk":["feature_key","entity_id"],"ck":["value"]}"#;
        assert_eq!(state(Dialect::Scylla, index(local, "COMPOSITES")), SchemaState::Current);
        assert_eq!(state(Dialect::Cassandra, index("value", "COMPOSITES")), SchemaState::Current);
        let mut of_a_class = index("value", "CUSTOM");
        of_a_class.options.insert("class_name".to_owned(), "sai".to_owned());
        for (dialect, wrong) in [
            (Dialect::Scylla, index("value", "COMPOSITES")),
            (Dialect::Scylla, index(r#"{"pk":["feature_key"],"ck":["value"]}"#, "COMPOSITES")),
            (Dialect::Cassandra, index("item_key", "COMPOSITES")),
            (Dialect::Cassandra, of_a_class),
        ] {
            let state = state(dialect, wrong);
            assert!(matches!(state, SchemaState::NoIndex(IndexDefect::Wrong(_))), "{state}");
            assert!(state.is_served() && state.to_string().contains("liststore migrate"), "{state}");
        }
        let missing = FoundSchema { index: None, ..whole() }.state(Dialect::Cassandra);
        assert_eq!(missing, SchemaState::NoIndex(IndexDefect::Missing));
    }

    #[test]
    fn no_state_recommends_a_removal() {
        let states = [
            SchemaState::Missing,
            SchemaState::Older { applied: 1, wanted: 2 },
            SchemaState::Newer { applied: 3, known: 2 },
            SchemaState::NewerServed { applied: 3, known: 2 },
            SchemaState::NoIndex(IndexDefect::Missing),
            SchemaState::NoIndex(IndexDefect::Wrong("on x".into())),
            SchemaState::TableDropped(TABLE),
            SchemaState::Foreign { detail: "x".into() },
        ];
        for state in states {
            let text = state.to_string().to_lowercase();
            assert!(!["drop ", "delete", "truncate", "or remove"].iter().any(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    fn every_state_but_one_has_a_remedy() {
        for state in [
            SchemaState::Missing,
            SchemaState::Older { applied: 1, wanted: 2 },
            SchemaState::Newer { applied: 3, known: 2 },
            SchemaState::Foreign { detail: "x".into() },
        ] {
            assert!(!state.is_current());
            assert!(state.to_string().contains(": "), "{state}");
        }
    }
}
