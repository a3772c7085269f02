//! The embedded engine against a model of it: random operations, crashes, damage and faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod ahead;
mod backups;
mod bags;
mod bounded;
mod compaction;
mod crashes;
mod damage;
mod entities;
mod erasure;
mod faults;
mod harness;
mod heads;
mod hot_list;
mod joining;
mod kept;
mod lists;
mod memory;
mod million;
mod opening;
mod operations;
mod overlap;
mod presence;
mod reading;
mod room;
mod sets;
mod sim_disk;
mod space;
mod steps;
mod ties;

use liststore_testkit::bounded_list;

/// The server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
