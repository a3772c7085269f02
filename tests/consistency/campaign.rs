//! Many runs, one after another, each judged: what the quick tests and the long ones are made of.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::check::{Promises, check};
use crate::faults::Fault;
use crate::history::{History, Outcome, Request};
use crate::run::{self, Done, Plan};
use crate::server::Recipe;
use crate::tools;

pub const CACHE_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// Nothing survives: without faults that end the server.
    Memory,
    Embedded,
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
    /// The server's wall clock goes forward and back by an hour (needs libfaketime)
    Clock,
}

pub struct Campaign {
    pub store: Store,
    /// By turns, a run each.
    pub fsync: Vec<Fsync>,
    pub faults: Vec<FaultKind>,
    pub faults_per_run: usize,
    pub operations_per_run: usize,
}

/// What runs amounted to.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub runs: usize,
    pub calls: usize,
    pub kills: usize,
    pub unknown: usize,
    pub not_done: usize,
    pub checking: Duration,
    /// Calls that were answered, by kind.
    pub answered: BTreeMap<&'static str, usize>,
}

impl Campaign {
    /// Runs on all these seeds, so many at a time: a run waits much, for starts and for disks. The
    /// first error ends all.
    pub async fn run_all(
        self,
        seeds: impl IntoIterator<Item = u64>,
        jobs: usize,
        mut done: impl FnMut(u64, &Tally) -> Result<(), String>,
    ) -> Result<Tally, String> {
        let campaign = Arc::new(self);
        let (mut seeds, mut running, mut tally) = (seeds.into_iter(), JoinSet::new(), Tally::default());
        loop {
            while running.len() < jobs.max(1)
                && let Some(seed) = seeds.next()
            {
                let campaign = Arc::clone(&campaign);
                running.spawn(async move { campaign.run(seed).await.map(|tally| (seed, tally)) });
            }
            let Some(ended) = running.join_next().await else { return Ok(tally) };
            let (seed, of_run) = ended.map_err(|e| e.to_string())??;
            tally.add(&of_run);
            done(seed, &tally)?;
        }
    }

    /// One run on a fresh server, judged. An error says what to do with it.
    pub async fn run(&self, seed: u64) -> Result<Tally, String> {
        let dir = run::fresh_dir()?;
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let plan = Plan {
            seed,
            operations: self.operations_per_run,
            suffix: String::new(),
            faults: (0..self.faults_per_run).filter_map(|_| self.draw(&mut rng)).collect(),
        };
        let faults = plan.faults.clone();
        let recipe = self.recipe(dir.path(), seed)?;
        let blame = |error: String| format!("seed {seed}, {faults:?}: {error}");
        let Done { history, kills } = match run::run(plan, recipe).await {
            Ok(done) => done,
            Err(error) => return Err(blame(format!("{error}\nits directory is {}", dir.keep().display()))),
        };
        let began = Instant::now();
        // It keeps a core busy for a while, which other runs must not wait for.
        let checking = move || (check(&history, Promises::Linearizable), history);
        let (judged, history) = tokio::task::spawn_blocking(checking).await.map_err(|e| e.to_string())?;
        let judged = judged.map_err(&blame)?;
        if let Some(first) = judged.first() {
            let text = format!("{} ({} violations in all)", first.explain(&history), judged.len());
            return Err(blame(format!("{text}\n{}", run::keep(dir, &history))));
        }
        let tally = Tally { kills, checking: began.elapsed(), ..Tally::of(&history) };
        tally.worth(faults.is_empty()).map_err(|error| blame(format!("{error}\n{}", run::keep(dir, &history))))?;
        Ok(tally)
    }

    fn draw(&self, rng: &mut Rng) -> Option<Fault> {
        Some(match rng.choice(&self.faults)? {
            FaultKind::Kill if rng.u8(0..4) == 0 => Fault::KillInStart,
            FaultKind::Kill => Fault::Kill,
            FaultKind::Term => Fault::Terminate,
            FaultKind::Pause => Fault::Pause,
            FaultKind::Clock => Fault::StepClock,
        })
    }

    fn recipe(&self, dir: &Path, seed: u64) -> Result<Recipe, String> {
        let mut recipe = Recipe::new(dir);
        if self.faults.contains(&FaultKind::Clock) {
            recipe = recipe.with_faked_clock(&tools::faketime().ok_or("libfaketime is not installed")?)?;
        }
        Ok(match self.store {
            Store::Memory => recipe.set("ITEMS__STORE", "memory").set("METADATA__STORE", "memory"),
            Store::Embedded => {
                let fsync = self.fsync[usize::try_from(seed).unwrap_or(0) % self.fsync.len()];
                let mode = match fsync {
                    Fsync::Group => "group",
                    Fsync::Interval => "interval",
                };
                // Little memory, so that there is much going to and fro between it and files.
                recipe.set("ITEMS__EMBEDDED__FSYNC", mode).set("ITEMS__EMBEDDED__CACHE_BYTES", CACHE_BYTES)
            }
        })
    }
}

fn kind(request: &Request) -> &'static str {
    match request {
        Request::Get { after: None, .. } => "get",
        Request::Get { .. } => "page",
        Request::Add { .. } => "add",
        Request::RemoveValue { .. } => "remove",
        Request::RemoveAll { .. } => "remove all",
        Request::CreateFeature { .. } | Request::CreateVersion { .. } => "create",
        Request::DeleteFeature { .. } | Request::DeleteVersion { .. } => "delete",
        Request::ChangeTtl { .. } => "ttl",
        Request::ReadTtl { .. } => "read definition",
    }
}

const KINDS: [&str; 9] = ["get", "page", "add", "remove", "remove all", "create", "delete", "ttl", "read definition"];

impl Tally {
    fn of(history: &History) -> Self {
        let mut tally = Self { runs: 1, calls: history.calls.len(), ..Self::default() };
        for call in &history.calls {
            match call.outcome {
                Outcome::Unknown { .. } => tally.unknown += 1,
                Outcome::NotDone { .. } => tally.not_done += 1,
                _ => *tally.answered.entry(kind(&call.request)).or_default() += 1,
            }
        }
        tally
    }

    /// A run in which little was answered has proved little.
    fn worth(&self, without_faults: bool) -> Result<(), String> {
        if let Some(kind) = KINDS.iter().find(|kind| !self.answered.contains_key(*kind)) {
            return Err(format!("no {kind} was answered: {self}"));
        }
        let answered: usize = self.answered.values().sum();
        let wanted = if without_faults { self.calls * 95 / 100 } else { self.calls / 2 };
        if answered < wanted { Err(format!("only {answered} calls were answered: {self}")) } else { Ok(()) }
    }

    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.calls += other.calls;
        self.kills += other.kills;
        self.unknown += other.unknown;
        self.not_done += other.not_done;
        self.checking += other.checking;
        for (kind, count) in &other.answered {
            *self.answered.entry(kind).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, calls, kills, unknown, not_done, checking, answered } = self;
        write!(
            f,
            "{runs} runs, {calls} calls, {kills} kills, {unknown} of unknown outcome, {not_done} not done; answered:"
        )?;
        answered.iter().try_for_each(|(kind, count)| write!(f, " {kind} {count},"))?;
        write!(f, " {:.1} s of checking", checking.as_secs_f64())
    }
}
