//! A disk that accepts no more writes: stores refuse changes, continue to read, and recover automatically.
//!
//! A child process stands for the server. Its limit on file sizes (`RLIMIT_FSIZE`, with its signal ignored) is set to
//! the size of the largest file: from then on files do not grow, but their existing bytes can be overwritten, as on a
//! full disk. Later the limit is lifted.

use std::fs::{self, DirEntry};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{Clock, FeatureId, SystemClock};
use liststore::items::StoreError;
use liststore::items::embedded::Fsync;
use liststore::metadata::{Calls, FeaturePatch, MetadataError, MetadataStore};
use liststore::wire::Annotations;
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use tokio::time::Instant;

use crate::items::probe::{Probe, SECOND, fresh_feature_key, list_key, numbered, ttl};
use crate::metadata::sample::{ANY, by, create, description, id, page_size, read};
use crate::stores::open_embedded;

/// Longer than any recovery takes on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// More than fits into the space that the stores have reserved on the disk.
const ITEMS_MAX: usize = 400_000;
const CHANGES_MAX: u64 = 5_000;

#[test]
fn stores_refuse_changes_while_the_disk_is_full_and_recover_afterwards() {
    // A shell, because ignoring a signal needs unsafe code here. Children inherit it.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["full_disk::child", "--exact", "--ignored"])
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

fn fill_disk(dir: &Path) {
    setrlimit(Resource::RLIMIT_FSIZE, largest_file(dir), RLIM_INFINITY).unwrap();
}

fn free_disk() {
    setrlimit(Resource::RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY).unwrap();
}

fn largest_file(dir: &Path) -> u64 {
    let size = |entry: DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => largest_file(&entry.path()),
        // A file that a compaction has removed since counts as empty.
        metadata => metadata.map_or(0, |metadata| metadata.len()),
    };
    fs::read_dir(dir).unwrap().map(|entry| size(entry.unwrap())).max().unwrap_or(0)
}

/// Not a separate test: its limits apply to its whole process.
#[test]
#[ignore = "run by the test above, as a process of its own"]
fn child() {
    crate::run(async {
        for fsync in [Fsync::Group, Fsync::Interval(Duration::from_millis(50))] {
            items(fsync).await;
        }
        metadata().await;
    });
}

async fn items(fsync: Fsync) {
    let dir = tempfile::tempdir().unwrap();
    let open = || open_embedded(dir.path(), fsync, Arc::new(SystemClock));
    let list = list_key(&fresh_feature_key(), "u");
    let probe = Probe::of(open(), list.clone(), SystemClock.now(), ttl(3_600)).await;
    let (mut expected, mut batches) = (Vec::new(), (0..).map(batch));
    probe.add(&batches.next().unwrap()).await;
    expected.extend(batch(0));
    for _ in 0..3 {
        fill_disk(dir.path());
        let (refused_batch, refused) = loop {
            let batch = batches.next().unwrap();
            match probe.try_add(&probe.op(), &batch).await {
                Ok(()) => expected.extend(batch),
                Err(error) => break (batch, error),
            }
            assert!(expected.len() < ITEMS_MAX, "the disk never was full");
        };
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
        let again = probe.try_add(&probe.op(), &batches.next().unwrap()).await.unwrap_err();
        assert!(matches!(again, StoreError::Unavailable { outcome_unknown: false, .. }), "{again:?}");
        let present = probe.all().await;
        if present.len() != expected.len() {
            assert!(refused.outcome_unknown(), "what was refused for certain is there");
            expected.extend(refused_batch);
        }
        assert_eq!(present, probe.in_order(&expected), "reads go on");

        free_disk();
        recovered(&probe).await;
        assert_eq!(probe.store.read_only(), None);
        assert_eq!(probe.all().await, probe.in_order(&expected));
    }
    probe.store.close().await.unwrap();
    let base = probe.base;
    drop(probe);
    let reopened = Probe::of(open(), list, base, ttl(3_600)).await;
    assert_eq!(reopened.all().await, reopened.in_order(&expected));
    reopened.store.close().await.unwrap();
}

/// A thousand items of a quarter of a kilobyte.
fn batch(n: usize) -> Vec<(i64, String)> {
    numbered(&format!("{n}/{}/", "x".repeat(230)), 1_000).into_iter().map(|value| (-SECOND, value)).collect()
}

async fn recovered(probe: &Probe) {
    let give_up = Instant::now() + RECOVERY_TIMEOUT;
    while let Err(error) = probe.try_add(&probe.op(), &[(0, "again")]).await {
        assert!(Instant::now() < give_up, "the store did not recover: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(probe.remove("again").await, 1);
}

async fn metadata() {
    let dir = tempfile::tempdir().unwrap();
    let store = liststore::metadata::embedded::open(dir.path()).unwrap();
    let id = id("user", "f");
    let mut present = create(&store, &id).await;
    let mut texts = (0..).map(|n: u64| description(&format!("{n:02000}")));
    let mut change = || FeaturePatch::from(Annotations { description: texts.next(), ..Annotations::default() });
    for _ in 0..3 {
        fill_disk(dir.path());
        // The history grows with every change.
        let refused = loop {
            match store.update_feature(&id, change(), ANY, by("editor")).await {
                Ok(feature) => present = feature,
                Err(error) => break error,
            }
            assert!(present.revision.0 < CHANGES_MAX, "the disk never was full");
        };
        assert!(matches!(refused, MetadataError::Unavailable { .. }), "{refused:?}");
        assert_eq!(read(&store, &id).await, present, "reads go on");

        free_disk();
        present = store.update_feature(&id, change(), ANY, by("editor")).await.unwrap();
        let revisions = whole_revisions(&store, &id).await;
        assert_eq!(revisions, (1..=present.revision.0).rev().collect::<Vec<_>>());
    }
    drop(store);
    let reopened = liststore::metadata::embedded::open(dir.path()).unwrap();
    assert_eq!(read(&reopened, &id).await, present);
}

async fn whole_revisions(store: &dyn MetadataStore, id: &FeatureId) -> Vec<u64> {
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = store.history(id, before, page_size(100)).await.unwrap().unwrap();
        before = page.entries.last().map(|entry| entry.revision);
        seen.extend(page.entries.iter().map(|entry| entry.revision.0));
        if !page.more {
            return seen;
        }
    }
}
