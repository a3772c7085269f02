//! Crashes between any two operations of the disk: what was acknowledged is there, what was not is
//! there whole or not at all, and the next start always succeeds.

use std::time::Duration;

use futures_util::future::join_all;
use liststore::items::ItemStore;
use liststore::items::embedded::{EmbeddedOptions, Fsync};
use proptest::prelude::*;

use crate::harness::{
    Change, Model, START, carry_out, everything, item, list, open, operation, random_change, runtime, small_options,
};
use crate::sim_disk::{Rng, SimDisk};

const LISTS: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// The process is killed: the kernel still has all that was written.
    Process,
    /// The machine loses power.
    Power,
}

/// Reads all lists back, as a model without the expiries.
async fn contents(disk: &SimDisk, options: &EmbeddedOptions) -> Vec<Vec<liststore::domain::Item>> {
    let opened = open(disk, options.clone()).await;
    let mut contents = Vec::new();
    for i in 0..LISTS {
        contents.push(opened.session.get(&operation(START, 600), &list(i), &everything()).await.unwrap().items);
    }
    opened.store.close().await.unwrap();
    contents
}

fn modelled(model: &Model) -> Vec<Vec<liststore::domain::Item>> {
    let op = operation(START, 600);
    (0..LISTS).map(|i| model.visible(i, &op).into_iter().map(|(_, item, _)| item).collect()).collect()
}

/// Changes lists one after the other until the disk stops; several times over.
async fn run(seed: u64, options: EmbeddedOptions, crash: Crash, all_must_be_there: bool) {
    let mut rng = Rng(seed);
    let mut disk = SimDisk::default();
    let mut model = Model::default();
    for _ in 0..4 {
        let opened = open(&disk, options.clone()).await;
        disk.stop_after(rng.below(300));
        // Every state since the start of this round; all but the last are acknowledged.
        let mut states = vec![model.clone()];
        for _ in 0..300 {
            let (list, change) = (rng.below(LISTS), random_change(&mut rng, START));
            model.apply(list, &change);
            states.push(model.clone());
            if carry_out(&opened.session, &operation(START, 600), list, &change).await.is_err() {
                break;
            }
            match rng.below(30) {
                0 => drop(opened.store.flush()),
                1 => drop(opened.store.compact()),
                _ => {}
            }
        }
        drop(opened);
        disk = match crash {
            Crash::Process => disk.killed(),
            Crash::Power => disk.crashed(&mut rng),
        };
        let found = contents(&disk, &options).await;
        let allowed = if all_must_be_there { states.len().saturating_sub(2) } else { 0 };
        let state = states[allowed..].iter().rposition(|state| modelled(state) == found);
        let state = state.expect("the lists are in none of the states that they may be in");
        model = states[allowed + state].clone();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_loss_of_power_takes_nothing_acknowledged_in_group_mode(seed: u64) {
        runtime().block_on(run(seed, small_options(Fsync::Group), Crash::Power, true));
    }

    #[test]
    fn a_kill_takes_nothing_acknowledged_in_group_mode(seed: u64) {
        runtime().block_on(run(seed, small_options(Fsync::Group), Crash::Process, true));
    }

    #[test]
    fn a_kill_takes_nothing_acknowledged_in_interval_mode(seed: u64) {
        let interval = Fsync::Interval(Duration::from_millis(3));
        runtime().block_on(run(seed, small_options(interval), Crash::Process, true));
    }

    #[test]
    fn a_loss_of_power_leaves_a_former_state_in_interval_mode(seed: u64) {
        let interval = Fsync::Interval(Duration::from_millis(3));
        runtime().block_on(run(seed, small_options(interval), Crash::Power, false));
    }
}

/// Many adds at once, so that groups have several: each is there whole or not at all.
async fn run_together(seed: u64) {
    let options = small_options(Fsync::Group);
    let mut rng = Rng(seed);
    let disk = SimDisk::default();
    let opened = open(&disk, options.clone()).await;
    disk.stop_after(20 + rng.below(200));
    let (mut model, mut uncertain) = (Model::default(), Vec::new());
    for round in 0..60_u64 {
        let adds: Vec<_> = (0..8_u64)
            .map(|i| {
                let value = |j: u64| format!("{round}-{i}-{j}").into_bytes();
                let items = (0..5).map(|j| item(START - 1_000 * round - j, &value(j), 600));
                (rng.below(LISTS), Change::Add(items.collect()))
            })
            .collect();
        let op = operation(START, 600);
        let done = join_all(adds.iter().map(|(list, change)| carry_out(&opened.session, &op, *list, change))).await;
        for ((list, change), done) in adds.into_iter().zip(done) {
            match done {
                Ok(_) => model.apply(list, &change),
                Err(_) => uncertain.push((list, change)),
            }
        }
        if disk.has_stopped() {
            break;
        }
    }
    drop(opened);
    let disk = disk.crashed(&mut rng);
    let found = contents(&disk, &options).await;
    for (list, change) in uncertain {
        let Change::Add(items) = &change else { continue };
        let there = items.iter().filter(|item| found[list as usize].iter().any(|other| other.value == item.value));
        match there.count() {
            0 => {}
            n if n == items.len() => model.apply(list, &change),
            n => panic!("{n} of {} items of an add are there", items.len()),
        }
    }
    assert_eq!(found, modelled(&model));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn an_add_in_a_torn_group_is_there_whole_or_not_at_all(seed: u64) {
        runtime().block_on(run_together(seed));
    }
}

/// What is older than the interval is not taken back.
#[test]
fn interval_mode_makes_writes_durable_by_itself() {
    runtime().block_on(async {
        let options = small_options(Fsync::Interval(Duration::from_millis(1)));
        let disk = SimDisk::default();
        let opened = open(&disk, options.clone()).await;
        opened.session.add(&operation(START, 600), &list(0), vec![item(START, b"v", 600)]).await.unwrap();
        let patience = tokio::time::Instant::now() + Duration::from_secs(10);
        for seed in 0..8 {
            // Of what is not synced, some seeds keep nothing.
            while contents(&disk.crashed(&mut Rng(seed)), &options).await[0].is_empty() {
                assert!(tokio::time::Instant::now() < patience, "it was never synced");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    });
}

/// What a start finds in the log is shown to readers, synced or not by the process before.
#[test]
fn what_was_recovered_after_a_kill_outlives_a_loss_of_power() {
    runtime().block_on(async {
        // Nothing is synced by itself within the test, nor written to data files.
        let interval = small_options(Fsync::Interval(Duration::from_secs(3_600)));
        let op = operation(START, 600);
        let disk = SimDisk::default();
        let opened = open(&disk, interval).await;
        for n in 0..45 {
            opened.session.add(&op, &list(0), vec![item(START - n, &[b'v'; 100], 600)]).await.unwrap();
        }
        let killed = disk.killed();
        drop(opened);
        let options = small_options(Fsync::Group);
        let opened = open(&killed, options.clone()).await;
        opened.session.add(&op, &list(0), vec![item(START + 1, b"later", 600)]).await.unwrap();
        for seed in 0..20 {
            let crashed = killed.crashed(&mut Rng(seed));
            assert_eq!(contents(&crashed, &options).await[0].len(), 46, "seed {seed}");
        }
    });
}
