//! What `cache_bytes` means: about so much memory is resident, with more lists than have room in it. In a
//! process of its own, so that nobody else's memory is counted, and with the server's allocator.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use liststore::domain::ManualClock;
use liststore::items::ItemStore;
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore, Fsync};

use crate::harness::{START, at, item, list, newest, operation, runtime};
use crate::sim_disk::Rng;

const NAME: &str = "memory::a_store_of_many_lists_takes_about_the_memory_that_it_is_given";
const CHILD: &str = "LISTSTORE_TEST_MEMORY_CHILD";
const CACHE: u64 = 64 << 20;
const LISTS: u64 = 40_000;
const AT_ONCE: u64 = 100;

#[test]
fn a_store_of_many_lists_takes_about_the_memory_that_it_is_given() {
    if std::env::var_os(CHILD).is_some() {
        return runtime().block_on(fill());
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(CHILD, "1")
        // As `main.rs` has it.
        .env("MIMALLOC_PURGE_DELAY", "10000")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && told.contains("resident"), "{told}");
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
            // In front of the heads that are there.
            join_all(numbers.iter().map(|number| add(*number, START + 100 * (round + 1)))).await;
        }
        most = most.max(resident());
    }
    let taken = most - empty;
    eprintln!("{} MiB resident at most, of {} MiB given", taken >> 20, CACHE >> 20);
    assert!((CACHE / 2..CACHE * 4 / 3).contains(&taken), "{taken} bytes of {CACHE}");
    store.close().await.unwrap();
}
