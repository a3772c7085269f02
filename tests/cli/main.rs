//! The command line as its users meet it: the real binary, a real server, real pipes and signals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bench;
mod bench_peer;
mod commands;
mod connections;
mod import;
mod import_faults;
mod program;
mod readme;
mod serve;
