//! Many runs, one after another, each judged: the basis of the quick tests and the long ones.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::backends::{Backends, Failure};
use crate::bags::{BagOutcome, BagRequest};
use crate::check::check;
use crate::faults::Fault;
use crate::history::{Call, History, Order, Outcome, Promises, Reason, Request, Special};
use crate::metrics::{Counters, DROPPED};
use crate::run::{self, Done, Plan};
use crate::server::Recipe;
use crate::tools;
use crate::workload::Workload;

/// The least that there can be: 192 KiB of adds may wait for the log, and 256 KiB of items are flushed.
pub const CACHE_BYTES: u64 = 4 << 20;
/// The possible settings of a run.
const CACHES_BYTES: [u64; 3] = [CACHE_BYTES, CACHE_BYTES, CACHE_BYTES * 3 / 2];
const FSYNC_INTERVALS_MS: [u64; 3] = [10, 100, 1_000];
/// Runs with fewer operations need not compact files.
const OPERATIONS_TO_COMPACT: usize = 3_000;
/// Campaigns with fewer calls of bounded servers need not aggregate more items than a call reads.
const CALLS_TO_CUT: usize = 8_000;
/// The most items that a call aggregates, in some runs: fewer than many lists have, and more than sets and bounded
/// lists have.
const AGGREGATE_ITEMS_MAX: u64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// Nothing survives: without faults that end the server.
    Memory,
    Embedded,
    /// Cassandra and Postgres
    Cql,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fsync {
    Group,
    Interval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum FaultKind {
    /// SIGKILL of the server, while it serves and while it starts
    Kill,
    /// SIGTERM of the server
    Term,
    /// SIGSTOP of the server for a moment
    Pause,
    /// The pool of list actors changes its size during operations
    Resize,
    /// The server's wall clock goes forward and back by an hour (embedded; needs libfaketime)
    Clock,
    /// SIGKILL of a Cassandra node, and a start after a while (cql)
    NodeKill,
    /// SIGSTOP of a Cassandra node for a while (cql)
    NodePause,
    /// Postgres ends, and is started after a while (cql)
    PostgresRestart,
    /// Postgres is silent for a while (cql)
    PostgresHang,
    /// Connections to Cassandra break between commits and their answers (cql)
    Cut,
}

impl FaultKind {
    /// Whether it needs separate stores.
    fn is_of_backends(self) -> bool {
        matches!(self, Self::NodeKill | Self::NodePause | Self::PostgresRestart | Self::PostgresHang)
    }

    fn is_of_cql(self) -> bool {
        self.is_of_backends() || self == Self::Cut
    }
}

pub struct Campaign {
    pub workload: Workload,
    /// The tested program, if not the one built with these tests.
    pub server: Option<PathBuf>,
    pub store: Store,
    /// By turns, a run each.
    pub fsync: Vec<Fsync>,
    pub faults: Vec<FaultKind>,
    pub faults_per_run: usize,
    pub operations_per_run: usize,
    /// How many servers share the stores (cql).
    pub servers: usize,
    /// How many nodes a Cassandra has that is made to fail (cql).
    pub nodes: usize,
}

/// The totals of runs.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub runs: usize,
    pub calls: usize,
    /// Of servers with a small bound of aggregated items.
    pub bounded_calls: usize,
    pub kills: usize,
    pub unknown: usize,
    pub not_done: usize,
    pub checking: Duration,
    /// The counters of the servers.
    pub counters: Counters,
    /// The faults, by kind.
    pub faults: BTreeMap<String, usize>,
    /// Calls that were answered, by kind.
    pub answered: BTreeMap<&'static str, usize>,
}

impl Campaign {
    /// Runs on all these seeds, several at a time, because a run often waits for starts and for disks. The first error
    /// ends all.
    pub async fn run_all(
        self,
        seeds: impl IntoIterator<Item = u64>,
        jobs: usize,
        mut done: impl FnMut(u64, &Tally) -> Result<(), String>,
    ) -> Result<Tally, String> {
        let backends = self.backends().await?;
        let campaign = Arc::new(self);
        let (mut seeds, mut running, mut tally) = (seeds.into_iter(), JoinSet::new(), Tally::default());
        loop {
            while running.len() < jobs.max(1)
                && let Some(seed) = seeds.next()
            {
                let (campaign, backends) = (Arc::clone(&campaign), backends.clone());
                running.spawn(async move { campaign.run(seed, backends).await.map(|tally| (seed, tally)) });
            }
            let Some(ended) = running.join_next().await else {
                return campaign.made_happen(&tally).map(|()| tally);
            };
            let (seed, of_run) = ended.map_err(|e| e.to_string())??;
            tally.add(&of_run);
            done(seed, &tally)?;
        }
    }

