//! One thread of the generator: its connections, each a task, and what they measure.
//!
//! A task takes the next request (when one is due, or at once in a closed loop), sends it, waits
//! for the answer and records it. All tasks of a thread share one source of random numbers and one
//! schedule, so the same seed makes the same requests.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinSet, LocalSet};

use super::checks::{AcknowledgedAdd, Expectations, RecentAdds};
use super::choice::Popularity;
use super::connection::{Broken, Connection};
use super::cpu;
use super::data::{DataSet, scramble};
use super::operation::{Kind, Mix, Operation};
use super::pacer::Pacer;
use super::protocol::{Answer, Outcome, Protocol};
use super::schedule::{Next, Schedule};
use super::stats::Stats;

/// How long answers are waited for after the end.
pub const DRAIN: Duration = Duration::from_secs(5);
/// And after an interruption.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// A server that cannot be reached for so long is given up.
const AWAY_MAX: Duration = Duration::from_secs(10);
const RECONNECT_PAUSE_FIRST: Duration = Duration::from_millis(10);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What all threads agree on.
#[derive(Debug)]
pub struct Plan {
    pub protocol: Protocol,
    pub addresses: Vec<SocketAddr>,
    pub mode: Mode,
    pub popularity: Popularity,
    pub data: DataSet,
    pub batch: u64,
    pub expectations: Expectations,
    /// One in so many answers is checked; 0 for none.
    pub check_every: u64,
    pub connections: usize,
    pub threads: usize,
    pub warmup: Duration,
    pub duration: Duration,
    pub timeout: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone)]
pub enum Mode {
    /// Each connection sends its next request when it has the answer to the last.
    Closed(Mix),
    /// Requests a second, of each kind.
    Open(Vec<(Kind, f64)>),
}

/// The common beginning, as an instant and as nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    pub instant: Instant,
    pub unix_nanos: u64,
}

/// What connects a thread with the conductor.
pub struct Strings {
    pub stats: Arc<Mutex<Stats>>,
    pub connected: mpsc::Sender<Result<(), String>>,
    pub start: watch::Receiver<Option<Start>>,
    pub stop: watch::Receiver<bool>,
}

/// How a thread's run went.
#[derive(Debug, Default)]
pub struct Finished {
    /// CPU time of the thread within the measured time.
    pub cpu: Option<Duration>,
    /// Why its last connection was given up, if all were.
    pub given_up: Option<String>,
}

impl Plan {
    fn end(&self) -> Duration {
        self.warmup + self.duration
    }

    /// The connections of one thread.
    fn share(&self, thread: usize) -> usize {
        self.connections / self.threads + usize::from(thread < self.connections % self.threads)
    }
}

/// Runs thread number `thread` to its end.
pub fn run(plan: Arc<Plan>, thread: usize, strings: Strings) -> Result<Finished, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    runtime.block_on(LocalSet::new().run_until(generate(plan, thread, strings)))
}

async fn generate(plan: Arc<Plan>, thread: usize, mut strings: Strings) -> Result<Finished, String> {
    let mut connections = Vec::new();
    for _ in 0..plan.share(thread) {
        let mut connection = Connection::new();
        if let Err(broken) = connection.open(&plan.addresses).await {
            let _ = strings.connected.send(Err(broken.to_string())).await;
            return Ok(Finished::default());
        }
        connections.push(connection);
    }
    let _ = strings.connected.send(Ok(())).await;
    // None if another thread could not connect.
    let Some(start) = strings.start.wait_for(Option::is_some).await.ok().and_then(|start| *start) else {
        return Ok(Finished::default());
    };
    let shared = Rc::new(Thread::new(Arc::clone(&plan), thread, start, Arc::clone(&strings.stats), connections.len()));
    let mut tasks = JoinSet::new();
    for (slot, connection) in connections.into_iter().enumerate() {
        tasks.spawn_local(Rc::clone(&shared).drive(slot, connection));
    }
    let pacer = Pacer::new().map_err(|e| format!("cannot make a timer: {e}"))?;
    let metering = tokio::task::spawn_local(meter(start.instant, plan.warmup, plan.end()));
    let all_done = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = all_done => {}
        paced = Rc::clone(&shared).pace(pacer) => paced.map_err(|e| format!("a timer failed: {e}"))?,
        () = tokio::time::sleep_until((start.instant + plan.end() + DRAIN.min(plan.timeout)).into()) => {}
        () = stopped(&mut strings.stop, &shared) => {}
    }
    shared.close_the_books();
    if shared.now() < plan.end() {
        metering.abort();
    }
    let cpu = metering.await.ok().flatten();
    Ok(Finished { cpu, given_up: shared.given_up() })
}

async fn stopped(stop: &mut watch::Receiver<bool>, shared: &Thread) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
    shared.stop();
    tokio::time::sleep(STOP_GRACE).await;
}

