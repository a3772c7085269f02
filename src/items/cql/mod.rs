//! Lists in ScyllaDB and Apache Cassandra: one partition a list, one session an actor.
//!
//! `docs/cql.md` tells operators what is promised here and on what grounds. This module alone names
//! the driver, and it must never hand the driver's or the database's words to a caller.

use std::path::PathBuf;

mod add;
mod coalesce;
mod connect;
mod datacenter;
mod dialect;
mod error;
mod gate;
mod get;
mod inspect;
mod limit;
mod metrics;
mod migrate;
mod migrations;
mod options;
mod permits;
mod reach;
mod remove;
mod retry;
mod route;
mod schema;
mod session;
mod skew;
mod statements;
mod store;
mod tls;
mod translate;
mod ttl;
mod turns;
mod watch;
mod write_clock;

pub use add::{ADD_BYTES_MAX, ADD_ITEMS_MAX};
pub use dialect::Dialect;
pub use inspect::{Fitness, Inspection, NodeInspection, inspect};
pub use migrate::{MigrateError, MigrationReport, MigrationStep, migrate};
pub use options::{
    ClientCertificate, Compression, Consistency, CqlOptions, CqlTls, Credentials, DialectChoice, TabletsChoice,
};
pub use schema::{IndexTrouble, SchemaState};
pub use statements::Texts;
pub use store::CqlStore;

/// Why a store cannot be opened, whatever the cluster: the options are not right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("items.cql.{option}: {problem}")]
    Option { option: &'static str, problem: &'static str },
    #[error("items.cql.tls: cannot use {}: {problem}", path.display())]
    TlsFile { path: PathBuf, problem: &'static str },
    #[error("cannot register metrics: {reason}")]
    Metrics { reason: String },
}
