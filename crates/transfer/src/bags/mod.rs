//! Moving bags of an entity type: to a file of NDJSON, from such files, and from one server to another.
//!
//! A bag is its entity and its properties. The server sets the time of the update: a moved bag starts its TTL again.

mod copy;
mod definitions;
mod export;
mod import;
mod source;

pub use copy::{CopiedBags, CopyBagsOptions, copy};
pub use export::{ExportBagsOptions, ExportedBags, export};
pub use import::{ImportBagsOptions, import};
