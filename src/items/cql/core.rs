//! What the operations of a session share: the driver's session, its statements, and the bounds that an
//! operation passes before it asks the cluster.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use prometheus::{IntCounter, IntCounterVec};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlDuration;
use tokio::sync::OnceCell;

use super::connect::connection_errors::unavailable;
use super::connect::driver::{self, Completeness};
use super::error::NO_INDEX;
use super::health::gate::Gate;
use super::health::view::Contact;
use super::health::watch::{Seen, Watch};
use super::health::write_clock::WriteClock;
use super::notes::dense::Dense;
use super::notes::mends::Mends;
use super::notes::noted_buckets::NotedBuckets;
use super::notes::overlong::Overlong;
use super::notes::to_sweep::ToSweep;
use super::notes::wide::{WideLists, WideSample};
use super::options::{Consistency, CqlOptions};
use super::pressure::coalesce::Reads;
use super::pressure::permits::{Permit, Permits};
use super::pressure::retry::Attempts;
use super::schema::dialect::Dialect;
use super::schema::found::{self, Found, IndexDefect};
use super::schema::replicas::{cautions, check_replicas, quorums_overlap, replicas_in};
use super::schema::state::SchemaState;
use super::shared::Shared;
use super::statements::bags::PreparedForBags;
use super::statements::buckets::PreparedForBuckets;
use super::statements::lists::{self, Prepared};
use super::statements::sets::PreparedForSets;
use crate::domain::{ListKey, MaxItems, Ttl};
use crate::items::{BoundOf, StoreError};

/// How often a session's reads look at write timestamps.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How often a session looks at the index of values while something is wrong with it.
const INDEX_LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// What the operations of a session share.
pub struct Core {
    pub driver: Session,
    pub prepared: Prepared,
    pub for_sets: PreparedForSets,
    pub for_bags: PreparedForBags,
    pub for_buckets: PreparedForBuckets,
    pub noted_buckets: NotedBuckets,
    pub attempts: Attempts,
    pub permits: Arc<Permits>,
    pub write_clock: WriteClock,
    pub write_consistency: Consistency,
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
    pub mends: Mends,
    pub dense: Dense,
    /// How much narrower than a whole table the parts of walks over partitions are at present.
    pub walk_narrowed: AtomicU32,
    /// Counts what was mended of sets, by what it was.
    pub mended: IntCounterVec,
    /// Who this process is in the reverse entries of sets.
    pub writer: i32,
    bound_of: Arc<OnceLock<BoundOf>>,
    find: OnceCell<PreparedStatement>,
    index_looked_at: tokio::sync::Mutex<Option<Instant>>,
    options: CqlOptions,
    dialect: Dialect,
    datacenter: String,
    pub gate: Gate,
    pub watch: Arc<Watch>,
}

