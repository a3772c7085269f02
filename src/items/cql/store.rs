//! The store, which all sessions share. Opening it is cheap and needs no cluster; sessions connect.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prometheus::Registry;
use tokio::sync::Semaphore;

use super::OpenError;
use super::connect::connection_errors::unavailable;
use super::connect::tls;
use super::health::metrics::CqlMetrics;
use super::health::skew::SkewGauge;
use super::options::CqlOptions;
use super::schema::inspect::{self, Fitness};
use super::schema::state::SchemaState;
use super::session::CqlSession;
use super::shared::Shared;
use crate::domain::Clock;
use crate::items::{
    Abilities, BagSwaps, BoundOf, IsUnreachable, ItemSession, ItemStore, OwnPermits, PermitCounts, Reclaim,
    SchemaMigration, StoreError,
};

/// Sessions that are being opened at once: all actors start together, and each session opens a
/// connection to every shard of the cluster.
const OPENING_MAX: usize = 16;

const NO_BACKUP: &str = "the items are in a ScyllaDB or Cassandra cluster (items.store is cql): take snapshots of the \
                         cluster, then dump the definitions' database";

/// Lists in ScyllaDB or Apache Cassandra.
pub struct CqlStore {
    shared: Shared,
    skew: Arc<SkewGauge>,
    opening: Semaphore,
}

impl CqlStore {
    /// Checks the options, reads the TLS files, and registers the metrics.
    pub fn open(options: CqlOptions, clock: Arc<dyn Clock>, registry: &Registry) -> Result<Self, OpenError> {
        options.validate()?;
        let tls = options.tls.as_ref().map(|tls| tls::load(tls, &options.contact_points)).transpose()?;
        let skew = Arc::new(SkewGauge::default());
        let metrics = CqlMetrics::register(registry, Arc::clone(&skew))
            .map_err(|error| OpenError::Metrics { reason: error.to_string() })?;
        let shared = Shared::new(options, tls, clock, Arc::clone(&skew), metrics);
        Ok(Self { shared, skew, opening: Semaphore::new(OPENING_MAX) })
    }

    /// Connects and looks whether `serve` may start. An error says that the cluster is not there at
    /// present, which a start outlives.
    pub async fn fitness(&self) -> Result<Fitness, StoreError> {
        let Shared { options, tls, datacenter, .. } = &self.shared;
        inspect::fitness(options, tls.as_ref(), datacenter).await
    }

    /// Connects and looks at the schema.
    pub async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        let Shared { options, tls, datacenter, .. } = &self.shared;
        inspect::schema_state(options, tls.as_ref(), datacenter).await
    }

    /// How far write timestamps that were found in the last minute or two were ahead of our clock.
    pub fn skew(&self) -> Duration {
        self.skew.ahead()
    }
}

#[async_trait(?Send)]
impl ItemStore for CqlStore {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        let Ok(_turn) = self.opening.acquire().await else {
            return Err(unavailable("the store is closed".to_owned()));
        };
        Ok(Rc::new(CqlSession::open(&self.shared).await?))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            memory: None,
            permits: Some(self.clone()),
            bag_swaps: BagSwaps::Journaled,
            reclaim: Some(self.clone()),
            backup: Err(NO_BACKUP),
            erasure: None,
            migration: Some(self),
        }
    }

    /// The cluster's commit log decides what survives a loss of power on its nodes.
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Every acknowledged write is with the cluster already.
    async fn close(&self) -> Result<(), StoreError> {
        self.opening.close();
        Ok(())
    }

    /// Attempts without a waiting caller are requests too.
    async fn idle(&self) {
        self.shared.permits.idle().await;
    }

    fn read_only(&self) -> Option<String> {
        None
    }

    fn warning(&self) -> Option<String> {
        let warnings: Vec<_> =
            [self.shared.metrics.watch.warning(), self.skew_warning()].into_iter().flatten().collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }
}

impl OwnPermits for CqlStore {
    fn permits(&self) -> (PermitCounts, u64) {
        self.shared.permits.counts()
    }

    fn permits_per_session(&self) -> usize {
        self.shared.permits.bound()
    }

    fn set_permits_per_session(&self, permits: usize) {
        self.shared.permits.set_bound(permits);
    }
}

impl Reclaim for CqlStore {
    /// The rows of unreachable lists expire.
    fn forget(&self, _unreachable: IsUnreachable) {}

    fn bound(&self, bound_of: BoundOf) {
        let _said_before = self.shared.bound_of.set(bound_of);
    }
}

impl SchemaMigration for CqlStore {
    fn awaits_migration(&self) -> Option<String> {
        self.shared.awaited.load().as_deref().cloned()
    }
}

impl CqlStore {
    fn skew_warning(&self) -> Option<String> {
        let allowed = self.shared.options.clock_skew_warn;
        let (ahead, set_back) = (self.skew(), self.shared.write_clock.set_back_by());
        if set_back > allowed {
            return Some(format!(
                "this server's clock was set back by {} ms: until it has caught up, its writes override later writes \
                 of other servers",
                set_back.as_millis()
            ));
        }
        (ahead > allowed).then(|| {
            format!(
                "another server's clock is or was recently {} ms ahead of this server's, or this server's clock was \
                 before it started: later writes here may lose to earlier ones",
                ahead.as_millis()
            )
        })
    }
}
