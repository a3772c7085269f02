//! Every store, and how the suites get hold of a fresh one: add yours here.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use liststore::domain::{Clock, ManualClock};
use liststore::items::ItemStore;
use liststore::items::embedded_fjall::{self, Fsync, Options};
use liststore::items::memory::MemoryStore;
use liststore::metadata::MetadataStore;
use liststore::metadata::memory::memory_store;
use prometheus::Registry;
use tempfile::TempDir;

use crate::items::{Backend, item_store_suite};
use crate::metadata::{MetadataBackend, metadata_store_suite};

struct Memory;

#[async_trait(?Send)]
impl Backend for Memory {
    async fn open(&self) -> Arc<dyn ItemStore> {
        Arc::new(MemoryStore::default())
    }
}

#[async_trait(?Send)]
impl MetadataBackend for Memory {
    async fn open(&self) -> Arc<dyn MetadataStore> {
        Arc::new(memory_store())
    }
}

/// Little memory, so that the engine flushes and compacts soon.
pub fn open_fjall(dir: &Path, fsync: Fsync, clock: Arc<dyn Clock>) -> Arc<dyn ItemStore> {
    let options = Options { dir: dir.to_owned(), fsync, cache_bytes: 16 << 20, clock };
    Arc::new(embedded_fjall::open(options, &Registry::new()).unwrap())
}

/// The data directory of one case.
struct Embedded {
    dir: TempDir,
}

impl Embedded {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }
}

#[async_trait(?Send)]
impl MetadataBackend for Embedded {
    async fn open(&self) -> Arc<dyn MetadataStore> {
        Arc::new(liststore::metadata::embedded::open(self.dir.path()).unwrap())
    }
}

/// The engine's clock stands in 1970, so that nothing is ever purged under a case's feet: what a
/// read hides, it hides by itself.
#[async_trait(?Send)]
impl Backend for Embedded {
    async fn open(&self) -> Arc<dyn ItemStore> {
        open_fjall(self.dir.path(), Fsync::Group, Arc::new(ManualClock::default()))
    }
}

item_store_suite! { items_memory: Memory }
item_store_suite! { durable items_fjall: Embedded::new() }
metadata_store_suite! { metadata_memory: Memory }
metadata_store_suite! { durable metadata_embedded: Embedded::new() }
