//! Tables whose tombstones ScyllaDB drops in a way that does not fit the replicas that the keyspace has by now.
//!
//! With one replica `migrate` sets the mode `timeout`, since ScyllaDB refuses `repair` there. ALTER KEYSPACE leaves the
//! mode as it is. Then a replica that misses a removal for longer than `gc_grace_seconds` brings the items back,
//! however often the cluster is repaired in between.

use std::collections::HashMap;

use scylla::client::session::Session;

use super::dialect::Dialect;
use super::names::{BAGS, BUCKETS, INDEX, SETS, TABLE};
use crate::items::cql::Consistency;
use crate::items::cql::query::select;

/// The options of a table or a view that only one database knows, by name. ScyllaDB serializes `tombstone_gc` as its
/// keys and values, each after its length (`tombstone_gc_extension`).
type Extensions = Option<HashMap<String, Vec<u8>>>;
const OPTION: &str = "tombstone_gc";
const TIMEOUT: &[u8] = b"timeout";

/// What an operator should change, if anything.
pub async fn note(session: &Session, dialect: Dialect, keyspace: &str, replicas: Option<u32>) -> Option<String> {
    let replicas = replicas.filter(|replicas| dialect == Dialect::Scylla && *replicas > 1)?;
    let tables = "SELECT table_name, extensions FROM system_schema.tables WHERE keyspace_name = ?";
    let views = "SELECT view_name, extensions FROM system_schema.views WHERE keyspace_name = ?";
    let mut found: Vec<(String, Extensions)> = Vec::new();
    for text in [tables, views] {
        match select(session, text, (keyspace,), Consistency::One).await {
            Ok(rows) => found.extend(rows),
            Err(error) => tracing::debug!(%error, "cannot read the table options"),
        }
    }
    judge(keyspace, replicas, &found)
}

fn judge(keyspace: &str, replicas: u32, found: &[(String, Extensions)]) -> Option<String> {
    let view = format!("{INDEX}_index");
    let is_by_time = |name: &str| {
        let found = found.iter().find(|(found, _)| found == name);
        let option = found.and_then(|(_, extensions)| extensions.as_ref()?.get(OPTION));
        option.is_some_and(|option| option.windows(TIMEOUT.len()).any(|part| part == TIMEOUT))
    };
    let tables = [TABLE, SETS, BAGS, BUCKETS].into_iter().filter(|table| is_by_time(table));
    let change = |kind: &str, name: &str| {
        format!(
            "ALTER {kind} \"{keyspace}\".{name} WITH tombstone_gc = {{'mode': '{}'}}",
            Dialect::Scylla.tombstone_gc(replicas)
        )
    };
    let mut changes: Vec<_> = tables.map(|table| change("TABLE", table)).collect();
    changes.extend(is_by_time(&view).then(|| change("MATERIALIZED VIEW", &view)));
    (!changes.is_empty()).then(|| {
        format!(
            "the keyspace {keyspace} has {replicas} replicas but drops tombstones by time, whether or not they are \
             repaired: repair it, and run {}",
            changes.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of texts as ScyllaDB serializes it: counts and lengths are little-endian.
    fn serialized(mode: &str) -> Vec<u8> {
        let mut bytes = 1_u32.to_le_bytes().to_vec();
        for text in ["mode", mode] {
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    fn table(name: &str, mode: &str) -> (String, Extensions) {
        (name.to_owned(), Some(HashMap::from([(OPTION.to_owned(), serialized(mode))])))
    }

    #[test]
    fn tables_with_the_mode_of_one_replica_are_named_with_the_remedy() {
        let kept = [table(TABLE, "timeout"), table(BAGS, "repair"), table("list_items_by_value_index", "timeout")];
        let note = judge("Lists", 3, &kept).unwrap();
        assert!(note.contains("has 3 replicas"), "{note}");
        assert!(note.contains("ALTER TABLE \"Lists\".list_items WITH tombstone_gc = {'mode': 'repair'}"), "{note}");
        assert!(note.contains("ALTER MATERIALIZED VIEW \"Lists\".list_items_by_value_index WITH"), "{note}");
        assert!(!note.contains(BAGS), "{note}");
    }

    #[test]
    fn other_modes_and_other_tables_are_left_alone() {
        let fit = [table(TABLE, "repair"), table("list_bag_swaps", "timeout"), (SETS.to_owned(), None)];
        assert_eq!(judge("Lists", 3, &fit), None);
        assert_eq!(judge("Lists", 3, &[]), None);
    }
}
