//! The keyspace and its tables: reading, judging and creating them.
//!
//! | files | content |
//! | --- | --- |
//! | `dialect`, `names` | how ScyllaDB and Cassandra differ; names of tables |
//! | `found`, `state` | the state of the keyspace |
//! | `replicas`, `tombstone_gc` | whether replicas and options of tables fit |
//! | `inspect` | the report of `liststore check` |
//! | `migrate`, `migrations` | creating and changing the schema |
//! | `rebuild` | rebuilding lost directories of buckets |

pub mod dialect;
pub mod found;
pub mod inspect;
pub mod migrate;
pub mod migrations;
pub mod names;
pub mod rebuild;
pub mod replicas;
pub mod state;
pub mod tombstone_gc;
