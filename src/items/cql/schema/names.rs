//! The names of tables and of the index of values.

pub const TABLE: &str = "list_items";
pub const SETS: &str = "list_members";
pub const BAGS: &str = "list_bags";
pub const SWAPS: &str = "list_bag_swaps";
pub const BUCKETS: &str = "list_buckets";
pub const INDEX: &str = "list_items_by_value";
pub const RECORD: &str = "schema_migrations";
pub const COMPATIBILITY: &str = "schema_compatibility";
