//! The statements on bags. A bag is changed by lightweight transactions, which take their write timestamps from the
//! database. A row that is written so must never be written in another way.

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::SerialConsistency;

use super::{LIST, Levels, statements};
use crate::items::cql::options::CqlOptions;
use crate::items::cql::schema::dialect::Dialect;

statements!(
    Bag BagStatement, BagTexts, PreparedForBags,
    {
        /// With the present by a node's clock, in milliseconds.
        Read read: read as Get,
        /// Which partitions there are from a token on, in the order of tokens.
        Entities entities: read as Entities,
        /// Puts a bag in the place of the state that was read. The states in the condition stand in the answer.
        ///
        /// ScyllaDB: "UPDATE" (cql/dml/update.html), "Lightweight Transactions" (features/lwt.html).
        Put put: write as Swap,
        /// Notes a swap, and forgets it.
        Note note: write as Add,
        Forget forget: write as Delete,
        /// The swaps that are noted in one partition, after one of them.
        Noted noted: read as Get,
    },
    apart {}
);

impl BagTexts {
    pub fn of(keyspace: &str, dialect: Dialect) -> Self {
        let table = format!("\"{keyspace}\".list_bags");
        let swaps = format!("\"{keyspace}\".list_bag_swaps");
        let (select_within, _) = dialect.timeout_clauses();
        Self {
            read: format!(
                "SELECT state, states, written, stamp, expires_at, document, toUnixTimestamp(now()) FROM {table} WHERE \
                 {LIST}{select_within}"
            ),
            entities: format!(
                "SELECT DISTINCT feature_key, entity_id FROM {table} WHERE token(feature_key, entity_id) >= ? AND \
                 token(feature_key, entity_id) <= ? LIMIT ?{select_within}"
            ),
            put: format!(
                "UPDATE {table} USING TTL ? SET state = ?, states = ?, written = ?, stamp = ?, expires_at = ?, document = ? \
                 WHERE {LIST} IF state = ? AND states = ?"
            ),
            note: format!(
                "INSERT INTO {swaps} (minute, shard, id, feature_key, entity_id, removed, written) VALUES (?, ?, ?, ?, ?, \
                 ?, ?) USING TIMESTAMP ?"
            ),
            forget: format!("DELETE FROM {swaps} USING TIMESTAMP ? WHERE minute = ? AND shard = ? AND id = ?"),
            noted: format!(
                "SELECT id, feature_key, entity_id, removed, written FROM {swaps} WHERE minute = ? AND shard = ? \
                 AND id > ? LIMIT ?{select_within}"
            ),
        }
    }
}

impl PreparedForBags {
    pub async fn prepare(session: &Session, options: &CqlOptions, dialect: Dialect) -> Result<Self, PrepareError> {
        let texts = BagTexts::of(&options.keyspace, dialect);
        let mut prepared = Self::of(session, &texts, Levels::of(options)).await?;
        // Within a datacenter where its writes are within it, too.
        let serial = if options.write_consistency.is_local() {
            SerialConsistency::LocalSerial
        } else {
            SerialConsistency::Serial
        };
        prepared.put.set_serial_consistency(Some(serial));
        // The columns of the answer depend on whether the transaction was applied.
        prepared.put.set_use_cached_result_metadata(false);
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_match_their_snapshot() {
        let texts = BagTexts::of("Lists", Dialect::Cassandra);
        let list = "WHERE feature_key = ? AND entity_id = ?";
        assert_eq!(
            texts.read,
            format!(
                "SELECT state, states, written, stamp, expires_at, document, toUnixTimestamp(now()) FROM \
                 \"Lists\".list_bags {list}"
            )
        );
        assert_eq!(
            texts.put,
            format!(
                "UPDATE \"Lists\".list_bags USING TTL ? SET state = ?, states = ?, written = ?, stamp = ?, expires_at = ?, \
                 document = ? {list} IF state = ? AND states = ?"
            )
        );
        let reported = BagTexts::of("Lists", Dialect::Scylla);
        assert_eq!(
            (reported.read, reported.entities),
            (texts.read + " USING TIMEOUT ?", texts.entities + " USING TIMEOUT ?")
        );
    }

    #[test]
    fn a_bag_is_written_only_by_transactions() {
        for dialect in [Dialect::Cassandra, Dialect::Scylla] {
            for text in BagTexts::of("k", dialect).all() {
                let is_transaction = text.ends_with("IF state = ? AND states = ?") && !text.contains("TIMESTAMP");
                assert!(text.starts_with("SELECT") || is_transaction || text.contains("list_bag_swaps"), "{text}");
            }
        }
    }
}
