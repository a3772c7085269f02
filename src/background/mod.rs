//! What runs by itself, beside the requests: jobs, which outlive a restart.
//!
//! [`Jobs`] makes and changes them, and [`Worker`] works on them: on what goes through bags beside what removes
//! lists, and otherwise on one after the other. Where servers share a metadata store, one of them works on a job:
//! it has to keep a new state of it every second, and whoever has seen no new one for a while takes over. Nobody's
//! clock is compared with another's.
//!
//! Beside them the [`Cleaner`] mends entries of indexes that do not agree with bags.

mod build;
mod clean;
mod cleaner;
mod entries;
mod finish;
mod hold;
mod insist;
mod jobs;
mod lane;
mod purge;
mod tempo;
mod unbuilt;
mod worker;

pub use build::Settle;
pub use cleaner::Cleaner;
pub use entries::{entry_changes, has_entry};
pub use jobs::{Command, Jobs};
pub use tempo::Answered;
pub use unbuilt::job_of;
pub use worker::Worker;
