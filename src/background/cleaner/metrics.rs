//! What the Cleaner counts of itself.

use std::time::Duration;

use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// What was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    /// The entries of a bag were written again.
    Bag,
    /// An entry was removed that its bag does not have.
    Entry,
}

impl Repair {
    const ALL: [Self; 2] = [Self::Bag, Self::Entry];

    fn as_str(self) -> &'static str {
        match self {
            Self::Bag => "bag",
            Self::Entry => "entry",
        }
    }
}

pub(super) struct CleanerMetrics {
    repairs: IntCounterVec,
    waiting: IntGauge,
    lag: Gauge,
    dropped: IntCounter,
}

impl CleanerMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let repairs = Opts::new(
            "liststore_cleaner_repairs_total",
            "Entries of indexes that were mended: bags whose entries were written again, and entries that were removed.",
        );
        let metrics = Self {
            repairs: IntCounterVec::new(repairs, &["kind"])?,
            waiting: IntGauge::new("liststore_cleaner_waiting", "Bags and entries that wait to be mended.")?,
            lag: Gauge::new("liststore_cleaner_lag_seconds", "For how long the oldest of them has been known.")?,
            dropped: IntCounter::new(
                "liststore_cleaner_dropped_total",
                "Bags and entries that were to be mended and for which there was no room.",
            )?,
        };
        for repair in Repair::ALL {
            metrics.repairs.with_label_values(&[repair.as_str()]);
        }
        registry.register(Box::new(metrics.repairs.clone()))?;
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.lag.clone()))?;
        registry.register(Box::new(metrics.dropped.clone()))?;
        Ok(metrics)
    }

    pub fn mended(&self, repair: Repair) {
        self.repairs.with_label_values(&[repair.as_str()]).inc();
    }

    pub fn dropped(&self) {
        self.dropped.inc();
    }

    pub fn refresh(&self, waiting: usize, lag: Duration) {
        self.waiting.set(waiting as i64);
        self.lag.set(lag.as_secs_f64());
    }
}
