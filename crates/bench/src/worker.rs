//! One thread of the generator: an event loop over its connections, and its measurements.
//!
//! A free connection takes the next request (when one is due, or at once in a closed loop) and sends it. It is free
//! again when the answer has arrived and is recorded. All connections of a thread share one source of random numbers
//! and one schedule, so the same seed makes the same requests.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::{Events, Poll, Token};
use tokio::sync::{mpsc, oneshot};

use super::connection::{Broken, CONNECT_TIMEOUT};
use super::cpu;
use super::draw::{Draw, Drawn};
use super::operation::Kind;
use super::pacer::Pacer;
use super::plan::{Mode, Plan, Start};
use super::response::{Response, ResponseStatus};
use super::schedule::{Next, Schedule};
use super::socket::Socket;
use super::stats::Stats;

/// How long answers are waited for after the end.
pub const DRAIN: Duration = Duration::from_secs(5);
/// And after an interruption.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// A run ends if the server is unreachable for this long.
const AWAY_MAX: Duration = Duration::from_secs(10);
const RECONNECT_PAUSE_FIRST: Duration = Duration::from_millis(10);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// The interval in which the loop checks for timeouts and for a stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
const EVENTS_MAX: usize = 1024;

/// The shared state of a thread and the conductor.
pub struct Controls {
    pub stats: Arc<Mutex<Stats>>,
    pub connected: mpsc::Sender<Result<(), String>>,
    pub start: oneshot::Receiver<Start>,
    pub stop: Arc<AtomicBool>,
}

/// How a thread's run went.
#[derive(Debug, Default)]
pub struct Finished {
    /// CPU time of the thread within the measured time.
    pub cpu: Option<Duration>,
    /// Why its last connection was given up, if all were.
    pub given_up: Option<String>,
}

/// Runs thread number `thread` to its end.
pub fn run(plan: Arc<Plan>, thread: usize, controls: Controls) -> Result<Finished, String> {
    let poll = Poll::new().map_err(|e| format!("cannot poll: {e}"))?;
    let mut lanes = Vec::new();
    for number in 0..plan.share(thread) {
        let mut socket = Socket::new(Token(number));
        if let Err(broken) = socket.open(&plan.addresses, poll.registry()) {
            let _ = controls.connected.blocking_send(Err(broken.to_string()));
            return Ok(Finished::default());
        }
        lanes.push(Lane { socket, state: State::Free });
    }
    let _ = controls.connected.blocking_send(Ok(()));
    let Ok(start) = controls.start.blocking_recv() else {
        // Another thread could not connect.
        return Ok(Finished::default());
    };
    let pacer = Pacer::new(poll.registry(), Token(lanes.len())).map_err(|e| format!("cannot make a timer: {e}"))?;
    let mut worker = Worker {
        schedule: match &plan.mode {
            Mode::Closed(_) => None,
            Mode::Open(rates) => Some(Schedule::new(rates, thread, plan.threads, plan.end())),
        },
        draw: Draw::new(Arc::clone(&plan), thread, start),
        free: (0..lanes.len()).collect(),
        alive: lanes.len(),
        lanes,
        poll,
        pacer,
        start,
        end: plan.end(),
        last_wait: DRAIN.min(plan.timeout),
        next_check: Duration::ZERO,
        cpu_begin: None,
        cpu: None,
        stats: controls.stats,
        last_breakage: String::new(),
        plan,
    };
    worker.run(&controls.stop).map_err(|e| format!("cannot poll: {e}"))?;
    worker.close_the_books();
    let given_up = (worker.alive == 0).then_some(worker.last_breakage);
    Ok(Finished { cpu: worker.cpu, given_up })
}

#[derive(Debug, Clone, Copy)]
struct Ticket {
    kind: Kind,
    /// When it was due, since the start.
    at: Duration,
}

