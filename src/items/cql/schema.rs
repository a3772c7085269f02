//! What stands in the cluster: reading the schema, and judging it against the one that this program
//! knows. It must never change anything.

use std::fmt;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::cluster::ClusterState;
use scylla::cluster::metadata::Strategy;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::unprepared::Statement;

use super::connect::unavailable;
use super::dialect::Dialect;
use super::error::{Failure, damaged_row};
use super::options::{Consistency, CqlOptions};
use crate::items::StoreError;

/// How long a look at one of the schema's tables may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

const TABLE: &str = "list_items";
const RECORD: &str = "schema_migrations";
const INDEX: &str = "list_items_by_value";

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
    /// A later release of this program was here.
    Newer {
        applied: i32,
        known: i32,
    },
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
                "the schema is newer than this program (version {applied}, known {known}): run the release that made it"
            ),
            Self::Foreign { detail } => write!(
                f,
                "the keyspace holds something else than this program's schema ({detail}): set items.cql.keyspace to \
                 another name, or remove what is there"
            ),
        }
    }
}

impl SchemaState {
    pub fn is_current(&self) -> bool {
        *self == Self::Current
    }
}

/// What was found in the keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub keyspace: bool,
    /// `name kind position type order` of each column of the items' table, sorted; empty without.
    pub columns: Vec<String>,
    pub index: bool,
    pub record: bool,
    /// The numbers of the applied files, sorted.
    pub applied: Vec<i32>,
    pub default_ttl_secs: Option<i32>,
}

/// The columns of the items' table as `system_schema.columns` describes them in both databases.
const COLUMNS: [&str; 4] = [
    "entity_id partition_key 1 text none",
    "feature_key partition_key 0 text none",
    "item_key clustering 0 text desc",
    "value regular -1 blob none",
];

impl Found {
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
        let columns: Vec<(String, String, i32, String, String)> = select(
            session,
            "SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns WHERE keyspace_name = \
             ? AND table_name = ?",
            (keyspace, TABLE),
            Consistency::One,
        )
        .await?;
        let indexes: Vec<(String,)> = select(
            session,
            "SELECT index_name FROM system_schema.indexes WHERE keyspace_name = ? AND table_name = ?",
            (keyspace, TABLE),
            Consistency::One,
        )
        .await?;
        let record = tables.iter().any(|(name, _)| name == RECORD);
        let applied = if record { Self::applied(session, keyspace, consistency).await? } else { Vec::new() };
        let mut columns: Vec<String> = columns
            .into_iter()
            .map(|(name, kind, position, type_name, order)| format!("{name} {kind} {position} {type_name} {order}"))
            .collect();
        columns.sort_unstable();
        Ok(Self {
            keyspace: true,
            columns,
            index: indexes.iter().any(|(name,)| name == INDEX),
            record,
            applied,
            default_ttl_secs: tables.into_iter().find(|(name, _)| name == TABLE).and_then(|(_, ttl)| ttl),
        })
    }

    async fn applied(session: &Session, keyspace: &str, consistency: Consistency) -> Result<Vec<i32>, StoreError> {
        let text = format!("SELECT version FROM \"{keyspace}\".{RECORD}");
        let rows: Vec<(i32,)> = select(session, &text, (), consistency).await?;
        let mut applied: Vec<i32> = rows.into_iter().map(|(version,)| version).collect();
        applied.sort_unstable();
        Ok(applied)
    }

    /// Judges what was found against the files of a dialect.
    pub fn state(&self, dialect: Dialect) -> SchemaState {
        let known: Vec<i32> = dialect.migrations().iter().map(|migration| migration.version).collect();
        let wanted = known.last().copied().unwrap_or(0);
        let foreign = |detail: String| SchemaState::Foreign { detail };
        if !self.columns.is_empty() && self.columns != COLUMNS {
            return foreign(format!("the table {TABLE} has other columns: {}", self.columns.join(", ")));
        }
        match self.applied.last() {
            Some(&applied) if applied > wanted => return SchemaState::Newer { applied, known: wanted },
            _ if !self.columns.is_empty() || !self.applied.is_empty() => {}
            _ => return SchemaState::Missing,
        }
        if self.applied != known {
            let gap = known.iter().find(|version| !self.applied.contains(version)).copied().unwrap_or(wanted);
            return SchemaState::Older { applied: gap - 1, wanted };
        }
        if self.columns.is_empty() {
            return foreign(format!("the table {TABLE} was dropped"));
        }
        if !self.index {
            return foreign(format!("the index {INDEX} was dropped"));
        }
        SchemaState::Current
    }
}

