//! The metrics of the list pool, by which operators scale it.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::{Counter, Histogram, HistogramOpts, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

use super::slot::SlotState;
use crate::items::PermitCounts;

pub(super) struct PoolMetrics {
    permits_bound: IntGauge,
    permits_limit: IntGauge,
    permits_in_use: IntGauge,
    permits_waiting: IntGauge,
    permits_refused: IntCounter,
    permit_seconds: Counter,
    permit_wait: Histogram,
    actors: IntGaugeVec,
    actor_restarts: IntCounter,
    /// The store's refusals, and the nanoseconds, that are already counted.
    refused_by_store: AtomicU64,
    held_nanos: AtomicU64,
}

/// The values of a pool at the moment when metrics are shown.
pub(super) struct PoolReading {
    pub permits: PermitCounts,
    /// Operations that a store which bounds its own work has refused since it was opened.
    pub refused_by_store: u64,
    /// The total time that released permits were held since the start.
    pub held_nanos: u64,
    pub states: Vec<SlotState>,
    pub restarts: usize,
}

impl PoolMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let waits = HistogramOpts::new(
            "liststore_list_permit_wait_seconds",
            "Time that list operations waited for a permit, until they got one or were refused.",
        );
        let metrics = Self {
            permits_bound: gauge("liststore_list_permits_bound", "Upper bound of permits of all list actors.")?,
            permits_limit: gauge(
                "liststore_list_permits_limit",
                "Current permits of all list actors. With a CQL cluster, the limit follows its latency.",
            )?,
            permits_in_use: gauge(
                "liststore_list_permits_in_use",
                "Permits in use: list operations in flight or, with a CQL cluster, its unfinished requests.",
            )?,
            permits_waiting: gauge("liststore_list_permits_waiting", "List operations waiting for a permit.")?,
            permits_refused: IntCounter::new(
                "liststore_list_permits_refused_total",
                "List operations refused because no permit of their actor was released in time.",
            )?,
            permit_seconds: Counter::new(
                "liststore_list_permit_seconds_total",
                "Time that operations held an actor's permit. Its rate is the mean number of operations in flight.",
            )?,
            permit_wait: Histogram::with_opts(
                waits.buckets(vec![0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0]),
            )?,
            actors: IntGaugeVec::new(Opts::new("liststore_list_actors", "List actors by state."), &["state"])?,
            actor_restarts: IntCounter::new(
                "liststore_list_actor_restarts_total",
                "List actors restarted after a crash.",
            )?,
            refused_by_store: AtomicU64::new(0),
            held_nanos: AtomicU64::new(0),
        };
        registry.register(Box::new(metrics.permits_refused.clone()))?;
        registry.register(Box::new(metrics.permit_seconds.clone()))?;
        registry.register(Box::new(metrics.permit_wait.clone()))?;
        registry.register(Box::new(metrics.actors.clone()))?;
        registry.register(Box::new(metrics.actor_restarts.clone()))?;
        Ok(metrics)
    }

    /// Counts an operation that waited for a permit.
    pub fn waited(&self, seconds: f64) {
        self.permit_wait.observe(seconds);
    }

    /// Counts an operation that was refused because it got no permit.
    pub fn refused(&self) {
        self.permits_refused.inc();
    }

    /// Updates the gauges, and the counters of the store.
    pub fn refresh(&self, found: &PoolReading) {
        let PoolReading { permits, refused_by_store, held_nanos, states, restarts } = found;
        self.permits_bound.set(permits.bound as i64);
        self.permits_limit.set(permits.limit as i64);
        self.permits_in_use.set(permits.in_use as i64);
        self.permits_waiting.set(permits.waiting as i64);
        self.permits_refused.inc_by(since(&self.refused_by_store, *refused_by_store));
        self.permit_seconds.inc_by(since(&self.held_nanos, *held_nanos) as f64 / 1e9);
        for name in SlotState::NAMES {
            let count = states.iter().filter(|state| state.name() == name).count();
            self.actors.with_label_values(&[name]).set(count as i64);
        }
        self.actor_restarts.inc_by((*restarts as u64).saturating_sub(self.actor_restarts.get()));
    }
}

/// The growth of a count since the last call.
fn since(last: &AtomicU64, now: u64) -> u64 {
    now.saturating_sub(last.fetch_max(now, Ordering::Relaxed))
}
