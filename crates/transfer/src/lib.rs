//! Moves items between servers and files through the HTTP API: what `liststore export`, `copy` and `import` do.
//!
//! Exports and copies walk the entities of a feature version part by part, and read the lists of a part a few at a
//! time (`source`). After each part, its data is on disk together with the place where the walk continues
//! (`state`), so that an interrupted run continues there. Memory is bounded for any number and length of lists.
//! Items must never be changed on their way.
//!
//! A training set (`training`) joins lists, as they were at given moments, with the rows of a file (`spine`).
//! Bags of an entity type are moved in the same way (`bags`), and read from files, too.
//!
//! Definitions can be written to files (`definition_file`), and from there to servers, by a plan that can be shown
//! first (`plan`).

pub mod import;
pub mod typed_times;

mod adder;
mod bags;
mod cells;
mod checkpoint;
mod columns;
mod definition_file;
mod definitions;
mod digest;
mod file;
mod format;
mod lists;
mod out;
#[cfg(feature = "parquet")]
mod parquet_file;
mod plan;
mod progress;
mod source;
mod spine;
mod state;
mod training_file;
#[cfg(not(feature = "parquet"))]
mod without_parquet;

mod copy;
mod entity_types;
mod export;
mod training;

use liststore_client as client;
use liststore_contract::{definition, domain, wire};

pub use bags::{
    CopiedBags, CopyBagsOptions, ExportBagsOptions, ExportedBags, ImportBagsOptions, copy as copy_bags,
    export as export_bags, import as import_bags,
};
pub use copy::{Copied, CopyOptions, copy};
pub use export::{ExportOptions, Exported, export};
pub use format::ExportFormat;
pub use plan::{Plan, export as export_definitions};
pub use spine::{SpineFile, spine_format};
pub use training::{Joined, TrainingOptions, join};
#[cfg(not(feature = "parquet"))]
use without_parquet as parquet_file;
