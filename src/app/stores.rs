//! The stores that the settings ask for.

use std::sync::Arc;

use prometheus::Registry;

use super::StartError;
use crate::config::{ItemStoreKind, MetadataStoreKind, Settings};
use crate::domain::Clock;
use crate::items::ItemStore;
use crate::items::memory::MemoryStore;
use crate::metadata::memory::memory_store;
use crate::metadata::{self, MetadataStore};

/// Both planes' stores, opened, and the registry that their metrics are in.
pub struct Stores {
    pub items: Arc<dyn ItemStore>,
    pub metadata: Arc<dyn MetadataStore>,
    pub registry: Registry,
}

impl Stores {
    pub async fn open(settings: &Settings, _clock: &Arc<dyn Clock>) -> Result<Self, StartError> {
        let registry = crate::telemetry::registry().map_err(StartError::Metrics)?;
        let items: Arc<dyn ItemStore> = match settings.items.store {
            ItemStoreKind::Memory => Arc::new(MemoryStore::default()),
            other => return Err(StartError::Items(format!("items.store = {other}"))),
        };
        let metadata: Arc<dyn MetadataStore> = match settings.metadata.store {
            MetadataStoreKind::Memory => Arc::new(memory_store()),
            MetadataStoreKind::Embedded => Arc::new(
                metadata::embedded::open(&settings.items.embedded.dir)
                    .map_err(|error| StartError::Metadata(error.to_string()))?,
            ),
            other => return Err(StartError::Metadata(format!("metadata.store = {other}"))),
        };
        Ok(Self { items, metadata, registry })
    }
}
