//! The shared state of a store's sessions.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::connect::datacenter::LocalDatacenter;
use super::connect::tls::Tls;
use super::health::metrics::CqlMetrics;
use super::health::skew::SkewGauge;
use super::health::write_clock::WriteClock;
use super::options::CqlOptions;
use super::pressure::budget::RetryBudget;
use super::pressure::permits::PermitsOfAll;
use crate::domain::Clock;
use crate::items::BoundOf;

/// The shared state of a store's sessions.
pub struct Shared {
    pub options: CqlOptions,
    pub tls: Option<Tls>,
    pub datacenter: Arc<LocalDatacenter>,
    /// Whether the settings that weaken a promise were logged.
    pub cautioned: AtomicBool,
    /// Why no session can be opened before a migration, as the last that was tried found it.
    pub awaited: ArcSwapOption<String>,
    pub write_clock: WriteClock,
    pub budget: Arc<RetryBudget>,
    pub permits: PermitsOfAll,
    pub metrics: Arc<CqlMetrics>,
    /// The random ID of this process in the reverse entries of sets. If two processes have the same ID and add a member
    /// at once, the item that was written last may stay.
    pub writer: i32,
    /// Returns the bounds of lists, once it is set.
    pub bound_of: Arc<OnceLock<BoundOf>>,
}

impl Shared {
    pub fn new(
        options: CqlOptions,
        tls: Option<Tls>,
        clock: Arc<dyn Clock>,
        skew: Arc<SkewGauge>,
        metrics: CqlMetrics,
    ) -> Self {
        Self {
            datacenter: Arc::new(LocalDatacenter::of(options.datacenter.as_deref())),
            cautioned: AtomicBool::new(false),
            awaited: ArcSwapOption::empty(),
            write_clock: WriteClock::new(clock, skew, options.clock_skew_max),
            budget: Arc::new(RetryBudget::full()),
            permits: PermitsOfAll::new(options.permits),
            metrics: Arc::new(metrics),
            writer: fastrand::i32(..),
            bound_of: Arc::default(),
            options,
            tls,
        }
    }
}