    /// Whether servers did all the work that runs must cover. A single run may miss some.
    fn made_happen(&self, tally: &Tally) -> Result<(), String> {
        let must_be_cut = self.workload != Workload::Bags && tally.bounded_calls >= CALLS_TO_CUT;
        if must_be_cut && !tally.answered.contains_key(CUT) {
            return Err(format!("no {CUT} was answered: {tally}"));
        }
        // Bags alone are too small to fill files, and do not expire.
        let is_asked = self.store == Store::Embedded && self.workload != Workload::Bags;
        // Compactions do not follow a clock that steps, so they may drop nothing during the seconds of a run.
        let needless: &[&str] = if self.faults.contains(&FaultKind::Clock) { &[DROPPED] } else { &[] };
        match tally.counters.missing(needless) {
            Some(missing) if is_asked && tally.calls >= OPERATIONS_TO_COMPACT => {
                Err(format!("there were no {missing}: {tally}"))
            }
            _ => Ok(()),
        }
    }

    /// One run on a fresh server, checked. An error includes the next step.
    async fn run(&self, seed: u64, backends: Option<Arc<Backends>>) -> Result<Tally, String> {
        let dir = run::fresh_dir()?;
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let plan = Plan {
            seed,
            operations: self.operations_per_run,
            suffix: if backends.is_some() { format!("_{seed}") } else { String::new() },
            faults: (0..self.faults_per_run).filter_map(|_| self.draw(&mut rng)).collect(),
            promises: if backends.is_some() { Promises::Quorum } else { Promises::Linearizable },
            workload: self.workload,
            aggregate_items_max: aggregate_items_max(seed),
            backends: backends.clone(),
        };
        let faults = plan.faults.clone();
        let recipes = (0..self.servers).map(|number| self.recipe(&dir.path().join(number.to_string()), seed));
        let recipes = recipes.map(|recipe| {
            let recipe = recipe?;
            Ok(backends.iter().fold(recipe, |recipe, backends| backends.configure(recipe)))
        });
        let recipes = recipes.collect::<Result<Vec<_>, String>>()?;
        let blame = |error: String| format!("seed {seed}, {faults:?}: {error}");
        let Done { history, kills, counters } = match run::run(plan, recipes).await {
            Ok(done) => done,
            Err(error) => return Err(blame(format!("{error}\nits directory is {}", dir.keep().display()))),
        };
        let began = Instant::now();
        // It keeps a core busy for a while, and other runs must not wait for it.
        let checking = move || (check(&history), history);
        let (judged, history) = tokio::task::spawn_blocking(checking).await.map_err(|e| e.to_string())?;
        let judged = judged.map_err(&blame)?;
        if let Some(first) = judged.first() {
            let text = format!("{} ({} violations in all)", first.explain(&history), judged.len());
            return Err(blame(format!("{text}\n{}", run::keep(dir, &history))));
        }
        let bounded_calls = if aggregate_items_max(seed).is_some() { history.calls.len() } else { 0 };
        let mut tally = Tally { kills, bounded_calls, checking: began.elapsed(), counters, ..Tally::of(&history) };
        for fault in &faults {
            *tally.faults.entry(fault.name()).or_default() += 1;
        }
        let has_sets = history.special.values().any(|special| *special == Special::Sets);
        tally
            .worth(faults.is_empty(), has_sets, self.workload)
            .map_err(|error| blame(format!("{error}\n{}", run::keep(dir, &history))))?;
        Ok(tally)
    }

