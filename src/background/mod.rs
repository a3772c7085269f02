//! What runs by itself, beside the requests: jobs, which outlive a restart.
//!
//! [`Jobs`] makes and changes them, and [`Worker`] works on one after the other. Where servers share a metadata
//! store, one of them works on a job: it has to keep a new state of it every few seconds, and whoever has seen
//! no new one for a while takes over. Nobody's clock is compared with another's.

mod hold;
mod jobs;
mod purge;
mod worker;

pub use jobs::{Command, Jobs};
pub use worker::Worker;
