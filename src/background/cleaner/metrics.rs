//! The metrics of the Cleaner.

use std::time::Duration;

use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// The kind of a repair.
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
            "Repaired index entries: bags whose entries were written again, and entries that were removed.",
        );
        let metrics = Self {
            repairs: IntCounterVec::new(repairs, &["kind"])?,
            waiting: IntGauge::new("liststore_cleaner_waiting", "Bags and entries waiting for repair.")?,
            lag: Gauge::new("liststore_cleaner_lag_seconds", "Time since the oldest of them was detected.")?,
            dropped: IntCounter::new(
                "liststore_cleaner_dropped_total",
                "Bags and entries dropped because the repair queue was full.",
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

    pub fn repaired(&self, repair: Repair) {
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
