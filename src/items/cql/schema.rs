//! What stands in the cluster: reading the schema, and judging it against the one that this program
//! knows. It must never change anything.

use std::collections::{BTreeMap, HashMap};
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
const COMPATIBILITY: &str = "schema_compatibility";
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
    /// A later release of this program was here, and says that this one may serve what it left.
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
    NoIndex(IndexTrouble),
    /// The table of items was there once.
    TableDropped,
    /// Something of our name is there that is not ours, or not whole.
    Foreign {
        detail: String,
    },
}

/// What is wrong with the index of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexTrouble {
    Missing,
    /// It is on something else: on this.
    Wrong(String),
}

impl fmt::Display for IndexTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "the index {INDEX} is missing")?,
            Self::Wrong(on) => write!(f, "the index {INDEX} is another than this program's ({on})")?,
        }
        f.write_str(
            ": items are read and added, but cannot be removed by value; run `liststore migrate`, which builds it again",
        )
    }
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
                "the schema is newer than this program (version {applied}, known {known}), and asks for one that knows it: \
                 run the release that made it, or a later one"
            ),
            Self::NewerServed { applied, known } => write!(
                f,
                "the schema is newer than this program (version {applied}, known {known}), which may serve it all the same"
            ),
            Self::NoIndex(trouble) => trouble.fmt(f),
            Self::TableDropped => write!(
                f,
                "the table {TABLE} was there and is not: restore it from a snapshot of the cluster, or set \
                 items.cql.keyspace to a new name to begin with empty lists"
            ),
            Self::Foreign { detail } => write!(
                f,
                "the keyspace holds something else than this program's schema ({detail}): set items.cql.keyspace to \
                 another name"
            ),
        }
    }
}

impl SchemaState {
    /// Whether list operations may be carried out on it.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Current | Self::NewerServed { .. } | Self::NoIndex(_))
    }

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
    pub index: Option<FoundIndex>,
    pub record: bool,
    /// The numbers of the applied files, sorted.
    pub applied: Vec<i32>,
    /// Of each applied file that says so, the number that a program must know to serve what it made.
    pub served_from: BTreeMap<i32, i32>,
    pub default_ttl_secs: Option<i32>,
}

/// An index as `system_schema.indexes` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIndex {
    pub kind: String,
    pub options: HashMap<String, String>,
}

impl FoundIndex {
    /// What is wrong with it, if something is.
    ///
    /// Cassandra writes the column's name as the target, and the class of an index that is not its own
    /// "2i"; ScyllaDB writes the target of a local index as JSON of its partition key and the column.
    fn trouble(&self, dialect: Dialect) -> Option<IndexTrouble> {
        let target = self.options.get("target").map(String::as_str).unwrap_or_default();
        let right = match dialect {
            Dialect::Cassandra => {
                target.trim_matches('"') == "value"
                    && self.kind == "COMPOSITES"
                    && !self.options.contains_key("class_name")
            }
            Dialect::Scylla => serde_json::from_str::<LocalTarget>(target)
                .is_ok_and(|target| target.pk == ["feature_key", "entity_id"] && target.ck == ["value"]),
        };
        let class = self.options.get("class_name").map(|class| format!(", of the class {class}")).unwrap_or_default();
        (!right).then(|| IndexTrouble::Wrong(format!("on {target}{class}")))
    }
}

#[derive(serde::Deserialize)]
struct LocalTarget {
    pk: Vec<String>,
    ck: Vec<String>,
}

