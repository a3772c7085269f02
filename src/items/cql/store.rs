//! The store: what its sessions share. Opening it is cheap and needs no cluster; sessions connect.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prometheus::Registry;
use tokio::sync::Semaphore;

use super::connect::Tls;
use super::metrics::CqlMetrics;
use super::options::CqlOptions;
use super::retry::RetryBudget;
use super::schema::SchemaState;
use super::session::CqlSession;
use super::skew::SkewGauge;
use super::write_clock::WriteClock;
use super::{OpenError, inspect, tls};
use crate::domain::Clock;
use crate::items::{ItemSession, ItemStore, StoreError};

/// Sessions that are being opened at once: all actors start together, and each session opens a
/// connection to every shard of the cluster.
const OPENING_MAX: usize = 2;

/// What the sessions of a store share.
pub struct Shared {
    pub options: CqlOptions,
    pub tls: Option<Tls>,
    pub write_clock: WriteClock,
    pub budget: Arc<RetryBudget>,
    pub metrics: Arc<CqlMetrics>,
}

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
        let tls = options.tls.as_ref().map(tls::load).transpose()?;
        let skew = Arc::new(SkewGauge::default());
        let metrics = CqlMetrics::register(registry, Arc::clone(&skew))
            .map_err(|error| OpenError::Metrics { reason: error.to_string() })?;
        let write_clock = WriteClock::new(clock, Arc::clone(&skew));
        let (budget, metrics) = (Arc::new(RetryBudget::full()), Arc::new(metrics));
        let shared = Shared { options, tls, write_clock, budget, metrics };
        Ok(Self { shared, skew, opening: Semaphore::new(OPENING_MAX) })
    }

    /// Connects and looks at the schema: `serve` must not start on one that is not current. An
    /// error says that the cluster is not there at present, which a start outlives.
    pub async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        inspect::schema_state(&self.shared.options, self.shared.tls.as_ref()).await
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
            return Err(super::connect::unavailable("the store is closed".to_owned()));
        };
        Ok(Rc::new(CqlSession::open(&self.shared).await?))
    }

    /// Every acknowledged write is with the cluster already.
    async fn close(&self) -> Result<(), StoreError> {
        self.opening.close();
        Ok(())
    }

    fn warning(&self) -> Option<String> {
        let (ahead, allowed) = (self.skew(), self.shared.options.clock_skew_warn);
        (ahead > allowed).then(|| {
            format!(
                "another server's clock is {} ms ahead of this one's, or was lately: later writes here may lose to \
                 earlier ones there",
                ahead.as_millis()
            )
        })
    }
}
