//! Liststore: a server for list features.
//!
//! The map of the crate, from the edge inwards: `cli → app → http → operations → api → service → {actors, background,
//! backup} → {access, data_dir} → {items, metadata} → domain`. `ARCHITECTURE.md` explains it.

pub mod access;
pub mod actors;
pub mod admin_socket;
pub mod api;
pub mod app;
pub mod background;
pub mod backup;
pub mod cli;
pub mod config;
pub mod console;
pub mod data_dir;
pub mod http;
pub mod items;
pub mod left_out;
pub mod metadata;
pub mod operations;
#[cfg(target_os = "linux")]
pub mod scheduling;
pub mod service;
pub mod telemetry;

pub use liststore_bench as loadgen;
pub use liststore_client as client;
pub use liststore_contract::{definition, domain, wire};
pub use liststore_tls as tls_files;
pub use liststore_transfer as transfer;
pub use liststore_transfer::{import, typed_times};
