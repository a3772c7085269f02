//! The shared state of a session's operations: the cluster, and the bounds that an operation passes before it asks the
//! cluster.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use prometheus::{IntCounter, IntCounterVec};
use scylla::policies::load_balancing::LoadBalancingPolicy;

use super::connect::connection_errors::unavailable;
use super::health::gate::Gate;
use super::health::watch::Watch;
use super::health::write_clock::WriteClock;
use super::notes::dense::Dense;
use super::notes::noted_buckets::NotedBuckets;
use super::notes::overlong::Overlong;
use super::notes::repairs::Repairs;
use super::notes::to_sweep::ToSweep;
use super::notes::wide::{WideLists, WideSample};
use super::options::{Consistency, CqlOptions};
use super::partitions::Partitions;
use super::pressure::coalesce::Reads;
use super::pressure::permits::{Permit, Permits};
use super::pressure::retry::Attempts;
use super::schema::dialect::Dialect;
use super::shared::Shared;
use crate::domain::{ListKey, MaxItems, Ttl};
use crate::items::{BoundOf, StoreError};

/// How often a session's reads look at write timestamps.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How often a session looks at the index of values while something is wrong with it.
const INDEX_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The shared state of a session's operations.
pub struct Core {
    pub cluster: Arc<dyn Partitions>,
    pub noted_buckets: NotedBuckets,
    pub attempts: Attempts,
    pub permits: Arc<Permits>,
    pub write_clock: WriteClock,
    pub sampler: Sampler,
    /// Entries of sets are compared with their rows.
    pub row_sampler: Sampler,
    pub reads: Arc<Reads>,
    pub overlong: Overlong,
    /// Counts the lists that were cut.
    pub trims: IntCounter,
    pub to_sweep: ToSweep,
    /// Counts the sweeps that replaced tombstones of rows.
    pub swept: IntCounter,
    pub wide: Arc<WideLists>,
    pub wide_sample: WideSample,
    pub repairs: Repairs,
    pub dense: Dense,
    /// How much narrower than a whole table the parts of walks over partitions are at present.
    pub walk_narrowed: AtomicU32,
    /// Counts repairs of sets, by kind.
    pub repaired: IntCounterVec,
    /// Who this process is in the reverse entries of sets.
    pub writer: i32,
    bound_of: Arc<OnceLock<BoundOf>>,
    /// Whether the search by value was prepared.
    is_search_prepared: AtomicBool,
    index_checked_at: tokio::sync::Mutex<Option<Instant>>,
    options: CqlOptions,
    dialect: Dialect,
    pub gate: Gate,
    pub watch: Arc<Watch>,
}

