//! The actors, and their handles.
//!
//! No other module sees an actor's address. Routes hold a [`ListPool`] and a [`MetadataHandle`], which bound the
//! operations in flight and answer within a deadline.

mod bag_calls;
mod definition_changes;
mod in_flight;
mod key_calls;
mod key_uses;
mod list_actor;
mod list_calls;
mod list_error;
mod list_pool;
mod metadata_actor;
mod metadata_handle;
mod metadata_state;
mod permit;
mod pool_metrics;
mod pool_size;
mod pool_state;
mod pulse;
mod refresher;
mod resize;
mod routing;
mod slot;
mod staff;
mod stored_catalog;
mod turns;
mod waiting_adds;
mod waiting_changes;
mod work;

pub use list_error::ListError;
pub use list_pool::{ListPool, PoolOptions};
pub use metadata_handle::{MetadataHandle, MetadataOptions, ResolveError};
pub use pool_size::{PoolSize, PoolView, Resize};
pub use pulse::Pulse;
pub use refresher::RefreshOptions;
pub use slot::SlotState;
pub use stored_catalog::StoredCatalogOptions;
pub use turns::{ListTurns, Turn, TurnTaken};
pub use work::AddOutcome;
