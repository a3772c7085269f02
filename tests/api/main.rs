//! The HTTP API, black box: every rule of `docs/reference/api.md`, tested on the real application over HTTP.
//!
//! Every answer in these tests is checked against the OpenAPI document (see `contract`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod adds;
mod administration;
mod aggregates;
mod audit;
mod bag_reads;
mod bags;
mod batches;
mod bodies;
mod bounded;
mod browsers;
mod buckets;
mod builds;
mod cleaning;
mod client;
mod conditions;
mod connections;
mod contract;
mod entities;
mod entity_types;
mod erasure;
mod failures;
mod faults;
mod faulty_items;
mod faulty_metadata;
mod features;
mod forms;
mod gets;
mod gone_clients;
mod headers;
mod heads;
mod health;
mod history;
mod index_model;
mod indexes;
mod issuers;
mod keys;
mod limits;
mod members;
mod memory;
mod metrics;
mod overload;
mod pages;
mod paths;
mod pool;
mod purges;
mod queries;
mod removals;
mod scopes;
mod sdk;
mod slow_clients;
mod smuggling;
mod snapshots;
mod sockets;
mod stopping;
mod texts;
mod tls;
mod tokens;
mod values;
mod versions;

use liststore_testkit::{guide, language, server as support, texts as odd_texts, tokens as test_tokens};
