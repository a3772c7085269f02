//! The numbered CQL files of both dialects, and how their statements are made.
//!
//! A file that was released is never changed; what comes later is a file with the next number. The
//! files name what they cannot know as `${…}`, since nothing can be bound in a schema's statements.

use md5::{Digest, Md5};
use uuid::Uuid;

/// One numbered file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// From 1, without gaps.
    pub version: i32,
    pub name: &'static str,
    text: &'static str,
}

macro_rules! migrations {
    ($dialect:literal: $($version:literal $name:literal,)+) => {
        &[$(Migration {
            version: $version,
            name: $name,
            text: include_str!(concat!("../../../migrations/", $dialect, "/", $name, ".cql")),
        },)+]
    };
}

pub const SCYLLA: &[Migration] = migrations! { "scylla":
    1 "0001_keyspace",
    2 "0002_list_items",
    3 "0003_list_items_by_value",
};

pub const CASSANDRA: &[Migration] = migrations! { "cassandra":
    1 "0001_keyspace",
    2 "0002_list_items",
    3 "0003_list_items_by_value",
};

/// What stands for the `${…}` of the files.
#[derive(Debug, Clone)]
pub struct Parameters {
    pub keyspace: String,
    pub datacenter: String,
    pub replication_factor: u32,
    pub default_ttl_secs: u32,
    /// Empty, or a clause that starts with ` AND`.
    pub tablets: &'static str,
}

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
        let Self { keyspace, datacenter, replication_factor, default_ttl_secs, tablets } = self;
        statement
            .replace("${keyspace}", keyspace)
            .replace("${datacenter}", &datacenter.replace('\'', "''"))
            .replace("${replication_factor}", &replication_factor.to_string())
            .replace("${default_ttl_secs}", &default_ttl_secs.to_string())
            .replace("${tablets}", tablets)
            .replace("${schema_migrations_id}", &table_id(keyspace, "schema_migrations").to_string())
            .replace("${list_items_id}", &table_id(keyspace, "list_items").to_string())
    }
}

/// A table's fixed id: of its own for each keyspace, since ids are unique in a cluster. A UUID of
/// version 3 (RFC 9562, section 5.3).
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
            datacenter: "north's".into(),
            replication_factor: 3,
            default_ttl_secs: 60,
            tablets: " AND tablets = {'enabled': false}",
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
    const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS \"Lists\" WITH replication = {'class': \
                            'NetworkTopologyStrategy', 'north''s': 3}";

    #[test]
    fn the_statements_for_scylla_are_these() {
        assert_eq!(
            all(SCYLLA),
            [
                format!("{KEYSPACE} AND tablets = {{'enabled': false}}"),
                RECORD.to_owned(),
                TABLE.to_owned(),
                "CREATE INDEX IF NOT EXISTS list_items_by_value ON \"Lists\".list_items ((feature_key, entity_id), value)"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn the_statements_for_cassandra_are_these() {
        assert_eq!(
            all(CASSANDRA),
            [
                KEYSPACE.to_owned(),
                format!("{RECORD} WITH id = {}", table_id("Lists", "schema_migrations")),
                format!("{TABLE} AND id = {}", table_id("Lists", "list_items")),
                "CREATE INDEX IF NOT EXISTS list_items_by_value ON \"Lists\".list_items (value) USING \
                 'legacy_local_table'"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn numbers_have_no_gaps_and_names_begin_with_them() {
        for migrations in [SCYLLA, CASSANDRA] {
            for (n, migration) in (1..).zip(migrations) {
                assert_eq!(migration.version, n);
                assert!(migration.name.starts_with(&format!("{n:04}_")), "{}", migration.name);
            }
        }
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
