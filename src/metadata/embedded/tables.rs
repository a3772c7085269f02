//! The tables of definitions in the file, and the failures of their transactions.

use redb::TableDefinition;

/// `format`, `revision`, `items_at` (the durable position of the items' log), and the two halves of the store's ID.
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// Existing features by `records::feature_key`.
pub(super) const FEATURES: TableDefinition<&str, &[u8]> = TableDefinition::new("features");
/// The last generation of every version that ever existed, by `records::version_key`.
pub(super) const GENERATIONS: TableDefinition<&str, u64> = TableDefinition::new("generations");
/// Every change, by `records::feature_key` and revision.
pub(super) const HISTORY: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("history");

/// A failed transaction, and whether it may have become durable.
pub(super) struct Failure {
    pub error: redb::Error,
    pub outcome_unknown: bool,
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: error.into(), outcome_unknown: false }
    }
}
