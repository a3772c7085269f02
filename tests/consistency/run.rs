//! One run: a world drawn from a seed, clients at work on a server while faults happen, and the
//! history of it all.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::backends::Backends;
use crate::bags;
use crate::client::{Client, Left, exchange};
use crate::faults::{self, Fault};
use crate::history::{Call, ClockStep, History, Moment, NEVER, Outcome, Promises, Request, VersionName};
use crate::http::Connection;
use crate::metrics::Counters;
use crate::server::Recipe;
use crate::subject::Subject;
use crate::workload::{Workload, World};

/// Until a feature is created that a run begins with.
const CREATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The clients of one run.
pub const CLIENTS: usize = 8;

/// The plan of one run.
pub struct Plan {
    pub seed: u64,
    pub operations: usize,
    /// Separates the features of runs on one store.
    pub suffix: String,
    pub faults: Vec<Fault>,
    pub promises: Promises,
    pub workload: Workload,
    /// The most items that an aggregation reads, if the servers have another bound than the default.
    pub aggregate_items_max: Option<u64>,
    /// The stores, if they are not the server's files.
    pub backends: Option<Arc<Backends>>,
}

pub struct Done {
    pub history: History,
    pub kills: usize,
    /// The counters of the servers.
    pub counters: Counters,
}

/// The moments of one history.
#[derive(Clone)]
pub struct Timeline {
    start: Instant,
    pub epoch: u64,
    /// When each start of a server ended.
    ends: Arc<Mutex<Vec<Moment>>>,
}

impl Timeline {
    #[allow(clippy::disallowed_methods, reason = "the server is another process: its clock is the machine's")]
    pub fn begin() -> Self {
        let (start, now) = (Instant::now(), SystemTime::now());
        let since = now.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let ends = Arc::default();
        Self { start, ends, epoch: u64::try_from(since.as_nanos()).expect("before 2500") }
    }

    pub fn now(&self) -> Moment {
        u64::try_from(self.start.elapsed().as_nanos()).expect("before 2500")
    }

    /// Notes a start of a server, and returns its number.
    pub fn started(&self) -> usize {
        let mut ends = self.ends.lock().expect("no thread panics while it holds the lock");
        ends.push(NEVER);
        ends.len() - 1
    }

    pub fn ended(&self, start: usize) {
        self.ends.lock().expect("no thread panics while it holds the lock")[start] = self.now();
    }

    pub fn ends(&self) -> Vec<Moment> {
        self.ends.lock().expect("no thread panics while it holds the lock").clone()
    }
}

/// Carries out a plan on servers made by recipes, one each, whose directories must be fresh.
pub async fn run(plan: Plan, recipes: Vec<Recipe>) -> Result<Done, String> {
    let timeline = Timeline::begin();
    // A separate test checks sets that several servers write at once: tests/cql/sets_at_once.rs.
    let with_sets = plan.promises == Promises::Linearizable;
    let world = Arc::new(World::new(&plan.suffix, timeline.epoch, with_sets, plan.workload));
    let mut subjects = Vec::with_capacity(recipes.len());
    for recipe in recipes {
        // The others find the features there when they start.
        let first = subjects.is_empty();
        let subject = Arc::new(Subject::start(recipe, timeline.clone()).await?);
        if first {
            create(&world, &subject).await?;
        }
        subjects.push(subject);
    }
    let done = Arc::new(watch::Sender::new(0_usize));
    let left = Arc::new(Left::new(plan.operations));
    let mut rng = Rng::with_seed(plan.seed);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::new(number, rng.fork(), &world, &subjects);
        clients.spawn(client.work(Arc::clone(&left), Arc::clone(&done)));
    }
    let faulted = faults::inject(&plan, &subjects, done.subscribe(), rng.fork());
    let mut faulted = tokio::spawn(faulted);
    let mut calls = Vec::with_capacity(plan.operations);
    let mut kills = None;
    // Together: clients wait for a server that is down, and a server that does not return after a fault must fail the
    // run instead of blocking them.
    loop {
        tokio::select! {
            client = clients.join_next() => match client {
                Some(made) => calls.append(&mut made.map_err(|e| e.to_string())?),
                None => break,
            },
            ended = &mut faulted, if kills.is_none() => {
                kills = Some(ended.map_err(|e| e.to_string())??);
                left.end_faults();
            }
        }
    }
    let kills = match kills {
        Some(kills) => kills,
        None => faulted.await.map_err(|e| e.to_string())??,
    };
    for subject in &subjects {
        subject.heal().await?;
    }
    let mut last = Client::new(CLIENTS, rng, &world, &subjects);
    last.walk_all_lists().await;
    // Its connections end with it: a stopping server waits for open ones.
    calls.append(&mut last.into_calls());
    let (mut clock_steps, mut counters) = (Vec::new(), Counters::default());
    for subject in &subjects {
        clock_steps.append(&mut subject.finish().await?);
        counters.add(&subject.counters());
    }
    let history = history(&world, &timeline, plan.promises, calls, clock_steps);
    let history = History { aggregate_items_max: plan.aggregate_items_max, ..history };
    Ok(Done { history, kills, counters })
}

