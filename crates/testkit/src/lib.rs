//! Shared parts of Liststore's suites: servers, databases, faults between them, and models for their answers.
//!
//! A server runs in the process of its test ([`server`]). Postgres, PgBouncer and Cassandra are started once for a
//! suite, unless `LISTSTORE_TEST_POSTGRES_URL` and `LISTSTORE_TEST_CASSANDRA` name running ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a suite shows what it does")]

pub mod bag_checker;
pub mod bounded_list;
#[cfg(feature = "cql")]
pub mod cassandra;
pub mod guide;
pub mod in_turn;
#[cfg(feature = "postgres")]
pub mod insist;
pub mod language;
#[cfg(feature = "postgres")]
pub mod pgbouncer;
pub mod ports;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod proxy;
pub mod secrets;
pub mod server;
pub mod texts;
pub mod tokens;

/// The root of the project, where its scripts are.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
