//! Opens the stores that the settings select.

use std::fmt::Display;
use std::sync::Arc;

use prometheus::Registry;

use super::{StartError, cql, options, postgres};
use crate::backup::BackupScope;
use crate::config::{ItemStoreKind, MetadataStoreKind, Settings};
use crate::data_dir::{self, DataDir, Part};
use crate::domain::{Belonging, Clock, LogMark, StoreId};
use crate::items::ItemStore;
use crate::items::embedded::{EmbeddedOptions, EmbeddedStore, RealDisk};
use crate::items::memory::MemoryStore;
use crate::left_out::{self, LeftOut};
use crate::metadata::memory::memory_store;
use crate::metadata::{self, MetadataStore};

/// The open stores of both planes, and the registry of their metrics.
pub struct Stores {
    pub items: Arc<dyn ItemStore>,
    pub metadata: Arc<dyn MetadataStore>,
    pub registry: Registry,
    /// The directory of the embedded stores.
    pub data_dir: Option<DataDir>,
}

impl Stores {
    pub async fn open(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Self, StartError> {
        are_built(settings)?;
        let registry = crate::telemetry::registry().map_err(StartError::Metrics)?;
        let (dir, wanted) = (&settings.items.embedded.dir, parts_here(settings));
        let mut data_dir = match &wanted[..] {
            [] => None,
            wanted => {
                data_dir::make_private(dir)?;
                Some(DataDir::enter(&RealDisk, dir, wanted, new_store_id())?)
            }
        };
        let belonging =
            |part| data_dir.as_ref().map_or(Belonging::Any, |data_dir: &DataDir| data_dir.plan().belonging(part));
        let durable = LogMark::default();
        // In parallel: otherwise the second store would also wait for a database that does not answer.
        let (metadata, items) = tokio::try_join!(
            open_metadata(settings, &registry, belonging(Part::Metadata), durable.clone()),
            open_items(settings, clock, &registry, belonging(Part::Items), durable.clone()),
        )?;
        if let Some(data_dir) = &mut data_dir {
            data_dir.complete(&RealDisk)?;
        }
        Ok(Self { items, metadata, registry, data_dir })
    }
}

/// Refuses settings that select a store which this program does not contain.
pub(super) fn are_built(settings: &Settings) -> Result<(), LeftOut> {
    if settings.items.store == ItemStoreKind::Cql {
        left_out::CQL.needed()?;
    }
    if settings.metadata.store == MetadataStoreKind::Postgres {
        left_out::POSTGRES.needed()?;
    }
    Ok(())
}

/// The parts of a store that these settings put in the data directory.
pub(super) fn parts_here(settings: &Settings) -> Vec<Part> {
    let items = settings.items.store == ItemStoreKind::Embedded;
    let metadata = settings.metadata.store == MetadataStoreKind::Embedded;
    items.then_some(Part::Items).into_iter().chain(metadata.then_some(Part::Metadata)).collect()
}

/// A new ID for a data directory that has no store yet.
pub(super) fn new_store_id() -> StoreId {
    loop {
        if let Some(id) = StoreId::new(uuid::Uuid::new_v4().as_u128()) {
            return id;
        }
    }
}

/// The parts of the data directory that a backup of this server holds.
pub(super) fn backup_scope(settings: &Settings, store_dir: Option<&DataDir>) -> BackupScope {
    let data_dir = settings.items.embedded.dir.clone();
    let store = store_dir.map(|store_dir| (store_dir.plan().id(), parts_here(settings)));
    BackupScope { data_dir, definitions: settings.metadata.store == MetadataStoreKind::Embedded, store }
}

pub(super) async fn open_items(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    registry: &Registry,
    belonging: Belonging,
    durable: LogMark,
) -> Result<Arc<dyn ItemStore>, StartError> {
    let failed = |error: &dyn Display| StartError::Items(error.to_string());
    match settings.items.store {
        ItemStoreKind::Memory => Ok(Arc::new(MemoryStore::default())),
        ItemStoreKind::Embedded => {
            let options = EmbeddedOptions { belonging, durable, ..options::embedded(&settings.items.embedded) };
            Ok(Arc::new(EmbeddedStore::open(options, Arc::clone(clock), registry).map_err(|error| failed(&error))?))
        }
        ItemStoreKind::Cql => cql::open(&settings.items, clock, registry).await,
    }
}

pub(super) async fn open_metadata(
    settings: &Settings,
    registry: &Registry,
    belonging: Belonging,
    items: LogMark,
) -> Result<Arc<dyn MetadataStore>, StartError> {
    let failed = |error: &dyn Display| StartError::Metadata(error.to_string());
    match settings.metadata.store {
        MetadataStoreKind::Memory => Ok(Arc::new(memory_store())),
        MetadataStoreKind::Embedded => {
            let dir = &settings.items.embedded.dir;
            Ok(Arc::new(metadata::embedded::open_as(dir, belonging, items).map_err(|error| failed(&error))?))
        }
        MetadataStoreKind::Postgres => postgres::open(&settings.metadata, registry).await,
    }
}
