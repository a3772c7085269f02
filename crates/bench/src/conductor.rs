//! Conducts the generator's threads: starts them together, shows progress, stops them on Ctrl-C, and collects their
//! measurements.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use liststore_client::Failure;
use liststore_contract::domain::{Clock, SystemClock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

use super::cpu;
use super::plan::{Plan, Start};
use super::report::{Measured, grouped};
use super::stats::Stats;
use super::worker::{self, Controls, Finished};

const LIVE_INTERVAL: Duration = Duration::from_secs(1);

/// A run that has ended.
pub struct Conducted {
    pub measured: Measured,
    pub interrupted: bool,
    /// Why the server was given up, if it was.
    pub lost: Option<String>,
}

/// Runs the plan. `server` is a process whose tree's CPU time is measured.
pub async fn conduct(plan: Arc<Plan>, server: Option<u32>) -> Result<Conducted, Failure> {
    let mut threads = Threads::spawn(&plan)?;
    threads.await_connections(&plan).await?;
    // Before the measurement, so that an interruption still prints a report.
    let interrupts = signal(SignalKind::interrupt());
    let mut interrupts = interrupts.map_err(|e| Failure::failed(format!("cannot handle Ctrl-C: {e}")))?;
    let start = Start { instant: Instant::now(), unix_nanos: SystemClock.now().as_nanos() };
    threads.start(start);

    let (begin, end) = (start.instant + plan.warmup, start.instant + plan.warmup + plan.duration);
    let (mut cpu_begin, mut cpu_end, mut interrupted) = (None, None, None);
    let mut live = Live::new(begin);
    let mut ticks = tokio::time::interval(LIVE_INTERVAL);
    let (mut finished, mut left) = (Vec::new(), plan.threads);
    while left > 0 {
        tokio::select! {
            ended = threads.finished.recv() => {
                let ended = ended.ok_or_else(|| Failure::failed("a thread of the generator failed"))?;
                finished.push(ended.map_err(Failure::failed)?);
                left -= 1;
            }
            () = sleep_until(begin.into()), if server.is_some() && cpu_begin.is_none() => {
                cpu_begin = server.map(|pid| (Instant::now(), cpu::of_process_tree(pid)));
            }
            () = sleep_until(end.into()), if server.is_some() && cpu_end.is_none() => {
                cpu_end = server.map(|pid| (Instant::now(), cpu::of_process_tree(pid)));
            }
            Some(()) = interrupts.recv(), if interrupted.is_none() => {
                interrupted = Some(Instant::now());
                if cpu_begin.is_some() && cpu_end.is_none() {
                    cpu_end = server.map(|pid| (Instant::now(), cpu::of_process_tree(pid)));
                }
                threads.stop.store(true, Ordering::Relaxed);
            }
            _ = ticks.tick(), if live.is_seen() => live.show(&threads.gather()?),
        }
    }
    live.clear();
    // The threads may have been done first, at the same moment.
    if cpu_begin.is_some() && cpu_end.is_none() {
        cpu_end = server.map(|pid| (Instant::now(), cpu::of_process_tree(pid)));
    }
    let lost: Vec<String> = finished.iter().filter_map(|thread| thread.given_up.clone()).collect();
    // Threads end early only when they are stopped, or when the server is lost.
    let stopped = interrupted.or_else(|| (lost.len() == plan.threads).then(Instant::now)).unwrap_or(end).min(end);
    let measured = Measured {
        stats: threads.gather()?,
        time: stopped.saturating_duration_since(begin),
        threads_cpu: finished.iter().map(|Finished { cpu, .. }| *cpu).collect(),
        server_cpu: server_cpu(cpu_begin, cpu_end, stopped.saturating_duration_since(begin)),
    };
    let lost = if lost.len() == plan.threads { lost.into_iter().next() } else { None };
    Ok(Conducted { measured, interrupted: interrupted.is_some(), lost })
}

type Sample = (Instant, Result<Duration, String>);

/// CPU time between the samples, for the time that was measured.
fn server_cpu(begin: Option<Sample>, end: Option<Sample>, time: Duration) -> Option<Duration> {
    let ((began, Ok(before)), (ended, Ok(after))) = (begin?, end?) else { return None };
    let sampled = ended.saturating_duration_since(began);
    let share = time.as_secs_f64() / sampled.as_secs_f64().max(1e-9);
    Some(after.checked_sub(before)?.mul_f64(share))
}

/// The threads, and their controls.
struct Threads {
    stats: Vec<Arc<Mutex<Stats>>>,
    starts: Vec<oneshot::Sender<Start>>,
    stop: Arc<AtomicBool>,
    connected: mpsc::Receiver<Result<(), String>>,
    finished: mpsc::Receiver<Result<Finished, String>>,
}

impl Threads {
    /// Starts the threads, which connect and then wait for the start.
    fn spawn(plan: &Arc<Plan>) -> Result<Self, Failure> {
        let (mut starts, stop) = (Vec::new(), Arc::new(AtomicBool::new(false)));
        let (connecting, connected) = mpsc::channel(plan.threads);
        let (finishing, finished) = mpsc::channel(plan.threads);
        let mut all_stats = Vec::new();
        for thread in 0..plan.threads {
            let stats = Arc::new(Mutex::new(Stats::new().map_err(Failure::failed)?));
            all_stats.push(Arc::clone(&stats));
            let (start, started) = oneshot::channel();
            starts.push(start);
            let controls = Controls { stats, connected: connecting.clone(), start: started, stop: Arc::clone(&stop) };
            let (plan, finishing) = (Arc::clone(plan), finishing.clone());
            std::thread::Builder::new()
                .name(format!("bench-{thread}"))
                .spawn(move || finishing.blocking_send(worker::run(plan, thread, controls)))
                .map_err(|e| Failure::failed(format!("cannot start a thread: {e}")))?;
        }
        Ok(Self { stats: all_stats, starts, stop, connected, finished })
    }

    /// Lets all threads begin together.
    fn start(&mut self, start: Start) {
        for thread in self.starts.drain(..) {
            // A thread that has ended already returned its reason.
            let _ = thread.send(start);
        }
    }

    async fn await_connections(&mut self, plan: &Plan) -> Result<(), Failure> {
        for _ in 0..plan.threads {
            if let Some(Err(reason)) = self.connected.recv().await {
                let address = plan.addresses.first().map(ToString::to_string).unwrap_or_default();
                return Err(Failure::failed(format!("{reason} ({address})")));
            }
        }
        Ok(())
    }

    /// The measurements of all threads so far.
    fn gather(&self) -> Result<Stats, Failure> {
        let mut all = Stats::new().map_err(Failure::failed)?;
        for stats in &self.stats {
            all.merge(&stats.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(all)
    }
}

/// A line on a terminal, once a second.
struct Live {
    begin: Instant,
    bar: Option<ProgressBar>,
    last: (Instant, u64),
}

impl Live {
    fn new(begin: Instant) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{elapsed} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { begin, bar, last: (Instant::now(), 0) }
    }

    fn is_seen(&self) -> bool {
        self.bar.is_some()
    }

    fn show(&mut self, stats: &Stats) {
        let Some(bar) = &self.bar else { return };
        let now = Instant::now();
        let (since, ended_before) = std::mem::replace(&mut self.last, (now, stats.ended));
        let rate = (stats.ended - ended_before) as f64 / now.duration_since(since).as_secs_f64().max(1e-9);
        let phase = if now < self.begin { "warming up: " } else { "" };
        let latency = match stats.total() {
            Ok(total) if total.done > 0 => format!(
                ", so far p50 {:.3} ms, p99 {:.3} ms, {} errors",
                total.latencies.value_at_quantile(0.5) as f64 / 1e6,
                total.latencies.value_at_quantile(0.99) as f64 / 1e6,
                grouped(total.errors_in_all() as f64)
            ),
            _ => String::new(),
        };
        bar.set_message(format!("{phase}{} requests/s{latency}", grouped(rate)));
        bar.tick();
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
