//! The clients of a run: each draws its work and records its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::sync::watch;

use crate::bags::{BagName, BagOutcome, BagRequest, FoundBag, Properties};
use crate::batches;
use crate::calls::{outcome, wire};
use crate::history::{Call, Key, ListName, Moment, Outcome, Request, ValueType};
use crate::http::{Connection, Endpoint};
use crate::subject::Subject;
use crate::workload::{Walk, Work, World};

/// The pause of clients when the server could not be reached, unless it returns sooner; twice as long after each
/// further time, up to a limit.
const AWAY_WAIT: Duration = Duration::from_millis(20);
const AWAY_DOUBLINGS_MAX: u32 = 5;
/// Until servers have repaired the entries of indexes, on a busy machine, and the pause between two queries.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(300);
const REPAIR_POLL: Duration = Duration::from_millis(100);
/// Pages of the last read of each list.
const LAST_LIMIT: usize = 1_000;

/// One request to a server, and the outcome.
pub async fn exchange(
    connection: &mut Connection,
    endpoint: &Endpoint,
    request: &Request,
    value_type: Option<ValueType>,
    token: Option<&str>,
) -> (Outcome, Option<String>) {
    let wire = wire(request, value_type, token);
    let (path, headers) = (&wire.path_and_query, &wire.headers);
    outcome(request, connection.exchange_with(endpoint, wire.method, path, headers, wire.body).await)
}

/// The remaining work: operations, and faults that need some operations.
pub struct Left {
    operations: AtomicUsize,
    faults: AtomicBool,
}

impl Left {
    pub fn new(operations: usize) -> Self {
        Self { operations: AtomicUsize::new(operations), faults: AtomicBool::new(true) }
    }

    /// No fault follows.
    pub fn end_faults(&self) {
        self.faults.store(false, Ordering::Relaxed);
    }

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

    /// Works until nothing is left. Returns the calls.
    pub async fn work(mut self, left: Arc<Left>, done: Arc<watch::Sender<usize>>) -> Vec<Call> {
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
        self.pause_if_unavailable(subject, endpoint).await;
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
        self.pause_if_unavailable(&subject, &endpoint).await;
    }

    /// Rests if the last call found the server away.
    async fn pause_if_unavailable(&mut self, subject: &Subject, endpoint: &Endpoint) {
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
    pub async fn walk_all_lists(&mut self) {
        self.find_all().await;
        let lists: Vec<ListName> = self.world.lists().cloned().collect();
        for list in lists {
            self.walk(Walk::of_all(list, LAST_LIMIT)).await;
        }
    }
}
