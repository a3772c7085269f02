//! The statements on directories of buckets, and on several buckets.

use scylla::client::session::Session;
use scylla::errors::PrepareError;

use super::{LIST, Levels, statements};
use crate::items::cql::options::CqlOptions;
use crate::items::cql::schema::dialect::Dialect;

statements!(
    Bucket BucketStatement, BucketTexts, PreparedForBuckets,
    {
        /// Which buckets a list has between two names, the newest first: the order of the table. One may come several
        /// times, if the TTL of its feature was changed.
        Names names: read as Buckets,
        NamesOldest names_oldest: read as Buckets,
        /// One bucket of a list. TTL in seconds, timestamp in microseconds.
        Note note: write as NoteBuckets,
        /// Forgets the buckets of a list before a name.
        ///
        /// ScyllaDB: "DELETE" (cql/dml/delete.html): a range of the first clustering column.
        Forget forget: write as NoteBuckets,
        /// Which directories there are from a token on, in the order of tokens.
        Entities entities: read as Entities,
        /// The first rows of a slice in each of several buckets of a list: with the whole keys of the partitions, which
        /// come one after the other in no order. At most 16 of them: ScyllaDB
        /// takes 100 (`max_partition_key_restrictions_per_query`).
        ///
        /// ScyllaDB: "The WHERE clause" (IN for a column of the partition key), "Limiting results"
        /// (cql/dml/select.html).
        Several several: read as Get,
        /// The keys alone.
        SeveralKeys several_keys: read as Keys,
    },
    apart {}
);

impl BucketTexts {
    pub fn of(keyspace: &str, dialect: Dialect) -> Self {
        let (directory, items) = (format!("\"{keyspace}\".list_buckets"), format!("\"{keyspace}\".list_items"));
        let (select_within, and_within) = dialect.timeout_clauses();
        let names = format!("SELECT bucket FROM {directory} WHERE {LIST} AND bucket >= ? AND bucket < ?");
        let several = format!(
            "FROM {items} WHERE feature_key IN ? AND entity_id = ? AND item_key >= ? AND item_key < ? PER PARTITION LIMIT \
             ?{select_within}"
        );
        Self {
            names_oldest: format!("{names} ORDER BY bucket ASC{select_within}"),
            names: format!("{names}{select_within}"),
            note: format!(
                "INSERT INTO {directory} (feature_key, entity_id, bucket, until) VALUES (?, ?, ?, ?) USING TTL ? AND \
                 TIMESTAMP ?"
            ),
            forget: format!("DELETE FROM {directory} USING TIMESTAMP ?{and_within} WHERE {LIST} AND bucket < ?"),
            entities: format!(
                "SELECT DISTINCT feature_key, entity_id FROM {directory} WHERE token(feature_key, entity_id) >= ? AND \
                 token(feature_key, entity_id) <= ? LIMIT ?{select_within}"
            ),
            several: format!("SELECT feature_key, item_key, value {several}"),
            several_keys: format!("SELECT feature_key, item_key {several}"),
        }
    }
}

impl PreparedForBuckets {
    pub async fn prepare(session: &Session, options: &CqlOptions, dialect: Dialect) -> Result<Self, PrepareError> {
        Self::of(session, &BucketTexts::of(&options.keyspace, dialect), Levels::of(options)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_match_their_snapshot() {
        let texts = BucketTexts::of("Lists", Dialect::Cassandra);
        let names = "SELECT bucket FROM \"Lists\".list_buckets WHERE feature_key = ? AND entity_id = ? AND bucket >= ? AND \
                     bucket < ?";
        assert_eq!((texts.names.as_str(), texts.names_oldest), (names, format!("{names} ORDER BY bucket ASC")));
        assert_eq!(
            texts.note,
            "INSERT INTO \"Lists\".list_buckets (feature_key, entity_id, bucket, until) VALUES (?, ?, ?, ?) USING TTL ? \
             AND TIMESTAMP ?"
        );
        assert_eq!(
            texts.forget,
            "DELETE FROM \"Lists\".list_buckets USING TIMESTAMP ? WHERE feature_key = ? AND entity_id = ? AND bucket < ?"
        );
        let several = "FROM \"Lists\".list_items WHERE feature_key IN ? AND entity_id = ? AND item_key >= ? AND item_key \
                       < ? PER PARTITION LIMIT ?";
        assert_eq!(texts.several, format!("SELECT feature_key, item_key, value {several}"));
        assert_eq!(texts.several_keys, format!("SELECT feature_key, item_key {several}"));
        let reported = BucketTexts::of("Lists", Dialect::Scylla);
        assert_eq!(reported.several, texts.several + " USING TIMEOUT ?");
        assert_eq!(reported.forget, texts.forget.replace("TIMESTAMP ?", "TIMESTAMP ? AND TIMEOUT ?"));
        assert_eq!(reported.note, texts.note, "in a batch it would have no effect");
    }
}
