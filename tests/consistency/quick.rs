//! The runs that every `cargo test` makes.

use std::time::Instant;

use libtest_mimic::{Failed, Trial};
use tokio::runtime::Runtime;

use crate::campaign::{Campaign, FaultKind, Fsync, Store, Tally};
use crate::workload::Workload;
use crate::{damage, disks, tools};

/// Runs at a time.
const JOBS: usize = 2;
const FULL_DISK: &str = "faults::the_disk_is_full_and_freed";
const NEARLY_FULL_DISK: &str = "faults::a_list_is_larger_than_the_room_that_is_left";

pub fn runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|e| e.to_string())
}

pub fn trials() -> Vec<Trial> {
    let mut trials = runs_of_campaigns();
    trials.extend(special_faults());
    trials
}

fn runs_of_campaigns() -> Vec<Trial> {
    vec![
        Trial::test("runs::in_memory", || {
            let campaign = Campaign {
                workload: Workload::All,
                server: None,
                store: Store::Memory,
                fsync: vec![Fsync::Group],
                faults: vec![],
                faults_per_run: 0,
                operations_per_run: 4_000,
                servers: 1,
                nodes: 1,
            };
            runs(campaign, 1..=4)
        }),
        Trial::test("runs::embedded_under_kills", || {
            let campaign = Campaign {
                workload: Workload::All,
                server: None,
                store: Store::Embedded,
                fsync: vec![Fsync::Group, Fsync::Interval],
                faults: vec![FaultKind::Kill, FaultKind::Kill, FaultKind::Kill, FaultKind::Term, FaultKind::Pause],
                faults_per_run: 4,
                operations_per_run: 4_000,
                servers: 1,
                nodes: 1,
            };
            let tally = runs_tallied(campaign, 1..=50)?;
            if tally.kills < 100 { Err(format!("only {} kills", tally.kills).into()) } else { Ok(()) }
        }),
        Trial::test("runs::while_the_pool_changes_its_size", || {
            let campaign = Campaign {
                workload: Workload::All,
                server: None,
                store: Store::Embedded,
                fsync: vec![Fsync::Group, Fsync::Interval],
                faults: vec![FaultKind::Resize],
                faults_per_run: 12,
                operations_per_run: 4_000,
                servers: 1,
                nodes: 1,
            };
            let tally = runs_tallied(campaign, 1..=6)?;
            if tally.not_done + tally.unknown > 0 {
                return Err(format!("{} calls failed while nothing else did", tally.not_done + tally.unknown).into());
            }
            Ok(())
        }),
        Trial::test("runs::cql_under_kills", || {
            let campaign = Campaign {
                workload: Workload::All,
                server: None,
                store: Store::Cql,
                fsync: vec![],
                faults: vec![FaultKind::Kill, FaultKind::Kill, FaultKind::Term, FaultKind::Pause, FaultKind::Resize],
                faults_per_run: 3,
                operations_per_run: 1_500,
                servers: 2,
                nodes: 1,
            };
            runs(campaign, 1..=4)
        }),
        Trial::test("runs::bags_on_cql_whose_connections_are_cut", || {
            let campaign = Campaign {
                workload: Workload::Bags,
                server: None,
                store: Store::Cql,
                fsync: vec![],
                // Drawn at random, mostly cuts.
                faults: [vec![FaultKind::Cut; 6], vec![FaultKind::Kill, FaultKind::Pause]].concat(),
                faults_per_run: 4,
                operations_per_run: 600,
                servers: 2,
                nodes: 1,
            };
            runs(campaign, 1..=2)
        }),
    ]
}

/// Faults that need tools, with separate tests.
fn special_faults() -> Vec<Trial> {
    vec![
        tools::trial("faults::the_clock_is_stepped", "libfaketime", tools::faketime(), |_| {
            let campaign = Campaign {
                workload: Workload::All,
                server: None,
                store: Store::Embedded,
                fsync: vec![Fsync::Group],
                faults: vec![FaultKind::Clock, FaultKind::Clock, FaultKind::Kill],
                faults_per_run: 8,
                operations_per_run: 4_000,
                servers: 1,
                nodes: 1,
            };
            runs(campaign, 1..=2)
        }),
        tools::trial("faults::an_fsync_fails_in_group_mode", "strace", tools::strace(), |()| {
            runtime()?.block_on(disks::failing_fsync("group"))
        }),
        tools::trial("faults::an_fsync_fails_in_interval_mode", "strace", tools::strace(), |()| {
            runtime()?.block_on(disks::failing_fsync("interval"))
        }),
        tools::trial("faults::fsyncs_are_slow", "strace", tools::strace(), |()| {
            runtime()?.block_on(disks::slow_fsync())
        }),
        Trial::test("faults::files_are_damaged", || runtime()?.block_on(damage::damaged_files())),
        tools::trial(FULL_DISK, "the right to mount", tools::own_mounts(), |way| {
            tools::with_own_mounts(way, FULL_DISK, || runtime()?.block_on(disks::full_disk()))
        }),
        tools::trial(NEARLY_FULL_DISK, "the right to mount", tools::own_mounts(), |way| {
            tools::with_own_mounts(way, NEARLY_FULL_DISK, || runtime()?.block_on(disks::nearly_full_disk()))
        }),
    ]
}

fn runs(campaign: Campaign, seeds: impl IntoIterator<Item = u64>) -> Result<(), Failed> {
    runs_tallied(campaign, seeds).map(|_| ())
}

fn runs_tallied(campaign: Campaign, seeds: impl IntoIterator<Item = u64>) -> Result<Tally, Failed> {
    let began = Instant::now();
    let tally = runtime()?.block_on(campaign.run_all(seeds, JOBS, |_, _| Ok(())))?;
    eprintln!("{tally}, {:.0} s in all", began.elapsed().as_secs_f64());
    Ok(tally)
}
