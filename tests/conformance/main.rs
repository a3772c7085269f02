//! The conformance suites: the promises of `liststore::items` and `liststore::metadata`, written once and tested on
//! every store.
//!
//! A new store is added with one entry in `stores.rs`. A suite depends only on the properties of its backend, and never
//! needs an empty store: every case uses separate lists.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod crash;
mod full_disk;
mod in_buckets;
mod items;
mod lost_writes;
mod metadata;
mod stores;

use liststore_testkit::{bounded_list, cassandra, insist, postgres};

use std::future::Future;

/// Runs a case as an arbiter runs a session: everything on one thread, tasks that are not `Send`
/// allowed.
fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, case);
}
