//! Every store, and how the suites get hold of a fresh one: add yours here.

use std::sync::Arc;

use async_trait::async_trait;
use liststore::domain::{ManualClock, SystemClock};
use liststore::items::ItemStore;
use liststore::items::cql::CqlStore;
use liststore::items::embedded_fjall::{self, Fsync, Options};
use liststore::items::memory::MemoryStore;
use liststore::metadata::MetadataStore;
use liststore::metadata::memory::memory_store;
use prometheus::Registry;
use tempfile::TempDir;

use crate::cassandra;
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

/// The engine's clock stands in 1970, so that nothing is ever purged under a case's feet: what a
/// read hides, it hides by itself.
#[async_trait(?Send)]
impl Backend for Embedded {
    async fn open(&self) -> Arc<dyn ItemStore> {
        let options = Options {
            dir: self.dir.path().to_owned(),
            fsync: Fsync::Group,
            cache_bytes: 16 << 20,
            clock: Arc::new(ManualClock::default()),
        };
        Arc::new(embedded_fjall::open(options, &Registry::new()).unwrap())
    }
}

/// One node of Apache Cassandra. It expires rows by its own clock, in whole seconds.
struct Cassandra;

#[async_trait(?Send)]
impl Backend for Cassandra {
    async fn open(&self) -> Arc<dyn ItemStore> {
        let options = cassandra::shared_options();
        Arc::new(CqlStore::open(options, Arc::new(SystemClock), &Registry::new()).unwrap())
    }

    fn steps_clock(&self) -> bool {
        false
    }

    fn isolates_reads(&self) -> bool {
        false
    }
}

item_store_suite! { items_memory: Memory }
item_store_suite! { durable items_cassandra: Cassandra }
item_store_suite! { durable items_fjall: Embedded::new() }
metadata_store_suite! { metadata_memory: Memory }
metadata_store_suite! { durable metadata_embedded: Embedded::new() }
