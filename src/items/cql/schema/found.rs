//! The content of the keyspace, read from the cluster's own tables and our record. It must never change
//! anything; `state.rs` judges it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use scylla::client::session::Session;
use uuid::Uuid;

use super::dialect::Dialect;
use super::names::{BAGS, BUCKETS, COMPATIBILITY, INDEX, RECORD, SETS, SWAPS, TABLE};
use crate::items::StoreError;
use crate::items::cql::options::Consistency;
use crate::items::cql::query::{select, select_from_named};

/// The state of the keyspace, as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundSchema {
    pub keyspace: bool,
    /// `name kind position type order` of each column of the items' table, sorted; empty without.
    pub columns: Vec<String>,
    /// The same of the tables of sets, of bags, of swaps of bags, and of the directories of buckets.
    pub set_columns: Vec<String>,
    pub bag_columns: Vec<String>,
    pub swap_columns: Vec<String>,
    pub bucket_columns: Vec<String>,
    pub index: Option<FoundIndex>,
    pub record: bool,
    /// The numbers of the applied files, sorted.
    pub applied: Vec<i32>,
    /// For each applied file that records it, the version that a program must support to serve the schema.
    pub served_from: BTreeMap<i32, i32>,
    pub default_ttl_secs: Option<i32>,
    /// The columns of the tables of sets, of bags, and of the directories of buckets.
    pub sets_default_ttl_secs: Option<i32>,
    pub bags_default_ttl_secs: Option<i32>,
    pub buckets_default_ttl_secs: Option<i32>,
}

/// An index as `system_schema.indexes` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIndex {
    pub kind: String,
    pub options: HashMap<String, String>,
    /// Nodes of a ScyllaDB that have not entered all of their rows in it yet.
    pub building_on: usize,
}

/// The defect of the index of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexDefect {
    Missing,
    /// It is on something else: on this.
    Wrong(String),
    /// So many nodes have not entered all of their rows yet.
    Building(usize),
}

impl IndexDefect {
    /// Whether `liststore migrate` makes the index again.
    pub fn is_repaired_by_migrate(&self) -> bool {
        matches!(self, Self::Missing | Self::Wrong(_))
    }
}

impl fmt::Display for IndexDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "the index {INDEX} is missing")?,
            Self::Wrong(on) => write!(f, "the index {INDEX} differs from the expected one ({on})")?,
            Self::Building(nodes) => {
                return write!(
                    f,
                    "the index {INDEX} is being built on {nodes} node(s): items can be read and added, but not removed \
                     by value until it is complete; `nodetool viewbuildstatus` shows the progress"
                );
            }
        }
        f.write_str(": items can be read and added, but not removed by value; run `liststore migrate` to rebuild it")
    }
}

impl FoundIndex {
    /// The defect of the index of values, if it has one.
    ///
    /// Cassandra writes the column's name as the target, and the class of an index that is not its own
    /// "2i"; ScyllaDB writes the target of a local index as JSON of its partition key and the column.
    pub fn defect(&self, dialect: Dialect) -> Option<IndexDefect> {
        let target = self.options.get("target").map(String::as_str).unwrap_or_default();
        let right = match dialect {
            Dialect::Cassandra => {
                target.trim_matches('"') == "value"
                    && self.kind == "COMPOSITES"
                    && !self.options.contains_key("class_name")
            }
            Dialect::Scylla => LocalTarget::read(target)
                .is_some_and(|target| target.pk == ["feature_key", "entity_id"] && target.ck == ["value"]),
        };
        let class = self.options.get("class_name").map(|class| format!(", of the class {class}")).unwrap_or_default();
        match self.building_on {
            _ if !right => Some(IndexDefect::Wrong(format!("on {target}{class}"))),
            0 => None,
            nodes => Some(IndexDefect::Building(nodes)),
        }
    }
}

#[derive(serde::Deserialize)]
struct LocalTarget {
    pk: Vec<String>,
    ck: Vec<String>,
}

impl LocalTarget {
    /// Of a local index of ScyllaDB. Cassandra has none.
    fn read(target: &str) -> Option<Self> {
        serde_json::from_str(target).ok()
    }
}

