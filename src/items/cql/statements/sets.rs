//! The statements on sets.

use scylla::client::session::Session;
use scylla::errors::PrepareError;

use super::{LIST, Levels, statements};
use crate::items::cql::options::CqlOptions;
use crate::items::cql::schema::dialect::Dialect;

statements!(
    Set SetStatement, SetTexts, PreparedForSets,
    {
        /// Ordered rows of a slice, newest first: the order of the table, as all of them are of one kind.
        Rows rows: read as Get,
        /// The same slice, oldest first: the order of both clustering columns exactly reversed.
        ///
        /// ScyllaDB: "Ordering results" (cql/dml/select.html).
        RowsOldest rows_oldest: read as Get,
        /// The keys of such rows alone, in both orders.
        RowKeys row_keys: read as Keys,
        RowKeysOldest row_keys_oldest: read as Keys,
        /// Ordered rows by their keys, with their write timestamps. At most [`ENTRIES_MAX`] at once.
        FindRows find_rows: read as Keys,
        /// Reverse entries by their members. At most [`ENTRIES_MAX`] at once. Collections are read so by ScyllaDB since
        /// 4.6 (scylladb/scylladb issue 7743) and by Cassandra since 4.0.
        Entries entries: read as Find,
        /// All reverse entries of a set.
        AllEntries all_entries: read as Find,
        /// Which partitions there are from a token on, in the order of tokens.
        Entities entities: read as Entities,
        /// One ordered row. TTL in seconds, timestamp in microseconds.
        AddRow add_row: write as Add,
        /// One item of a reverse entry: it overwrites the previous item of this writer.
        ///
        /// ScyllaDB: "UPDATE" (cql/dml/update.html), "Maps" (cql/types.html).
        AddEntry add_entry: write as Add,
        DeleteRow delete_row: write as Delete,
        /// Takes all that was written no later out of entries. At most [`ENTRIES_MAX`] at once.
        DeleteEntries delete_entries: write as Delete,
        /// Deletes the ordered rows between two of them by one tombstone, and neither of both.
        DeleteGap delete_gap: write as Delete,
        /// Deletes the item of a writer from a reverse entry. The entry disappears with its last item.
        DeleteEntry delete_entry: write as Delete,
        /// Deletes a partition by one tombstone.
        Clear clear: write as Clear,
    },
    apart {}
);

/// Keys of one statement: what ScyllaDB takes by default (`max_clustering_key_restrictions_per_query`).
pub const ENTRIES_MAX: usize = 100;

impl SetTexts {
    /// The texts for a dialect; the time that is left is bound as in those on lists of items. In a batch a statement
    /// cannot have one.
    pub fn of(keyspace: &str, dialect: Dialect) -> Self {
        let table = format!("\"{keyspace}\".list_members");
        let (select_within, and_within) = dialect.timeout_clauses();
        let item = format!("{LIST} AND kind = 'item'");
        let member = format!("{LIST} AND kind = 'member'");
        let slice = format!("SELECT sort, member FROM {table} WHERE {item} AND sort >= ? AND sort < ?");
        let keys = format!("SELECT sort FROM {table} WHERE {item} AND sort >= ? AND sort < ?");
        let entries = format!("SELECT sort, items FROM {table} WHERE {member}");
        Self {
            rows: format!("{slice}{select_within}"),
            row_keys: format!("{keys} LIMIT ?{select_within}"),
            row_keys_oldest: format!("{keys} ORDER BY kind DESC, sort ASC LIMIT ?{select_within}"),
            rows_oldest: format!("{slice} ORDER BY kind DESC, sort ASC{select_within}"),
            find_rows: format!(
                "SELECT sort, member, WRITETIME(member) FROM {table} WHERE {item} AND sort IN ?{select_within}"
            ),
            all_entries: format!("{entries}{select_within}"),
            entries: format!("{entries} AND sort IN ?{select_within}"),
            entities: format!(
                "SELECT DISTINCT feature_key, entity_id FROM {table} WHERE token(feature_key, entity_id) >= ? AND \
                 token(feature_key, entity_id) <= ? LIMIT ?{select_within}"
            ),
            add_row: format!(
                "INSERT INTO {table} (feature_key, entity_id, kind, sort, member) VALUES (?, ?, 'item', ?, ?) USING TTL ? \
                 AND TIMESTAMP ?"
            ),
            add_entry: format!(
                "UPDATE {table} USING TTL ? AND TIMESTAMP ? SET items[?] = ? WHERE {member} AND sort = ?"
            ),
            delete_row: format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {item} AND sort = ?"),
            delete_gap: format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {item} AND sort > ? AND sort < ?"),
            delete_entries: format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {member} AND sort IN ?"),
            delete_entry: format!("DELETE items[?] FROM {table} USING TIMESTAMP ? WHERE {member} AND sort = ?"),
            clear: format!("DELETE FROM {table} USING TIMESTAMP ?{and_within} WHERE {LIST}"),
        }
    }
}