impl Core {
    /// Creates the shared state of a session with this cluster.
    pub fn new(
        shared: &Shared,
        cluster: Arc<dyn Partitions>,
        dialect: Dialect,
        plan: Arc<dyn LoadBalancingPolicy>,
    ) -> Self {
        let options = &shared.options;
        let permits = shared.permits.of_a_session(options);
        let attempts = Attempts {
            plan,
            health: Arc::default(),
            permits: Arc::clone(&permits),
            budget: Arc::clone(&shared.budget),
            speculative_after: options.speculative_after,
            metrics: Arc::clone(&shared.metrics),
        };
        Self {
            cluster,
            noted_buckets: NotedBuckets::default(),
            attempts,
            write_clock: shared.write_clock.clone(),
            sampler: Sampler::new(),
            row_sampler: Sampler::new(),
            reads: Arc::new(Reads::new(Arc::clone(&permits), shared.metrics.reads_joined.clone())),
            overlong: Overlong::default(),
            trims: shared.metrics.trims.clone(),
            to_sweep: ToSweep::default(),
            swept: shared.metrics.swept.clone(),
            wide: Arc::clone(&shared.metrics.wide),
            wide_sample: WideSample::default(),
            repairs: Repairs::default(),
            dense: Dense::default(),
            walk_narrowed: AtomicU32::default(),
            repaired: shared.metrics.repaired.clone(),
            writer: shared.writer,
            bound_of: Arc::clone(&shared.bound_of),
            permits,
            is_search_prepared: AtomicBool::new(false),
            index_checked_at: tokio::sync::Mutex::default(),
            options: options.clone(),
            dialect,
            gate: Gate::default(),
            watch: Arc::clone(&shared.metrics.watch),
        }
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Checks that values can be searched for. While the index of values has a defect, searches are refused, and one
    /// removal for all checks the index again now and then: such a check has no permit.
    pub async fn prepare_search(&self, deadline: tokio::time::Instant) -> Result<(), StoreError> {
        if self.watch.index_defect().is_none() && self.is_search_prepared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let checking = async {
            let mut checked_at = self.index_checked_at.lock().await;
            match (self.watch.index_defect(), *checked_at) {
                (Some(defect), Some(at)) if at.elapsed() < INDEX_CHECK_INTERVAL => {
                    return Err(unavailable(defect));
                }
                _ => *checked_at = Some(Instant::now()),
            }
            let defect = self.cluster.prepare_search().await?;
            self.watch.index_is(defect.clone());
            match defect {
                Some(defect) => Err(unavailable(defect)),
                None => {
                    self.is_search_prepared.store(true, Ordering::Relaxed);
                    Ok(())
                }
            }
        };
        match tokio::time::timeout_at(deadline, checking).await {
            Ok(checked) => checked,
            Err(_) => Err(StoreError::Timeout { outcome_unknown: false }),
        }
    }

    /// Refuses an operation for which no node is there, before it takes anything.
    pub fn admit(&self) -> Result<(), StoreError> {
        let admitted = self.gate.admit(|| self.reaches_a_node());
        if admitted.is_err() {
            self.watch.refused();
        }
        admitted
    }

    /// A permit for an operation that was admitted. One that had to wait may find the cluster gone.
    pub async fn permit(&self, deadline: tokio::time::Instant) -> Result<Permit, StoreError> {
        if let Some(permit) = self.permits.try_take() {
            return Ok(permit);
        }
        let permit = self.permits.take(Some(deadline)).await.map_err(|error| self.cause_of(error))?;
        self.admit().map(|()| permit)
    }

    /// The cause of a refusal for lack of permits: unresponsive nodes may hold all of them.
    pub fn cause_of(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Overloaded { .. } if self.gate.is_shut() => {
                self.watch.refused();
                self.gate.refusal()
            }
            other => other,
        }
    }

    fn reaches_a_node(&self) -> bool {
        let health = &self.attempts.health;
        self.cluster.reaches_a_node(&|node| health.is_suspect(node))
    }

    /// The TTL and the bound of a list at present, if they are known and it has a bound.
    pub fn bound_of(&self, list: &ListKey) -> Option<(Ttl, MaxItems)> {
        self.bound_of.get()?(list.feature_key.as_str())
    }

    /// How long ago a write must have begun to be acknowledged by now, or never.
    pub fn settled_after(&self) -> Duration {
        self.options.settled_after
    }

    /// How many replicas a sweep asks for the rows that it must not hide: all of them. Of entries, which are hints, as
    /// many as other reads ask, if these meet every acknowledged write.
    pub fn consistency_of_sweeps(&self, is_entries: bool) -> scylla::statement::Consistency {
        let is_enough = is_entries && self.reads_see_all_writes();
        if is_enough { self.options.read_consistency.of_driver() } else { Consistency::All.of_driver() }
    }

    /// Whether each read meets every acknowledged write, of any server.
    pub fn reads_see_all_writes(&self) -> bool {
        self.cluster.reads_see_all_writes()
    }
}

/// Allows one extra look a second in each session: at the write timestamps of a page, which show other servers'
/// clocks, or at the rows of a set's entries.
pub struct Sampler {
    since: Instant,
    /// Milliseconds from `since`.
    next: AtomicU64,
}

impl Sampler {
    fn new() -> Self {
        Self { since: Instant::now(), next: AtomicU64::new(0) }
    }

    pub fn is_due(&self) -> bool {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(SAMPLE_INTERVAL.as_millis() as u64);
        now >= next && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_per_second_checks_write_timestamps() {
        let sampler = Sampler::new();
        assert!(sampler.is_due());
        assert_eq!((0..100).filter(|_| sampler.is_due()).count(), 0);
    }
}