/// The history of a world in which these calls were made after its features were created. Its servers have the default
/// bounds.
pub fn history(
    world: &World,
    timeline: &Timeline,
    promises: Promises,
    mut calls: Vec<Call>,
    clock_steps: Vec<ClockStep>,
) -> History {
    calls.sort_by_key(|call| (call.from, call.client));
    let versions = world.features().iter().map(|(name, _, secs)| (default_version(name), *secs)).collect();
    let value_types = world.features().iter().map(|(name, value_type, _)| (name.clone(), *value_type)).collect();
    let (epoch, ends) = (timeline.epoch, timeline.ends());
    let (special, aggregate_items_max) = (world.special(), None);
    History { promises, epoch, value_types, special, aggregate_items_max, versions, ends, clock_steps, calls }
}

fn default_version(feature: &str) -> VersionName {
    VersionName { feature: feature.to_owned(), label: String::new() }
}

/// Creates the world's features, and its entity type with bags.
pub async fn create(world: &World, subject: &Subject) -> Result<(), String> {
    let mut connection = Connection::default();
    let endpoint = subject.endpoint().await;
    if let Some(entity_type) = world.bag_type() {
        bags::calls::create(&mut connection, &endpoint, entity_type).await?;
    }
    for (feature, value_type, ttl_secs) in world.features() {
        let (feature, ttl_secs) = (feature.clone(), *ttl_secs);
        let request = match world.special().get(&feature) {
            Some(&special) => Request::CreateSpecial { feature: feature.clone(), ttl_secs, special },
            None => Request::CreateFeature { feature: feature.clone(), ttl_secs },
        };
        let (began, mut maybe_created) = (Instant::now(), false);
        loop {
            match exchange(&mut connection, &endpoint, &request, Some(*value_type), None).await.0 {
                Outcome::Done => break,
                Outcome::Exists if maybe_created => break,
                // The machine is busy with servers that start at the same time.
                reported @ (Outcome::NotDone { .. } | Outcome::Unknown { .. })
                    if began.elapsed() < CREATION_TIMEOUT =>
                {
                    maybe_created |= matches!(reported, Outcome::Unknown { .. });
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                reported => return Err(format!("cannot create {feature}: {reported:?}")),
            }
        }
    }
    Ok(())
}

/// A separate directory for a run, removed when dropped unless it must be kept.
pub fn fresh_dir() -> Result<tempfile::TempDir, String> {
    tempfile::Builder::new().prefix("liststore-consistency.").tempdir().map_err(|e| e.to_string())
}

pub fn keep(dir: tempfile::TempDir, history: &History) -> String {
    let path = dir.keep();
    match history.save(&path.join("history.json")) {
        Ok(()) => format!("the whole history and the server's log are in {}", path.display()),
        Err(error) => error,
    }
}
