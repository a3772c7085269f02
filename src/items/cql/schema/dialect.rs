//! All that differs between ScyllaDB and Apache Cassandra: which schema files they take, how they are distinguished,
//! tablets, and how a node's release is read.

use std::fmt;

use scylla::cluster::ClusterState;

use super::migrations::{self, Migration};
use crate::items::cql::options::{Consistency, CqlOptions, DialectChoice, TabletsChoice};

/// Which database the nodes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Scylla,
    Cassandra,
}

impl Dialect {
    /// The dialect that was chosen, or else the one that the nodes speak.
    ///
    /// ScyllaDB names its shards in the SUPPORTED answer of every connection (`SCYLLA_NR_SHARDS` and others, ScyllaDB's
    /// "Protocol extensions to the Cassandra Native Protocol", "Intranode sharding"), which the driver keeps as the
    /// node's sharder. Release numbers do not help: ScyllaDB reports to be Cassandra 3.
    pub fn of(choice: DialectChoice, cluster: &ClusterState) -> Self {
        match choice {
            DialectChoice::Scylla => Self::Scylla,
            DialectChoice::Cassandra => Self::Cassandra,
            DialectChoice::Auto if cluster.get_nodes_info().iter().any(|node| node.sharder().is_some()) => Self::Scylla,
            DialectChoice::Auto => Self::Cassandra,
        }
    }

    pub fn migrations(self) -> &'static [Migration] {
        match self {
            Self::Scylla => migrations::SCYLLA,
            Self::Cassandra => migrations::CASSANDRA,
        }
    }

    /// Refuses a consistency level that the database does not take.
    ///
    /// ScyllaDB has EACH_QUORUM for writes only: "Consistency levels",
    /// docs.scylladb.com/manual/stable/cql/consistency.html. Cassandra reads with it since 3.0.
    pub fn check_consistency(self, options: &CqlOptions) -> Result<(), &'static str> {
        match (self, options.read_consistency) {
            (Self::Scylla, Consistency::EachQuorum) => Err(
                "items.cql.read_consistency must not be EACH_QUORUM: ScyllaDB refuses reads with it; set LOCAL_QUORUM, or \
                 QUORUM to read across datacenters",
            ),
            _ => Ok(()),
        }
    }

    /// Reads the release of the node that answers, as one text column. ScyllaDB keeps its own in a
    /// table that Cassandra does not have.
    pub fn release_query(self) -> &'static str {
        match self {
            Self::Scylla => "SELECT version FROM system.versions WHERE key = 'local'",
            Self::Cassandra => "SELECT release_version FROM system.local WHERE key = 'local'",
        }
    }

    /// The clause of CREATE KEYSPACE about tablets, which cannot be altered later.
    ///
    /// Left to itself it turns tablets off, where there are any. An index cannot be made on them before 2025.4, from
    /// then on not in every cluster (scylladb/scylladb pull requests 26416 and 28089). While a node is down, its view
    /// has fewer replicas than without them (issues 17043 and 16229).
    pub fn tablets_clause(self, choice: TabletsChoice, release: &str) -> &'static str {
        const ON: &str = " AND tablets = {'enabled': true}";
        const OFF: &str = " AND tablets = {'enabled': false}";
        match (self, choice) {
            (Self::Cassandra, _) => "",
            (Self::Scylla, TabletsChoice::Enabled) => ON,
            (Self::Scylla, TabletsChoice::Disabled) => OFF,
            (Self::Scylla, TabletsChoice::Auto) => match release_number(release) {
                // Tablets came with 6.0 and, in the releases numbered by year, with 2024.2.
                Some(number) if number < (6, 0) || ((2_000, 0)..(2_024, 2)).contains(&number) => "",
                _ => OFF,
            },
        }
    }
}

impl Dialect {
    /// The clauses with the time limit of a statement: at the end of a SELECT, and after the timestamp of a write.
    pub fn timeout_clauses(self) -> (&'static str, &'static str) {
        match self {
            Self::Scylla => (" USING TIMEOUT ?", " AND TIMEOUT ?"),
            Self::Cassandra => ("", ""),
        }
    }

    /// Whether a query by an index, page by page, can miss rows that are there: so does ScyllaDB's (scylladb/scylladb
    /// issue 25839, and SCYLLADB-4057 of its other tracker). Another query finds the missing rows.
    pub fn may_miss_rows(self) -> bool {
        self == Self::Scylla
    }

