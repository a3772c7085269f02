//! The statements on lists of items.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlDuration;
use tokio::time::Instant;

use super::{LIST, Levels, prepare, statements};
use crate::items::cql::options::CqlOptions;
use crate::items::cql::schema::dialect::Dialect;

statements!(
    List ListStatement, Texts, Prepared,
    {
        /// Get List Items. The table is clustered by `item_key DESC`, so rows come newest first without
        /// an ORDER BY; both bounds are on the last clustering column, so that one contiguous slice of
        /// one partition is read.
        ///
        /// ScyllaDB: "Data Manipulation: SELECT", "The WHERE clause" and "Limiting results"
        /// (docs.scylladb.com/manual/stable/cql/dml/select.html). Cassandra: "SELECT" (cql/dml.html).
        Get get: read as Get,
        /// The same, with the rows' write timestamps, to learn of clocks ahead of ours.
        ///
        /// ScyllaDB: "WRITETIME and TTL function" (select.html).
        GetWithWritetime get_with_writetime: read as Get,
        /// The same slice, oldest first: the order of the clustering column exactly reversed.
        ///
        /// ScyllaDB: "Ordering results" (select.html). Cassandra: "ORDER BY clause" (cql/dml.html).
        GetOldest get_oldest: read as Get,
        /// The keys of a slice alone, to count them: values are not sent.
        Keys keys: read as Keys,
        /// The same, oldest first.
        KeysOldest keys_oldest: read as Keys,
        /// Items of a list by their keys. At most [`KEYS_MAX`] at once, as in `delete`.
        FindKeys find_keys: read as Find,
        /// The items of a slice, with their write timestamps.
        FindBetween find_between: read as Find,
        /// Which partitions there are from a token on, in the order of tokens.
        ///
        /// ScyllaDB: "The SELECT statement" with DISTINCT, and "The TOKEN function" (select.html). Cassandra: the same
        /// (cql/dml.html).
        Entities entities: read as Entities,
        /// One row of an add. TTL in seconds and timestamp in microseconds, both of the statement.
        ///
        /// ScyllaDB: "INSERT" and "Update parameters" (cql/dml/insert.html); "Expiring data with Time
        /// to Live" (cql/time-to-live.html).
        Add add: write as Add,
        /// The same for an add of one item, which needs no batch to be atomic and so can carry its deadline. Used only
        /// on ScyllaDB: a timeout in a statement of a batch has no effect, and the text of a whole batch with a timeout
        /// (cql/dml/batch.html) would depend on its number of statements.
        AddOne add_one: write as Add,
        /// Deletes rows by their keys. At most ten at once: ScyllaDB bounds the keys of an IN by
        /// `max_clustering_key_restrictions_per_query`, 100 by default.
        ///
        /// ScyllaDB: "DELETE" (cql/dml/delete.html).
        Delete delete: write as Delete,
        /// Deletes a slice of a partition by one tombstone.
        ///
        /// ScyllaDB: "DELETE" (cql/dml/delete.html): a range of the last clustering column.
        DeleteBetween delete_between: write as Delete,
        /// Deletes what lies between two rows by one tombstone, and neither of both. It is used in batches, where a
        /// statement has no time limit.
        DeleteGap delete_gap: write as Delete,
        /// The present by a node's clock, in milliseconds.
        ///
        /// ScyllaDB: "Datetime functions" (cql/functions.html).
        Now now: one as Keys,
        /// Deletes a partition by one tombstone.
        ///
        /// ScyllaDB: "DELETE" (cql/dml/delete.html).
        Clear clear: write as Clear,
    },
    apart {
        /// The items of a list with one value, by the local secondary index: the full partition key and
        /// the indexed column, which needs no ALLOW FILTERING.
        ///
        /// ScyllaDB: "Local Secondary Indexes" (features/local-secondary-indexes.html). Cassandra: "Using
        /// a secondary index with a partition key".
        Find find as Find,
    }
);

/// Keys of one statement.
pub const KEYS_MAX: usize = 10;

