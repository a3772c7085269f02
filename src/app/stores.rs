//! The stores that the settings ask for.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use super::{StartError, options};
use crate::backup::Scope;
use crate::config::{ItemStoreKind, MetadataStoreKind, Settings};
use crate::data_dir::{DataDir, Part};
use crate::domain::{Belonging, Clock, StoreId};
use crate::items::ItemStore;
use crate::items::cql::{self, CqlStore};
use crate::items::embedded::{EmbeddedOptions, EmbeddedStore, RealDisk};
use crate::items::memory::MemoryStore;
use crate::metadata::memory::memory_store;
use crate::metadata::postgres::{self, PostgresStore};
use crate::metadata::{self, MetadataStore};

/// How long the start waits for a cluster to tell what it is. One that does not answer is no
/// reason not to start: readiness waits for it.
const FITNESS_LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// Both planes' stores, opened, and the registry that their metrics are in.
pub struct Stores {
    pub items: Arc<dyn ItemStore>,
    pub metadata: Arc<dyn MetadataStore>,
    pub registry: Registry,
    /// Where the embedded ones are kept.
    pub data_dir: Option<DataDir>,
}

impl Stores {
    pub async fn open(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Self, StartError> {
        let registry = crate::telemetry::registry().map_err(StartError::Metrics)?;
        let (dir, wanted) = (&settings.items.embedded.dir, parts_here(settings));
        let mut data_dir = match &wanted[..] {
            [] => None,
            wanted => Some(DataDir::enter(&RealDisk, dir, wanted, new_store_id())?),
        };
        let belonging =
            |part| data_dir.as_ref().map_or(Belonging::Any, |data_dir: &DataDir| data_dir.plan().belonging(part));
        // Beside each other: a database that is silent is waited for, and then the other would be as well.
        let (metadata, items) = tokio::try_join!(
            open_metadata(settings, &registry, belonging(Part::Metadata)),
            open_items(settings, clock, &registry, belonging(Part::Items)),
        )?;
        if let Some(data_dir) = &mut data_dir {
            data_dir.complete(&RealDisk)?;
        }
        Ok(Self { items, metadata, registry, data_dir })
    }
}

/// The parts of a store that these settings keep in the data directory.
pub(super) fn parts_here(settings: &Settings) -> Vec<Part> {
    let items = settings.items.store == ItemStoreKind::Embedded;
    let metadata = settings.metadata.store == MetadataStoreKind::Embedded;
    items.then_some(Part::Items).into_iter().chain(metadata.then_some(Part::Metadata)).collect()
}

/// For a data directory that is no store yet.
pub(super) fn new_store_id() -> StoreId {
    loop {
        if let Some(id) = StoreId::new(uuid::Uuid::new_v4().as_u128()) {
            return id;
        }
    }
}

/// What a backup of this server can hold.
pub(super) fn backup_scope(settings: &Settings, store_dir: Option<&DataDir>) -> Scope {
    let items = match settings.items.store {
        ItemStoreKind::Embedded => Ok(()),
        ItemStoreKind::Memory => Err("items.store is memory: it keeps nothing that could be backed up"),
        ItemStoreKind::Cql => Err("the items are in a ScyllaDB or Cassandra cluster (items.store is cql): use the \
             cluster's own snapshots, and after them dump the definitions' database"),
    };
    let data_dir = settings.items.embedded.dir.clone();
    let store = store_dir.map(|store_dir| (store_dir.plan().id(), parts_here(settings)));
    Scope { data_dir, items, definitions: settings.metadata.store == MetadataStoreKind::Embedded, store }
}

pub(super) async fn open_items(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    registry: &Registry,
    belonging: Belonging,
) -> Result<Arc<dyn ItemStore>, StartError> {
    let failed = |error: &dyn Display| StartError::Items(error.to_string());
    match settings.items.store {
        ItemStoreKind::Memory => Ok(Arc::new(MemoryStore::default())),
        ItemStoreKind::Embedded => {
            let options = EmbeddedOptions { belonging, ..options::embedded(&settings.items.embedded) };
            Ok(Arc::new(EmbeddedStore::open(options, Arc::clone(clock), registry).map_err(|error| failed(&error))?))
        }
        ItemStoreKind::Cql => {
            let store = CqlStore::open(options::cql(&settings.items), Arc::clone(clock), registry)
                .map_err(|error| failed(&error))?;
            // Sessions are opened later, and tell what is wrong, as long as that may pass: a schema that is to be
            // migrated as well. What never passes by itself stops the start: a schema that is none of ours, or
            // settings that do not fit the cluster.
            match tokio::time::timeout(FITNESS_LOOK_TIMEOUT, store.fitness()).await {
                Ok(Ok(cql::Fitness::Unfit(why))) => Err(failed(&why)),
                _ => Ok(Arc::new(store)),
            }
        }
    }
}

pub(super) async fn open_metadata(
    settings: &Settings,
    registry: &Registry,
    belonging: Belonging,
) -> Result<Arc<dyn MetadataStore>, StartError> {
    let failed = |error: &dyn Display| StartError::Metadata(error.to_string());
    match settings.metadata.store {
        MetadataStoreKind::Memory => Ok(Arc::new(memory_store())),
        MetadataStoreKind::Embedded => {
            let dir = &settings.items.embedded.dir;
            Ok(Arc::new(metadata::embedded::open_as(dir, belonging).map_err(|error| failed(&error))?))
        }
        MetadataStoreKind::Postgres => {
            let options = options::postgres(&settings.metadata)?;
            // As above: a Postgres that is away is waited for, and so is a migration, but no wrong schema.
            if let Ok(found) = postgres::inspect(&options.url).await
                && !found.schema.is_served()
                && !found.schema.awaits_migration()
            {
                return Err(failed(&found.schema));
            }
            Ok(Arc::new(PostgresStore::open(&options, registry).map_err(|error| failed(&error))?))
        }
    }
}