impl PreparedForSets {
    pub async fn prepare(session: &Session, options: &CqlOptions, dialect: Dialect) -> Result<Self, PrepareError> {
        Self::of(session, &SetTexts::of(&options.keyspace, dialect), Levels::of(options)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_match_their_snapshot() {
        let texts = SetTexts::of("Lists", Dialect::Cassandra);
        let item = "WHERE feature_key = ? AND entity_id = ? AND kind = 'item'";
        let member = "WHERE feature_key = ? AND entity_id = ? AND kind = 'member'";
        let slice = format!("SELECT sort, member FROM \"Lists\".list_members {item} AND sort >= ? AND sort < ?");
        assert_eq!(texts.rows, slice);
        assert_eq!(texts.rows_oldest, format!("{slice} ORDER BY kind DESC, sort ASC"));
        let keys = format!("SELECT sort FROM \"Lists\".list_members {item} AND sort >= ? AND sort < ?");
        assert_eq!(texts.row_keys, format!("{keys} LIMIT ?"));
        assert_eq!(texts.row_keys_oldest, format!("{keys} ORDER BY kind DESC, sort ASC LIMIT ?"));
        let entries = format!("SELECT sort, items FROM \"Lists\".list_members {member}");
        assert_eq!((texts.entries, texts.all_entries), (format!("{entries} AND sort IN ?"), entries));
        assert_eq!(
            texts.add_entry,
            format!("UPDATE \"Lists\".list_members USING TTL ? AND TIMESTAMP ? SET items[?] = ? {member} AND sort = ?")
        );
        assert_eq!(
            texts.delete_entry,
            format!("DELETE items[?] FROM \"Lists\".list_members USING TIMESTAMP ? {member} AND sort = ?")
        );
        let delete = "DELETE FROM \"Lists\".list_members USING TIMESTAMP ?";
        assert_eq!(texts.delete_row, format!("{delete} {item} AND sort = ?"));
        assert_eq!(texts.delete_entries, format!("{delete} {member} AND sort IN ?"));
        assert_eq!(texts.delete_gap, format!("{delete} {item} AND sort > ? AND sort < ?"));
    }

    #[test]
    fn statements_for_scylladb_have_a_timeout_outside_of_batches() {
        let (plain, texts) = (SetTexts::of("k", Dialect::Cassandra), SetTexts::of("k", Dialect::Scylla));
        let reads = |texts: SetTexts| texts.all().into_iter().filter(|text| text.starts_with("SELECT"));
        for (reported, plain) in reads(texts.clone()).zip(reads(plain.clone())) {
            assert_eq!(reported, plain + " USING TIMEOUT ?");
        }
        assert_eq!((texts.add_row, texts.add_entry), (plain.add_row, plain.add_entry));
        assert_eq!((texts.delete_row, texts.delete_entry), (plain.delete_row, plain.delete_entry));
        assert!(texts.clear.contains("TIMESTAMP ? AND TIMEOUT ?"));
    }

    #[test]
    fn every_write_sets_its_timestamp_and_all_statements_but_walks_their_partition() {
        for dialect in [Dialect::Cassandra, Dialect::Scylla] {
            for text in SetTexts::of("k", dialect).all() {
                assert!(text.starts_with("SELECT") || text.contains("TIMESTAMP ?"), "{text}");
                let names_list = text.contains(LIST) || text.contains("(feature_key, entity_id");
                assert!(names_list, "{text}");
            }
        }
    }
}