/// Replicas that the keyspace has in a datacenter; `None` where its strategy does not say.
pub fn replicas_in(cluster: &ClusterState, keyspace: &str, datacenter: &str) -> Option<u32> {
    let replicas = match &cluster.get_keyspace(keyspace)?.strategy {
        Strategy::NetworkTopologyStrategy { datacenter_repfactors } => {
            datacenter_repfactors.get(datacenter).copied().unwrap_or(0)
        }
        Strategy::SimpleStrategy { replication_factor } => *replication_factor,
        _ => return None,
    };
    u32::try_from(replicas).ok()
}

/// Refuses replicas that can never be enough for the consistency levels, on the nodes that there
/// are, up or down.
pub fn check_replicas(
    options: &CqlOptions,
    cluster: &ClusterState,
    datacenter: &str,
    replicas: u32,
) -> Result<(), StoreError> {
    let nodes = cluster.get_nodes_info().iter().filter(|node| node.datacenter.as_deref() == Some(datacenter)).count();
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    if replicas == 0 {
        return Err(unavailable(format!(
            "the keyspace {} has no replicas in the datacenter {datacenter}: add some with ALTER KEYSPACE, or set \
             items.cql.datacenter to one that has",
            options.keyspace
        )));
    }
    for (setting, consistency) in
        [("read_consistency", options.read_consistency), ("write_consistency", options.write_consistency)]
    {
        let needed = consistency.needs_of(replicas);
        if needed > replicas.min(nodes) {
            return Err(unavailable(format!(
                "items.cql.{setting} {} needs {needed} of {replicas} replicas, and the datacenter {datacenter} has \
                 {nodes} node(s): add nodes, or create the keyspace with items.cql.replication_factor = {}",
                consistency.as_str(),
                nodes.max(1)
            )));
        }
    }
    Ok(())
}

/// All rows of a small query.
pub async fn select<R>(
    session: &Session,
    text: &str,
    values: impl SerializeRow,
    consistency: Consistency,
) -> Result<Vec<R>, StoreError>
where
    R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
{
    let result = session.query_unpaged(query(text, consistency), values).await.map_err(|error| failed(&error))?;
    let rows = result.into_rows_result().map_err(|_| damaged_row())?;
    rows.rows::<R>().map_err(|_| damaged_row())?.collect::<Result<_, _>>().map_err(|_| damaged_row())
}

fn failed(error: &ExecutionError) -> StoreError {
    Failure::of(error, false).error
}

/// A query outside the list operations. It is bounded by itself, since it has no deadline.
pub fn query(text: &str, consistency: Consistency) -> Statement {
    let mut statement = Statement::new(text);
    statement.set_consistency(consistency.of_driver());
    statement.set_request_timeout(Some(QUERY_TIMEOUT));
    statement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Found {
        Found {
            keyspace: true,
            columns: COLUMNS.map(str::to_owned).to_vec(),
            index: true,
            record: true,
            applied: vec![1, 2, 3],
            default_ttl_secs: Some(60),
        }
    }

    #[test]
    fn each_state_is_told_apart() {
        let state = |found: Found| found.state(Dialect::Cassandra);
        assert_eq!(state(whole()), SchemaState::Current);
        assert_eq!(state(Found::default()), SchemaState::Missing);
        assert_eq!(state(Found { keyspace: true, ..Found::default() }), SchemaState::Missing);
        assert_eq!(state(Found { applied: vec![1, 2], ..whole() }), SchemaState::Older { applied: 2, wanted: 3 });
        assert_eq!(state(Found { applied: vec![1, 3], ..whole() }), SchemaState::Older { applied: 1, wanted: 3 });
        assert_eq!(
            state(Found { applied: vec![], record: false, ..whole() }),
            SchemaState::Older { applied: 0, wanted: 3 }
        );
        assert_eq!(state(Found { applied: vec![1, 2, 3, 4], ..whole() }), SchemaState::Newer { applied: 4, known: 3 });
    }

    #[test]
    fn what_is_not_ours_is_foreign() {
        let is_foreign = |found: Found| matches!(found.state(Dialect::Scylla), SchemaState::Foreign { .. });
        let mut other = whole();
        other.columns[3] = "value regular -1 text none".to_owned();
        assert!(is_foreign(other));
        assert!(is_foreign(Found { columns: COLUMNS[..3].iter().map(ToString::to_string).collect(), ..whole() }));
        assert!(is_foreign(Found { index: false, ..whole() }));
        assert!(is_foreign(Found { columns: vec![], ..whole() }));
    }

    #[test]
    fn every_state_but_one_says_what_to_do() {
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