/// A request that is on its way.
#[derive(Debug, Clone, Copy)]
struct Asked {
    ticket: Ticket,
    drawn: Drawn,
    /// When this attempt began.
    sent: Duration,
}

/// The state of a connection.
#[derive(Debug)]
enum State {
    Free,
    Asked(Asked),
    /// The server has closed it, and it is made again.
    Reconnecting(Reconnecting),
    /// It was abandoned.
    Ended,
}

#[derive(Debug)]
struct Reconnecting {
    /// The request that is sent again once the connection is established.
    again: Option<Asked>,
    away_since: Duration,
    /// Which of the plan's addresses is tried.
    address: usize,
    pause: Duration,
    attempt: Attempt,
}

#[derive(Debug)]
enum Attempt {
    Since(Duration),
    NotBefore(Duration),
}

struct Lane {
    socket: Socket,
    state: State,
}

struct Worker {
    plan: Arc<Plan>,
    start: Start,
    poll: Poll,
    pacer: Pacer,
    draw: Draw,
    schedule: Option<Schedule>,
    lanes: Vec<Lane>,
    /// Connections that wait for a due request, the longest waiting one first.
    free: VecDeque<usize>,
    /// The number of those that were not abandoned.
    alive: usize,
    /// No request begins from here on.
    end: Duration,
    /// How long after the end answers are waited for.
    last_wait: Duration,
    next_check: Duration,
    cpu_begin: Option<Duration>,
    cpu: Option<Duration>,
    stats: Arc<Mutex<Stats>>,
    last_breakage: String,
}

