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

#[path = "../support/insist.rs"]
mod insist;
#[path = "../support/pgbouncer.rs"]
mod pgbouncer;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/proxy.rs"]
mod proxy;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../support/server.rs"]
mod server;
