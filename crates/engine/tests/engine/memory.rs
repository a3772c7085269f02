//! The meaning of `cache_bytes`: approximately this much memory is resident, with more lists than fit. In a separate
//! process, so that no other memory is counted, and with the server's allocator.

use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use liststore::domain::{Identity, Keep, ListKey, ManualClock, MemberKey};
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore, Fsync};
use liststore::items::{Bounds, ItemStore};

use crate::harness::{START, at, item, list, newest, operation, runtime};
use crate::sim_disk::Rng;

const NAME: &str = "memory::a_store_of_many_lists_takes_about_its_configured_memory";
const NAME_OF_REMOVAL: &str = "memory::a_removal_of_a_value_of_many_members_takes_little_memory";
const CHILD: &str = "LISTSTORE_TEST_MEMORY_CHILD";
const CACHE: u64 = 64 << 20;
const LISTS: u64 = 40_000;
const AT_ONCE: u64 = 100;

#[test]
fn a_store_of_many_lists_takes_about_its_configured_memory() {
    in_a_child(NAME, fill());
}

#[test]
fn a_removal_of_a_value_of_many_members_takes_little_memory() {
    in_a_child(NAME_OF_REMOVAL, remove_a_value());
}

fn in_a_child(name: &str, work: impl Future<Output = ()>) {
    if std::env::var_os(CHILD).is_some() {
        return runtime().block_on(work);
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        // As `main.rs` has it.
        .env("MIMALLOC_PURGE_DELAY", "10000")
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && reported.contains("resident"), "{reported}");
}

/// Bytes of memory that this process has to itself.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Some lists of one short item, most of a few, and some of many.
fn items_of(list: u64) -> u64 {
    [1, 5, 10, 20, 60][(list % 5) as usize]
}

async fn fill() {
    let dir = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        fsync: Fsync::Interval(Duration::from_secs(1)),
        cache_bytes: CACHE,
        ..EmbeddedOptions::new(dir.path())
    };
    let clock = Arc::new(ManualClock::at(at(START)));
    let store = EmbeddedStore::open(options, clock, &prometheus::Registry::new()).unwrap();
    let session = store.open_session().await.unwrap();
    let op = || operation(START, 600);
    let add = async |number: u64, newest: u64| {
        let value = [b'v'; 80];
        let len = |n: u64| (number + n) as usize % value.len();
        let items = (0..items_of(number)).map(|n| item(newest - n, &value[..len(n)], 600)).collect();
        session.add(&op(), &list(number), items).await.unwrap();
    };
    let (empty, mut most) = (resident(), 0);
    for first in (0..LISTS).step_by(AT_ONCE as usize) {
        join_all((first..first + AT_ONCE).map(|number| add(number, START))).await;
        most = most.max(resident());
    }
    let mut rng = Rng(1);
    for round in 0..2 * LISTS / AT_ONCE {
        let numbers: Vec<_> = (0..AT_ONCE).map(|_| rng.below(LISTS)).collect();
        join_all(numbers.iter().map(async |number| {
            let page = session.get(&op(), &list(*number), &newest(50)).await.unwrap();
            assert!(!page.items.is_empty());
        }))
        .await;
        if round % 10 == 0 {
            // Before the existing heads.
            join_all(numbers.iter().map(|number| add(*number, START + 100 * (round + 1)))).await;
        }
        most = most.max(resident());
    }
    let taken = most - empty;
    eprintln!("{} MiB resident at most, of {} MiB given", taken >> 20, CACHE >> 20);
    assert!((CACHE / 2..CACHE * 4 / 3).contains(&taken), "{taken} bytes of {CACHE}");
    store.close().await.unwrap();
}

/// A set whose members all have the same value takes many times the memory of its removal.
async fn remove_a_value() {
    const MEMBERS: u64 = 1_600;
    static VALUE: [u8; 60_000] = [7; 60_000];
    const TAKEN_MAX: u64 = 40 << 20;
    let dir = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        fsync: Fsync::Interval(Duration::from_secs(1)),
        cache_bytes: 8 << 20,
        ..EmbeddedOptions::new(dir.path())
    };
    let clock = Arc::new(ManualClock::at(at(START)));
    let store = EmbeddedStore::open(options, clock, &prometheus::Registry::new()).unwrap();
    let session = store.open_session().await.unwrap();
    let ListKey { feature_key, entity_id, .. } = list(0);
    let set = ListKey::new(feature_key.with_identity(Identity::Key(Keep::Newest)), entity_id);
    let op = || operation(START, 600);
    for n in 0..MEMBERS {
        let name = format!("member-{n}");
        let stored = MemberKey::new(&name).unwrap().store(&VALUE);
        session.add(&op(), &set, vec![item(START + n, &stored, 600)]).await.unwrap();
    }
    store.flush().unwrap();
    let (before, mut most) = (resident(), 0);
    let removing = op();
    let mut removal = pin!(session.remove_value(&removing, &set, &VALUE));
    let removed = loop {
        tokio::select! {
            removed = &mut removal => break removed.unwrap(),
            () = tokio::task::yield_now() => most = most.max(resident()),
        }
    };
    assert_eq!(removed, MEMBERS);
    let taken = most.saturating_sub(before);
    eprintln!("{} MiB resident at most while {} MiB were removed", taken >> 20, (MEMBERS * VALUE.len() as u64) >> 20);
    assert!(taken < TAKEN_MAX, "{taken} bytes");
    let one = session.lookup(&op(), &set, &["member-1".into()]).await.unwrap();
    assert_eq!(one, [None]);
    let count = session.count(&op(), &set, &Bounds::ALL, 10).await.unwrap();
    assert_eq!(count.items, 0);
    store.close().await.unwrap();
}