impl Worker {
    fn now(&self) -> Duration {
        self.start.instant.elapsed()
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_measured(&self, at: Duration) -> bool {
        at >= self.plan.warmup && at < self.end
    }

    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let now = self.now();
            self.meter(now);
            if stop.load(Ordering::Relaxed) && now < self.end {
                (self.end, self.last_wait) = (now, STOP_GRACE);
            }
            if now >= self.next_check {
                self.next_check = now + CHECK_INTERVAL;
                self.check_requests(now);
            }
            let due = self.send_what_is_due();
            let idle = self.lanes.iter().all(|lane| matches!(lane.state, State::Free | State::Ended));
            if self.alive == 0 || now >= self.end && (idle || now >= self.end + self.last_wait) {
                return Ok(());
            }
            if let Some(at) = due {
                self.pacer.wake_at(at, now)?;
            }
            match self.poll.poll(&mut events, Some(CHECK_INTERVAL)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                self.proceed(event.token().0);
            }
        }
    }

    /// Keeps the thread's CPU time between the two moments.
    fn meter(&mut self, now: Duration) {
        if self.cpu_begin.is_none() && now >= self.plan.warmup {
            self.cpu_begin = cpu::of_this_thread();
        }
        if self.cpu.is_none() && now >= self.plan.end() {
            self.cpu = cpu::of_this_thread().zip(self.cpu_begin).and_then(|(end, begin)| end.checked_sub(begin));
        }
    }

    /// Gives due requests to free connections. Returns the time of the next request, if one waits for it.
    fn send_what_is_due(&mut self) -> Option<Duration> {
        while let Some(number) = self.free.pop_front() {
            match self.next() {
                Next::Due { kind, at } if at < self.end => self.send(number, Ticket { kind, at }),
                other => {
                    self.free.push_front(number);
                    return match other {
                        Next::NotBefore(at) if at < self.end => Some(at),
                        _ => None,
                    };
                }
            }
        }
        None
    }

    fn next(&mut self) -> Next {
        let now = self.now();
        match (&mut self.schedule, &self.plan.mode) {
            (Some(schedule), _) => schedule.take(now),
            (None, Mode::Closed(mix)) => Next::Due { kind: self.draw.kind(mix), at: now },
            (None, Mode::Open(_)) => Next::Done,
        }
    }

    fn send(&mut self, number: usize, ticket: Ticket) {
        let now = self.now();
        let drawn = self.draw.operation(ticket.kind, now);
        let request = &mut self.lanes[number].socket.request;
        request.clear();
        self.plan.protocol.render(&drawn.operation, request);
        self.begin(number, Asked { ticket, drawn, sent: now });
    }

    fn begin(&mut self, number: usize, asked: Asked) {
        let lane = &mut self.lanes[number];
        lane.state = State::Asked(asked);
        if let Err(broken) = lane.socket.begin() {
            self.broken(number, asked, broken);
        }
    }

    /// Does the work that an event permits.
    fn proceed(&mut self, number: usize) {
        // The timer has the number behind the last connection's.
        let Some(lane) = self.lanes.get_mut(number) else { return };
        match &mut lane.state {
            State::Asked(asked) => {
                let asked = *asked;
                match lane.socket.proceed(&self.plan.protocol) {
                    Ok(None) => {}
                    Ok(Some(answer)) => self.answered(number, asked, &answer),
                    Err(broken) => self.broken(number, asked, broken),
                }
            }
            State::Free => {
                if !lane.socket.is_quiet() {
                    self.free.retain(|free| *free != number);
                    self.reconnect(number, None);
                }
            }
            State::Reconnecting(Reconnecting { attempt: Attempt::Since(_), .. }) => match lane.socket.connected() {
                Ok(true) => self.reconnected(number),
                Ok(false) => {}
                Err(broken) => self.not_connected(number, broken),
            },
            State::Reconnecting(_) | State::Ended => {}
        }
    }

    fn answered(&mut self, number: usize, asked: Asked, answer: &Response) {
        self.record(number, &asked, answer);
        if answer.keep_alive {
            self.set_free(number);
        } else {
            self.reconnect(number, None);
        }
    }

    /// A server may close a connection on which nothing happens, at the same moment as a request
    /// sets out. Every client sends that request again, and so does this one: all of them may be
    /// repeated.
    fn broken(&mut self, number: usize, asked: Asked, broken: Broken) {
        if matches!(broken, Broken::Lost { idle: true, .. }) {
            return self.reconnect(number, Some(asked));
        }
        self.record_broken(&asked.ticket, &broken);
        self.reconnect(number, None);
    }

    fn set_free(&mut self, number: usize) {
        self.lanes[number].state = State::Free;
        self.free.push_back(number);
    }

    /// Begins to connect again, trying for a bounded time and until the end.
    fn reconnect(&mut self, number: usize, again: Option<Asked>) {
        let now = self.now();
        if again.is_none() && now >= self.end {
            self.lanes[number].socket.close();
            self.lanes[number].state = State::Ended;
            return;
        }
        self.stats().reconnects += 1;
        let pause = RECONNECT_PAUSE_FIRST;
        self.lanes[number].state = State::Reconnecting(Reconnecting {
            again,
            away_since: now,
            address: 0,
            pause,
            attempt: Attempt::Since(now),
        });
        self.connect(number);
    }

    fn connect(&mut self, number: usize) {
        let now = self.now();
        let lane = &mut self.lanes[number];
        let State::Reconnecting(reconnecting) = &mut lane.state else { return };
        reconnecting.attempt = Attempt::Since(now);
        let address = self.plan.addresses[reconnecting.address % self.plan.addresses.len()];
        if let Err(broken) = lane.socket.connect(address, self.poll.registry()) {
            self.not_connected(number, broken);
        }
    }

    fn reconnected(&mut self, number: usize) {
        let now = self.now();
        let State::Reconnecting(Reconnecting { again, .. }) = &self.lanes[number].state else { return };
        match *again {
            Some(asked) => self.begin(number, Asked { sent: now, ..asked }),
            None => self.set_free(number),
        }
    }

    /// Tries the next address, or all of them again after a pause.
    fn not_connected(&mut self, number: usize, broken: Broken) {
        let now = self.now();
        let (end, addresses) = (self.end, self.plan.addresses.len());
        self.last_breakage = broken.to_string();
        let lane = &mut self.lanes[number];
        lane.socket.close();
        let State::Reconnecting(reconnecting) = &mut lane.state else { return };
        reconnecting.address += 1;
        if !reconnecting.address.is_multiple_of(addresses) {
            return self.connect(number);
        }
        let given_up = now.saturating_sub(reconnecting.away_since) >= AWAY_MAX;
        reconnecting.attempt = Attempt::NotBefore(now + reconnecting.pause);
        reconnecting.pause = (reconnecting.pause * 2).min(RECONNECT_PAUSE_MAX);
        let waiting = reconnecting.again.take();
        if given_up || now >= end {
            lane.state = State::Ended;
            self.alive -= usize::from(given_up);
        }
        if let Some(asked) = waiting {
            self.record_broken(&asked.ticket, &broken);
        }
    }

    /// Finds requests that timed out, or that must be repeated.
    fn check_requests(&mut self, now: Duration) {
        for number in 0..self.lanes.len() {
            match &self.lanes[number].state {
                State::Asked(asked) if now.saturating_sub(asked.sent) >= self.plan.timeout => {
                    self.broken(number, *asked, Broken::TimedOut);
                }
                State::Reconnecting(reconnecting) => match reconnecting.attempt {
                    Attempt::Since(began) if now.saturating_sub(began) >= CONNECT_TIMEOUT => {
                        self.not_connected(number, Broken::Connect(io::ErrorKind::TimedOut.into()));
                    }
                    Attempt::NotBefore(at) if now >= at => self.connect(number),
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn record(&mut self, number: usize, asked: &Asked, answer: &Response) {
        let Asked { ticket, drawn, sent } = asked;
        let (measured, now) = (self.is_measured(ticket.at), self.now());
        // Not by `stats()`, which would borrow all of the worker.
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.ended += 1;
        match &answer.status {
            ResponseStatus::Done => {
                let body = self.lanes[number].socket.body(answer);
                if measured {
                    let latency = now.saturating_sub(ticket.at);
                    stats.kind(ticket.kind).done(latency, self.plan.protocol.items(ticket.kind, body));
                }
                if let Some(found) = self.draw.answered(drawn, body) {
                    stats.checked += 1;
                    if let Err(complaint) = found {
                        stats.complain(complaint.to_string());
                    }
                }
            }
            ResponseStatus::Refused { code, .. } if measured => {
                stats.kind(ticket.kind).refused(code, now.saturating_sub(*sent));
            }
            ResponseStatus::Refused { .. } => {}
        }
    }

    fn record_broken(&mut self, ticket: &Ticket, broken: &Broken) {
        let measured = self.is_measured(ticket.at);
        let mut stats = self.stats();
        stats.ended += 1;
        if measured {
            stats.kind(ticket.kind).error(broken.code());
        }
        stats.example(broken.to_string());
        drop(stats);
        self.last_breakage = broken.to_string();
    }

    /// Counts the due requests without an answer, with their time of waiting.
    fn close_the_books(&mut self) {
        let now = self.now();
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.lanes.iter().filter_map(|lane| match &lane.state {
            State::Asked(asked) => Some(asked.ticket),
            State::Reconnecting(reconnecting) => reconnecting.again.map(|asked| asked.ticket),
            State::Free | State::Ended => None,
        });
        for ticket in waiting.filter(|ticket| self.is_measured(ticket.at)) {
            stats.kind(ticket.kind).unfinished(now.saturating_sub(ticket.at));
        }
        let Some(schedule) = &mut self.schedule else { return };
        let (warmup, end) = (self.plan.warmup, self.end);
        while let Next::Due { kind, at } = schedule.take(now) {
            if at >= warmup && at < end {
                stats.kind(kind).unsent(now.saturating_sub(at));
            }
        }
    }
}
