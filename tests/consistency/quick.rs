//! The runs that every `cargo test` makes.

use std::time::Instant;

use libtest_mimic::{Failed, Trial};
use tokio::runtime::Runtime;

use crate::campaign::{Campaign, FaultKind, Fsync, Store, Tally};

pub fn runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|e| e.to_string())
}

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("runs::in_memory", || {
            let campaign = Campaign {
                store: Store::Memory,
                fsync: vec![Fsync::Group],
                faults: vec![],
                faults_per_run: 0,
                operations_per_run: 4_000,
            };
            runs(&campaign, 1..=4)
        }),
        Trial::test("runs::embedded_under_kills", || {
            let campaign = Campaign {
                store: Store::Embedded,
                fsync: vec![Fsync::Group, Fsync::Interval],
                faults: vec![FaultKind::Kill, FaultKind::Kill, FaultKind::Kill, FaultKind::Term, FaultKind::Pause],
                faults_per_run: 4,
                operations_per_run: 4_000,
            };
            let tally = runs_tallied(&campaign, 1..=50)?;
            if tally.kills < 100 { Err(format!("only {} kills", tally.kills).into()) } else { Ok(()) }
        }),
    ]
}

fn runs(campaign: &Campaign, seeds: impl IntoIterator<Item = u64>) -> Result<(), Failed> {
    runs_tallied(campaign, seeds).map(|_| ())
}

fn runs_tallied(campaign: &Campaign, seeds: impl IntoIterator<Item = u64>) -> Result<Tally, Failed> {
    let (began, runtime, mut tally) = (Instant::now(), runtime()?, Tally::default());
    for seed in seeds {
        tally.add(&runtime.block_on(campaign.run(seed))?);
    }
    eprintln!("{tally}, {:.0} s in all", began.elapsed().as_secs_f64());
    Ok(tally)
}
