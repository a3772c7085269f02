//! Keyspaces of single tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use liststore::domain::SystemClock;
use liststore::items::cql::{CqlOptions, CqlStore, SchemaState};
use liststore::items::{ItemStore, StoreError};
use prometheus::Registry;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::cassandra;

/// A separate keyspace for one test, dropped at its end.
pub struct Keyspace {
    pub options: CqlOptions,
}

impl Keyspace {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let keyspace = format!("Test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self { options: CqlOptions { keyspace, ..cassandra::options(cassandra::shared(), 1) } }
    }

    pub async fn driver(&self) -> Session {
        SessionBuilder::new().known_nodes(&self.options.contact_points).build().await.unwrap()
    }

    pub async fn execute(&self, text: &str) {
        let text = text.replace("KS", &format!("\"{}\"", self.options.keyspace));
        self.driver().await.query_unpaged(text, ()).await.unwrap();
    }

    pub async fn state(&self) -> SchemaState {
        self.store().schema_state().await.unwrap()
    }

    fn store(&self) -> CqlStore {
        CqlStore::open(self.options.clone(), Arc::new(SystemClock), &Registry::new()).unwrap()
    }

    pub async fn session_error(&self) -> String {
        why(self.store().open_session().await.map(|_| ()))
    }
}

pub fn why(opened: Result<(), StoreError>) -> String {
    match opened {
        Err(StoreError::Unavailable { reason, outcome_unknown: false }) => reason,
        other => panic!("{other:?}"),
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        let options = self.options.clone();
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let driver = SessionBuilder::new().known_nodes(&options.contact_points).build().await.unwrap();
                let text = format!("DROP KEYSPACE IF EXISTS \"{}\"", options.keyspace);
                driver.query_unpaged(text, ()).await.unwrap();
            });
        });
        let _ = dropping.join();
    }
}
