//! The numbered CQL files of both dialects, and how their statements are made.
//!
//! A released file is never changed; a later change is a file with the next number. The files have variables as `${…}`,
//! since a schema's statements cannot bind values.

use md5::{Digest, Md5};
use uuid::Uuid;

use super::names::INDEX;

/// One numbered file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// From 1, without gaps.
    pub version: i32,
    pub name: &'static str,
    /// The version that a program must support at least to serve the schema after this file. It is smaller than the
    /// file's number if the file only adds something that such a program does not use.
    pub served_from: i32,
    text: &'static str,
}

macro_rules! migrations {
    ($dialect:literal: $($version:literal $name:literal from $served_from:literal,)+) => {
        &[$(Migration {
            version: $version,
            name: $name,
            served_from: $served_from,
            text: include_str!(concat!("../../../../migrations/", $dialect, "/", $name, ".cql")),
        },)+]
    };
}

pub const SCYLLA: &[Migration] = migrations! { "scylla":
    1 "0001_lists" from 1,
};

pub const CASSANDRA: &[Migration] = migrations! { "cassandra":
    1 "0001_lists" from 1,
};

/// The values of the `${…}` of the files.
#[derive(Debug, Clone)]
pub struct Parameters {
    pub keyspace: String,
    /// Replicas by datacenter.
    pub replicas: Vec<(String, u32)>,
    pub default_ttl_secs: u32,
    /// Empty, or a clause that starts with ` AND`.
    pub tablets: &'static str,
    /// ScyllaDB's compaction strategy.
    pub compaction: &'static str,
    /// ScyllaDB's mode of dropping tombstones.
    pub tombstone_gc: &'static str,
}

/// The file that makes the index of values.
pub const INDEX_FILE: i32 = 1;

impl Migration {
    /// The file's statements, without comments, in order.
    pub fn statements(&self, parameters: &Parameters) -> Vec<String> {
        let code: Vec<&str> =
            self.text.lines().map(|line| line.split("--").next().unwrap_or_default().trim_end()).collect();
        let code = code.join("\n");
        code.split(';')
            .map(str::trim)
            .filter(|statement| !statement.is_empty())
            .map(|statement| parameters.fill(statement))
            .collect()
    }
}

impl Parameters {
    fn fill(&self, statement: &str) -> String {
        let Self { keyspace, replicas, default_ttl_secs, tablets, compaction, tombstone_gc } = self;
        let replicas: Vec<String> = replicas
            .iter()
            .map(|(datacenter, count)| format!("'{}': {count}", datacenter.replace('\'', "''")))
            .collect();
        statement
            .replace("${keyspace}", keyspace)
            .replace("${replicas}", &replicas.join(", "))
            .replace("${default_ttl_secs}", &default_ttl_secs.to_string())
            .replace("${tablets}", tablets)
            .replace("${compaction}", compaction)
            .replace("${tombstone_gc}", tombstone_gc)
            .replace("${schema_compatibility_id}", &table_id(keyspace, "schema_compatibility").to_string())
            .replace("${schema_migrations_id}", &table_id(keyspace, "schema_migrations").to_string())
            .replace("${list_bag_swaps_id}", &table_id(keyspace, "list_bag_swaps").to_string())
            .replace("${list_buckets_id}", &table_id(keyspace, "list_buckets").to_string())
            .replace("${list_bags_id}", &table_id(keyspace, "list_bags").to_string())
            .replace("${list_members_id}", &table_id(keyspace, "list_members").to_string())
            .replace("${list_items_id}", &table_id(keyspace, "list_items").to_string())
    }
}

/// The rows that record that a file was applied. They are the same each time it is applied.
pub fn record_of(parameters: &Parameters, migration: &Migration) -> Vec<String> {
    let (keyspace, Migration { version, name, served_from, .. }) = (&parameters.keyspace, migration);
    let applied = format!(
        "INSERT INTO \"{keyspace}\".schema_migrations (version, name, applied_at) VALUES ({version}, '{name}', \
         toTimestamp(now()))"
    );
    let compatible = format!(
        "INSERT INTO \"{keyspace}\".schema_compatibility (version, served_from) VALUES ({version}, {served_from})"
    );
    vec![compatible, applied]
}

