//! The data plane on a real Cassandra: its rows as they stand there, its schema, what happens when
//! requests and nodes fail, and what several servers see of each other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bag_faults;
mod bags;
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
