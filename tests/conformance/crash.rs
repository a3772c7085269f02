//! A server process that is killed at random moments: nothing that it acknowledged is missing
//! afterwards, and no add is there in part.
//!
//! The test runs itself as a child process ([`child`]), which writes to a few lists and prints a line for each
//! acknowledgement. The seed determines the operations of a writer, so the parent knows each of them, and that at most
//! one was in flight when the child was killed. The engine has so little memory that it flushes and compacts
//! continuously, which is counted.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{Clock, ListKey, SystemClock, Timestamp};
use liststore::items::ItemStore;
use liststore::items::embedded::Fsync;
use prometheus::Registry;

use crate::items::probe::{Probe, feature_key, list_key, ttl};
use crate::stores::open_measured;

const DIR: &str = "LISTSTORE_TEST_CRASH_DIR";
const STORE: &str = "LISTSTORE_TEST_CRASH_STORE";
const SEED: &str = "LISTSTORE_TEST_CRASH_SEED";
const ROUND: &str = "LISTSTORE_TEST_CRASH_ROUND";
/// All rounds count their timestamps from here.
const BASE_NANOS: &str = "LISTSTORE_TEST_CRASH_BASE_NANOS";
/// More rounds for a longer run.
const ROUNDS: &str = "LISTSTORE_TEST_CRASH_ROUNDS";
const ROUNDS_DEFAULT: u64 = 50;

const WRITERS: u64 = 4;
const TAGS: u64 = 5;
/// The lists outlive the rounds, and are large enough for flushes and compactions.
const TTL_SECS: u64 = 86_400;

/// The stores under test, by the name that the child gets.
fn open(store: &str, dir: &Path, registry: &Registry) -> Arc<dyn ItemStore> {
    let fsync = match store {
        "embedded_group" => Fsync::Group,
        "embedded_interval" => Fsync::Interval(Duration::from_millis(100)),
        other => panic!("no store {other}"),
    };
    open_measured(dir, fsync, Arc::new(SystemClock), registry)
}

/// Flushes and compactions so far.
fn background_work(registry: &Registry) -> (u64, u64) {
    let families = registry.gather();
    let count = |name| {
        let family = families.iter().find(|family| family.name() == name).unwrap();
        family.get_metric()[0].get_counter().get_value() as u64
    };
    (count("liststore_flushes_total"), count("liststore_compactions_total"))
}

/// Whether a flush or a compaction was in progress when the process died: it has left a data file that the
/// manifest does not name.
fn died_at_work(dir: &Path) -> bool {
    let Ok(manifest) = std::fs::read_to_string(dir.join("items/MANIFEST")) else { return false };
    let named: BTreeSet<String> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("file ")?.split(' ').nth(1))
        .map(|number| format!("{number:0>10}.items"))
        .collect();
    let names = std::fs::read_dir(dir.join("items")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.any(|name| name.ends_with(".items") && !named.contains(&name))
}

#[test]
fn embedded_with_fsync_per_group_loses_nothing_when_it_is_killed() {
    kill_and_check("embedded_group");
}

#[test]
fn embedded_with_fsync_by_interval_loses_nothing_when_it_is_killed() {
    kill_and_check("embedded_interval");
}

/// SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast Splittable Pseudorandom Number Generators").
struct Random(u64);

