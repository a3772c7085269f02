//! The embedded item store: an engine made for lists, in files of this machine.
//!
//! Its modules, in the order in which an item travels: a `session` packs items into a [`row`] and puts it into the
//! queue of the `log`. The thread `commit` appends it to the log, and then puts it into the memtable and the list's
//! head (`memory`). A flush writes the memtable to data `files`, and `compaction` compacts their runs step by step.
//! `read` has the view of all this that readers share, and `collect` selects their results. `sets` finds members of
//! lists, and `bags` swaps lists of one item together with others. `backup` copies a running store. `verify` checks a
//! stopped one, which `at_rest` reads. `docs/contributing/engine.md` describes each file, with every format and rule.
//!
//! It depends on neither actix nor HTTP, and never reads settings or the wall clock.

mod aggregates;
mod at_rest;
mod backup;
mod bags;
mod bell;
mod codec;
mod collect;
mod commit;
mod compaction;
mod directory;
mod disk;
mod engine;
mod erasure;
mod error;
mod expiry_clock;
mod files;
mod health;
mod list_id;
mod log;
mod memory;
mod metrics;
mod options;
mod presence;
mod promises;
mod read;
mod row;
mod session;
mod sets;
mod store;
mod unreachable;
mod verify;

pub use at_rest::AtRest;
pub use disk::{Disk, DiskFile, LockGuard, RealDisk, Space, create_dirs, read_all, replace, sync_above};
pub use error::{Damage, OpenError, WriteError};
pub use options::{EmbeddedOptions, Fsync, ListHash};
pub use store::EmbeddedStore;
pub use verify::{Verified, inspect, peek, verify, verify_on};