impl Texts {
    /// The texts for a dialect. With ScyllaDB's, the time that is left until the deadline is bound last in
    /// a SELECT and an INSERT, and after the timestamp in a DELETE.
    ///
    /// ScyllaDB: "ScyllaDB CQL Extensions", "USING TIMEOUT" (cql/cql-extensions.html): part of the USING
    /// clause of INSERT and DELETE, at the end of SELECT, and it may be a marker.
    pub fn of(keyspace: &str, dialect: Dialect) -> Self {
        let table = format!("\"{keyspace}\".list_items");
        let (select_within, and_within) = dialect.timeout_clauses();
        let between = "item_key >= ? AND item_key < ?";
        let slice = format!("FROM {table} WHERE {LIST} AND {between} LIMIT ?{select_within}");
        let oldest = format!("FROM {table} WHERE {LIST} AND {between} ORDER BY item_key ASC LIMIT ?{select_within}");
        let found = format!("SELECT item_key, WRITETIME(value) FROM {table} WHERE {LIST}");
        let add = format!(
            "INSERT INTO {table} (feature_key, entity_id, item_key, value) VALUES (?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
        );
        let delete = format!("DELETE FROM {table} USING TIMESTAMP ?{and_within} WHERE {LIST}");
        Self {
            get: format!("SELECT item_key, value {slice}"),
            get_with_writetime: format!("SELECT item_key, value, WRITETIME(value) {slice}"),
            get_oldest: format!("SELECT item_key, value {oldest}"),
            keys: format!("SELECT item_key {slice}"),
            keys_oldest: format!("SELECT item_key {oldest}"),
            find: format!("{found} AND value = ?{select_within}"),
            find_keys: format!("{found} AND item_key IN ?{select_within}"),
            find_between: format!("{found} AND {between}{select_within}"),
            entities: format!(
                "SELECT DISTINCT feature_key, entity_id FROM {table} WHERE token(feature_key, entity_id) >= ? AND \
                 token(feature_key, entity_id) <= ? LIMIT ?{select_within}"
            ),
            add_one: format!("{add}{and_within}"),
            add,
            now: "SELECT toUnixTimestamp(now()) FROM system.local".to_owned(),
            clear: delete.clone(),
            delete_gap: format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {LIST} AND item_key > ? AND item_key < ?"),
            delete_between: format!("{delete} AND {between}"),
            delete: format!("{delete} AND item_key IN ?"),
        }
    }
}

impl Prepared {
    pub async fn prepare(session: &Session, options: &CqlOptions, dialect: Dialect) -> Result<Self, PrepareError> {
        Self::of(session, &Texts::of(&options.keyspace, dialect), Levels::of(options)).await
    }
}

/// Prepares the search by value, which the database refuses without the index: so it is apart from the
/// others, which then go on.
pub async fn prepare_find(
    session: &Session,
    options: &CqlOptions,
    dialect: Dialect,
) -> Result<PreparedStatement, PrepareError> {
    prepare(session, &Texts::of(&options.keyspace, dialect).find, options.read_consistency).await
}

/// The value that statements of a dialect bind for the remaining time, if they have one.
pub fn within(dialect: Dialect, deadline: Instant) -> Option<CqlDuration> {
    (dialect == Dialect::Scylla).then(|| time_left(deadline))
}

/// The time until a deadline, as `USING TIMEOUT` takes it: in whole milliseconds (ScyllaDB refuses finer
/// ones), and at least one.
fn time_left(deadline: Instant) -> CqlDuration {
    let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
    let millis = i64::try_from(left.as_millis()).unwrap_or(i64::MAX).clamp(1, DAY_MILLIS);
    CqlDuration { months: 0, days: 0, nanoseconds: millis * 1_000_000 }
}

