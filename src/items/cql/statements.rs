//! Every statement of the four list operations, and what it leans on in the databases' manuals.
//!
//! One text serves both ScyllaDB and Apache Cassandra: what differs between them is in their
//! schemas (`dialect.rs`). Each statement binds the whole partition key, which the driver needs to
//! send it to a replica, and each write sets its timestamp.

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;

use super::options::{Consistency, CqlOptions};

/// Which statement a request carries, for metrics and for what a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    Get,
    Find,
    Add,
    Delete,
    Clear,
}

impl Statement {
    pub const ALL: [Self; 5] = [Self::Get, Self::Find, Self::Add, Self::Delete, Self::Clear];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Find => "find",
            Self::Add => "add",
            Self::Delete => "delete",
            Self::Clear => "clear",
        }
    }

    pub fn writes(self) -> bool {
        matches!(self, Self::Add | Self::Delete | Self::Clear)
    }
}

/// The texts, for one keyspace. `{keyspace}` is quoted, so that its case is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Get List Items. The table is clustered by `item_key DESC`, so rows come newest first without
    /// an ORDER BY; both bounds are on the last clustering column, so that one contiguous slice of
    /// one partition is read.
    ///
    /// ScyllaDB: "Data Manipulation: SELECT", "The WHERE clause" and "Limiting results"
    /// (docs.scylladb.com/manual/stable/cql/dml/select.html). Cassandra: "SELECT" (cql/dml.html).
    pub get: String,
    /// The same, with the rows' write timestamps, to learn of clocks ahead of ours.
    ///
    /// ScyllaDB: "WRITETIME and TTL function" (select.html).
    pub get_with_writetime: String,
    /// The items of a list with one value, by the local secondary index: the full partition key and
    /// the indexed column, which needs no ALLOW FILTERING.
    ///
    /// ScyllaDB: "Local Secondary Indexes" (features/local-secondary-indexes.html). Cassandra: "Using
    /// a secondary index with a partition key".
    pub find: String,
    /// One row of an add. TTL in seconds and timestamp in microseconds, both of the statement.
    ///
    /// ScyllaDB: "INSERT" and "Update parameters" (cql/dml/insert.html); "Expiring data with Time
    /// to Live" (cql/time-to-live.html).
    pub add: String,
    /// Deletes rows by their keys. At most ten at once: ScyllaDB bounds the keys of an IN by
    /// `max_clustering_key_restrictions_per_query`, 100 by default.
    ///
    /// ScyllaDB: "DELETE" (cql/dml/delete.html).
    pub delete: String,
    /// Deletes a partition by one tombstone.
    ///
    /// ScyllaDB: "DELETE" (cql/dml/delete.html).
    pub clear: String,
}

const LIST: &str = "feature_key = ? AND entity_id = ?";

impl Texts {
    pub fn of(keyspace: &str) -> Self {
        let table = format!("\"{keyspace}\".list_items");
        let slice = format!("FROM {table} WHERE {LIST} AND item_key >= ? AND item_key < ? LIMIT ?");
        Self {
            get: format!("SELECT item_key, value {slice}"),
            get_with_writetime: format!("SELECT item_key, value, WRITETIME(value) {slice}"),
            find: format!("SELECT item_key, WRITETIME(value) FROM {table} WHERE {LIST} AND value = ?"),
            add: format!(
                "INSERT INTO {table} (feature_key, entity_id, item_key, value) VALUES (?, ?, ?, ?) USING TTL ? AND \
                 TIMESTAMP ?"
            ),
            delete: format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {LIST} AND item_key IN ?"),
            clear: format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {LIST}"),
        }
    }
}

/// The statements as one session prepared them.
#[derive(Debug)]
pub struct Prepared {
    pub get: PreparedStatement,
    pub get_with_writetime: PreparedStatement,
    pub find: PreparedStatement,
    pub add: PreparedStatement,
    pub delete: PreparedStatement,
    pub clear: PreparedStatement,
}

impl Prepared {
    pub async fn prepare(session: &Session, options: &CqlOptions) -> Result<Self, PrepareError> {
        let texts = Texts::of(&options.keyspace);
        let (read, write) = (options.read_consistency, options.write_consistency);
        Ok(Self {
            get: prepare(session, &texts.get, read).await?,
            get_with_writetime: prepare(session, &texts.get_with_writetime, read).await?,
            find: prepare(session, &texts.find, read).await?,
            add: prepare(session, &texts.add, write).await?,
            delete: prepare(session, &texts.delete, write).await?,
            clear: prepare(session, &texts.clear, write).await?,
        })
    }
}

async fn prepare(session: &Session, text: &str, consistency: Consistency) -> Result<PreparedStatement, PrepareError> {
    let mut prepared = session.prepare(text).await?;
    prepared.set_consistency(consistency.of_driver());
    prepared.set_is_idempotent(true);
    // Our columns never change under a prepared statement, and resending their description with
    // every answer costs more than many an answer.
    prepared.set_use_cached_result_metadata(true);
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_these() {
        let texts = Texts::of("Lists");
        assert_eq!(
            texts.get,
            "SELECT item_key, value FROM \"Lists\".list_items WHERE feature_key = ? AND entity_id = ? AND item_key >= ? \
             AND item_key < ? LIMIT ?"
        );
        assert_eq!(
            texts.get_with_writetime,
            "SELECT item_key, value, WRITETIME(value) FROM \"Lists\".list_items WHERE feature_key = ? AND entity_id = ? \
             AND item_key >= ? AND item_key < ? LIMIT ?"
        );
        assert_eq!(
            texts.find,
            "SELECT item_key, WRITETIME(value) FROM \"Lists\".list_items WHERE feature_key = ? AND entity_id = ? AND \
             value = ?"
        );
        assert_eq!(
            texts.add,
            "INSERT INTO \"Lists\".list_items (feature_key, entity_id, item_key, value) VALUES (?, ?, ?, ?) USING TTL ? \
             AND TIMESTAMP ?"
        );
        assert_eq!(
            texts.delete,
            "DELETE FROM \"Lists\".list_items USING TIMESTAMP ? WHERE feature_key = ? AND entity_id = ? AND item_key IN ?"
        );
        assert_eq!(
            texts.clear,
            "DELETE FROM \"Lists\".list_items USING TIMESTAMP ? WHERE feature_key = ? AND entity_id = ?"
        );
    }

    #[test]
    fn every_write_sets_its_timestamp_and_every_statement_its_partition() {
        let Texts { get, get_with_writetime, find, add, delete, clear } = Texts::of("k");
        assert!([&add, &delete, &clear].iter().all(|text| text.contains("TIMESTAMP ?")));
        assert!([&get, &get_with_writetime, &find, &delete, &clear].iter().all(|text| text.contains(LIST)));
    }
}
