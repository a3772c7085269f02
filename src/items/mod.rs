//! The stores of the data plane, and what each of them promises ([`liststore_storage`]).

#[cfg(feature = "cql")]
pub mod cql;

pub use liststore_engine as embedded;
pub use liststore_storage::*;