impl Random {
    fn of(parts: &[u64]) -> Self {
        parts.iter().fold(Self(0), |mut random, part| Self(random.next() ^ part))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Values that come again and again.
fn tag(n: u64) -> Vec<u8> {
    format!("tag{n}").into_bytes()
}

type Item = (i64, Vec<u8>);

#[derive(Debug)]
enum Step {
    Add(Vec<Item>),
    RemoveValue(Vec<u8>),
    RemoveAll,
}

/// The steps of a writer in a round, one after another.
fn steps(seed: u64, round: u64, writer: u64) -> impl Iterator<Item = Step> {
    let mut random = Random::of(&[seed, round, writer]);
    (0_u64..).map(move |step| match random.below(40) {
        0 => Step::RemoveAll,
        1..=4 => Step::RemoveValue(tag(random.below(TAGS))),
        5..=10 => {
            Step::Add((0..=random.below(8)).map(|_| (-(random.below(1_000) as i64), tag(random.below(TAGS)))).collect())
        }
        _ => {
            let size = random.below(2_000) as usize;
            let items = (0..=random.below(20)).map(|n| {
                let mut value = format!("{round}/{writer}/{step}/{n}/").into_bytes();
                value.resize(value.len() + size, b'.');
                (-(random.below(1_000_000) as i64), value)
            });
            Step::Add(items.collect())
        }
    })
}

fn list(seed: u64, writer: u64) -> ListKey {
    list_key(&feature_key(&format!("crash-{seed}"), "", 1), &format!("u-{writer}"))
}

async fn probe(store: Arc<dyn ItemStore>, base: u64, list: ListKey) -> Probe {
    let base = Timestamp::from_nanos(base).unwrap();
    Probe::of(store, list, base, ttl(TTL_SECS)).await
}

fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

fn setting(name: &str) -> u64 {
    std::env::var(name).unwrap().parse().unwrap()
}

/// Not a separate test: the parent kills it.
#[test]
#[ignore = "run by the crash tests, as a process of its own"]
fn child() {
    let dir = std::env::var(DIR).expect("the crash tests run this");
    let store_name = std::env::var(STORE).unwrap();
    let (seed, round, base) = (setting(SEED), setting(ROUND), setting(BASE_NANOS));
    crate::run(async move {
        print_line("opening");
        let registry = Registry::new();
        let store = open(&store_name, Path::new(&dir), &registry);
        let writers = (0..WRITERS).map(|writer| {
            let (store, registry) = (Arc::clone(&store), registry.clone());
            tokio::task::spawn_local(async move {
                let probe = probe(store, base, list(seed, writer)).await;
                for step in steps(seed, round, writer) {
                    match step {
                        Step::Add(items) => probe.add(&items).await,
                        Step::RemoveValue(value) => drop(probe.remove(&value).await),
                        Step::RemoveAll => probe.remove_all().await,
                    }
                    let (flushes, compactions) = background_work(&registry);
                    print_line(&format!("done {writer} {flushes} {compactions}"));
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

fn kill_and_check(store: &str) {
    let seed = std::env::var(SEED).map_or_else(|_| uuid::Uuid::new_v4().as_u64_pair().1, |seed| seed.parse().unwrap());
    let rounds = std::env::var(ROUNDS).map_or(ROUNDS_DEFAULT, |rounds| rounds.parse().unwrap());
    eprintln!("{SEED}={seed} repeats what is written (not the moments of death)");
    let dir = tempfile::tempdir().unwrap();
    let base = SystemClock.now().as_nanos();
    let mut random = Random::of(&[seed]);
    let mut lists = vec![BTreeSet::new(); WRITERS as usize];
    let mut all = Done::default();
    let mut at_work = 0;
    // A machine whose background has little time gets more rounds.
    let is_enough = |all: &Done, at_work| all.flushes >= rounds / 2 && all.compactions >= rounds / 4 && at_work > 0;
    let mut made = 0;
    for round in 0..rounds * 4 {
        if round >= rounds && (rounds < 10 || is_enough(&all, at_work)) {
            break;
        }
        // Now and then while it opens, mostly while it writes.
        let kill_after = if random.below(5) == 0 { 0 } else { random.below(250) };
        let settings = [(SEED, seed), (BASE_NANOS, base), (ROUND, round)];
        let done = run_and_kill(store, dir.path(), settings, kill_after, &mut random);
        at_work += u64::from(died_at_work(dir.path()));
        all.add(&done);
        made += 1;
        crate::run(async {
            let opened = open(store, dir.path(), &Registry::new());
            for writer in 0..WRITERS {
                let probe = probe(Arc::clone(&opened), base, list(seed, writer)).await;
                let present: BTreeSet<Item> = probe.all().await.into_iter().collect();
                let before = &mut lists[writer as usize];
                check(before, &present, steps(seed, round, writer), done.operations[writer as usize]);
                *before = present;
            }
            opened.close().await.unwrap();
        });
    }
    eprintln!(
        "{made} rounds: {all:?}; {at_work} died during a flush or a compaction; {} items left",
        lists.iter().map(BTreeSet::len).sum::<usize>()
    );
    assert!(all.operations.iter().sum::<usize>() > 0, "no child ever wrote anything");
    assert!(rounds < 10 || is_enough(&all, at_work), "the engine had too little to do for this test to mean anything");
    crate::run(async {
        // Items are found by their values, too: the few that come often, and some of the others.
        let opened = open(store, dir.path(), &Registry::new());
        for (writer, mut present) in lists.into_iter().enumerate() {
            let probe = probe(Arc::clone(&opened), base, list(seed, writer as u64)).await;
            let rare: Vec<_> = present.iter().map(|(_, value)| value.clone()).step_by(50).collect();
            for value in rare.into_iter().chain((0..TAGS).map(tag)) {
                let count = present.iter().filter(|(_, present)| *present == value).count() as u64;
                assert_eq!(probe.remove(&value).await, count);
                present.retain(|(_, present)| *present != value);
            }
            assert_eq!(probe.all().await.into_iter().collect::<BTreeSet<_>>(), present);
        }
        opened.close().await.unwrap();
    });
}

/// The steps of a child.
#[derive(Debug, Default)]
struct Done {
    /// Acknowledged, of each writer.
    operations: [usize; WRITERS as usize],
    flushes: u64,
    compactions: u64,
}

impl Done {
    fn add(&mut self, other: &Self) {
        self.operations.iter_mut().zip(other.operations).for_each(|(sum, more)| *sum += more);
        self.flushes += other.flushes;
        self.compactions += other.compactions;
    }
}

/// Runs a child until it has printed this many lines, kills it, and returns its lines.
fn run_and_kill(store: &str, dir: &Path, settings: [(&str, u64); 3], kill_after: u64, random: &mut Random) -> Done {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::child", "--exact", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .env(STORE, store)
        .envs(settings.map(|(name, value)| (name, value.to_string())))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let opening = lines.by_ref().any(|line| line == "opening");
    assert!(opening, "the child did not start");
    let mut done = Done::default();
    // The test harness prints other lines, too.
    let mut count = |line: String| {
        if let Some(line) = line.strip_prefix("done ") {
            let mut numbers = line.split(' ').map(|number| number.parse::<u64>().unwrap());
            done.operations[numbers.next().unwrap() as usize] += 1;
            (done.flushes, done.compactions) = (numbers.next().unwrap(), numbers.next().unwrap());
        }
    };
    lines.by_ref().take(kill_after as usize).for_each(&mut count);
    if kill_after == 0 {
        // Somewhere in the opening: there is nothing to wait for.
        for _ in 0..random.below(2_000_000) {
            std::hint::spin_loop();
        }
    }
    child.kill().unwrap();
    lines.for_each(count);
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "the child ended by itself: {status}");
    done
}

/// Compares a list with the result of the acknowledged steps, and possibly of the one in flight: an add is complete or
/// absent, and a removal may be partial.
fn check(before: &BTreeSet<Item>, present: &BTreeSet<Item>, mut steps: impl Iterator<Item = Step>, done: usize) {
    let mut expected = before.clone();
    for step in steps.by_ref().take(done) {
        apply(&mut expected, &step);
    }
    if *present == expected {
        return;
    }
    let under_way = steps.next().unwrap();
    let mut after = expected.clone();
    apply(&mut after, &under_way);
    let agrees = match under_way {
        Step::Add(_) => *present == after,
        Step::RemoveValue(_) | Step::RemoveAll => present.is_subset(&expected) && present.is_superset(&after),
    };
    let missing = expected.difference(present).filter(|item| after.contains(item)).count();
    let strange = present.difference(&expected).count();
    assert!(
        agrees,
        "after {done} acknowledged operations, {missing} items are missing and {strange} are there that should not \
         be, with {under_way:?} under way"
    );
}

fn apply(items: &mut BTreeSet<Item>, step: &Step) {
    match step {
        Step::Add(added) => items.extend(added.iter().cloned()),
        Step::RemoveValue(value) => items.retain(|(_, present)| present != value),
        Step::RemoveAll => items.clear(),
    }
}
