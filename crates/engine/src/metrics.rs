//! The engine's metrics, in Prometheus' conventions.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Registry};

use super::disk::Space;

#[derive(Debug, Clone)]
pub struct Metrics {
    pub commit_groups: IntCounter,
    pub commit_group_size: Histogram,
    pub fsync_seconds: Histogram,
    pub disk_bytes: IntGauge,
    pub data_files: IntGauge,
    pub hidden_bytes: IntGauge,
    pub flushes: IntCounter,
    pub compactions: IntCounter,
    pub compaction_bytes: IntCounter,
    pub adopted_bytes: IntCounter,
    pub flush_gave_way: IntCounter,
    pub compaction_gave_way: IntCounter,
    pub expired_dropped: IntCounter,
    pub surplus_dropped: IntCounter,
    pub set_adds_joined: IntCounter,
    pub member_hits: IntCounter,
    pub member_misses: IntCounter,
    pub head_hits: IntCounter,
    pub head_misses: IntCounter,
}

impl Metrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| register(registry, IntGauge::new(name, help)?);
        let histogram = |name: &str, help: &str, buckets: Vec<f64>| {
            register(registry, Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets))?)
        };
        Ok(Self {
            commit_groups: counter("liststore_commit_groups_total", "Groups of writes committed to the log.")?,
            commit_group_size: histogram(
                "liststore_commit_group_size",
                "Writes per committed group.",
                prometheus::exponential_buckets(1.0, 2.0, 11)?,
            )?,
            fsync_seconds: histogram(
                "liststore_fsync_seconds",
                "Latency of an fsync of the log.",
                prometheus::exponential_buckets(0.000_1, 2.0, 15)?,
            )?,
            disk_bytes: gauge("liststore_disk_bytes", "Bytes of data files, without the log.")?,
            data_files: gauge("liststore_data_files", "Data files.")?,
            hidden_bytes: gauge(
                "liststore_hidden_bytes",
                "Estimated bytes of data files that compaction can reclaim.",
            )?,
            flushes: counter("liststore_flushes_total", "Flushes of the memtable to data files.")?,
            compactions: counter("liststore_compactions_total", "Compactions of data files.")?,
            compaction_bytes: counter(
                "liststore_compaction_bytes_total",
                "Bytes of data files written by compactions.",
            )?,
            adopted_bytes: counter(
                "liststore_compaction_taken_over_bytes_total",
                "Bytes of data files that compactions kept without rewriting.",
            )?,
            flush_gave_way: counter(
                "liststore_flush_gave_way_total",
                "Times that a flush yielded its core to other threads.",
            )?,
            compaction_gave_way: counter(
                "liststore_compaction_gave_way_total",
                "Times that a compaction yielded its core to other threads.",
            )?,
            expired_dropped: counter(
                "liststore_expired_items_dropped_total",
                "Expired items dropped by flushes and compactions.",
            )?,
            surplus_dropped: counter(
                "liststore_surplus_items_dropped_total",
                "Items beyond the `max_items` of their list's version dropped by compactions.",
            )?,
            set_adds_joined: counter(
                "liststore_set_adds_joined_total",
                "Adds to sets that were written in one write with the previous add.",
            )?,
            member_hits: counter("liststore_member_hits_total", "Lookups of set members answered from memory.")?,
            member_misses: counter("liststore_member_misses_total", "Lookups of set members through reverse entries.")?,
            head_hits: counter("liststore_head_hits_total", "Gets answered from list heads in memory.")?,
            head_misses: counter("liststore_head_misses_total", "Gets that read beyond the list heads.")?,
        })
    }
}

fn register<M: Collector + Clone + 'static>(registry: &Registry, metric: M) -> Result<M, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Bytes of memory in use.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub pending_bytes: u64,
    pub head_bytes: u64,
    pub index_bytes: u64,
}

/// The readings of the gauges at a scrape.
#[derive(Debug, Clone, Copy)]
pub struct Readings {
    pub memory: Memory,
    /// `None` if the disk does not report it.
    pub space: Option<Space>,
    /// Whether some or all writes are refused.
    pub is_read_only: bool,
}

/// Gauges that are read at each scrape.
struct Gauges<F> {
    pending_bytes: IntGauge,
    head_bytes: IntGauge,
    index_bytes: IntGauge,
    read_only: IntGauge,
    disk_free_bytes: IntGauge,
    disk_size_bytes: IntGauge,
    /// `None` once the store is gone.
    read: F,
}

/// Registers the gauges that are read at each scrape.
pub fn register_gauges(
    registry: &Registry,
    read: impl Fn() -> Option<Readings> + Send + Sync + 'static,
) -> Result<(), prometheus::Error> {
    let pending_help = "Memory of the memtable: items not yet flushed to data files.";
    registry.register(Box::new(Gauges {
        pending_bytes: IntGauge::new("liststore_pending_bytes", pending_help)?,
        head_bytes: IntGauge::new("liststore_head_bytes", "Memory of list heads, and of sets by member.")?,
        index_bytes: IntGauge::new("liststore_index_bytes", "Memory of the indexes and filters of data files.")?,
        read_only: IntGauge::new("liststore_read_only", "1 while the item store refuses some or all writes, else 0.")?,
        disk_free_bytes: IntGauge::new(
            "liststore_disk_free_bytes",
            "Free bytes on the file system of the item store.",
        )?,
        disk_size_bytes: IntGauge::new(
            "liststore_disk_size_bytes",
            "Size of the file system of the item store in bytes.",
        )?,
        read,
    }))
}

impl<F> Gauges<F> {
    fn all(&self) -> [&IntGauge; 6] {
        let Self { pending_bytes, head_bytes, index_bytes, read_only, disk_free_bytes, disk_size_bytes, .. } = self;
        [pending_bytes, head_bytes, index_bytes, read_only, disk_free_bytes, disk_size_bytes]
    }
}

impl<F: Fn() -> Option<Readings> + Send + Sync> Collector for Gauges<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.all().iter().flat_map(|gauge| gauge.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(Readings { memory, space, is_read_only }) = (self.read)() else { return Vec::new() };
        let values = [
            Some(memory.pending_bytes),
            Some(memory.head_bytes),
            Some(memory.index_bytes),
            Some(u64::from(is_read_only)),
            space.map(|space| space.free),
            space.map(|space| space.total),
        ];
        let shown = self.all().into_iter().zip(values).filter_map(|(gauge, value)| value.map(|value| (gauge, value)));
        shown
            .flat_map(|(gauge, value)| {
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
                gauge.collect()
            })
            .collect()
    }
}
