//! Every store, and how the suites create one: add yours here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use liststore::domain::{Bucket, Clock, ManualClock, SystemClock, Timestamp};
use liststore::items::ItemStore;
use liststore::items::cql::CqlStore;
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore, Fsync};
use liststore::items::memory::MemoryStore;
use liststore::metadata::MetadataStore;
use liststore::metadata::memory::memory_store;
use liststore::metadata::postgres::{PostgresOptions, PostgresStore};
use prometheus::Registry;
use tempfile::TempDir;

use crate::cassandra;
use crate::in_buckets::{AtTheBorder, InBuckets};
use crate::items::{Backend, bag_suite, item_store_suite, set_suite};
use crate::metadata::{MetadataBackend, metadata_store_suite};
use crate::postgres::Database;

struct Memory;

#[async_trait(?Send)]
impl Backend for Memory {
    async fn open(&self) -> Arc<dyn ItemStore> {
        Arc::new(MemoryStore::default())
    }

    fn keeps(&self) -> bool {
        false
    }
}

#[async_trait(?Send)]
impl MetadataBackend for Memory {
    async fn open(&self) -> Arc<dyn MetadataStore> {
        Arc::new(memory_store())
    }
}

/// Little memory, so that the engine flushes and compacts soon.
pub fn open_embedded(dir: &Path, fsync: Fsync, clock: Arc<dyn Clock>) -> Arc<dyn ItemStore> {
    open_measured(dir, fsync, clock, &Registry::new())
}

/// The same with its metrics in the caller's hands.
pub fn open_measured(dir: &Path, fsync: Fsync, clock: Arc<dyn Clock>, registry: &Registry) -> Arc<dyn ItemStore> {
    let options = EmbeddedOptions { fsync, cache_bytes: 4 << 20, ..EmbeddedOptions::new(dir) };
    Arc::new(EmbeddedStore::open(options, clock, registry).unwrap())
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

/// The engine's clock stays in 1970, so that nothing is ever purged during a case: reads hide items on their own.
#[async_trait(?Send)]
impl Backend for Embedded {
    async fn open(&self) -> Arc<dyn ItemStore> {
        open_embedded(self.dir.path(), Fsync::Group, Arc::new(ManualClock::default()))
    }
}

/// The database of one case, in a real Postgres.
struct Postgres {
    database: tokio::sync::OnceCell<Database>,
}

impl Postgres {
    fn new() -> Self {
        Self { database: tokio::sync::OnceCell::new() }
    }
}

#[async_trait(?Send)]
impl MetadataBackend for Postgres {
    async fn open(&self) -> Arc<dyn MetadataStore> {
        let database = self.database.get_or_init(Database::migrated).await;
        let options = PostgresOptions {
            url: database.url.clone(),
            url_file: None,
            connections_max: 5,
            poll_interval: Duration::from_secs(5),
        };
        Arc::new(PostgresStore::open(&options, &Registry::new()).unwrap())
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

/// The same, with all lists in buckets, and a present at a border of them.
struct CassandraInBuckets {
    bucket: Bucket,
    clock: AtTheBorder,
}

impl CassandraInBuckets {
    fn of(bucket: Bucket) -> Self {
        Self { bucket, clock: AtTheBorder::of(bucket) }
    }
}

#[async_trait(?Send)]
impl Backend for CassandraInBuckets {
    async fn open(&self) -> Arc<dyn ItemStore> {
        let options = cassandra::shared_options();
        let store = CqlStore::open(options, Arc::new(self.clock), &Registry::new()).unwrap();
        Arc::new(InBuckets { store: Arc::new(store), bucket: self.bucket })
    }

    fn steps_clock(&self) -> bool {
        false
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn isolates_reads(&self) -> bool {
        false
    }
}

item_store_suite! { items_memory: Memory }
item_store_suite! { durable items_embedded: Embedded::new() }
item_store_suite! { durable items_cassandra: Cassandra }
item_store_suite! { durable items_cassandra_by_day: CassandraInBuckets::of(Bucket::Day) }
item_store_suite! { durable items_cassandra_by_year: CassandraInBuckets::of(Bucket::Year) }
set_suite! { sets_memory: Memory }
set_suite! { durable sets_embedded: Embedded::new() }
set_suite! { durable sets_cassandra: Cassandra }
bag_suite! { bags_memory: Memory }
bag_suite! { bags_embedded: Embedded::new() }
bag_suite! { bags_cassandra: Cassandra }
metadata_store_suite! { metadata_memory: Memory }
metadata_store_suite! { durable metadata_embedded: Embedded::new() }
metadata_store_suite! { durable metadata_postgres: Postgres::new() }
