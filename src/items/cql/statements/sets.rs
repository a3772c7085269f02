//! The statements on sets, beside those on lists of items in `lists.rs`, and by the same rules.

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;

use super::lists::{LIST, prepare};
use crate::items::cql::options::CqlOptions;
use crate::items::cql::schema::dialect::Dialect;

/// The texts, for one keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetTexts {
    /// Ordered rows of a slice, newest first: the order of the table, as all of them are of one kind.
    pub rows: String,
    /// The same slice, oldest first: the order of both clustering columns exactly reversed.
    ///
    /// ScyllaDB: "Ordering results" (cql/dml/select.html).
    pub rows_oldest: String,
    /// The keys of such rows alone, in both orders.
    pub row_keys: String,
    pub row_keys_oldest: String,
    /// Ordered rows by their keys, with their write timestamps. At most [`ENTRIES_MAX`] at once.
    pub find_rows: String,
    /// Reverse entries by their members. At most [`ENTRIES_MAX`] at once. Collections are read so by ScyllaDB since
    /// 4.6 (scylladb/scylladb issue 7743) and by Cassandra since 4.0.
    pub entries: String,
    /// All reverse entries of a set.
    pub all_entries: String,
    /// Which partitions there are from a token on, in the order of tokens.
    pub entities: String,
    /// One ordered row. TTL in seconds, timestamp in microseconds.
    pub add_row: String,
    /// One item of a reverse entry: what this writer had there before is overwritten.
    ///
    /// ScyllaDB: "UPDATE" (cql/dml/update.html), "Maps" (cql/types.html).
    pub add_entry: String,
    pub delete_row: String,
    /// Takes all that was written no later out of entries. At most [`ENTRIES_MAX`] at once.
    pub delete_entries: String,
    /// Deletes the ordered rows between two of them by one tombstone, and neither of both.
    pub delete_gap: String,
    /// Takes what a writer has there out of a reverse entry, which is gone with the last one.
    pub delete_entry: String,
    /// Deletes a partition by one tombstone.
    pub clear: String,
}

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

#[cfg(test)]
impl SetTexts {
    /// All of them.
    pub fn all(self) -> Vec<String> {
        let Self { rows, rows_oldest, find_rows, entries, all_entries, entities, .. } = self;
        let Self { row_keys, row_keys_oldest, add_row, add_entry, .. } = self;
        let Self { delete_row, delete_entry, delete_entries, delete_gap, clear, .. } = self;
        let reads = [rows, rows_oldest, row_keys, row_keys_oldest, find_rows, entries, all_entries, entities];
        let deletes = [delete_row, delete_entry, delete_entries, delete_gap, clear];
        reads.into_iter().chain([add_row, add_entry]).chain(deletes).collect()
    }
}

/// The statements as one session prepared them.
#[derive(Debug)]
pub struct PreparedForSets {
    pub rows: PreparedStatement,
    pub rows_oldest: PreparedStatement,
    pub row_keys: PreparedStatement,
    pub row_keys_oldest: PreparedStatement,
    pub find_rows: PreparedStatement,
    pub entries: PreparedStatement,
    pub all_entries: PreparedStatement,
    pub entities: PreparedStatement,
    pub add_row: PreparedStatement,
    pub add_entry: PreparedStatement,
    pub delete_row: PreparedStatement,
    pub delete_entry: PreparedStatement,
    pub delete_gap: PreparedStatement,
    pub delete_entries: PreparedStatement,
    pub clear: PreparedStatement,
}

impl PreparedForSets {
    pub async fn prepare(session: &Session, options: &CqlOptions, dialect: Dialect) -> Result<Self, PrepareError> {
        let texts = SetTexts::of(&options.keyspace, dialect);
        let (read, write) = (options.read_consistency, options.write_consistency);
        let read = |text| prepare(session, text, read);
        let write = |text| prepare(session, text, write);
        // At once: a session that opens has somebody waiting for it.
        let (rows, rows_oldest, find_rows, entries, all_entries, entities) = tokio::try_join!(
            read(&texts.rows),
            read(&texts.rows_oldest),
            read(&texts.find_rows),
            read(&texts.entries),
            read(&texts.all_entries),
            read(&texts.entities),
        )?;
        let (row_keys, row_keys_oldest, delete_gap, delete_entries) = tokio::try_join!(
            read(&texts.row_keys),
            read(&texts.row_keys_oldest),
            write(&texts.delete_gap),
            write(&texts.delete_entries),
        )?;
        let (add_row, add_entry, delete_row, delete_entry, clear) = tokio::try_join!(
            write(&texts.add_row),
            write(&texts.add_entry),
            write(&texts.delete_row),
            write(&texts.delete_entry),
            write(&texts.clear),
        )?;
        Ok(Self {
            rows,
            rows_oldest,
            row_keys,
            row_keys_oldest,
            find_rows,
            entries,
            all_entries,
            entities,
            add_row,
            add_entry,
            delete_row,
            delete_entry,
            delete_gap,
            delete_entries,
            clear,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_these() {
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
    fn scylladb_is_told_how_long_it_may_work_but_in_batches() {
        let (plain, texts) = (SetTexts::of("k", Dialect::Cassandra), SetTexts::of("k", Dialect::Scylla));
        let reads = |texts: SetTexts| texts.all().into_iter().filter(|text| text.starts_with("SELECT"));
        for (told, plain) in reads(texts.clone()).zip(reads(plain.clone())) {
            assert_eq!(told, plain + " USING TIMEOUT ?");
        }
        assert_eq!((texts.add_row, texts.add_entry), (plain.add_row, plain.add_entry));
        assert_eq!((texts.delete_row, texts.delete_entry), (plain.delete_row, plain.delete_entry));
        assert!(texts.clear.contains("TIMESTAMP ? AND TIMEOUT ?"));
    }

    #[test]
    fn every_write_sets_its_timestamp_and_all_but_walks_their_partition() {
        for dialect in [Dialect::Cassandra, Dialect::Scylla] {
            for text in SetTexts::of("k", dialect).all() {
                assert!(text.starts_with("SELECT") || text.contains("TIMESTAMP ?"), "{text}");
                let names_list = text.contains(LIST) || text.contains("(feature_key, entity_id");
                assert!(names_list, "{text}");
            }
        }
    }
}
