//! The actors, and the handles through which everybody else reaches them.
//!
//! Nobody outside this module sees an actor's address: routes hold a [`ListPool`] and a
//! [`MetadataHandle`], which bound what is in flight and answer within a deadline.

mod key_calls;
mod list_actor;
pub mod list_pool;
mod messages;
mod metadata_actor;
pub mod metadata_handle;
mod pool_metrics;
mod refresher;
mod resize;
mod routing;
mod slot;
mod staff;
mod stored_catalog;
mod turns;

pub use list_pool::{ListError, ListPool, PoolOptions, SlotState};
pub use messages::AddOutcome;
pub use metadata_handle::{MetadataHandle, MetadataOptions, ResolveError};
pub use refresher::RefreshOptions;
pub use resize::{PoolSize, PoolView, Resize};
pub use stored_catalog::StoredCatalogOptions;
pub use turns::TurnTaking;
