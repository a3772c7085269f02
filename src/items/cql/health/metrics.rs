//! Metrics of the CQL store: requests to the cluster, retries, connections, and clock skew.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramTimer, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

use super::skew::SkewGauge;
use super::watch::Watch;
use crate::items::cql::notes::wide::WideLists;
use crate::items::cql::statements::Statement;

/// The metrics of all sessions of a store.
#[derive(Debug)]
pub struct CqlMetrics {
    seconds: [Histogram; Statement::ALL.len()],
    failures: IntCounterVec,
    retries: IntCounterVec,
    budget_exhausted: IntCounter,
    /// Gets that were answered by the request of another.
    pub reads_joined: IntCounter,
    /// Lists that were cut since they had more items than they show.
    pub trims: IntCounter,
    /// Sweeps that replaced row tombstones by range tombstones.
    pub swept: IntCounter,
    /// Lists that were met with very many items.
    pub wide: Arc<WideLists>,
    /// Repairs of sets whose rows and entries did not agree.
    pub repaired: IntCounterVec,
    pub watch: Arc<Watch>,
}

impl CqlMetrics {
    pub fn register(registry: &Registry, skew: Arc<SkewGauge>) -> prometheus::Result<Self> {
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "liststore_cql_request_duration_seconds",
                "Duration of one request to the CQL cluster, including all attempts.",
            )
            .buckets(prometheus::exponential_buckets(0.000_25, 2.0, 15)?),
            &["statement"],
        )?;
        let failures = IntCounterVec::new(
            Opts::new("liststore_cql_attempt_failures_total", "Failed request attempts, by kind."),
            &["statement", "kind"],
        )?;
        let retries = IntCounterVec::new(
            Opts::new(
                "liststore_cql_retries_total",
                "Retried attempts, by the cause of the previous failure. For no_answer and speculation, the previous \
                 attempt was only slow.",
            ),
            &["statement", "kind"],
        )?;
        let budget_exhausted = IntCounter::new(
            "liststore_cql_retry_budget_exhausted_total",
            "Retries not made because the retry budget was exhausted.",
        )?;
        let reads_joined = IntCounter::new(
            "liststore_cql_reads_joined_total",
            "Gets that shared the request of an identical waiting get.",
        )?;
        let trims = IntCounter::new(
            "liststore_cql_trims_total",
            "Deletions of items beyond the `max_items` of a list's version.",
        )?;
        let swept = IntCounter::new(
            "liststore_cql_sweeps_total",
            "Ranges of deleted rows whose row tombstones were replaced by a range tombstone.",
        )?;
        let wide_lists = IntCounter::new(
            "liststore_cql_wide_lists_total",
            "Lists without buckets that had 100,000 items or more, each counted about once an hour.",
        )?;
        let widest = IntGauge::new(
            "liststore_cql_widest_list_items",
            "Largest number of items seen in a list without buckets, if 100,000 or more.",
        )?;
        let repaired = IntCounterVec::new(
            Opts::new(
                "liststore_cql_members_repaired_total",
                "Repaired inconsistencies between rows and reverse entries of sets, by kind.",
            ),
            &["what"],
        )?;
        let watch = Arc::new(Watch::default());
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(failures.clone()))?;
        registry.register(Box::new(retries.clone()))?;
        registry.register(Box::new(budget_exhausted.clone()))?;
        registry.register(Box::new(reads_joined.clone()))?;
        registry.register(Box::new(trims.clone()))?;
        registry.register(Box::new(swept.clone()))?;
        registry.register(Box::new(repaired.clone()))?;
        registry.register(Box::new(wide_lists.clone()))?;
        registry.register(Box::new(widest.clone()))?;
        registry.register(Box::new(StateCollector::new(Arc::clone(&watch), skew)?))?;
        Ok(Self {
            seconds: Statement::ALL.map(|statement| seconds.with_label_values(&[statement.as_str()])),
            failures,
            retries,
            budget_exhausted,
            reads_joined,
            trims,
            swept,
            wide: Arc::new(WideLists::new(wide_lists, widest)),
            repaired,
            watch,
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
}

/// Values that are read when the metrics are collected.
struct StateCollector {
    watch: Arc<Watch>,
    skew: Arc<SkewGauge>,
    sessions: IntGauge,
    connections: IntGauge,
    nodes: IntGauge,
    reached: IntGauge,
    refused: IntCounter,
    ahead: Gauge,
}

impl StateCollector {
    fn new(watch: Arc<Watch>, skew: Arc<SkewGauge>) -> prometheus::Result<Self> {
        Ok(Self {
            watch,
            skew,
            sessions: IntGauge::new("liststore_cql_sessions", "Open sessions with the CQL cluster.")?,
            connections: IntGauge::new(
                "liststore_cql_connections",
                "Connections to the CQL cluster for list operations, over all sessions.",
            )?,
            nodes: IntGauge::new(
                "liststore_cql_nodes",
                "Nodes of the local datacenter of the CQL cluster, up or down.",
            )?,
            reached: IntGauge::new(
                "liststore_cql_nodes_reached",
                "Nodes of the local datacenter that are connected and responding in at least one session.",
            )?,
            refused: IntCounter::new(
                "liststore_cql_refused_total",
                "List operations refused immediately because no node of the CQL cluster was reachable.",
            )?,
            ahead: Gauge::new(
                "liststore_cql_clock_skew_seconds",
                "Largest recent lead of a stored write timestamp over this server's clock.",
            )?,
        })
    }
}

impl Collector for StateCollector {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [&self.sessions, &self.connections, &self.nodes, &self.reached];
        gauges.into_iter().flat_map(|gauge| gauge.desc()).chain(self.refused.desc()).chain(self.ahead.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let view = self.watch.view();
        let as_gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.sessions.set(as_gauge(view.sessions));
        self.connections.set(i64::try_from(view.connections).unwrap_or(i64::MAX));
        self.nodes.set(as_gauge(view.nodes.len()));
        self.reached.set(as_gauge(view.reached()));
        self.refused.inc_by(self.watch.refusals().saturating_sub(self.refused.get()));
        self.ahead.set(self.skew.ahead().as_secs_f64());
        let gauges = [&self.sessions, &self.connections, &self.nodes, &self.reached];
        let gauges = gauges.into_iter().flat_map(|gauge| gauge.collect());
        gauges.chain(self.refused.collect()).chain(self.ahead.collect()).collect()
    }
}