impl Core {
    /// Connects, checks what is there, and prepares the statements.
    pub async fn open(shared: &Shared) -> Result<Self, StoreError> {
        let options = &shared.options;
        let driver = driver::connect(options, shared.tls.as_ref(), &shared.datacenter, Completeness::SomeNodes).await?;
        let (datacenter, dialect, index_defect) = check(&driver, shared).await?;
        let unprepared = |error| {
            tracing::debug!(%error, "cannot prepare the statements");
            let reason = "the cluster does not prepare the statements: check that it responds, and that this login can \
                          read and write the tables list_items, list_members, list_bags, list_bag_swaps and \
                          list_buckets";
            unavailable(reason.to_owned())
        };
        let preparing = Prepared::prepare(&driver, options, dialect);
        let for_sets = PreparedForSets::prepare(&driver, options, dialect);
        let for_bags = PreparedForBags::prepare(&driver, options, dialect);
        let for_buckets = PreparedForBuckets::prepare(&driver, options, dialect);
        let preparing = tokio::try_join!(preparing, for_sets, for_bags, for_buckets);
        let (prepared, for_sets, for_bags, for_buckets) = preparing.map_err(unprepared)?;
        shared.metrics.watch.index_is(index_defect.map(|defect| defect.to_string()));
        let permits = shared.permits.of_a_session(options);
        let attempts = Attempts {
            plan: driver::plan(datacenter, options.rack.as_deref()),
            health: Arc::default(),
            permits: Arc::clone(&permits),
            budget: Arc::clone(&shared.budget),
            speculative_after: options.speculative_after,
            metrics: Arc::clone(&shared.metrics),
        };
        Ok(Self {
            driver,
            prepared,
            for_sets,
            for_bags,
            for_buckets,
            noted_buckets: NotedBuckets::default(),
            attempts,
            write_clock: shared.write_clock.clone(),
            write_consistency: options.write_consistency,
            sampler: Sampler::new(),
            row_sampler: Sampler::new(),
            reads: Arc::new(Reads::new(Arc::clone(&permits), shared.metrics.reads_joined.clone())),
            overlong: Overlong::default(),
            trims: shared.metrics.trims.clone(),
            to_sweep: ToSweep::default(),
            swept: shared.metrics.swept.clone(),
            wide: Arc::clone(&shared.metrics.wide),
            wide_sample: WideSample::default(),
            mends: Mends::default(),
            dense: Dense::default(),
            walk_narrowed: AtomicU32::default(),
            mended: shared.metrics.mended.clone(),
            writer: shared.writer,
            bound_of: Arc::clone(&shared.bound_of),
            permits,
            find: OnceCell::new(),
            index_looked_at: tokio::sync::Mutex::default(),
            options: options.clone(),
            dialect,
            datacenter: datacenter.to_owned(),
            gate: Gate::default(),
            watch: Arc::clone(&shared.metrics.watch),
        })
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// What statements bind for the time until a deadline, where the dialect takes it.
    pub fn within(&self, deadline: tokio::time::Instant) -> Option<CqlDuration> {
        lists::within(self.dialect, deadline)
    }

    /// The search by value. While something is wrong with its index it is refused, and the index looked at
    /// again now and then, by one removal for all: such a look has no permit.
    pub async fn find(&self, deadline: tokio::time::Instant) -> Result<PreparedStatement, StoreError> {
        if self.watch.index_defect().is_none()
            && let Some(find) = self.find.get()
        {
            return Ok(find.clone());
        }
        let finding = async {
            let mut looked_at = self.index_looked_at.lock().await;
            match (self.watch.index_defect(), *looked_at) {
                (Some(defect), Some(at)) if at.elapsed() < INDEX_LOOK_INTERVAL => {
                    return Err(unavailable(defect));
                }
                _ => *looked_at = Some(Instant::now()),
            }
            let defect = found::index_defect(&self.driver, &self.options.keyspace, self.dialect).await?;
            let defect = defect.map(|defect| defect.to_string());
            self.watch.index_is(defect.clone());
            if let Some(defect) = defect {
                return Err(unavailable(defect));
            }
            let prepare = || lists::prepare_find(&self.driver, &self.options, self.dialect);
            let find = self.find.get_or_try_init(prepare).await;
            find.cloned().map_err(|_| unavailable(NO_INDEX.to_owned()))
        };
        match tokio::time::timeout_at(deadline, finding).await {
            Ok(found) => found,
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

    /// That permits are all taken has a cause of its own where nodes hold them and do not answer.
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
        let (cluster, health) = (self.driver.get_cluster_state(), &self.attempts.health);
        cluster.get_nodes_info().iter().any(|node| node.is_connected() && !health.is_suspect(node.host_id))
    }

    /// What is shown of a list at present, if that is known and bounded by more than a TTL.
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
        let is_enough = is_entries && self.reads_meet_all_writes();
        if is_enough { self.options.read_consistency.of_driver() } else { Consistency::All.of_driver() }
    }

    /// Whether each read meets every acknowledged write, of any server.
    pub fn reads_meet_all_writes(&self) -> bool {
        quorums_overlap(&self.options, &self.driver.get_cluster_state(), &self.datacenter)
    }
}

impl Seen for Core {
    fn nodes(&self) -> Vec<(SocketAddr, Contact)> {
        let (cluster, health) = (self.driver.get_cluster_state(), &self.attempts.health);
        let nodes = cluster.get_nodes_info().iter();
        let ours = nodes.filter(|node| node.datacenter.as_deref() == Some(&self.datacenter));
        ours.map(|node| {
            let address = SocketAddr::new(node.address.ip(), node.address.port());
            let contact = match (node.is_connected(), health.is_suspect(node.host_id)) {
                (false, _) => Contact::Gone,
                (true, true) => Contact::Silent,
                (true, false) => Contact::Answers,
            };
            (address, contact)
        })
        .collect()
    }

    fn connections(&self) -> u64 {
        self.driver.get_metrics().get_total_connections()
    }

    fn why_none(&self) -> Option<String> {
        self.gate.why()
    }
}

/// Refuses a cluster that this program cannot work with, with the reason. Returns the datacenter to ask.
async fn check<'a>(
    driver: &Session,
    shared: &'a Shared,
) -> Result<(&'a str, Dialect, Option<IndexDefect>), StoreError> {
    let (options, cluster) = (&shared.options, driver.get_cluster_state());
    let datacenter = shared.datacenter.in_cluster(&cluster)?;
    if let Some(replicas) = replicas_in(&cluster, &options.keyspace, datacenter) {
        check_replicas(options, &cluster, datacenter, replicas)?;
    }
    let dialect = Dialect::of(options.dialect, &cluster);
    dialect.check_consistency(options).map_err(|why| unavailable(why.to_owned()))?;
    let found = Found::read(driver, &options.keyspace, options.read_consistency).await?;
    let state = found.state(dialect);
    shared.awaited.store(state.awaits_migration().then(|| Arc::new(state.to_string())));
    match state {
        state if state.is_served() => {
            if !shared.cautioned.swap(true, Ordering::Relaxed) {
                let newer = matches!(state, SchemaState::NewerServed { .. }).then(|| state.to_string());
                for caution in cautions(options, &cluster, datacenter).into_iter().chain(newer) {
                    tracing::warn!("{caution}");
                }
            }
            tracing::info!(%dialect, datacenter, nodes = cluster.get_nodes_info().len(), "opened a CQL session");
            Ok((datacenter, dialect, found.index_defect(dialect)))
        }
        other => Err(unavailable(other.to_string())),
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
    fn one_read_a_second_looks_at_write_timestamps() {
        let sampler = Sampler::new();
        assert!(sampler.is_due());
        assert_eq!((0..100).filter(|_| sampler.is_due()).count(), 0);
    }
}
