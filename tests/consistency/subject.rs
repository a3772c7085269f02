//! The server of a run through all its starts: clients get its address here, and faults end and restart it here.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::Method;
use nix::sys::signal::Signal;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::timeout;

use crate::history::{ClockStep, Moment, NANOS_PER_SEC};
use crate::http::{Connection, Endpoint, Trouble};
use crate::metrics::Counters;
use crate::run::Timeline;
use crate::server::{Recipe, Server};

/// The time for a change of the pool's size: running operations end first, and sessions are opened.
const RESIZE_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Subject {
    recipe: Mutex<Recipe>,
    timeline: Timeline,
    /// `None` while it is down.
    endpoint: watch::Sender<Option<Endpoint>>,
    /// The server that runs, and which of all starts it is.
    running: AsyncMutex<Option<(Server, usize)>>,
    clock_steps: Mutex<Vec<ClockStep>>,
    /// The counters of servers that have ended.
    counters: Mutex<Counters>,
}

impl Subject {
    pub async fn start(recipe: Recipe, timeline: Timeline) -> Result<Self, String> {
        let subject = Self {
            recipe: Mutex::new(recipe),
            timeline,
            endpoint: watch::Sender::new(None),
            running: AsyncMutex::new(None),
            clock_steps: Mutex::default(),
            counters: Mutex::default(),
        };
        subject.bring_up().await?;
        Ok(subject)
    }

    fn recipe(&self) -> Recipe {
        self.recipe.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Changes how the server is started from now on.
    pub fn alter(&self, change: impl FnOnce(&mut Recipe)) {
        change(&mut self.recipe.lock().expect("no thread panics while it holds the lock"));
    }

    pub fn now(&self) -> Moment {
        self.timeline.now()
    }

    /// The approximate time of the server's wall clock.
    pub fn wall(&self) -> u64 {
        let steps = self.clock_steps.lock().expect("no thread panics while it holds the lock");
        let offset = steps.last().map_or(0, |step| step.offset_secs);
        (self.timeline.epoch + self.now()).saturating_add_signed(offset * NANOS_PER_SEC as i64)
    }

    /// Where the server is; waits while it is down.
    pub async fn endpoint(&self) -> Endpoint {
        let mut changes = self.endpoint.subscribe();
        let found = changes.wait_for(Option::is_some).await.expect("the sender lives as long as we").clone();
        found.expect("waited for")
    }

    /// Waits until the server is elsewhere than here, or the time is over.
    pub async fn await_change(&self, from: &Endpoint, at_most: Duration) {
        let mut changes = self.endpoint.subscribe();
        let elsewhere = changes.wait_for(|endpoint| endpoint.as_ref() != Some(from));
        // Either will do: the caller tries again.
        let _ = timeout(at_most, elsewhere).await;
    }

    /// Starts the server, which is down.
    pub async fn bring_up(&self) -> Result<(), String> {
        let mut running = self.running.lock().await;
        let recipe = self.recipe();
        let server = tokio::task::spawn_blocking(move || recipe.start()).await.map_err(|e| e.to_string())??;
        let incarnation = self.timeline.started();
        self.endpoint.send_replace(Some(Endpoint { address: server.address.clone(), incarnation }));
        *running = Some((server, incarnation));
        Ok(())
    }

    /// SIGKILL: the process is gone when this returns.
    pub async fn kill(&self) -> Result<(), String> {
        self.end(Server::kill).await
    }

    /// SIGTERM: the process has ended when this returns.
    pub async fn terminate(&self) -> Result<(), String> {
        self.end(Server::terminate).await
    }

    async fn end(&self, by: fn(Server) -> Result<(), String>) -> Result<(), String> {
        let Some((server, incarnation)) = self.running.lock().await.take() else { return Ok(()) };
        self.count(&server.address).await;
        let ended = tokio::task::spawn_blocking(move || by(server)).await.map_err(|e| e.to_string())?;
        self.endpoint.send_replace(None);
        self.timeline.ended(incarnation);
        ended
    }

    /// Adds the counters of a server, which it loses when it ends.
    async fn count(&self, address: &str) {
        // A server that no longer answers adds nothing.
        if let Some(counted) = Counters::of(&mut Connection::default(), address).await {
            self.counters.lock().expect("no thread panics while it holds the lock").add(&counted);
        }
    }

    /// The totals of all its ended servers.
    pub fn counters(&self) -> Counters {
        self.counters.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Starts a process while the server is down, and ends it by SIGKILL after a while, wherever
    /// its start has got to.
    pub async fn kill_in_start(&self, after: Duration) -> Result<(), String> {
        let recipe = self.recipe();
        let mut child = recipe.spawn()?;
        tokio::time::sleep(after).await;
        let ended =
            tokio::task::spawn_blocking(move || child.kill().and_then(|()| child.wait()).map_err(|e| e.to_string()));
        ended.await.map_err(|e| e.to_string())??;
        Ok(())
    }

    /// Stops all threads of the process for a while.
    pub async fn pause(&self, time: Duration) -> Result<(), String> {
        let running = self.running.lock().await;
        let Some((server, _)) = running.as_ref() else { return Ok(()) };
        server.signal(Signal::SIGSTOP)?;
        tokio::time::sleep(time).await;
        server.signal(Signal::SIGCONT)
    }

    /// Gives the server's pool another number of list actors, if the server is up.
    pub async fn resize_pool(&self, actors: usize) -> Result<(), String> {
        let running = self.running.lock().await;
        let Some((server, incarnation)) = running.as_ref() else { return Ok(()) };
        let endpoint = Endpoint { address: server.address.clone(), incarnation: *incarnation };
        let body = format!("{{\"actors\": {actors}}}");
        let began = Instant::now();
        loop {
            let body = Some(body.clone());
            match Connection::default().exchange(&endpoint, Method::PUT, "/v1/pool", body).await {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                // The server may take longer for it than a call waits. A repeated call continues to wait.
                Err(Trouble::Lost(_)) if began.elapsed() < RESIZE_TIMEOUT => {}
                Ok(answer) => {
                    return Err(format!("the pool kept its size: {}", String::from_utf8_lossy(&answer.body)));
                }
                Err(trouble) => return Err(format!("the pool kept its size: {trouble:?}")),
            }
        }
    }

    /// Steps the server's wall clock, which its recipe must have faked.
    pub fn step_clock(&self, offset_secs: i64) -> Result<(), String> {
        let from = self.now();
        self.recipe().step_clock(offset_secs)?;
        let step = ClockStep { from, to: self.now(), offset_secs };
        self.clock_steps.lock().expect("no thread panics while it holds the lock").push(step);
        Ok(())
    }

    /// Sees to it that the server is up.
    pub async fn heal(&self) -> Result<(), String> {
        if self.endpoint.borrow().is_none() { self.bring_up().await } else { Ok(()) }
    }

    /// Ends the server by SIGTERM, and returns how its clock was stepped.
    pub async fn finish(&self) -> Result<Vec<ClockStep>, String> {
        self.terminate().await?;
        Ok(std::mem::take(&mut *self.clock_steps.lock().expect("no thread panics while it holds the lock")))
    }
}
