//! The stores that the settings ask for.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use super::{StartError, options};
use crate::backup::Scope;
use crate::config::{ItemStoreKind, MetadataStoreKind, Settings};
use crate::domain::Clock;
use crate::items::ItemStore;
use crate::items::cql::{self, CqlStore};
use crate::items::embedded::EmbeddedStore;
use crate::items::memory::MemoryStore;
use crate::metadata::memory::memory_store;
use crate::metadata::postgres::{self, PostgresStore};
use crate::metadata::{self, MetadataStore};

/// How long the start waits for a cluster to tell of its schema. One that does not answer is no
/// reason not to start: readiness waits for it.
const SCHEMA_LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// Both planes' stores, opened, and the registry that their metrics are in.
pub struct Stores {
    pub items: Arc<dyn ItemStore>,
    pub metadata: Arc<dyn MetadataStore>,
    pub registry: Registry,
}

impl Stores {
    pub async fn open(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Self, StartError> {
        let registry = crate::telemetry::registry().map_err(StartError::Metrics)?;
        let metadata = open_metadata(settings, &registry).await?;
        let items = open_items(settings, clock, &registry).await?;
        Ok(Self { items, metadata, registry })
    }
}

/// What a backup of this server can hold.
pub(super) fn backup_scope(settings: &Settings) -> Scope {
    let items = match settings.items.store {
        ItemStoreKind::Embedded => Ok(()),
        ItemStoreKind::Memory => Err("items.store is memory: it keeps nothing that could be backed up"),
        ItemStoreKind::Cql => Err("the items are in a ScyllaDB or Cassandra cluster (items.store is cql): use the \
             cluster's own snapshots, and after them dump the definitions' database"),
    };
    Scope { items, definitions: settings.metadata.store == MetadataStoreKind::Embedded }
}

pub(super) async fn open_items(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    registry: &Registry,
) -> Result<Arc<dyn ItemStore>, StartError> {
    let failed = |error: &dyn Display| StartError::Items(error.to_string());
    match settings.items.store {
        ItemStoreKind::Memory => Ok(Arc::new(MemoryStore::default())),
        ItemStoreKind::Embedded => {
            let options = options::embedded(&settings.items.embedded);
            Ok(Arc::new(EmbeddedStore::open(options, Arc::clone(clock), registry).map_err(|error| failed(&error))?))
        }
        ItemStoreKind::Cql => {
            let store = CqlStore::open(options::cql(&settings.items.cql), Arc::clone(clock), registry)
                .map_err(|error| failed(&error))?;
            // Sessions are opened later, and tell what is wrong; a wrong schema stops the start.
            let found = tokio::time::timeout(SCHEMA_LOOK_TIMEOUT, store.schema_state()).await;
            match found {
                Ok(Ok(state)) if state != cql::SchemaState::Current => Err(failed(&state)),
                _ => Ok(Arc::new(store)),
            }
        }
    }
}

pub(super) async fn open_metadata(
    settings: &Settings,
    registry: &Registry,
) -> Result<Arc<dyn MetadataStore>, StartError> {
    let failed = |error: &dyn Display| StartError::Metadata(error.to_string());
    match settings.metadata.store {
        MetadataStoreKind::Memory => Ok(Arc::new(memory_store())),
        MetadataStoreKind::Embedded => {
            Ok(Arc::new(metadata::embedded::open(&settings.items.embedded.dir).map_err(|error| failed(&error))?))
        }
        MetadataStoreKind::Postgres => {
            let options = options::postgres(&settings.metadata);
            // As above: a Postgres that is away is waited for, a wrong schema is not.
            if let Ok(found) = postgres::inspect(&options.url).await
                && !found.schema.is_current()
            {
                return Err(failed(&found.schema));
            }
            Ok(Arc::new(PostgresStore::open(&options, registry).map_err(|error| failed(&error))?))
        }
    }
}
