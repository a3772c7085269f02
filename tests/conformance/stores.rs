//! Every store, and how the suites get hold of a fresh one: add yours here.

use std::sync::Arc;

use async_trait::async_trait;
use liststore::items::ItemStore;
use liststore::items::memory::MemoryStore;
use liststore::metadata::MetadataStore;
use liststore::metadata::memory::memory_store;
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

item_store_suite! { items_memory: Memory }
metadata_store_suite! { metadata_memory: Memory }
metadata_store_suite! { durable metadata_embedded: Embedded::new() }
