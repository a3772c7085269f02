//! Crashes between any two operations of the disk, and failing syncs. Acknowledged writes exist, other writes are
//! complete or absent, and the next start always succeeds. The state that a start has shown survives any later crash.

use std::time::Duration;

use futures_util::future::join_all;
use liststore::items::ItemStore;
use liststore::items::embedded::{EmbeddedOptions, Fsync};
use proptest::prelude::*;

use crate::harness::{
    Change, DEADLINE, Model, Opened, START, carry_out, everything, item, list, open, operation, random_change, runtime,
    small_options, try_open,
};
use crate::sim_disk::{Rng, SimDisk};

const LISTS: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// The process is killed: the kernel still has all written data.
    Process,
    /// The machine loses power.
    Power,
    /// Now one, now the other.
    Either,
}

impl Crash {
    fn draw(self, rng: &mut Rng) -> Self {
        match self {
            Self::Either if rng.one_in(2) => Self::Power,
            Self::Either => Self::Process,
            one => one,
        }
    }
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

/// Changes lists one after the other until the disk stops or syncs fail; several times over.
async fn run(seed: u64, options: EmbeddedOptions, crash: Crash) {
    let mut rng = Rng(seed);
    let mut disk = SimDisk::default();
    let mut model = Model::default();
    for _ in 0..4 {
        let opened = open(&disk, options.clone()).await;
        disk.stop_or_fail_syncs(&mut rng, (300, 60));
        // Every state since the start of this round; all but the last are acknowledged.
        let mut states = vec![model.clone()];
        for _ in 0..300 {
            let (list, change) = (rng.below(LISTS), random_change(&mut rng, START));
            model.apply(list, &change);
            states.push(model.clone());
            if carry_out(&opened.session, &operation(START, 600), list, &change).await.is_err() {
                break;
            }
            opened.flush_or_compact_at_times(&mut rng, 30);
        }
        drop(opened);
        let crash = crash.draw(&mut rng);
        disk = match crash {
            Crash::Power => disk.crashed(&mut rng),
            _ => disk.killed(),
        };
        let found = contents(&disk, &options).await;
        // The data is on the disk now, and not only in the kernel's memory.
        disk.drop_caches();
        assert_eq!(contents(&disk, &options).await, found, "a start showed what was not on the disk");
        let all_must_be_there = options.fsync == Fsync::Group || crash == Crash::Process;
        let allowed = if all_must_be_there { states.len().saturating_sub(2) } else { 0 };
        let state = states[allowed..].iter().rposition(|state| modelled(state) == found);
        let state = state.expect("the lists are in none of the states that they may be in");
        model = states[allowed + state].clone();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_loss_of_power_loses_nothing_acknowledged_in_group_mode(seed: u64) {
        runtime().block_on(run(seed, small_options(Fsync::Group), Crash::Power));
    }

    #[test]
    fn a_kill_loses_nothing_acknowledged_in_group_mode(seed: u64) {
        runtime().block_on(run(seed, small_options(Fsync::Group), Crash::Process));
    }

    #[test]
    fn a_kill_loses_nothing_acknowledged_in_interval_mode(seed: u64) {
        let interval = Fsync::Interval(Duration::from_millis(3));
        runtime().block_on(run(seed, small_options(interval), Crash::Process));
    }

    #[test]
    fn a_loss_of_power_leaves_a_former_state_in_interval_mode(seed: u64) {
        let interval = Fsync::Interval(Duration::from_millis(3));
        runtime().block_on(run(seed, small_options(interval), Crash::Power));
    }

    #[test]
    fn alternating_kills_and_losses_of_power_lose_nothing_acknowledged_in_group_mode(seed: u64) {
        runtime().block_on(run(seed, small_options(Fsync::Group), Crash::Either));
    }

    #[test]
    fn writes_that_survived_a_kill_survive_losses_of_power_in_interval_mode(seed: u64) {
        let interval = Fsync::Interval(Duration::from_millis(3));
        runtime().block_on(run(seed, small_options(interval), Crash::Either));
    }
}

/// Many adds at once, so that groups have several. Each is complete or absent.
async fn run_together(seed: u64) {
    let options = small_options(Fsync::Group);
    let mut rng = Rng(seed);
    let disk = SimDisk::default();
    let opened = open(&disk, options.clone()).await;
    if rng.one_in(2) {
        disk.stop_after(20 + rng.below(200));
    } else {
        disk.fail_syncs_after(rng.below(60), rng.below(3));
    }
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
        if disk.has_stopped() || disk.has_failed_syncs() {
            break;
        }
    }
    drop(opened);
    let disk = if rng.one_in(2) { disk.crashed(&mut rng) } else { disk.killed() };
    let found = contents(&disk, &options).await;
    assert_eq!(contents(&disk.crashed_hard(), &options).await, found);
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
    fn an_add_in_a_torn_group_is_all_or_nothing(seed: u64) {
        runtime().block_on(run_together(seed));
    }
}

/// Writes that are older than the interval are not lost, also while the store is in use. Each add begins right after a
/// sync, and so waits for a whole interval. A busy machine only makes it later, so the quickest of many are checked.
#[test]
fn a_loss_of_power_loses_at_most_the_interval_in_interval_mode() {
    const INTERVAL: Duration = Duration::from_millis(400);
    runtime().block_on(async {
        let options = small_options(Fsync::Interval(INTERVAL));
        let disk = SimDisk::default();
        let opened = open(&disk, options.clone()).await;
        // A busy machine is late at times.
        let (mut at_risk, mut in_time) = (Vec::new(), 0);
        while in_time < 2 {
            let n = at_risk.len() as u64;
            assert!(n < 60, "{at_risk:?}");
            let value = format!("at-risk-{n}");
            opened
                .session
                .add(&operation(START, 600), &list(0), vec![item(START - n, value.as_bytes(), 600)])
                .await
                .unwrap();
            let acknowledged = tokio::time::Instant::now();
            let is_durable = || {
                let disk = disk.crashed_hard();
                let holds = |bytes: &[u8]| bytes.windows(value.len()).any(|window| window == value.as_bytes());
                disk.contents().iter().any(|(_, content)| holds(content))
            };
            while !is_durable() {
                assert!(acknowledged.elapsed() < DEADLINE, "it is never synced");
                opened.session.add(&operation(START, 600), &list(1), vec![item(START, b"goes on", 600)]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let elapsed = acknowledged.elapsed();
            at_risk.push(elapsed);
            in_time += usize::from(elapsed < 2 * INTERVAL);
        }
        let found = contents(&disk.crashed_hard(), &options).await;
        assert_eq!(found[0].len(), at_risk.len());
    });
}

/// Notes about items in other stores wait for this. The interval is an hour.
#[test]
fn writes_synced_on_demand_survive_a_loss_of_power_in_interval_mode() {
    runtime().block_on(async {
        let options = small_options(Fsync::Interval(Duration::from_secs(3_600)));
        let disk = SimDisk::default();
        let opened = open(&disk, options.clone()).await;
        for (list_number, is_synced) in [(0, true), (1, false)] {
            let items = vec![item(START, b"value", 600)];
            opened.session.add(&operation(START, 600), &list(list_number), items).await.unwrap();
            if is_synced {
                opened.store.sync().unwrap();
            }
        }
        let found = contents(&disk.crashed_hard(), &options).await;
        assert_eq!((found[0].len(), found[1].len()), (1, 0));
    });
}

/// A start shows readers the contents of the log, synced or not by the previous process.
#[test]
fn writes_recovered_after_a_kill_survive_a_loss_of_power() {
    runtime().block_on(async {
        // Nothing is synced automatically within the test, nor written to data files.
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

/// Linux continues to show the bytes that a failed fsync could not write, and the next fsync succeeds. A server that
/// was restarted, as its message requires, continued from that end of its log, acknowledged more behind it, and found
/// its log broken once the kernel's memory was gone. Here the end spans several segments, and the start that writes it
/// again may be interrupted, too.
#[test]
fn a_start_rewrites_data_that_a_failed_fsync_left_in_the_page_cache() {
    runtime().block_on(async {
        let op = operation(START, 600);
        let value = |n: u64| format!("{n:v>500}").into_bytes();
        let add = async |opened: &Opened, n: u64| {
            opened.session.add(&op, &list(0), vec![item(START - n, &value(n), 600)]).await.is_ok()
        };
        for fsync in [Fsync::Group, Fsync::Interval(Duration::from_secs(3_600))] {
            for stopped_after in (0..40).chain([u64::MAX - 1_000_000]) {
                let disk = SimDisk::default();
                let opened = open(&disk, small_options(fsync)).await;
                // The last segment is less than half full: none is being made ready when syncs fail.
                let mut expected = 0..24;
                for n in expected.clone() {
                    assert!(add(&opened, n).await);
                }
                if fsync == Fsync::Group {
                    // Its outcome is unknown, and it exists.
                    disk.fail_syncs_once_written(&value(expected.end));
                    assert!(!add(&opened, expected.end).await);
                    expected.end += 1;
                } else {
                    disk.fail_syncs();
                }
                // In `interval` mode the last fsync fails.
                assert!(opened.store.close().await.is_err());
                drop(opened);
                let disk = disk.killed();
                disk.stop_after(stopped_after);
                drop(try_open(&disk, small_options(Fsync::Group)).await);
                let disk = disk.killed();
                let opened = open(&disk, small_options(Fsync::Group)).await;
                for _ in 0..50 {
                    assert!(add(&opened, expected.end).await);
                    expected.end += 1;
                }
                drop(opened);
                let cold = disk.copy();
                cold.drop_caches();
                for disk in [cold, disk.crashed_hard()] {
                    let opened = open(&disk, small_options(Fsync::Group)).await;
                    let found = opened.session.get(&op, &list(0), &everything()).await.unwrap().items;
                    let times = found.iter().map(|item| START - item.timestamp.as_nanos());
                    assert!(times.eq(expected.clone()), "{} of {expected:?} are there", found.len());
                }
            }
        }
    });
}
