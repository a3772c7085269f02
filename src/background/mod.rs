//! Background work next to the requests: jobs, which survive a restart.
//!
//! [`Jobs`] creates and changes them, and [`Worker`] works on them. Jobs that scan bags run next to jobs that remove
//! lists. Otherwise one runs after the other. If servers share a metadata store, one of them works on a job. It must
//! store a new state every second, and a server that has seen no new state for a while adopts the job. No clocks are
//! compared.
//!
//! The [`Cleaner`] repairs entries of indexes that do not match their bags.

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
