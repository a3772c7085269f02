//! Lists in ScyllaDB and Apache Cassandra: one partition a list, one session an actor.
//!
//! `docs/contributing/cql.md` tells operators what is promised here and on what grounds. This module alone names
//! the driver, and it must never hand the driver's or the database's words to a caller.
//!
//! | files | what they own |
//! | --- | --- |
//! | `store`, `shared`, `options` | the store, what its sessions share, and what it is opened with |
//! | `session`, `core` | one session, and what its operations share |
//! | `get`, `add`, `remove`, `ttl` | the operations; a row's TTL |
//! | `layout`, `deletes` | reads of a list, however it is kept; how what is found is deleted |
//! | `overlong`, `trims`, `keys` | lists with more items than they show, and how they are cut |
//! | `bags`, `states`, `bag_statements` | bags, the states that a row was in, and the texts for them |
//! | `buckets`, `bucket_statements`, `noted_buckets` | lists that are kept in many partitions |
//! | `members`, `mends` | sets, and those of their members that are to be mended |
//! | `wide`, `wide_looks` | lists that should be in buckets |
//! | `noted`, `lanes` | what is to be looked at in the background; several requests of one operation |
//! | `statements`, `set_statements`, `dialect`, `query` | the texts; how the databases differ; other queries |
//! | `coalesce` | gets of one query that share requests |
//! | `retry`, `under_way`, `budget`, `route` | attempts, those that callers left, how many, on which nodes |
//! | `paces` | which nodes are much slower than others |
//! | `permits`, `limit` | how much the cluster has to do at once |
//! | `gate`, `lookout` | refusing while nothing is reached; finding out what is |
//! | `watch`, `view`, `news` | what all sessions see, and what is said of it |
//! | `connect`, `reach`, `datacenter`, `translate`, `tls` | the driver's sessions: to which nodes, and how |
//! | `connection_errors` | why there is none |
//! | `schema`, `found`, `replicas`, `inspect`, `tombstone_gc` | what stands in the cluster, and whether it will do |
//! | `migrate`, `migrations`, `rebuild` | making it; making directories of buckets anew |
//! | `write_clock`, `skew`, `node_clocks` | write timestamps, and the clocks of other servers and of nodes |
//! | `error`, `metrics` | the cluster's errors in the contract's words; counts |

mod add;
mod bag_statements;
mod bags;
mod bucket_statements;
mod buckets;
mod budget;
mod coalesce;
mod connect;
mod connection_errors;
mod contains;
mod core;
mod datacenter;
mod deletes;
mod dense;
mod dialect;
mod entities;
mod error;
mod found;
mod gate;
mod get;
mod inspect;
mod keys;
mod lanes;
mod layout;
mod limit;
mod login;
mod lookout;
mod members;
mod mends;
mod metrics;
mod migrate;
mod migrations;
mod news;
mod node_clocks;
mod noted;
mod noted_buckets;
mod options;
mod overlong;
mod paces;
mod permits;
mod query;
mod reach;
mod rebuild;
mod remove;
mod replicas;
mod retry;
mod route;
mod schema;
mod session;
mod set_statements;
mod settled;
mod shared;
mod skew;
mod statements;
mod states;
mod store;
mod sweeps;
mod tls;
mod to_sweep;
mod tombstone_gc;
mod translate;
mod trims;
mod ttl;
mod under_way;
mod unfinished;
mod view;
mod watch;
mod wide;
mod wide_looks;
mod write;
mod write_clock;

use crate::tls_files::FileProblem;

pub use add::ADD_BYTES_MAX;
pub use dialect::Dialect;
pub use found::IndexDefect;
pub use inspect::{Fitness, Inspection, NodeInspection, inspect};
pub use migrate::{MigrateError, MigrationReport, MigrationStep, migrate};
pub use options::{
    ClientCertificate, Compression, Consistency, CqlOptions, CqlTls, Credentials, DialectChoice, Password,
    SETTLED_AFTER_MIN, TabletsChoice, TranslatedNode,
};
pub use rebuild::rebuild_directories;
pub use schema::SchemaState;
pub use statements::Texts;
pub use store::CqlStore;

/// Why a store cannot be opened, whatever the cluster: the options are not right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("items.cql.{option}: {problem}")]
    Option { option: &'static str, problem: &'static str },
    #[error("items.cql.tls: {0}")]
    TlsFile(#[from] FileProblem),
    #[error("cannot register metrics: {reason}")]
    Metrics { reason: String },
}
