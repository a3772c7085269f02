//! The control plane on a real Postgres: its schema and statements, several servers on one database,
//! and Postgres away, hanging, and back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod failover;
mod inconsistency;
mod keys;
mod outage;
mod poolers;
mod schema;
mod servers;
mod sharing;
mod statements;
mod tls;
mod writing;

use liststore_testkit::{insist, pgbouncer, postgres, proxy, server};