/// Looks at the index of values alone.
pub async fn index_defect(
    session: &Session,
    keyspace: &str,
    dialect: Dialect,
) -> Result<Option<IndexDefect>, StoreError> {
    Ok(match read_index(session, keyspace).await? {
        Some(found) => found.defect(dialect),
        None => Some(IndexDefect::Missing),
    })
}

async fn read_index(session: &Session, keyspace: &str) -> Result<Option<FoundIndex>, StoreError> {
    let indexes: Vec<(String, String, HashMap<String, String>)> = select(
        session,
        "SELECT index_name, kind, options FROM system_schema.indexes WHERE keyspace_name = ? AND table_name = ?",
        (keyspace, TABLE),
        Consistency::One,
    )
    .await?;
    let Some((_, kind, options)) = indexes.into_iter().find(|(name, ..)| name == INDEX) else { return Ok(None) };
    let is_local = options.get("target").and_then(|target| LocalTarget::read(target)).is_some();
    let building_on = if is_local { building_on(session, keyspace).await } else { 0 };
    Ok(Some(FoundIndex { kind, options, building_on }))
}

/// On how many nodes the view behind ScyllaDB's index is not built. The database answers queries by it all the same,
/// and leaves out rows that are not entered yet (scylladb/scylladb issue 7963).
///
/// A node that joins is in the table with the state of the others; so one that is not has not begun
/// (scylladb/scylladb issue 4001 and pull request 23760). Newer releases keep the table in Raft's group 0, older ones
/// in a keyspace for such tables.
async fn building_on(session: &Session, keyspace: &str) -> usize {
    let view = format!("{INDEX}_index");
    let cluster = session.get_cluster_state();
    let nodes = || cluster.get_nodes_info().iter().map(|node| node.host_id);
    let mut is_noted = false;
    for table in ["system.view_build_status_v2", "system_distributed.view_build_status"] {
        let text = format!("SELECT host_id, status FROM {table} WHERE keyspace_name = ? AND view_name = ?");
        let read = select::<(Uuid, Option<String>)>(session, &text, (keyspace, &view), Consistency::One).await;
        match read {
            // A table that is there and is not in use is empty.
            Ok(statuses) if !statuses.is_empty() => return unbuilt(nodes(), &statuses),
            Ok(_) => is_noted = true,
            Err(error) => tracing::debug!(%error, table, "cannot read the state of the index"),
        }
    }
    if is_noted { nodes().count() } else { 0 }
}

/// How many of these nodes have not built the view.
fn unbuilt(nodes: impl Iterator<Item = Uuid>, statuses: &[(Uuid, Option<String>)]) -> usize {
    let is_built =
        |node: &Uuid| statuses.iter().any(|(host, status)| host == node && status.as_deref() == Some("SUCCESS"));
    nodes.filter(|node| !is_built(node)).count()
}

/// `name kind position type order` of each column of a table, sorted.
async fn columns_of(session: &Session, keyspace: &str, table: &str) -> Result<Vec<String>, StoreError> {
    let columns: Vec<(String, String, i32, String, String)> = select(
        session,
        "SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns WHERE keyspace_name = ? \
         AND table_name = ?",
        (keyspace, table),
        Consistency::One,
    )
    .await?;
    let mut columns: Vec<String> = columns
        .into_iter()
        .map(|(name, kind, position, type_name, order)| format!("{name} {kind} {position} {type_name} {order}"))
        .collect();
    columns.sort_unstable();
    Ok(columns)
}

