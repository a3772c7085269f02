//! What runs by itself, beside the requests: jobs, which outlive a restart.
//!
//! [`Jobs`] makes and changes them, and [`Worker`] works on one after the other. Where servers share a metadata
//! store, one of them works on a job: it has to keep a new state of it every few seconds, and whoever has seen
//! no new one for a while takes over. Nobody's clock is compared with another's.

mod build;
mod entries;
mod hold;
mod insist;
mod jobs;
mod purge;
mod unbuilt;
mod worker;

pub use build::Settle;
pub use entries::entry_changes;
pub use jobs::{Command, Jobs};
pub use unbuilt::job_of;
pub use worker::Worker;
