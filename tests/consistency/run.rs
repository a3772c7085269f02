//! One run: a world drawn from a seed, clients at work on a server while faults happen, and the
//! history of it all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::backends::Backends;
use crate::bags::{self, BagName, BagOutcome, BagRequest, FoundBag, Properties};
use crate::batches;
use crate::calls::{outcome, wire};
use crate::faults::{self, Fault};
use crate::history::{Call, ClockStep, History, Key, ListName, Moment, NEVER, Outcome, Promises, Request, VersionName};
use crate::http::{Connection, Endpoint};
use crate::metrics::Counters;
use crate::server::Recipe;
use crate::subject::Subject;
use crate::workload::{Walk, Work, Workload, World};

/// The pause of clients when the server could not be reached, unless it returns sooner; twice as long after each
/// further time, up to a limit.
const AWAY_WAIT: Duration = Duration::from_millis(20);
const AWAY_DOUBLINGS_MAX: u32 = 5;
/// Until a feature is created that a run begins with.
const CREATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Until servers have repaired the entries of indexes, on a busy machine, and the pause between two queries.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(60);
const REPAIR_POLL: Duration = Duration::from_millis(100);
/// The clients of one run.
pub const CLIENTS: usize = 8;
/// Pages of the last read of each list.
const LAST_LIMIT: usize = 1_000;

/// The plan of one run.
pub struct Plan {
    pub seed: u64,
    pub operations: usize,
    /// Separates the features of runs on one store.
    pub suffix: String,
    pub faults: Vec<Fault>,
    pub promises: Promises,
    pub workload: Workload,
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
        let mut ends = self.ends.lock().expect("nobody panics with it");
        ends.push(NEVER);
        ends.len() - 1
    }

    pub fn ended(&self, start: usize) {
        self.ends.lock().expect("nobody panics with it")[start] = self.now();
    }

    pub fn ends(&self) -> Vec<Moment> {
        self.ends.lock().expect("nobody panics with it").clone()
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
    let left = Arc::new(Left { operations: AtomicUsize::new(plan.operations), faults: AtomicBool::new(true) });
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
                left.faults.store(false, Ordering::Relaxed);
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
    last.look_at_all().await;
    // Its connections end with it: a stopping server waits for open ones.
    calls.append(&mut last.into_calls());
    let (mut clock_steps, mut counters) = (Vec::new(), Counters::default());
    for subject in &subjects {
        clock_steps.append(&mut subject.finish().await?);
        counters.add(&subject.counters());
    }
    Ok(Done { history: history(&world, &timeline, plan.promises, calls, clock_steps), kills, counters })
}

/// The history of a world in which these calls were made after its features were created.
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
    History { promises, epoch, value_types, special: world.special(), versions, ends, clock_steps, calls }
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
                told @ (Outcome::NotDone { .. } | Outcome::Unknown { .. }) if began.elapsed() < CREATION_TIMEOUT => {
                    maybe_created |= matches!(told, Outcome::Unknown { .. });
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                told => return Err(format!("cannot create {feature}: {told:?}")),
            }
        }
    }
    Ok(())
}

async fn exchange(
    connection: &mut Connection,
    endpoint: &Endpoint,
    request: &Request,
    value_type: Option<crate::history::ValueType>,
    token: Option<&str>,
) -> (Outcome, Option<String>) {
    let wire = wire(request, value_type, token);
    let (path, headers) = (&wire.path_and_query, &wire.headers);
    outcome(request, connection.exchange_with(endpoint, wire.method, path, headers, wire.body).await)
}

/// The remaining work: operations, and faults that need some operations.
struct Left {
    operations: AtomicUsize,
    faults: AtomicBool,
}

impl Left {
    fn nothing(&self) -> bool {
        self.operations.load(Ordering::Relaxed) == 0 && !self.faults.load(Ordering::Relaxed)
    }

    fn made(&self, operations: usize) {
        let subtract = |left: usize| Some(left.saturating_sub(operations));
        let _ = self.operations.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }
}

/// One client: its answers are its history.
pub struct Client {
    number: usize,
    rng: Rng,
    world: Arc<World>,
    subjects: Vec<Arc<Subject>>,
    /// To each of them.
    connections: Vec<Connection>,
    /// How often in a row a server could not be reached.
    misses: u32,
    calls: Vec<Call>,
}