    /// The stores that runs share, with their schemas.
    async fn backends(&self) -> Result<Option<Arc<Backends>>, String> {
        if self.store != Store::Cql {
            return match self.faults.iter().find(|kind| kind.is_of_cql()) {
                Some(kind) => Err(format!("{kind:?} is a fault of cql")),
                None if self.servers != 1 => Err("only on cql can there be several servers".to_owned()),
                None => Ok(None),
            };
        }
        if self.faults.contains(&FaultKind::Clock) {
            return Err("cql promises nothing for servers whose clocks differ by an hour".to_owned());
        }
        let own = self.faults.iter().any(|kind| kind.is_of_backends());
        let backends = Backends::start(own.then_some(self.nodes), self.faults.contains(&FaultKind::Cut)).await?;
        let dir = run::fresh_dir()?;
        let migrated = backends.configure(Recipe::new(dir.path())).command(&["migrate"]).output();
        let output = migrated.map_err(|e| e.to_string())?;
        if output.status.success() {
            Ok(Some(Arc::new(backends)))
        } else {
            Err(format!("cannot migrate: {}", String::from_utf8_lossy(&output.stderr)))
        }
    }

    fn draw(&self, rng: &mut Rng) -> Option<Fault> {
        Some(match rng.choice(&self.faults)? {
            FaultKind::Kill if rng.u8(0..4) == 0 => Fault::KillInStart,
            FaultKind::Kill => Fault::Kill,
            FaultKind::Term => Fault::Terminate,
            FaultKind::Pause => Fault::Pause,
            FaultKind::Resize => Fault::Resize,
            FaultKind::Clock => Fault::StepClock,
            FaultKind::NodeKill => Fault::Backend(Failure::NodeKill),
            FaultKind::NodePause => Fault::Backend(Failure::NodePause),
            FaultKind::PostgresRestart => Fault::Backend(Failure::PostgresRestart),
            FaultKind::PostgresHang => Fault::Backend(Failure::PostgresHang),
            FaultKind::Cut => Fault::Backend(Failure::Cut),
        })
    }

    fn recipe(&self, dir: &Path, seed: u64) -> Result<Recipe, String> {
        std::fs::create_dir_all(dir).map_err(|e| e.to_string())?;
        let mut recipe = Recipe::new(dir);
        if let Some(items) = aggregate_items_max(seed) {
            recipe = recipe.set("ITEMS__AGGREGATE_ITEMS_MAX", items);
        }
        recipe.binary = self.server.clone().unwrap_or(recipe.binary);
        if self.faults.iter().all(|kind| *kind == FaultKind::Resize) {
            // Every request must be answered, regardless of the machine's speed.
            recipe = recipe.set("ITEMS__OPERATION_TIMEOUT_MS", 10_000).set("METADATA__CALL_TIMEOUT_MS", 10_000);
        }
        if self.faults.contains(&FaultKind::Clock) {
            recipe = recipe.with_faked_clock(&tools::faketime().ok_or("libfaketime is not installed")?)?;
        }
        Ok(match self.store {
            Store::Cql => recipe,
            Store::Memory => recipe.set("ITEMS__STORE", "memory").set("METADATA__STORE", "memory"),
            Store::Embedded => {
                let fsync = self.fsync[usize::try_from(seed).unwrap_or(0) % self.fsync.len()];
                let mode = match fsync {
                    Fsync::Group => "group",
                    Fsync::Interval => "interval",
                };
                // Little memory, so that items often move between memory and files.
                let mut rng = Rng::with_seed(seed);
                recipe
                    .set("ITEMS__EMBEDDED__FSYNC", mode)
                    .set("ITEMS__EMBEDDED__FSYNC_INTERVAL_MS", rng.choice(FSYNC_INTERVALS_MS).unwrap_or(1_000))
                    .set("ITEMS__EMBEDDED__CACHE_BYTES", rng.choice(CACHES_BYTES).unwrap_or(CACHE_BYTES))
            }
        })
    }
}

/// The most items that the servers of a run aggregate in a call, if it is not the default.
fn aggregate_items_max(seed: u64) -> Option<u64> {
    (seed % 3 == 1).then_some(AGGREGATE_ITEMS_MAX)
}