/// ScyllaDB takes no timeout of a day or more.
const DAY_MILLIS: i64 = 86_399_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_match_their_snapshot() {
        let texts = Texts::of("Lists", Dialect::Cassandra);
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
            texts.entities,
            "SELECT DISTINCT feature_key, entity_id FROM \"Lists\".list_items WHERE token(feature_key, entity_id) >= ? \
             AND token(feature_key, entity_id) <= ? LIMIT ?"
        );
        assert_eq!(texts.add_one, texts.add);
        let slice = "WHERE feature_key = ? AND entity_id = ? AND item_key >= ? AND item_key < ?";
        let oldest = format!("SELECT item_key, value FROM \"Lists\".list_items {slice} ORDER BY item_key ASC LIMIT ?");
        assert_eq!(texts.get_oldest, oldest);
        assert_eq!(texts.keys, format!("SELECT item_key FROM \"Lists\".list_items {slice} LIMIT ?"));
        assert_eq!(texts.keys_oldest, oldest.replace("item_key, value", "item_key"));
        let gap = "WHERE feature_key = ? AND entity_id = ? AND item_key > ? AND item_key < ?";
        assert_eq!(texts.delete_gap, format!("DELETE FROM \"Lists\".list_items USING TIMESTAMP ? {gap}"));
        let found = "SELECT item_key, WRITETIME(value) FROM \"Lists\".list_items";
        assert_eq!(texts.find_between, format!("{found} {slice}"));
        assert_eq!(texts.find_keys, format!("{found} WHERE feature_key = ? AND entity_id = ? AND item_key IN ?"));
        assert_eq!(texts.delete_between, format!("DELETE FROM \"Lists\".list_items USING TIMESTAMP ? {slice}"));
        assert_eq!(
            texts.delete,
            "DELETE FROM \"Lists\".list_items USING TIMESTAMP ? WHERE feature_key = ? AND entity_id = ? AND item_key IN ?"
        );
        assert_eq!(
            texts.clear,
            "DELETE FROM \"Lists\".list_items USING TIMESTAMP ? WHERE feature_key = ? AND entity_id = ?"
        );
    }

    /// As "ScyllaDB CQL Extensions", "USING TIMEOUT" has it (docs.scylladb.com/manual/stable/cql/cql-extensions.html):
    /// `SELECT * FROM t USING TIMEOUT ?`, and `USING TIMESTAMP 42 AND TIMEOUT 50ms` in what modifies. In a
    /// SELECT the clause stands last (cql/dml/select.html), in a DELETE before WHERE (cql/dml/delete.html).
    #[test]
    fn statements_for_scylladb_have_a_timeout() {
        let (plain, texts) = (Texts::of("k", Dialect::Cassandra), Texts::of("k", Dialect::Scylla));
        assert_eq!(texts.get, plain.get + " USING TIMEOUT ?");
        assert_eq!(texts.get_with_writetime, plain.get_with_writetime + " USING TIMEOUT ?");
        assert_eq!(texts.find, plain.find + " USING TIMEOUT ?");
        assert_eq!(texts.find_keys, plain.find_keys + " USING TIMEOUT ?");
        assert_eq!(texts.find_between, plain.find_between + " USING TIMEOUT ?");
        assert_eq!(texts.entities, plain.entities + " USING TIMEOUT ?");
        assert_eq!(texts.get_oldest, plain.get_oldest + " USING TIMEOUT ?");
        assert_eq!(texts.keys, plain.keys + " USING TIMEOUT ?");
        assert_eq!(texts.add, plain.add, "in a batch it would have no effect");
        assert_eq!(texts.add_one, plain.add + " AND TIMEOUT ?");
        let reported = |text: &str| text.replace("USING TIMESTAMP ? WHERE", "USING TIMESTAMP ? AND TIMEOUT ? WHERE");
        assert_eq!((texts.delete, texts.clear), (reported(&plain.delete), reported(&plain.clear)));
        assert_eq!(texts.delete_between, reported(&plain.delete_between));
        assert_eq!(texts.delete_gap, plain.delete_gap, "it stands in batches");
    }

    #[test]
    fn the_time_left_is_whole_milliseconds() {
        let nanos = |left: Duration| time_left(Instant::now() + left).nanoseconds;
        assert_eq!(time_left(Instant::now()).nanoseconds, 1_000_000);
        let left = nanos(Duration::from_millis(1_500));
        assert!(left % 1_000_000 == 0 && (1_000_000_000..=1_501_000_000).contains(&left), "{left}");
        assert_eq!(nanos(Duration::from_secs(1_000_000)), 86_399_999_000_000);
    }

    #[test]
    fn every_write_sets_its_timestamp_and_every_statement_its_partition() {
        for dialect in [Dialect::Cassandra, Dialect::Scylla] {
            let Texts { get, get_with_writetime, get_oldest, keys, find, find_keys, find_between, .. } =
                Texts::of("k", dialect);
            let Texts { add, add_one, delete, delete_between, clear, .. } = Texts::of("k", dialect);
            let writes = [&add, &delete, &delete_between, &clear, &add_one];
            assert!(writes.into_iter().all(|text| text.contains("TIMESTAMP ?")));
            let reads = [&get, &get_with_writetime, &get_oldest, &keys, &find, &find_keys, &find_between];
            assert!(reads.iter().chain(&writes[1..4]).all(|text| text.contains(LIST)));
        }
    }
}