impl Client {
    pub fn new(number: usize, rng: Rng, world: &Arc<World>, subjects: &[Arc<Subject>]) -> Self {
        let (world, connections) = (Arc::clone(world), subjects.iter().map(|_| Connection::default()).collect());
        Self { number, rng, world, subjects: subjects.to_vec(), connections, misses: 0, calls: Vec::new() }
    }

    pub fn last(&self) -> Option<&Call> {
        self.calls.last()
    }

    pub fn into_calls(self) -> Vec<Call> {
        self.calls
    }

    async fn work(mut self, left: Arc<Left>, done: Arc<watch::Sender<usize>>) -> Vec<Call> {
        loop {
            let before = self.calls.len();
            // A walk may go past the number of operations by its few pages.
            if left.nothing() {
                return self.calls;
            }
            // Only a server that is alone has a clock that steps.
            let wall = self.subjects[0].wall();
            match self.world.next(&mut self.rng, wall) {
                Work::Once(request) => {
                    self.call(request, None).await;
                }
                Work::Series(requests) => {
                    for request in requests {
                        self.call(request, None).await;
                    }
                }
                Work::Walk(walk) => self.walk(walk).await,
                Work::Batch(requests) => self.batch(requests).await,
                Work::Increment(bag) => self.increment(bag).await,
                Work::Find(request) => drop(self.find(request).await),
            }
            let made = self.calls.len() - before;
            left.made(made);
            done.send_modify(|done| *done += made);
        }
    }

    /// One call, recorded. Returns the token of the next page.
    pub async fn call(&mut self, request: Request, token: Option<String>) -> Option<String> {
        let (chosen, subject) = self.choose(&request);
        let endpoint = subject.endpoint().await;
        let from = subject.now();
        let connection = &mut self.connections[chosen];
        let (outcome, next) = exchange(connection, &endpoint, &request, None, token.as_deref()).await;
        self.record(&subject, &endpoint, from, request, outcome).await;
        next
    }

    /// Draws the server that a request goes to.
    fn choose(&mut self, request: &Request) -> (usize, Arc<Subject>) {
        let others = if self.world.is_for_any_server(request) { self.subjects.len() } else { 1 };
        let chosen = self.rng.usize(0..others);
        (chosen, Arc::clone(&self.subjects[chosen]))
    }

    /// Adds a call that has just ended.
    async fn record(
        &mut self,
        subject: &Subject,
        endpoint: &Endpoint,
        from: Moment,
        request: Request,
        outcome: Outcome,
    ) {
        let to = subject.now();
        self.world.note(&request, &outcome);
        let incarnation = endpoint.incarnation;
        self.calls.push(Call { client: self.number, incarnation, from, to, batch: None, request, outcome });
        self.rest_if_away(subject, endpoint).await;
    }

    /// Reads a bag, and increments its counter on the condition that no other client has changed it.
    async fn increment(&mut self, bag: BagName) {
        self.call(Request::Bag(BagRequest::Get { bag: bag.clone(), unless: None }), None).await;
        let Some(got) = self.calls.last() else { return };
        if let Some(write) = self.world.increment(&mut self.rng, &bag, &got.outcome) {
            self.call(write, None).await;
        }
    }

    /// Finds bags page by page, recorded as one call. Returns the bags if all pages were answered.
    async fn find(&mut self, request: BagRequest) -> Option<Vec<FoundBag>> {
        let request = Request::Bag(request);
        let (chosen, subject) = self.choose(&request);
        let endpoint = subject.endpoint().await;
        let from = subject.now();
        let (mut found, mut token) = (Vec::new(), None::<String>);
        let outcome = loop {
            let connection = &mut self.connections[chosen];
            match exchange(connection, &endpoint, &request, None, token.as_deref()).await {
                (Outcome::Bag(BagOutcome::Found(mut page)), next) => {
                    found.append(&mut page);
                    token = next;
                    if token.is_none() {
                        break Outcome::Bag(BagOutcome::Found(found.clone()));
                    }
                }
                (other, _) => break other,
            }
        };
        let is_whole = matches!(outcome, Outcome::Bag(BagOutcome::Found(_)));
        self.record(&subject, &endpoint, from, request, outcome).await;
        is_whole.then_some(found)
    }