/// The thread's CPU time between two moments.
async fn meter(start: Instant, begin: Duration, end: Duration) -> Option<Duration> {
    tokio::time::sleep_until((start + begin).into()).await;
    let before = cpu::of_this_thread()?;
    tokio::time::sleep_until((start + end).into()).await;
    cpu::of_this_thread()?.checked_sub(before)
}

#[derive(Debug, Clone, Copy)]
struct Ticket {
    kind: Kind,
    /// When it was due, since the start.
    at: Duration,
}

/// What the tasks of one thread share.
struct Thread {
    plan: Arc<Plan>,
    start: Start,
    random: RefCell<Xoshiro256PlusPlus>,
    schedule: Option<RefCell<Schedule>>,
    /// Where free connections wait until something is due.
    due: Notify,
    waiting: Cell<u64>,
    /// No request begins from here on.
    end: Cell<Duration>,
    in_flight: Vec<Cell<Option<Ticket>>>,
    stats: Arc<Mutex<Stats>>,
    recent: RefCell<RecentAdds>,
    /// The number of the next value that is added.
    next_number: Cell<u64>,
    /// The last timestamp that was given to an add.
    last_nanos: Cell<u64>,
    answers: Cell<u64>,
    alive: Cell<usize>,
    last_breakage: RefCell<String>,
}

impl Thread {
    fn new(plan: Arc<Plan>, thread: usize, start: Start, stats: Arc<Mutex<Stats>>, connections: usize) -> Self {
        let schedule = match &plan.mode {
            Mode::Closed(_) => None,
            Mode::Open(rates) => Some(RefCell::new(Schedule::new(rates, thread, plan.threads, plan.end()))),
        };
        Self {
            start,
            random: RefCell::new(Xoshiro256PlusPlus::seed_from_u64(scramble(plan.seed).wrapping_add(thread as u64))),
            schedule,
            due: Notify::new(),
            waiting: Cell::new(0),
            end: Cell::new(plan.end()),
            in_flight: (0..connections).map(|_| Cell::new(None)).collect(),
            stats,
            recent: RefCell::new(RecentAdds::new()),
            // Another run, and another thread, adds other values.
            next_number: Cell::new(scramble(start.unix_nanos.wrapping_add(thread as u64))),
            last_nanos: Cell::new(0),
            answers: Cell::new(0),
            alive: Cell::new(connections),
            last_breakage: RefCell::default(),
            plan,
        }
    }

