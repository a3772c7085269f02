//! The stores that the settings ask for.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use super::StartError;
use crate::config::{ItemStoreKind, MetadataStoreKind, Settings};
use crate::domain::Clock;
use crate::items::ItemStore;
use crate::items::memory::MemoryStore;
use crate::metadata::memory::memory_store;
use crate::metadata::postgres::{self, PostgresOptions, PostgresStore};
use crate::metadata::{self, MetadataStore};

/// Both planes' stores, opened, and the registry that their metrics are in.
pub struct Stores {
    pub items: Arc<dyn ItemStore>,
    pub metadata: Arc<dyn MetadataStore>,
    pub registry: Registry,
}

impl Stores {
    pub async fn open(settings: &Settings, _clock: &Arc<dyn Clock>) -> Result<Self, StartError> {
        let registry = Registry::new();
        let metadata = open_metadata(settings, &registry).await?;
        let items: Arc<dyn ItemStore> = match settings.items.store {
            ItemStoreKind::Memory => Arc::new(MemoryStore::default()),
            other => return Err(StartError::Items(format!("items.store = {other}"))),
        };
        Ok(Self { items, metadata, registry })
    }
}

async fn open_metadata(settings: &Settings, registry: &Registry) -> Result<Arc<dyn MetadataStore>, StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError::Metadata(error.to_string());
    match settings.metadata.store {
        MetadataStoreKind::Memory => Ok(Arc::new(memory_store())),
        MetadataStoreKind::Embedded => {
            Ok(Arc::new(metadata::embedded::open(&settings.items.embedded.dir).map_err(|error| failed(&error))?))
        }
        MetadataStoreKind::Postgres => {
            let url = settings.metadata.postgres.url.as_ref().map(|url| url.expose().to_owned()).unwrap_or_default();
            // A Postgres that cannot be asked now is no reason not to start: readiness waits for it.
            if let Ok(found) = postgres::inspect(&url).await
                && !found.schema.is_current()
            {
                return Err(failed(&found.schema));
            }
            let options = PostgresOptions {
                url,
                connections_max: settings.metadata.postgres.connections_max,
                poll_interval: Duration::from_secs(settings.metadata.poll_interval_secs),
            };
            Ok(Arc::new(PostgresStore::open(&options, registry).map_err(|error| failed(&error))?))
        }
    }
}