    /// One call on many lists, recorded as a call on each of them.
    async fn batch(&mut self, requests: Vec<Request>) {
        let anywhere = requests.iter().all(|request| self.world.is_for_any_server(request));
        let chosen = self.rng.usize(0..if anywhere { self.subjects.len() } else { 1 });
        let (subject, wire) = (Arc::clone(&self.subjects[chosen]), batches::wire(&requests));
        let endpoint = subject.endpoint().await;
        let from = subject.now();
        let exchanged =
            self.connections[chosen].exchange(&endpoint, wire.method, &wire.path_and_query, wire.body).await;
        let outcomes = batches::outcomes(&requests, exchanged);
        let to = subject.now();
        let (client, incarnation, batch) = (self.number, endpoint.incarnation, Some(self.calls.len()));
        let made = requests.into_iter().zip(outcomes);
        let calls = made.map(|(request, outcome)| Call { client, incarnation, from, to, batch, request, outcome });
        self.calls.extend(calls);
        self.rest_if_away(&subject, &endpoint).await;
    }

    /// Rests if the last call found the server away.
    async fn rest_if_away(&mut self, subject: &Subject, endpoint: &Endpoint) {
        let away =
            self.last().is_some_and(|call| matches!(call.outcome, Outcome::NotDone { .. } | Outcome::Unknown { .. }));
        if away {
            subject.await_change(endpoint, AWAY_WAIT * 2_u32.pow(self.misses)).await;
        }
        self.misses = if away { (self.misses + 1).min(AWAY_DOUBLINGS_MAX) } else { 0 };
    }

    pub async fn walk(&mut self, Walk { list, min, max, order, limit_max, pages_max }: Walk) {
        let (mut token, mut after) = (None, None);
        for _ in 0..pages_max {
            let limit = Some(self.rng.usize(1..=limit_max));
            let request = Request::Get { list: list.clone(), min, max, order, limit, after: after.clone() };
            let Some(next) = self.call(request, token).await else { return };
            let Some(last) = self.last_key(&list) else { return };
            (token, after) = (Some(next), Some(last));
        }
    }

    /// The key of the last item of the page that was just answered.
    fn last_key(&self, list: &ListName) -> Option<Key> {
        let Outcome::Page { items, .. } = &self.calls.last()?.outcome else { return None };
        let feature = self.world.features().iter().find(|(name, ..)| *name == list.version.feature)?;
        feature.1.key(items.last()?).ok()
    }

    /// Reads all bags.
    async fn shown(&mut self) -> Vec<(BagName, Properties)> {
        let mut shown = Vec::new();
        let bags: Vec<BagName> = self.world.bags().cloned().collect();
        for bag in bags {
            self.call(Request::Bag(BagRequest::Get { bag: bag.clone(), unless: None }), None).await;
            if let Some(Call { outcome: Outcome::Bag(BagOutcome::Shown(state)), .. }) = self.last() {
                shown.push((bag, state.properties));
            }
        }
        shown
    }

    /// Finds all bags, once the servers have repaired the entries of their indexes, or had the time for it.
    async fn find_all(&mut self) {
        let world = Arc::clone(&self.world);
        for last in world.last_finds() {
            let BagRequest::Find { index, city, .. } = last else { continue };
            let mut find = last.clone();
            if let BagRequest::Find { is_settled, .. } = &mut find {
                *is_settled = false;
            }
            let began = Instant::now();
            while began.elapsed() < REPAIR_TIMEOUT {
                let shown = self.shown().await;
                let has = |found: &[FoundBag], name: &BagName| found.iter().any(|bag| bag.entity == name.entity);
                let found = self.find(find.clone()).await;
                let mut expected = shown.iter().filter(|(_, properties)| index.finds(*properties, city));
                if found.is_some_and(|found| expected.all(|(name, _)| has(&found[..], name))) {
                    break;
                }
                tokio::time::sleep(REPAIR_POLL).await;
            }
            self.find(last).await;
        }
    }

    /// At the end, walks every list to its end: acknowledged writes must still exist.
    async fn look_at_all(&mut self) {
        self.find_all().await;
        let lists: Vec<ListName> = self.world.lists().cloned().collect();
        for list in lists {
            self.walk(Walk::of_all(list, LAST_LIMIT)).await;
        }
    }
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