/// The statements that recreate a wrong or missing index of values. They do not change rows.
pub fn rebuild_of_index(parameters: &Parameters, migrations: &[Migration]) -> Vec<String> {
    let drop = format!("DROP INDEX IF EXISTS \"{}\".list_items_by_value", parameters.keyspace);
    let file = migrations.iter().find(|migration| migration.version == INDEX_FILE);
    let statements = file.into_iter().flat_map(|file| file.statements(parameters));
    std::iter::once(drop).chain(statements.filter(|statement| statement.contains(INDEX))).collect()
}

/// A table's fixed ID, different in each keyspace, since IDs are unique in a cluster. A UUID of version 3 (RFC 9562,
/// section 5.3).
fn table_id(keyspace: &str, table: &str) -> Uuid {
    let digest = Md5::digest(format!("liststore/{keyspace}/{table}"));
    uuid::Builder::from_md5_bytes(digest.into()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Parameters {
        Parameters {
            keyspace: "Lists".into(),
            replicas: vec![("north's".into(), 3), ("south".into(), 2)],
            default_ttl_secs: 60,
            tablets: " AND tablets = {'enabled': false}",
            compaction: "IncrementalCompactionStrategy",
            tombstone_gc: "repair",
        }
    }

    fn all(migrations: &[Migration]) -> Vec<String> {
        migrations.iter().flat_map(|migration| migration.statements(&parameters())).map(|s| one_line(&s)).collect()
    }

    fn one_line(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    const TABLE: &str = "CREATE TABLE IF NOT EXISTS \"Lists\".list_items ( feature_key TEXT, entity_id TEXT, item_key \
                         TEXT, value BLOB, PRIMARY KEY ((feature_key, entity_id), item_key) ) WITH CLUSTERING ORDER BY \
                         (item_key DESC) AND default_time_to_live = 60";
    const RECORD: &str = "CREATE TABLE IF NOT EXISTS \"Lists\".schema_migrations ( version INT PRIMARY KEY, name TEXT, \
                          applied_at TIMESTAMP )";
    const COMPATIBILITY: &str =
        "CREATE TABLE IF NOT EXISTS \"Lists\".schema_compatibility ( version INT PRIMARY KEY, served_from INT )";
    const SETS: &str = "CREATE TABLE IF NOT EXISTS \"Lists\".list_members ( feature_key TEXT, entity_id TEXT, kind TEXT, \
                        sort TEXT, member TEXT, items MAP<INT, FROZEN<TUPLE<TEXT, BIGINT, BIGINT, BLOB>>>, PRIMARY KEY \
                        ((feature_key, entity_id), kind, sort) ) WITH CLUSTERING ORDER BY (kind ASC, sort DESC) AND \
                        default_time_to_live = 60";
    const BAGS: &str = "CREATE TABLE IF NOT EXISTS \"Lists\".list_bags ( feature_key TEXT, entity_id TEXT, state UUID, \
                        written BIGINT, stamp BIGINT, expires_at BIGINT, document BLOB, states BLOB, PRIMARY KEY \
                        ((feature_key, entity_id)) ) WITH default_time_to_live = 60";
    const SWAPS: &str = "CREATE TABLE IF NOT EXISTS \"Lists\".list_bag_swaps ( minute BIGINT, shard INT, id UUID, \
                         feature_key TEXT, entity_id TEXT, removed BLOB, written BIGINT, PRIMARY KEY ((minute, shard), id) \
                         ) WITH default_time_to_live = 10800 AND";
    const BUCKETS: &str = "CREATE TABLE IF NOT EXISTS \"Lists\".list_buckets ( feature_key TEXT, entity_id TEXT, bucket \
                           TEXT, until BIGINT, PRIMARY KEY ((feature_key, entity_id), bucket, until) ) WITH CLUSTERING \
                           ORDER BY (bucket DESC, until DESC) AND default_time_to_live = 60";
    const SCYLLA_OPTIONS: &str = "AND compaction = {'class': 'IncrementalCompactionStrategy'} AND tombstone_gc = {'mode': \
                                  'repair'} AND gc_grace_seconds = 864000";
    const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS \"Lists\" WITH replication = {'class': \
                            'NetworkTopologyStrategy', 'north''s': 3, 'south': 2}";

    #[test]
    fn the_statements_for_scylla_match_their_snapshot() {
        assert_eq!(
            all(SCYLLA),
            [
                format!("{KEYSPACE} AND tablets = {{'enabled': false}}"),
                RECORD.to_owned(),
                COMPATIBILITY.to_owned(),
                format!("{TABLE} {SCYLLA_OPTIONS}"),
                "CREATE INDEX IF NOT EXISTS list_items_by_value ON \"Lists\".list_items ((feature_key, entity_id), value)"
                    .to_owned(),
                format!(
                    "ALTER MATERIALIZED VIEW \"Lists\".list_items_by_value_index WITH {}",
                    SCYLLA_OPTIONS.trim_start_matches("AND ")
                ),
                format!("{SETS} {SCYLLA_OPTIONS}"),
                format!("{BAGS} {SCYLLA_OPTIONS}"),
                format!("{BUCKETS} {SCYLLA_OPTIONS}"),
                format!(
                    "{SWAPS} compaction = {{'class': 'IncrementalCompactionStrategy'}} AND tombstone_gc = {{'mode': \
                     'immediate'}}"
                ),
            ]
        );
    }

    #[test]
    fn the_statements_for_cassandra_match_their_snapshot() {
        assert_eq!(
            all(CASSANDRA),
            [
                KEYSPACE.to_owned(),
                format!("{RECORD} WITH id = {}", table_id("Lists", "schema_migrations")),
                format!("{COMPATIBILITY} WITH id = {}", table_id("Lists", "schema_compatibility")),
                format!("{TABLE} AND id = {}", table_id("Lists", "list_items")),
                "CREATE INDEX IF NOT EXISTS list_items_by_value ON \"Lists\".list_items (value) USING \
                 'legacy_local_table'"
                    .to_owned(),
                format!("{SETS} AND id = {}", table_id("Lists", "list_members")),
                format!("{BAGS} AND id = {}", table_id("Lists", "list_bags")),
                format!("{BUCKETS} AND id = {}", table_id("Lists", "list_buckets")),
                format!("{SWAPS} gc_grace_seconds = 0 AND id = {}", table_id("Lists", "list_bag_swaps")),
            ]
        );
    }

    #[test]
    fn numbers_have_no_gaps_and_names_begin_with_them() {
        for migrations in [SCYLLA, CASSANDRA] {
            for (n, migration) in (1..).zip(migrations) {
                assert_eq!(migration.version, n);
                assert!((1..=n).contains(&migration.served_from), "{}", migration.name);
                assert!(migration.name.starts_with(&format!("{n:04}_")), "{}", migration.name);
            }
        }
    }

    /// ScyllaDB cannot be run here: each statement that it is sent must be one that its manual has, on
    /// a page that the operators' page names.
    #[test]
    fn each_statement_for_scylla_names_a_page_of_its_manual() {
        use crate::items::cql::Texts;
        use crate::items::cql::statements::bags::BagTexts;
        use crate::items::cql::statements::buckets::BucketTexts;
        use crate::items::cql::statements::sets::SetTexts;

        const PAGES: [(&str, &str); 39] = [
            ("CREATE KEYSPACE IF NOT EXISTS", "cql/ddl.html"),
            ("CREATE TABLE IF NOT EXISTS", "cql/ddl.html"),
            ("CREATE INDEX IF NOT EXISTS", "features/local-secondary-indexes.html"),
            ("ALTER MATERIALIZED VIEW", "cql/mv.html"),
            ("DROP INDEX IF EXISTS", "cql/secondary-indexes.html"),
            ("ALTER TABLE", "cql/time-to-live.html"),
            ("INSERT INTO \"Lists\".schema_", "cql/dml/insert.html"),
            ("SELECT version FROM system.versions", "cql/dml/select.html"),
            ("SELECT item_key, value FROM", "cql/dml/select.html"),
            ("SELECT item_key, value, WRITETIME(value) FROM", "cql/dml/select.html"),
            ("SELECT item_key FROM", "cql/dml/select.html"),
            ("SELECT DISTINCT feature_key, entity_id FROM", "cql/dml/select.html"),
            ("SELECT item_key, WRITETIME(value) FROM", "features/local-secondary-indexes.html"),
            ("SELECT toUnixTimestamp(now()) FROM", "cql/functions.html"),
            ("SELECT sort FROM", "cql/dml/select.html"),
            ("SELECT sort, member FROM", "cql/dml/select.html"),
            ("SELECT sort, member, WRITETIME(member) FROM", "cql/dml/select.html"),
            ("SELECT sort, items FROM", "cql/dml/select.html"),
            ("INSERT INTO \"Lists\".list_members (feature_key, entity_id, kind, sort, member)", "cql/dml/insert.html"),
            ("UPDATE \"Lists\".list_members USING TTL ? AND TIMESTAMP ? SET items[?] = ?", "cql/dml/update.html"),
            ("DELETE FROM \"Lists\".list_members USING TIMESTAMP ?", "cql/dml/delete.html"),
            ("DELETE items[?] FROM \"Lists\".list_members USING TIMESTAMP ?", "cql/dml/delete.html"),
            (
                "SELECT state, states, written, stamp, expires_at, document, toUnixTimestamp(now()) FROM",
                "cql/dml/select.html",
            ),
            ("UPDATE \"Lists\".list_bags USING TTL ? SET state = ?", "cql/dml/update.html"),
            ("IF state = ?", "features/lwt.html"),
            ("SELECT id, feature_key, entity_id, removed, written FROM", "cql/dml/select.html"),
            ("INSERT INTO \"Lists\".list_bag_swaps (minute, shard, id,", "cql/dml/insert.html"),
            ("DELETE FROM \"Lists\".list_bag_swaps USING TIMESTAMP ?", "cql/dml/delete.html"),
            ("SELECT bucket FROM", "cql/dml/select.html"),
            ("PER PARTITION LIMIT", "cql/dml/select.html"),
            ("INSERT INTO \"Lists\".list_buckets (feature_key, entity_id, bucket, until)", "cql/dml/insert.html"),
            ("DELETE FROM \"Lists\".list_buckets USING TIMESTAMP ?", "cql/dml/delete.html"),
            ("SELECT feature_key, item_key", "cql/dml/select.html"),
            ("MAP<INT, FROZEN<TUPLE<TEXT, BIGINT, BIGINT, BLOB>>>", "cql/types.html"),
            ("INSERT INTO \"Lists\".list_items (feature_key, entity_id, item_key, value)", "cql/dml/insert.html"),
            ("DELETE FROM \"Lists\".list_items USING TIMESTAMP ?", "cql/dml/delete.html"),
            ("TIMEOUT ?", "cql/cql-extensions.html"),
            ("tombstone_gc =", "cql/ddl.html"),
            ("compaction =", "cql/compaction.html"),
        ];
        let manual = include_str!("../../../../docs/contributing/cql.md");
        let scylla = crate::items::cql::Dialect::Scylla;
        let mut sent = all(SCYLLA);
        sent.extend(Texts::of("Lists", scylla).all());
        sent.extend(SetTexts::of("Lists", scylla).all());
        sent.extend(BagTexts::of("Lists", scylla).all());
        sent.extend(BucketTexts::of("Lists", scylla).all());
        sent.push(scylla.release_query().to_owned());
        for migration in SCYLLA {
            sent.extend(record_of(&parameters(), migration).iter().map(|text| one_line(text)));
        }
        sent.extend(rebuild_of_index(&parameters(), SCYLLA));
        for statement in &sent {
            let page = PAGES.iter().find(|(begins, _)| one_line(statement).starts_with(begins));
            assert!(page.is_some(), "no page of the manual is named for: {statement}");
        }
        for (what, page) in PAGES {
            assert!(manual.contains(page), "docs/contributing/cql.md names no {page}, for {what}");
            let is_sent = sent.iter().any(|statement| one_line(statement).contains(what)) || what == "ALTER TABLE";
            assert!(is_sent, "{what} is not sent at all");
        }
        assert!(manual.contains("ScyllaDB: no tests run on it"));
    }

    #[test]
    fn every_parameter_is_filled() {
        assert!(all(SCYLLA).iter().chain(&all(CASSANDRA)).all(|statement| !statement.contains("${")));
    }

    #[test]
    fn table_ids_are_fixed_and_differ_between_keyspaces() {
        assert_eq!(table_id("a", "list_items"), table_id("a", "list_items"));
        assert_ne!(table_id("a", "list_items"), table_id("b", "list_items"));
        assert_ne!(table_id("a", "list_items"), table_id("a", "schema_migrations"));
    }
}