fn kind(call: &Call) -> &'static str {
    match &call.request {
        Request::Get { .. } if call.batch.is_some() => "get of several",
        Request::Add { .. } if call.batch.is_some() => "add to several",
        Request::Get { order: Order::Oldest, .. } => "get of the oldest",
        Request::Get { after: None, .. } => "get",
        Request::Get { .. } => "page",
        Request::Count { .. } => "count",
        Request::Contains { .. } => "search",
        Request::Aggregate { .. } if call.batch.is_some() => "aggregate of several",
        Request::Aggregate { .. } if lacks_items(call) => CUT,
        Request::Aggregate { group_by: Some(_), .. } => "aggregate in groups",
        Request::Aggregate { .. } => "aggregate",
        Request::Lookup { .. } => LOOKUP,
        Request::Add { .. } => "add",
        Request::RemoveValue { .. } => "remove",
        Request::RemoveItems { .. } => "remove items",
        Request::RemoveBetween { .. } => "remove between",
        Request::RemoveAll { .. } => "remove all",
        Request::CreateFeature { .. } | Request::CreateSpecial { .. } | Request::CreateVersion { .. } => "create",
        Request::DeleteFeature { .. } | Request::DeleteVersion { .. } => "delete",
        Request::ChangeTtl { .. } => "ttl",
        Request::ReadTtl { .. } => "read definition",
        Request::Bag(_) if call.outcome == Outcome::Bag(BagOutcome::ConditionFailed) => REFUSED,
        Request::Bag(request) => request.kind(),
    }
}

/// Whether an aggregation ended before some items, which were too many for a call.
fn lacks_items(call: &Call) -> bool {
    let Outcome::Aggregated(reported) = &call.outcome else { return false };
    reported.windows.iter().any(|window| window.reason == Some(Reason::ItemsMax))
}

/// An aggregation of more items than a call reads.
const CUT: &str = "aggregate of a part";

/// A write of a bag that came too late for its condition: clients did contend.
const REFUSED: &str = "condition failed";

/// The reverse lookup, which only sets have.
const LOOKUP: &str = "lookup";

const KINDS: [&str; 20] = [
    "get",
    "page",
    "get of the oldest",
    "get of several",
    "count",
    "search",
    "aggregate",
    "aggregate of several",
    "aggregate in groups",
    LOOKUP,
    "add",
    "add to several",
    "remove",
    "remove items",
    "remove between",
    "remove all",
    "create",
    "delete",
    "ttl",
    "read definition",
];

impl Tally {
    fn of(history: &History) -> Self {
        let mut tally = Self { runs: 1, calls: history.calls.len(), ..Self::default() };
        for call in &history.calls {
            match call.outcome {
                Outcome::Unknown { .. } => tally.unknown += 1,
                Outcome::NotDone { .. } => tally.not_done += 1,
                _ => *tally.answered.entry(kind(call)).or_default() += 1,
            }
        }
        tally
    }

    /// A run in which little was answered has proved little.
    fn worth(&self, without_faults: bool, has_sets: bool, workload: Workload) -> Result<(), String> {
        let of_lists = KINDS.iter().filter(|kind| has_sets || **kind != LOOKUP);
        let of_lists = of_lists.filter(|_| workload != Workload::Bags);
        let of_bags = BagRequest::KINDS.iter().chain(&[REFUSED]).filter(|_| workload != Workload::Lists);
        let mut asked = of_lists.chain(of_bags);
        if let Some(kind) = asked.find(|kind| !self.answered.contains_key(*kind)) {
            return Err(format!("no {kind} was answered: {self}"));
        }
        let answered: usize = self.answered.values().sum();
        let wanted = if without_faults { self.calls * 95 / 100 } else { self.calls / 2 };
        if answered < wanted { Err(format!("only {answered} calls were answered: {self}")) } else { Ok(()) }
    }

    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.calls += other.calls;
        self.bounded_calls += other.bounded_calls;
        self.kills += other.kills;
        self.unknown += other.unknown;
        self.not_done += other.not_done;
        self.checking += other.checking;
        self.counters.add(&other.counters);
        for (kind, count) in &other.answered {
            *self.answered.entry(kind).or_default() += count;
        }
        for (fault, count) in &other.faults {
            *self.faults.entry(fault.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, calls, bounded_calls: _, kills, unknown, not_done, checking, counters, faults, answered } =
            self;
        write!(
            f,
            "{runs} runs, {calls} calls, {kills} kills, {unknown} of unknown outcome, {not_done} not done; answered:"
        )?;
        answered.iter().try_for_each(|(kind, count)| write!(f, " {kind} {count},"))?;
        if !faults.is_empty() {
            write!(f, " faults:")?;
            faults.iter().try_for_each(|(fault, count)| write!(f, " {fault} {count},"))?;
        }
        if *counters != Counters::default() {
            write!(f, " {counters},")?;
        }
        write!(f, " {:.1} s of checking", checking.as_secs_f64())
    }
}