    fn now(&self) -> Duration {
        self.start.instant.elapsed()
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_measured(&self, at: Duration) -> bool {
        at >= self.plan.warmup && at < self.end.get()
    }

    fn stop(&self) {
        self.end.set(self.now().min(self.end.get()));
        self.due.notify_waiters();
    }

    fn given_up(&self) -> Option<String> {
        (self.alive.get() == 0).then(|| self.last_breakage.borrow().clone())
    }

    /// Drives one connection until nothing is left to send.
    async fn drive(self: Rc<Self>, slot: usize, mut connection: Connection) {
        while let Some(ticket) = self.next().await {
            self.in_flight[slot].set(Some(ticket));
            let operation = self.operation(ticket.kind);
            connection.request.clear();
            self.plan.protocol.render(&operation, &mut connection.request);
            let recent = match operation {
                Operation::Get { list } => self.recent.borrow().last_of(list),
                _ => None,
            };
            let answered = self.exchange(&mut connection).await;
            let latency = self.now().saturating_sub(ticket.at);
            self.in_flight[slot].set(None);
            self.record(ticket, &operation, recent, latency, &connection, answered);
            if !connection.is_open() && !self.reopen(&mut connection).await {
                return;
            }
        }
    }

    /// The next request. Waits until one is due.
    async fn next(&self) -> Option<Ticket> {
        loop {
            let now = self.now();
            let Some(schedule) = &self.schedule else {
                let Mode::Closed(mix) = &self.plan.mode else { return None };
                let kind = mix.pick(&mut self.random.borrow_mut());
                return (now < self.end.get()).then_some(Ticket { kind, at: now });
            };
            let taken = schedule.borrow_mut().take(now);
            match taken {
                Next::Due { kind, at } if at < self.end.get() => return Some(Ticket { kind, at }),
                Next::Due { .. } | Next::Done => return None,
                Next::NotBefore(at) if at >= self.end.get() => return None,
                Next::NotBefore(_) => {
                    self.waiting.set(self.waiting.get() + 1);
                    self.due.notified().await;
                    self.waiting.set(self.waiting.get() - 1);
                }
            }
        }
    }

    /// Wakes as many free connections as requests are due, whenever some are. Goes on for ever.
    async fn pace(self: Rc<Self>, pacer: Pacer) -> io::Result<()> {
        let Some(schedule) = &self.schedule else {
            return std::future::pending().await;
        };
        loop {
            let now = self.now();
            let (backlog, coming) = schedule.borrow().backlog(now);
            for _ in 0..backlog.min(self.waiting.get()) {
                self.due.notify_one();
            }
            match coming {
                Some(at) => pacer.sleep(at.saturating_sub(now)).await?,
                None => {
                    self.due.notify_waiters();
                    return std::future::pending().await;
                }
            }
        }
    }

    fn operation(&self, kind: Kind) -> Operation {
        let random = &mut *self.random.borrow_mut();
        let list = self.plan.popularity.pick(random);
        match kind {
            Kind::Get => Operation::Get { list },
            Kind::Add => {
                let number = self.next_number.get();
                self.next_number.set(number.wrapping_add(self.plan.batch));
                let present = self.start.unix_nanos.saturating_add(self.now().as_nanos() as u64);
                let newest_nanos = present.max(self.last_nanos.get() + 1);
                self.last_nanos.set(newest_nanos);
                Operation::Add { list, newest_nanos, number }
            }
            Kind::Remove => Operation::Remove { list, index: random.random_range(0..self.plan.data.length) },
        }
    }

    /// A server may close a connection on which nothing happens, at the same moment as a request
    /// sets out. Every client sends that request again, and so does this one: all of them may be
    /// repeated.
    async fn exchange(&self, connection: &mut Connection) -> Result<Answer, Broken> {
        let (protocol, timeout) = (&self.plan.protocol, self.plan.timeout);
        match connection.exchange(protocol, timeout).await {
            Err(Broken::Lost { idle: true, .. }) => {
                self.stats().reconnects += 1;
                connection.open(&self.plan.addresses).await?;
                connection.exchange(protocol, timeout).await
            }
            answered => answered,
        }
    }

    fn record(
        &self,
        ticket: Ticket,
        operation: &Operation,
        recent: Option<AcknowledgedAdd>,
        latency: Duration,
        connection: &Connection,
        answered: Result<Answer, Broken>,
    ) {
        let mut stats = self.stats();
        stats.ended += 1;
        let measured = self.is_measured(ticket.at);
        match answered {
            Ok(answer) if answer.outcome == Outcome::Done => {
                let body = connection.body(&answer);
                if measured {
                    let items = self.plan.protocol.items(ticket.kind, body);
                    stats.kind(ticket.kind).done(latency, items);
                }
                self.check(operation, recent, body, &mut stats);
                if let Operation::Add { list, newest_nanos, number } = *operation {
                    self.recent.borrow_mut().remember(AcknowledgedAdd { list, newest_nanos, number });
                }
            }
            Ok(Answer { outcome: Outcome::Refused { code, .. }, .. }) if measured => {
                stats.kind(ticket.kind).error(&code);
            }
            Ok(_) => {}
            Err(broken) => {
                if measured {
                    stats.kind(ticket.kind).error(broken.code());
                }
                stats.example(broken.to_string());
                *self.last_breakage.borrow_mut() = broken.to_string();
            }
        }
    }

    /// Checks one in so many answers.
    fn check(&self, operation: &Operation, recent: Option<AcknowledgedAdd>, body: &[u8], stats: &mut Stats) {
        let Plan { protocol, expectations, check_every, .. } = &*self.plan;
        self.answers.set(self.answers.get() + 1);
        if *check_every == 0 || !self.answers.get().is_multiple_of(*check_every) {
            return;
        }
        let checked = match *operation {
            Operation::Get { list } => expectations.check_get(protocol, list, recent, body),
            Operation::Add { .. } => expectations.check_add(protocol, body),
            Operation::Remove { .. } => return,
        };
        stats.checked += 1;
        if let Err(complaint) = checked {
            stats.complain(complaint.to_string());
        }
    }

    /// Connects again, trying for a bounded time and until the end. False if that was in vain.
    async fn reopen(&self, connection: &mut Connection) -> bool {
        self.stats().reconnects += 1;
        let away_since = Instant::now();
        let mut pause = RECONNECT_PAUSE_FIRST;
        while self.now() < self.end.get() {
            match connection.open(&self.plan.addresses).await {
                Ok(()) => return true,
                Err(broken) => *self.last_breakage.borrow_mut() = broken.to_string(),
            }
            if away_since.elapsed() >= AWAY_MAX {
                self.alive.set(self.alive.get() - 1);
                return false;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RECONNECT_PAUSE_MAX);
        }
        false
    }

    /// Counts what was due and has no answer, with the time that it has waited for one.
    fn close_the_books(&self) {
        let now = self.now();
        let mut stats = self.stats();
        for ticket in self.in_flight.iter().filter_map(Cell::take).filter(|ticket| self.is_measured(ticket.at)) {
            stats.kind(ticket.kind).unfinished(now.saturating_sub(ticket.at));
        }
        let Some(schedule) = &self.schedule else { return };
        while let Next::Due { kind, at } = schedule.borrow_mut().take(now) {
            if self.is_measured(at) {
                stats.kind(kind).unsent(now.saturating_sub(at));
            }
        }
    }
}
