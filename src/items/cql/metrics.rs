//! Metrics of the CQL store: requests to the cluster, retries, connections, and clock skew.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramTimer, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};
use scylla::observability::metrics::Metrics as DriverMetrics;

use super::inspect::CONTROL_CONNECTIONS;
use super::skew::SkewGauge;
use super::statements::Statement;

/// What the sessions of one store count.
#[derive(Debug)]
pub struct CqlMetrics {
    seconds: [Histogram; Statement::ALL.len()],
    failures: IntCounterVec,
    retries: IntCounterVec,
    budget_exhausted: IntCounter,
    /// Gets that were answered by the request of another.
    pub reads_joined: IntCounter,
    sessions: Sessions,
}

impl CqlMetrics {
    pub fn register(registry: &Registry, skew: Arc<SkewGauge>) -> prometheus::Result<Self> {
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "liststore_cql_request_duration_seconds",
                "Time of one request to the CQL cluster, with all its attempts.",
            )
            .buckets(prometheus::exponential_buckets(0.000_25, 2.0, 15)?),
            &["statement"],
        )?;
        let failures = IntCounterVec::new(
            Opts::new("liststore_cql_attempt_failures_total", "Attempts of requests that failed, by kind."),
            &["statement", "kind"],
        )?;
        let retries = IntCounterVec::new(
            Opts::new(
                "liststore_cql_retries_total",
                "Attempts beyond the first, by what the one before died of; no_answer and speculation: it was only slow.",
            ),
            &["statement", "kind"],
        )?;
        let budget_exhausted = IntCounter::new(
            "liststore_cql_retry_budget_exhausted_total",
            "Attempts that were not made because the retry budget was used up.",
        )?;
        let reads_joined = IntCounter::new(
            "liststore_cql_reads_joined_total",
            "Gets that were answered by the request of an identical one, which had not been sent yet.",
        )?;
        let sessions = Sessions::default();
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(failures.clone()))?;
        registry.register(Box::new(retries.clone()))?;
        registry.register(Box::new(budget_exhausted.clone()))?;
        registry.register(Box::new(reads_joined.clone()))?;
        registry.register(Box::new(StateCollector::new(sessions.clone(), skew)?))?;
        Ok(Self {
            seconds: Statement::ALL.map(|statement| seconds.with_label_values(&[statement.as_str()])),
            failures,
            retries,
            budget_exhausted,
            reads_joined,
            sessions,
        })
    }

    /// Records the time until the returned timer is dropped.
    pub fn start(&self, statement: Statement) -> HistogramTimer {
        self.seconds[statement as usize].start_timer()
    }

    pub fn failed(&self, statement: Statement, kind: &'static str) {
        self.failures.with_label_values(&[statement.as_str(), kind]).inc();
    }

    pub fn retried(&self, statement: Statement, kind: &'static str) {
        self.retries.with_label_values(&[statement.as_str(), kind]).inc();
    }

    pub fn budget_exhausted(&self) {
        self.budget_exhausted.inc();
    }

    /// Counts a session's connections from now on, until it is dropped.
    pub fn opened(&self, session: &Arc<DriverMetrics>) {
        self.sessions.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(session));
    }
}

/// The drivers' own counts of the sessions that are open.
#[derive(Debug, Clone, Default)]
struct Sessions(Arc<Mutex<Vec<Weak<DriverMetrics>>>>);

impl Sessions {
    /// How many sessions are open, and how many connections they have.
    fn count(&self) -> (i64, i64) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        let connections: u64 = sessions
            .iter()
            .filter_map(Weak::upgrade)
            .map(|session| session.get_total_connections() + CONTROL_CONNECTIONS)
            .sum();
        (i64::try_from(sessions.len()).unwrap_or(i64::MAX), i64::try_from(connections).unwrap_or(i64::MAX))
    }
}

/// What is read when the metrics are collected, rather than counted as it happens.
struct StateCollector {
    state: Sessions,
    skew: Arc<SkewGauge>,
    sessions: IntGauge,
    connections: IntGauge,
    ahead: Gauge,
}

impl StateCollector {
    fn new(state: Sessions, skew: Arc<SkewGauge>) -> prometheus::Result<Self> {
        Ok(Self {
            state,
            skew,
            sessions: IntGauge::new("liststore_cql_sessions", "Sessions with the CQL cluster that are open.")?,
            connections: IntGauge::new(
                "liststore_cql_connections",
                "Connections to the CQL cluster, of all sessions, control connections included.",
            )?,
            ahead: Gauge::new(
                "liststore_cql_clock_skew_seconds",
                "How far a write timestamp that was found lately was ahead of this server's clock, at most.",
            )?,
        })
    }
}

impl Collector for StateCollector {
    fn desc(&self) -> Vec<&Desc> {
        [self.sessions.desc(), self.connections.desc(), self.ahead.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (sessions, connections) = self.state.count();
        self.sessions.set(sessions);
        self.connections.set(connections);
        self.ahead.set(self.skew.ahead().as_secs_f64());
        [self.sessions.collect(), self.connections.collect(), self.ahead.collect()].concat()
    }
}
