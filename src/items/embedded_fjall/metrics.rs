//! What the store tells of its writes and its size.

use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Registry};

#[derive(Clone)]
pub struct Metrics {
    pub groups: IntCounter,
    pub group_size: Histogram,
    pub fsync_seconds: Histogram,
    pub disk_bytes: IntGauge,
}

impl Metrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            groups: IntCounter::new("liststore_items_commit_groups_total", "Groups of writes committed together.")?,
            group_size: Histogram::with_opts(
                HistogramOpts::new("liststore_items_commit_group_size", "Writes that were committed together.")
                    .buckets(prometheus::exponential_buckets(1.0, 2.0, 10)?),
            )?,
            fsync_seconds: Histogram::with_opts(
                HistogramOpts::new(
                    "liststore_items_fsync_seconds",
                    "Time of an fsync of the journal; with fsync per group, of the write that it ends as well.",
                )
                .buckets(prometheus::exponential_buckets(0.000_1, 2.0, 16)?),
            )?,
            disk_bytes: IntGauge::new("liststore_items_disk_bytes", "Size of the item store on disk.")?,
        };
        registry.register(Box::new(metrics.groups.clone()))?;
        registry.register(Box::new(metrics.group_size.clone()))?;
        registry.register(Box::new(metrics.fsync_seconds.clone()))?;
        registry.register(Box::new(metrics.disk_bytes.clone()))?;
        Ok(metrics)
    }
}