/// Looks at the index of values alone.
pub async fn index_trouble(
    session: &Session,
    keyspace: &str,
    dialect: Dialect,
) -> Result<Option<IndexTrouble>, StoreError> {
    Ok(match read_index(session, keyspace).await? {
        Some(found) => found.trouble(dialect),
        None => Some(IndexTrouble::Missing),
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
    let found = indexes.into_iter().find(|(name, ..)| name == INDEX);
    Ok(found.map(|(_, kind, options)| FoundIndex { kind, options }))
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
        let index = read_index(session, keyspace).await?;
        let record = tables.iter().any(|(name, _)| name == RECORD);
        let applied = if record { Self::applied(session, keyspace, consistency).await? } else { Vec::new() };
        let numbered = tables.iter().any(|(name, _)| name == COMPATIBILITY);
        let served_from = if numbered {
            let text = format!("SELECT version, served_from FROM \"{keyspace}\".{COMPATIBILITY}");
            let rows: Vec<(i32, Option<i32>)> = select(session, &text, (), consistency).await?;
            rows.into_iter().filter_map(|(version, from)| Some((version, from?))).collect()
        } else {
            BTreeMap::new()
        };
        let mut columns: Vec<String> = columns
            .into_iter()
            .map(|(name, kind, position, type_name, order)| format!("{name} {kind} {position} {type_name} {order}"))
            .collect();
        columns.sort_unstable();
        Ok(Self {
            keyspace: true,
            columns,
            index,
            record,
            applied,
            served_from,
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
        let newer = self.applied.last().copied().filter(|applied| *applied > wanted);
        // A later release may have added columns.
        let ours =
            self.columns.is_empty() || COLUMNS.iter().all(|column| self.columns.iter().any(|found| found == column));
        let others = self.columns.iter().filter(|found| !COLUMNS.contains(&found.as_str()));
        let only_added = others.into_iter().all(|found| newer.is_some() && found.contains(" regular "));
        if !ours || !only_added {
            return foreign(format!("the table {TABLE} has other columns: {}", self.columns.join(", ")));
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
        if self.columns.is_empty() {
            return SchemaState::TableDropped;
        }
        if let Some(trouble) = self.index_trouble(dialect) {
            return SchemaState::NoIndex(trouble);
        }
        newer.map_or(SchemaState::Current, |applied| SchemaState::NewerServed { applied, known: wanted })
    }

    pub fn index_trouble(&self, dialect: Dialect) -> Option<IndexTrouble> {
        match &self.index {
            Some(index) => index.trouble(dialect),
            None => Some(IndexTrouble::Missing),
        }
    }

    /// Whether each file that a program of `wanted` files does not know lets it serve.
    fn may_serve(&self, wanted: i32) -> bool {
        let mut unknown = self.applied.iter().filter(|version| **version > wanted);
        unknown.all(|version| self.served_from.get(version).is_some_and(|from| *from <= wanted))
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

/// What works and yet gives up something that operators count on: a sentence each.
pub fn cautions(options: &CqlOptions, cluster: &ClusterState, datacenter: &str) -> Vec<String> {
    let Some(keyspace) = cluster.get_keyspace(&options.keyspace) else { return Vec::new() };
    let simple = matches!(keyspace.strategy, Strategy::SimpleStrategy { .. });
    let replicas = replicas_in(cluster, &options.keyspace, datacenter);
    replicas.map_or_else(Vec::new, |replicas| cautions_of(options, replicas, simple))
}

fn cautions_of(options: &CqlOptions, replicas: u32, simple_strategy: bool) -> Vec<String> {
    let (keyspace, read, write) = (&options.keyspace, options.read_consistency, options.write_consistency);
    let needed = read.needs_of(replicas).max(write.needs_of(replicas));
    let mut cautions = Vec::new();
    if simple_strategy {
        cautions.push(format!(
            "the keyspace {keyspace} has SimpleStrategy, which knows of no datacenters and racks: change it to \
             NetworkTopologyStrategy with ALTER KEYSPACE, and repair"
        ));
    }
    if replicas < 3 && needed == replicas {
        cautions.push(format!(
            "the keyspace {keyspace} has {replicas} replica(s): while one of its nodes is down, the lists there can be \
             neither read nor written; have 3 (ALTER KEYSPACE, then a full repair)"
        ));
    }
    let (reads, writes) = (read.needs_of(replicas), write.needs_of(replicas));
    if reads + writes <= replicas {
        cautions.push(format!(
            "items.cql.read_consistency {} and write_consistency {} ask {reads} and {writes} of {replicas} replicas: a read \
             may miss what was acknowledged before it, and a removal what it was to remove; LOCAL_QUORUM for both does not",
            read.as_str(),
            write.as_str(),
        ));
    }
    cautions
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

    fn index(target: &str, kind: &str) -> FoundIndex {
        FoundIndex { kind: kind.to_owned(), options: HashMap::from([("target".to_owned(), target.to_owned())]) }
    }

    fn whole() -> Found {
        Found {
            keyspace: true,
            columns: COLUMNS.map(str::to_owned).to_vec(),
            index: Some(index("value", "COMPOSITES")),
            record: true,
            applied: vec![1, 2, 3, 4],
            served_from: BTreeMap::new(),
            default_ttl_secs: Some(60),
        }
    }

    #[test]
    fn each_state_is_told_apart() {
        let state = |found: Found| found.state(Dialect::Cassandra);
        assert_eq!(state(whole()), SchemaState::Current);
        assert_eq!(state(Found::default()), SchemaState::Missing);
        assert_eq!(state(Found { keyspace: true, ..Found::default() }), SchemaState::Missing);
        assert_eq!(state(Found { applied: vec![1, 2], ..whole() }), SchemaState::Older { applied: 2, wanted: 4 });
        assert_eq!(state(Found { applied: vec![1, 3], ..whole() }), SchemaState::Older { applied: 1, wanted: 4 });
        assert_eq!(
            state(Found { applied: vec![], record: false, ..whole() }),
            SchemaState::Older { applied: 0, wanted: 4 }
        );
        let newer = vec![1, 2, 3, 4, 5, 6];
        assert_eq!(state(Found { applied: newer, ..whole() }), SchemaState::Newer { applied: 6, known: 4 });
        assert_eq!(state(Found { columns: vec![], ..whole() }), SchemaState::TableDropped);
    }

    #[test]
    fn what_is_not_ours_is_foreign() {
        let is_foreign = |found: Found| matches!(found.state(Dialect::Scylla), SchemaState::Foreign { .. });
        let mut other = whole();
        other.columns[3] = "value regular -1 text none".to_owned();
        assert!(is_foreign(other));
        assert!(is_foreign(Found { columns: COLUMNS[..3].iter().map(ToString::to_string).collect(), ..whole() }));
    }

    /// A release that goes back to an older one finds what the newer one made.
    #[test]
    fn a_newer_schema_is_served_where_each_of_its_files_says_so() {
        let mut found = Found { applied: vec![1, 2, 3, 4, 5, 6], ..whole() };
        found.columns.push("weight regular -1 int none".to_owned());
        let with = |served_from: &[(i32, i32)]| {
            let served_from = served_from.iter().copied().collect();
            Found { served_from, ..found.clone() }.state(Dialect::Cassandra)
        };
        assert_eq!(with(&[(5, 4), (6, 4)]), SchemaState::NewerServed { applied: 6, known: 4 });
        assert!(with(&[(5, 4), (6, 4)]).is_served());
        for told in [&[(6, 4)][..], &[(5, 4), (6, 5)], &[]] {
            assert_eq!(with(told), SchemaState::Newer { applied: 6, known: 4 }, "{told:?}");
        }
        let mut other = whole();
        other.columns.push("weight regular -1 int none".to_owned());
        assert!(matches!(other.state(Dialect::Cassandra), SchemaState::Foreign { .. }), "nobody has added that");
    }

    #[test]
    fn what_gives_up_a_promise_is_cautioned_of() {
        let cautions = |read_consistency, write_consistency, replicas, simple| {
            let options = CqlOptions { read_consistency, write_consistency, ..CqlOptions::default() };
            cautions_of(&options, replicas, simple)
        };
        let quorum = Consistency::LocalQuorum;
        assert_eq!(cautions(quorum, quorum, 3, false), Vec::<String>::new());
        for replicas in [1, 2] {
            let told = cautions(quorum, quorum, replicas, false);
            assert!(told.len() == 1 && told[0].contains(&format!("{replicas} replica(s)")), "{told:?}");
        }
        let weak = cautions(Consistency::One, quorum, 3, false);
        assert!(weak.len() == 1 && weak[0].contains("read_consistency ONE"), "{weak:?}");
        assert_eq!(cautions(Consistency::One, Consistency::All, 3, false), Vec::<String>::new());
        assert!(cautions(quorum, quorum, 3, true)[0].contains("SimpleStrategy"));
    }

    #[test]
    fn an_index_is_judged_by_what_it_is_on() {
        let state = |dialect, found| Found { index: Some(found), ..whole() }.state(dialect);
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
            assert!(matches!(state, SchemaState::NoIndex(IndexTrouble::Wrong(_))), "{state}");
            assert!(state.is_served() && state.to_string().contains("liststore migrate"), "{state}");
        }
        let missing = Found { index: None, ..whole() }.state(Dialect::Cassandra);
        assert_eq!(missing, SchemaState::NoIndex(IndexTrouble::Missing));
    }

    #[test]
    fn no_state_asks_to_remove_anything() {
        let states = [
            SchemaState::Missing,
            SchemaState::Older { applied: 1, wanted: 2 },
            SchemaState::Newer { applied: 3, known: 2 },
            SchemaState::NewerServed { applied: 3, known: 2 },
            SchemaState::NoIndex(IndexTrouble::Missing),
            SchemaState::NoIndex(IndexTrouble::Wrong("on x".into())),
            SchemaState::TableDropped,
            SchemaState::Foreign { detail: "x".into() },
        ];
        for state in states {
            let text = state.to_string().to_lowercase();
            assert!(!["drop ", "delete", "truncate", "or remove"].iter().any(|word| text.contains(word)), "{text}");
        }
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
