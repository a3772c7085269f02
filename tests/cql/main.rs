//! The data plane on a real Cassandra: its stored rows, its schema, failing requests and nodes, and the interaction of
//! several servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bag_faults;
mod bags;
mod bucket_removals;
mod buckets;
mod cleaning;
mod clocks;
mod cluster;
mod coalescing;
mod copies;
mod detection;
mod forged;
mod forged_cluster;
mod forger;
mod keyspace;
mod lost_answers;
mod outage;
mod permits;
mod probe;
mod purges;
mod readiness;
mod rows;
mod schema;
mod servers;
mod sets;
mod sets_at_once;
mod settings;
mod swaps;
mod takeover;
mod tls;
mod tombstones;
mod topology;
mod trims;
mod walks;

#[allow(dead_code, reason = "the tests of the command line use more of it")]
#[path = "../cli/program.rs"]
mod program;

use liststore_testkit::{bag_checker, cassandra, guide, ports, postgres, proxy, server};
