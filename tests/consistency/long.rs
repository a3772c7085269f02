//! Long runs, by hand: any number of seeds and operations, with a progress line, and resumable.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use crate::campaign::{Campaign, FaultKind, Fsync, Store, Tally};
use crate::check::check;
use crate::history::History;
use crate::quick::runtime;
use crate::workload::Workload;

/// Breaks the promises of docs/explanation/guarantees.md, or shows that it cannot
#[derive(Debug, Parser)]
#[command(
    name = "cargo test --release --test consistency --",
    after_help = "Examples:\n  \
        cargo test --release --test consistency -- --seeds 200 --operations 2000000 --faults kill,term --state soak.state\n  \
        cargo test --test consistency -- --seeds 1 --first-seed 17 --operations 4000 --faults kill\n  \
        cargo test --test consistency -- --store cql --servers 2 --workload bags --faults cut,kill,pause\n  \
        cargo test --test consistency -- --check history.json\n\n\
        Without any of these options the quick tests run."
)]
struct Arguments {
    /// How many seeds, a run on a fresh server each
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Operations of all runs together
    #[arg(long, default_value_t = 200_000)]
    operations: usize,
    #[arg(long, value_enum, default_value_t = Store::Embedded)]
    store: Store,
    /// What clients do
    #[arg(long, value_enum, default_value_t = Workload::All)]
    workload: Workload,
    /// When the embedded store acknowledges; several take turns, a run each
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Fsync::Group, Fsync::Interval])]
    fsync: Vec<Fsync>,
    /// The faults of the run
    #[arg(long, value_enum, value_delimiter = ',')]
    faults: Vec<FaultKind>,
    /// Faults in each run
    #[arg(long, default_value_t = 3)]
    faults_per_run: usize,
    /// The program to test [default: the one that was built with this]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// How many servers share the stores (cql)
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// How many nodes a Cassandra has that is made to fail, 1 or 3 (cql)
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Runs at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Where to note the seeds that are done, to go on from there another time
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Judge a history that was kept, and do nothing else
    #[arg(long, value_name = "FILE", exclusive = true)]
    check: Option<PathBuf>,
}

/// Whether the command line requests a long run instead of the quick tests.
pub fn is_asked_for() -> bool {
    const OURS: [&str; 15] = [
        "--seeds",
        "--first-seed",
        "--operations",
        "--store",
        "--workload",
        "--fsync",
        "--faults",
        "--faults-per-run",
        "--jobs",
        "--server",
        "--servers",
        "--nodes",
        "--state",
        "--check",
        "--help-long",
    ];
    std::env::args().skip(1).any(|argument| OURS.contains(&argument.split('=').next().unwrap_or_default()))
}

pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.check {
        Some(path) => judge(path),
        None => soak(&arguments),
    };
    match done {
        Ok(text) => {
            eprintln!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn judge(path: &Path) -> Result<String, String> {
    let history = History::load(path)?;
    let violations = check(&history)?;
    let texts: Vec<String> = violations.iter().map(|violation| violation.explain(&history).to_string()).collect();
    if texts.is_empty() { Ok(format!("{} calls, all allowed", history.calls.len())) } else { Err(texts.join("\n")) }
}

fn soak(arguments: &Arguments) -> Result<String, String> {
    let campaign = Campaign {
        workload: arguments.workload,
        server: arguments.server.clone(),
        store: arguments.store,
        fsync: arguments.fsync.clone(),
        faults: arguments.faults.clone(),
        faults_per_run: if arguments.faults.is_empty() { 0 } else { arguments.faults_per_run },
        servers: arguments.servers,
        nodes: arguments.nodes,
        operations_per_run: (arguments.operations / usize::try_from(arguments.seeds.max(1)).unwrap_or(1)).max(1),
    };
    let done = arguments.state.as_deref().map(seeds_done).transpose()?.unwrap_or_default();
    let (began, mut count) = (Instant::now(), done.len());
    let seeds = (arguments.first_seed..).take(usize::try_from(arguments.seeds).unwrap_or(usize::MAX));
    let show = |count: usize, tally: &Tally| {
        let secs = began.elapsed().as_secs_f64();
        progress(&format!(
            "{count} of {} seeds, {} calls, {} kills, {secs:.0} s",
            arguments.seeds, tally.calls, tally.kills
        ));
    };
    show(count, &Tally::default());
    let left = seeds.filter(|seed| !done.contains(seed));
    let ran = runtime()?.block_on(campaign.run_all(left, arguments.jobs, |seed, tally| {
        count += 1;
        show(count, tally);
        let Some(path) = &arguments.state else { return Ok(()) };
        let mut file = File::options().create(true).append(true).open(path).map_err(|e| e.to_string())?;
        writeln!(file, "{seed}").map_err(|e| e.to_string())
    }));
    progress("");
    let tally = ran?;
    let again = if done.is_empty() { String::new() } else { format!(" ({} seeds were done before)", done.len()) };
    Ok(format!("no promise was broken: {tally}, {:.0} s{again}", began.elapsed().as_secs_f64()))
}

fn seeds_done(path: &Path) -> Result<Vec<u64>, String> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    text.lines().map(|line| line.parse().map_err(|_| format!("{} holds no seeds: {line}", path.display()))).collect()
}

/// One line, which on a terminal is written over.
fn progress(text: &str) {
    let mut out = std::io::stderr();
    let (before, after) = if out.is_terminal() { ("\r\x1b[K", "") } else { ("", "\n") };
    let _ = write!(out, "{before}{text}{after}").and_then(|()| out.flush());
}