    /// ScyllaDB's compaction strategy, by release: the incremental one where there is one, which is the
    /// default of new tables there ("Incremental Compaction Strategy (ICS)", cql/compaction.html). Releases
    /// numbered by year have it.
    pub fn compaction(self, release: &str) -> &'static str {
        match release_number(release) {
            Some((major, _)) if major < 2_000 => "SizeTieredCompactionStrategy",
            _ => "IncrementalCompactionStrategy",
        }
    }

    /// When ScyllaDB drops tombstones: after a repair. With one replica there is nothing to repair and the
    /// mode is refused; then they stay for `gc_grace_seconds`, so that a write that arrives late undoes no
    /// removal ("Tombstones GC options", cql/ddl.html).
    pub fn tombstone_gc(self, replicas: u32) -> &'static str {
        if replicas > 1 { "repair" } else { "timeout" }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scylla => "scylla",
            Self::Cassandra => "cassandra",
        })
    }
}

/// The first two numbers of a release such as `2025.4.1-0.20260101.abc`.
fn release_number(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '~']).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tablets_are_off_by_default() {
        let clause = |release| Dialect::Scylla.tablets_clause(TabletsChoice::Auto, release);
        for old in ["5.4.2", "5.2.0-rc1", "2023.1.3", "2024.1.9"] {
            assert_eq!(clause(old), "", "{old} knows no tablets");
        }
        for later in ["6.0.1", "6.2.0-0.2024", "2024.2.4", "2025.4.0~rc1", "2025.4.0", "2026.1.2-0.20260101.abc", "?"] {
            assert_eq!(clause(later), " AND tablets = {'enabled': false}", "{later}");
        }
    }

    #[test]
    fn a_choice_is_followed_and_cassandra_has_none() {
        for choice in [TabletsChoice::Auto, TabletsChoice::Enabled, TabletsChoice::Disabled] {
            assert_eq!(Dialect::Cassandra.tablets_clause(choice, "5.0.8"), "");
        }
        let scylla = |choice| Dialect::Scylla.tablets_clause(choice, "2025.1.0");
        assert_eq!(scylla(TabletsChoice::Enabled), " AND tablets = {'enabled': true}");
        assert_eq!(scylla(TabletsChoice::Disabled), " AND tablets = {'enabled': false}");
    }

    #[test]
    fn scylla_does_not_read_with_each_quorum() {
        let reads = |read_consistency| CqlOptions { read_consistency, ..CqlOptions::default() };
        let refused = Dialect::Scylla.check_consistency(&reads(Consistency::EachQuorum)).unwrap_err();
        assert!(refused.contains("items.cql.read_consistency") && refused.contains("QUORUM"), "{refused}");
        assert_eq!(Dialect::Scylla.check_consistency(&reads(Consistency::Quorum)), Ok(()));
        assert_eq!(Dialect::Cassandra.check_consistency(&reads(Consistency::EachQuorum)), Ok(()));
        let writes = CqlOptions { write_consistency: Consistency::EachQuorum, ..CqlOptions::default() };
        assert_eq!(Dialect::Scylla.check_consistency(&writes), Ok(()));
    }

    #[test]
    fn compaction_and_tombstones_follow_the_release_and_the_replicas() {
        assert_eq!(Dialect::Scylla.compaction("6.2.3"), "SizeTieredCompactionStrategy");
        for release in ["2024.1.5", "2025.4.0", "unheard-of"] {
            assert_eq!(Dialect::Scylla.compaction(release), "IncrementalCompactionStrategy");
        }
        assert_eq!([1, 2, 3].map(|replicas| Dialect::Scylla.tombstone_gc(replicas)), ["timeout", "repair", "repair"]);
    }

    #[test]
    fn a_removal_by_value_searches_again_if_a_search_may_miss_rows() {
        assert!(Dialect::Scylla.may_miss_rows() && !Dialect::Cassandra.may_miss_rows());
    }

    #[test]
    fn each_dialect_has_separate_files() {
        let first = |dialect: Dialect| dialect.migrations()[0];
        assert_eq!(first(Dialect::Scylla).name, first(Dialect::Cassandra).name);
        assert_ne!(first(Dialect::Scylla), first(Dialect::Cassandra));
    }
}
