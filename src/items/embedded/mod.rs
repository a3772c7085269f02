//! The embedded item store: an engine made for lists, in files of this machine.
//!
//! Its modules, in the order in which an item travels: a `session` packs items into a [`row`] and puts
//! it into the `queue`, from which `commit`, one thread, appends it to the `log`, and then to what is
//! `pending` in memory and to the list's head in `heads`. `flush` writes what is pending to data files
//! (`file`), which follow each other in a `run`; `compaction` merges those that it `pick`s, `step` by
//! step; and the `manifest` says which of them count. `tables` is what readers see of all this. `room`
//! watches the disk, and `health` says which writes are taken. `surplus` is what lists do not show.
//! `sets` are lists with `reverse` entries, by which a `member_search` finds `members`, and `set_write` is what
//! a write leaves of them, of several `set_adds` together; `bags` are lists that are swapped with others. `backup`
//! copies a running store, and `verify` checks one at rest, which `at_rest` reads. `docs/contributing/engine.md` explains
//! every format and rule.
//!
//! It knows nothing of actix and of HTTP, and never reads settings or the wall clock.

mod at_rest;
mod backup;
mod bags;
mod bell;
mod census;
mod change;
mod codec;
mod commit;
mod compaction;
mod directory;
mod disk;
mod engine;
mod entities;
mod erasure;
mod error;
mod expiry_clock;
mod file;
mod file_id;
mod flush;
mod found_bags;
mod give_way;
mod head;
mod heads;
mod health;
mod item_changes;
mod list_id;
mod log;
mod look;
mod manifest;
mod member_index;
mod member_search;
mod members;
mod merge;
mod metrics;
mod oldest;
mod options;
mod output;
mod owner;
mod pace;
mod page;
mod pending;
mod pick;
mod pool;
mod presence;
mod promises;
mod queue;
mod read;
mod removal;
mod reverse;
mod room;
mod row;
mod run;
mod seek;
mod session;
mod set_adds;
mod set_write;
mod sets;
mod step;
mod store;
mod surplus;
mod tables;
mod take_over;
mod trim;
mod turn;
mod unreachable;
mod verify;

pub use at_rest::AtRest;
pub use disk::{Disk, DiskFile, LockGuard, RealDisk, Space, create_dirs, read_all, replace, sync_above};
pub use error::{Damage, OpenError, WriteError};
pub use options::{EmbeddedOptions, Fsync, ListHash};
pub use store::EmbeddedStore;
pub use verify::{Verified, inspect, look, verify, verify_on};
