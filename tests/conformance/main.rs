//! The conformance suites: what `liststore::items` and `liststore::metadata` promise, written once
//! and held against every store.
//!
//! A new store is added with one entry in `stores.rs`. A suite never knows its store, except for the properties of its
//! backend, and never needs an empty store: every case works on separate lists.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/bounded_list.rs"]
mod bounded_list;
mod crash;
mod full_disk;
mod in_buckets;
mod items;
mod lost_writes;
mod metadata;
mod stores;

#[path = "../support/cassandra.rs"]
#[allow(dead_code, reason = "other suites kill nodes and bring them back")]
mod cassandra;

#[path = "../support/insist.rs"]
mod insist;

#[path = "../support/postgres.rs"]
#[allow(dead_code, reason = "other suites stop servers and cut connections")]
mod postgres;

use std::future::Future;

/// Runs a case as an arbiter runs a session: everything on one thread, tasks that are not `Send`
/// allowed.
fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, case);
}
