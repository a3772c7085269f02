//! The command line as users run it: the real binary, a real server, real pipes and signals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod attack;
mod backup;
mod bag_faults;
mod bags;
mod bench;
mod bench_peer;
mod buckets;
mod callers;
mod certificates;
mod commands;
mod confirm;
mod connections;
mod control_group;
mod data_dir;
mod definitions;
mod documents;
mod doubt;
mod feature_files;
mod help;
mod import;
mod import_faults;
mod jobs;
mod keys;
mod leaks;
mod log;
mod mistakes;
mod operate;
mod pages;
mod pipes;
mod program;
mod readme;
mod restores;
mod serve;
mod sets;
mod shared;
mod stopping;
mod streams;
mod texts;
mod times;
mod training;
mod transfer;
mod walkthrough;

use liststore_testkit::{bag_checker, ports, postgres, texts as odd_texts};
