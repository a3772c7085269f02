//! Freed space: a compaction removes items that a Remove All hides, and lists that no operation can read.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use liststore::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ListKey, MaxItems, VersionLabel,
};
use liststore::items::embedded::{EmbeddedOptions, Fsync};
use liststore::items::{ItemStore, OpContext, Reclaim};

use crate::harness::{DEADLINE, Opened, START, everything, item, list, open, operation, runtime, small_options};
use crate::sim_disk::SimDisk;

const ITEMS: u64 = 5_000;
/// Longer than the interval of checks for reclaimable space.
const QUIET: Duration = Duration::from_secs(7);

fn options() -> EmbeddedOptions {
    EmbeddedOptions { data_file_bytes: 64 << 10, log_segment_bytes: 1 << 20, ..small_options(Fsync::Group) }
}

/// Bytes of data files.
fn stored(disk: &SimDisk) -> usize {
    // Compactions remove files at the same time: names and contents must be of one moment.
    let data_files =
        disk.contents().into_iter().filter(|(path, _)| path.extension().is_some_and(|name| name == "items"));
    data_files.map(|(_, content)| content.len()).sum()
}

fn data_files(disk: &SimDisk) -> Vec<PathBuf> {
    let names = disk.contents().into_iter().map(|(path, _)| path);
    names.filter(|path| path.extension().is_some_and(|name| name == "items")).collect()
}

async fn until_less_is_stored(disk: &SimDisk, than: usize) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while stored(disk) >= than {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{} bytes are still stored", stored(disk)));
}

/// Waits until no compaction follows, because each would write other files.
async fn settled(disk: &SimDisk) {
    let mut last = (data_files(disk), Instant::now());
    let settled = tokio::time::timeout(DEADLINE, async {
        while last.1.elapsed() < QUIET {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = data_files(disk);
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
    });
    settled.await.expect("compactions continue although they free nothing");
}

/// About half a megabyte of one list.
async fn fill(opened: &Opened, list: &ListKey) {
    for from in (0..ITEMS).step_by(500) {
        let value = |n: u64| [n.to_string().into_bytes(), vec![b'v'; 100]].concat();
        let items = (from..from + 500).map(|n| item(START - n, &value(n), 600)).collect();
        opened.session.add(&operation(START, 600), list, items).await.unwrap();
    }
    opened.store.flush().unwrap();
}

#[test]
fn the_bytes_of_an_emptied_list_are_freed_soon() {
    runtime().block_on(async {
        for restart in [false, true] {
            let mut disk = SimDisk::default();
            let mut opened = open(&disk, options()).await;
            fill(&opened, &list(0)).await;
            let before = stored(&disk);
            assert!(before > 400_000, "{before}");
            opened.session.remove_all(&operation(START, 600), &list(0)).await.unwrap();
            if restart {
                // Only the log contains it.
                disk = disk.killed();
                opened = open(&disk, options()).await;
            }
            until_less_is_stored(&disk, before / 10).await;
            let page = opened.session.get(&operation(START, 600), &list(0), &everything()).await.unwrap();
            assert!(page.items.is_empty());
        }
    });
}

/// The mark may have come to a data file before the compaction did, and the compaction before the end.
#[test]
fn a_clear_mark_counts_its_hidden_items_after_a_start_too() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, options()).await;
        fill(&opened, &list(0)).await;
        let before = stored(&disk);
        disk.hold_compactions(true);
        opened.session.remove_all(&operation(START, 600), &list(0)).await.unwrap();
        opened.session.add(&operation(START, 600), &list(0), vec![item(START, b"kept", 600)]).await.unwrap();
        opened.store.flush().unwrap();
        let killed = disk.killed();
        disk.hold_compactions(false);
        drop(opened);
        let opened = open(&killed, options()).await;
        until_less_is_stored(&killed, before / 10).await;
        let page = opened.session.get(&operation(START, 600), &list(0), &everything()).await.unwrap();
        assert_eq!(page.items.len(), 1);
    });
}