impl FoundSchema {
    /// Reads the schema, and the record of it at `consistency`.
    pub async fn read(session: &Session, keyspace: &str, consistency: Consistency) -> Result<Self, StoreError> {
        let keyspaces: Vec<(String,)> = select(
            session,
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?",
            (keyspace,),
            Consistency::One,
        )
        .await?;
        if keyspaces.is_empty() {
            return Ok(Self::default());
        }
        let tables: Vec<(String, Option<i32>)> = select(
            session,
            "SELECT table_name, default_time_to_live FROM system_schema.tables WHERE keyspace_name = ?",
            (keyspace,),
            Consistency::One,
        )
        .await?;
        let record = tables.iter().any(|(name, _)| name == RECORD);
        let applied = if record { Self::applied(session, keyspace, consistency).await? } else { Vec::new() };
        let numbered = tables.iter().any(|(name, _)| name == COMPATIBILITY);
        let served_from = if numbered {
            let text = format!("SELECT version, served_from FROM \"{keyspace}\".{COMPATIBILITY}");
            let rows: Vec<(i32, Option<i32>)> = select_from_named(session, &text, consistency).await?;
            rows.into_iter().filter_map(|(version, from)| Some((version, from?))).collect()
        } else {
            BTreeMap::new()
        };
        // Read after the record, so that everything that the record names is found, even during a migration.
        let columns = columns_of(session, keyspace, TABLE).await?;
        let set_columns = columns_of(session, keyspace, SETS).await?;
        let bag_columns = columns_of(session, keyspace, BAGS).await?;
        let swap_columns = columns_of(session, keyspace, SWAPS).await?;
        let bucket_columns = columns_of(session, keyspace, BUCKETS).await?;
        let index = read_index(session, keyspace).await?;
        let default_ttl = |table: &str| tables.iter().find(|(name, _)| name == table).and_then(|(_, ttl)| *ttl);
        Ok(Self {
            keyspace: true,
            columns,
            set_columns,
            bag_columns,
            swap_columns,
            bucket_columns,
            index,
            record,
            applied,
            served_from,
            default_ttl_secs: default_ttl(TABLE),
            sets_default_ttl_secs: default_ttl(SETS),
            bags_default_ttl_secs: default_ttl(BAGS),
            buckets_default_ttl_secs: default_ttl(BUCKETS),
        })
    }

    /// The defect of the index of values, if it has one.
    pub fn index_defect(&self, dialect: Dialect) -> Option<IndexDefect> {
        match &self.index {
            Some(index) => index.defect(dialect),
            None => Some(IndexDefect::Missing),
        }
    }

    async fn applied(session: &Session, keyspace: &str, consistency: Consistency) -> Result<Vec<i32>, StoreError> {
        let text = format!("SELECT version FROM \"{keyspace}\".{RECORD}");
        let rows: Vec<(i32,)> = select_from_named(session, &text, consistency).await?;
        let mut applied: Vec<i32> = rows.into_iter().map(|(version,)| version).collect();
        applied.sort_unstable();
        Ok(applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_complete_once_every_node_has_built_it() {
        let nodes = [1, 2, 3].map(Uuid::from_u128);
        let unbuilt = |statuses: &[(u128, &str)]| {
            let statuses: Vec<_> =
                statuses.iter().map(|(host, status)| (Uuid::from_u128(*host), Some((*status).to_owned()))).collect();
            unbuilt(nodes.into_iter(), &statuses)
        };
        assert_eq!(unbuilt(&[(1, "SUCCESS"), (2, "STARTED"), (3, "SUCCESS")]), 1);
        assert_eq!(unbuilt(&[(1, "SUCCESS"), (2, "SUCCESS")]), 1, "the third has not begun");
        assert_eq!(unbuilt(&[(1, "SUCCESS"), (2, "SUCCESS"), (3, "SUCCESS"), (9, "STARTED")]), 0, "that one has left");
    }

    #[test]
    fn an_index_under_construction_is_awaited_and_not_created_again() {
        let target = r#"{"pk":["feature_key","entity_id"],"ck":["value"]}"#;
        let options = HashMap::from([("target".to_owned(), target.to_owned())]);
        let found = FoundIndex { kind: "COMPOSITES".to_owned(), options, building_on: 2 };
        let defect = found.defect(Dialect::Scylla).unwrap();
        assert_eq!(defect, IndexDefect::Building(2));
        assert!(!defect.is_repaired_by_migrate() && !defect.to_string().contains("migrate"), "{defect}");
        assert_eq!(FoundIndex { building_on: 0, ..found }.defect(Dialect::Scylla), None);
    }
}
