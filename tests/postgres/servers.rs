//! Servers under test, reduced to the control plane: a metadata actor each, on one database.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use liststore::actors::{MetadataHandle, MetadataOptions, RefreshOptions, ResolveError};
use liststore::definition::Feature;
use liststore::definition::{GivenProperties, VersionProperties};
use liststore::domain::{
    Author, EntityType, FeatureId, FeatureName, SystemClock, Timestamp, Ttl, ValueType, VersionLabel,
};
use liststore::metadata::postgres::{PostgresOptions, PostgresStore};
use liststore::metadata::{Change, ChangeContext, MetadataError, NewFeature, NewVersion, Precondition};
use prometheus::Registry;
use tokio::time::Instant;

/// Long, so that polling finds nothing in tests of other features.
const POLL_INTERVAL: Duration = Duration::from_secs(3_600);
/// Far beyond the time of any successful operation, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bounds that only tests of the bounds reach.
fn options() -> MetadataOptions {
    let (millis, secs) = (Duration::from_millis, Duration::from_secs);
    let refresh = RefreshOptions {
        retry_delay_max: secs(2),
        look_ups_max: 5,
        look_up_interval: millis(200),
        look_up_wait_max: secs(1),
    };
    MetadataOptions { permits: 64, timeout: secs(20), refresh, in_step_for: millis(5_000), stored: None }
}

/// Runs a case on an actix system, which arbiters need.
pub fn run(case: impl Future<Output = ()>) {
    actix::System::new().block_on(case);
}

pub fn store(url: &str) -> PostgresStore {
    store_polling(url, POLL_INTERVAL, &Registry::new())
}

pub fn store_polling(url: &str, poll_interval: Duration, registry: &Registry) -> PostgresStore {
    let options = PostgresOptions { url: url.to_owned(), url_file: None, connections_max: 5, poll_interval };
    PostgresStore::open(&options, registry).unwrap()
}

/// One server.
pub struct Node {
    pub handle: MetadataHandle,
    pub store: Arc<PostgresStore>,
    registry: Registry,
}

impl Node {
    pub async fn start(url: &str) -> Self {
        Self::start_polling(url, POLL_INTERVAL).await
    }

    /// With its catalog loaded, and listening.
    pub async fn start_polling(url: &str, poll_interval: Duration) -> Self {
        for _ in 0..6 {
            let node = Self::start_without_database(url, poll_interval).await;
            until("it has tried to listen", || node.metric("liststore_metadata_postgres_listens_total") >= 1.0).await;
            if node.metric("liststore_metadata_postgres_listening") == 1.0 {
                node.until_listening().await;
                return node;
            }
            // On a busy machine its own notification may arrive so late that it mistakes Postgres for a pooler.
            node.stop().await;
        }
        panic!("it does not listen");
    }

    pub async fn start_without_database(url: &str, poll_interval: Duration) -> Self {
        let registry = Registry::new();
        let store = Arc::new(store_polling(url, poll_interval, &registry));
        let handle = MetadataHandle::start(store.clone(), Arc::new(SystemClock), options()).await.unwrap();
        Self { handle, store, registry }
    }

    pub async fn until_listening(&self) {
        until("it listens", || self.metric("liststore_metadata_postgres_listening") == 1.0).await;
        until("its catalog is loaded", || self.handle.catalog().snapshot().is_some()).await;
    }

    pub fn metric(&self, name: &str) -> f64 {
        let family = self.registry.gather().into_iter().find(|family| family.name() == name);
        let metric = family.unwrap_or_else(|| panic!("no metric {name}")).get_metric()[0].clone();
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }

    /// The TTL that list operations work with, in seconds; from the catalog alone.
    pub fn known_ttl(&self, name: &str) -> Option<u64> {
        self.handle.catalog().version("user", name, "").ok().map(|version| version.properties.ttl.as_secs())
    }

    pub async fn resolve(&self, name: &str) -> Result<u64, ResolveError> {
        self.resolve_version(name, "").await
    }

    async fn resolve_version(&self, name: &str, label: &str) -> Result<u64, ResolveError> {
        let deadline = Instant::now() + Duration::from_secs(2);
        self.handle.resolve("user", name, label, deadline).await.map(|version| version.properties.ttl.as_secs())
    }

    /// The final answer. A look-up may take longer than an operation waits for one.
    pub async fn resolved(&self, name: &str) -> Result<u64, ResolveError> {
        self.resolved_version(name, "").await
    }

    pub async fn resolved_version(&self, name: &str, label: &str) -> Result<u64, ResolveError> {
        let patience = Instant::now() + PATIENCE;
        loop {
            match self.resolve_version(name, label).await {
                Err(ResolveError::Unavailable { .. }) if Instant::now() < patience => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                reported => return reported,
            }
        }
    }

    pub async fn create(&self, name: &str, ttl_secs: u64) -> Result<Feature, MetadataError> {
        self.handle.apply(Change::CreateFeature(new_feature(name, ttl_secs)), Author::anonymous()).await?.into_feature()
    }

    pub async fn create_version(&self, name: &str, label: &str) -> Result<(), MetadataError> {
        let new = NewVersion {
            version: VersionLabel::new(label).unwrap(),
            properties: GivenProperties::default(),
            index: None,
            description: Default::default(),
        };
        self.handle.apply(Change::CreateVersion { id: id(name), new }, Author::anonymous()).await.map(|_| ())
    }

    pub async fn set_ttl(&self, name: &str, ttl_secs: u64) -> Result<Feature, MetadataError> {
        let patch = GivenProperties { ttl: Some(ttl(ttl_secs)), ..GivenProperties::default() }.into();
        self.handle
            .apply(Change::UpdateFeature { id: id(name), patch, condition: Precondition::None }, Author::anonymous())
            .await?
            .into_feature()
    }

    pub async fn delete(&self, name: &str) -> Result<(), MetadataError> {
        self.handle
            .apply(Change::DeleteFeature { id: id(name), condition: Precondition::None }, Author::anonymous())
            .await
            .map(|_| ())
    }

    pub async fn stop(self) {
        self.handle.stop(Duration::from_secs(5)).await;
    }
}

pub fn id(name: &str) -> FeatureId {
    FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new(name).unwrap() }
}

pub fn ttl(secs: u64) -> Ttl {
    Ttl::from_secs(secs).unwrap()
}

pub fn new_feature(name: &str, ttl_secs: u64) -> NewFeature {
    NewFeature {
        id: id(name),
        value_type: ValueType::String,
        properties: VersionProperties { ttl: ttl(ttl_secs), ..VersionProperties::default() },
        description: Default::default(),
        owner: Default::default(),
        labels: Default::default(),
    }
}

pub fn context() -> ChangeContext {
    ChangeContext { by: Author::anonymous(), at: Timestamp::from_nanos(1_724_949_845_430_000_001).unwrap() }
}

/// Waits for a condition, at most a minute: within that time, a server must recover automatically.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < patience, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