/// Nothing is written: the bound alone is another.
#[test]
fn a_lowered_bound_frees_hidden_items_soon_and_no_visible_ones() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let mut opened = open(&disk, options()).await;
        let bound = Arc::new(AtomicU64::new(ITEMS));
        let bind = |opened: &Opened| {
            let bound = Arc::clone(&bound);
            let of = move |key: &str| {
                let is_bounded = key == list(0).feature_key.as_str();
                let items = MaxItems::new(bound.load(Ordering::Acquire)).ok().filter(|_| is_bounded)?;
                Some((operation(START, 600).ttl, items))
            };
            opened.store.bound(Arc::new(of));
        };
        let op = |items: u64| OpContext { max_items: MaxItems::new(items).ok(), ..operation(START, 600) };
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::new("unbounded").unwrap(), Generation::FIRST);
        let other = ListKey::new(key, EntityId::new("u-1").unwrap());
        bind(&opened);
        fill(&opened, &list(0)).await;
        fill(&opened, &other).await;
        // Many short lists, several in each block.
        for n in 1..=200 {
            let items = (0..40).map(|at| item(START - at, format!("short-{n}-{at}").as_bytes(), 600)).collect();
            opened.session.add(&operation(START, 600), &list(n), items).await.unwrap();
        }
        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        let before = stored(&disk);
        assert!(before > 1_100_000, "{before}");
        // The bound of all is lowered twice, the second time without a running thread that could notice.
        bound.store(1_000, Ordering::Release);
        until_less_is_stored(&disk, before * 7 / 10).await;
        let count = async |opened: &Opened, list: &ListKey| {
            opened.session.get(&op(ITEMS), list, &everything()).await.unwrap().items.len() as u64
        };
        assert_eq!((count(&opened, &list(0)).await, count(&opened, &other).await), (1_000, ITEMS));
        assert_eq!(count(&opened, &list(7)).await, 40);
        let before = stored(&disk);
        opened.store.close().await.unwrap();
        drop(opened);
        bound.store(2, Ordering::Release);
        opened = open(&disk, options()).await;
        bind(&opened);
        until_less_is_stored(&disk, before - 150_000).await;
        let cut_lists = async || {
            let mut cut = 0;
            for n in 0..=200 {
                let page = opened.session.get(&op(ITEMS), &list(n), &everything()).await.unwrap();
                let times: Vec<_> = page.items.iter().map(|item| START - item.timestamp.as_nanos()).collect();
                assert_eq!(times[..2], [0, 1], "of the list {n}");
                cut += usize::from(times.len() == 2);
            }
            cut
        };
        // In the partition of the unbounded list, too little would be freed.
        let enough = async {
            while cut_lists().await < 170 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(DEADLINE, enough).await.expect("too few of 201 lists are cut");
        // Once that is done no compaction of these lists follows.
        settled(&disk).await;
        assert!(cut_lists().await >= 170);
        assert_eq!(count(&opened, &other).await, ITEMS);
    });
}

/// The newest items have long values, one in a block, and the others are denser. None of them is beyond the bound, or
/// all of them, which are few bytes.
#[test]
fn few_dead_bytes_among_unequal_values_cause_no_compaction() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, options()).await;
        let (is_lowered, is_asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (lowered, asked) = (Arc::clone(&is_lowered), Arc::clone(&is_asked));
        opened.store.bound(Arc::new(move |key| {
            let lowered = lowered.load(Ordering::Acquire);
            asked.fetch_or(lowered, Ordering::AcqRel);
            let items = match key {
                _ if !lowered => MaxItems::MAX,
                "user#seen|few" => MaxItems::new(5_500).unwrap(),
                "user#seen|many" => MaxItems::new(1_100).unwrap(),
                _ => MaxItems::new(100).unwrap(),
            };
            Some((operation(START, 600).ttl, items))
        }));
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        for (name, long, short, len) in [("few", 500, 5_000, 400), ("many", 100, 1_000, 20), ("light", 100, 1_000, 20)]
        {
            let key = FeatureKey::new(&id, &VersionLabel::new(name).unwrap(), Generation::FIRST);
            let list = ListKey::new(key, EntityId::new("u-1").unwrap());
            let value = |n: u64| [n.to_string().into_bytes(), vec![b'v'; if n < long { 3_000 } else { len }]].concat();
            for from in (0..long + short).step_by(100) {
                let items = (from..from + 100).map(|n| item(START - n, &value(n), 600)).collect();
                opened.session.add(&operation(START, 600), &list, items).await.unwrap();
            }
        }
        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        let before = data_files(&disk);
        assert!(before.len() > 10, "{before:?}");
        is_lowered.store(true, Ordering::Release);
        let is_noticed = tokio::time::timeout(DEADLINE, async {
            while !is_asked.load(Ordering::Acquire) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        is_noticed.await.expect("no compaction asks for the bound");
        settled(&disk).await;
        assert_eq!(data_files(&disk), before);
    });
}

#[test]
fn unreachable_lists_are_dropped_and_others_are_not() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, options()).await;
        let deleted = Arc::new(AtomicBool::new(false));
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::new("gone").unwrap(), Generation::FIRST);
        let gone = ListKey::new(key, EntityId::new("u-1").unwrap());
        fill(&opened, &gone).await;
        fill(&opened, &list(0)).await;
        let before = stored(&disk);
        let asked = Arc::clone(&deleted);
        opened.store.forget(Arc::new(move |key| key == "user#seen|gone" && asked.load(Ordering::Acquire)));
        opened.store.compact().unwrap();
        let count = async |list: &ListKey| {
            opened.session.get(&operation(START, 600), list, &everything()).await.unwrap().items.len() as u64
        };
        assert_eq!((count(&gone).await, count(&list(0)).await), (ITEMS, ITEMS));
        deleted.store(true, Ordering::Release);
        until_less_is_stored(&disk, before * 6 / 10).await;
        assert_eq!((count(&gone).await, count(&list(0)).await), (0, ITEMS));
    });
}
