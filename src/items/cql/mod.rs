//! Lists in ScyllaDB and Apache Cassandra: one partition a list, one session an actor.
//!
//! `docs/contributing/cql.md` describes the promises of this store to operators, with their sources. This module alone
//! names the driver, and it must never hand the driver's or the database's words to a caller.
//!
//! | files | content |
//! | --- | --- |
//! | `store`, `shared`, `options` | the store, its shared state, and its options |
//! | `session`, `core` | one session, and the shared state of its operations |
//! | `call` | one operation on one partition, its permit, and its requests |
//! | `layouts` | the operations on lists, sets and bags |
//! | `upkeep`, `notes` | tasks in the background, and the notes of operations for them |
//! | `pressure` | permits, attempts and routes |
//! | `health` | the view of nodes and clocks |
//! | `partitions` | requests about partitions, carried out by the driver or a simulated cluster |
//! | `statements` | the texts |
//! | `schema` | the keyspace and its tables |
//! | `connect` | the driver's sessions |
//! | `query`, `ttl` | queries outside of operations; a row's TTL |
//! | `error` | the cluster's errors in the contract's words |
//!
//! A folder uses only folders below it in this table, and `core` is above all but `call`, `layouts` and `upkeep`.

mod call;
mod connect;
mod core;
mod error;
mod health;
mod layouts;
mod notes;
mod options;
mod partitions;
mod pressure;
mod query;
mod schema;
mod session;
mod shared;
mod statements;
mod store;
mod ttl;
mod upkeep;

use crate::tls_files::FileProblem;

pub use layouts::add::ADD_BYTES_MAX;
pub use options::{
    ClientCertificate, Compression, Consistency, CqlOptions, CqlTls, Credentials, DialectChoice, Password,
    SETTLED_AFTER_MIN, TabletsChoice, TranslatedNode,
};
pub use schema::dialect::Dialect;
pub use schema::found::IndexDefect;
pub use schema::inspect::{Fitness, Inspection, NodeInspection, inspect};
pub use schema::migrate::{MigrateError, MigrationReport, MigrationStep, migrate};
pub use schema::rebuild::rebuild_directories;
pub use schema::state::SchemaState;
pub use statements::lists::Texts;
pub use store::CqlStore;

/// Why a store cannot be opened with any cluster: its options are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("items.cql.{option}: {problem}")]
    Option { option: &'static str, problem: &'static str },
    #[error("items.cql.tls: {0}")]
    TlsFile(#[from] FileProblem),
    #[error("cannot register metrics: {reason}")]
    Metrics { reason: String },
}
