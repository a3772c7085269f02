//! A disk that takes no more writes: stores refuse changes, go on reading, and recover by
//! themselves.
//!
//! A child process stands for the server. Its limit on file sizes (`RLIMIT_FSIZE`, with its signal
//! ignored) fails every write to a file as a full disk does, and is lifted again.

use std::process::Command;
use std::time::Duration;

use liststore::domain::{Clock, SystemClock};
use liststore::items::StoreError;
use liststore::items::embedded::Fsync;
use liststore::metadata::{MetadataError, MetadataStore};
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};

use crate::items::probe::{Probe, SECOND, fresh_feature_key, list_key, numbered, ttl};
use crate::metadata::sample::{ANY, by, create, feature_ttl, id, read, whole_history};
use crate::stores::open_embedded;

/// Longer than any recovery takes on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn stores_refuse_changes_while_the_disk_is_full_and_recover_when_it_is_not() {
    // A shell, since ignoring a signal takes unsafe code here; it is inherited.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["full_disk::child", "--exact", "--ignored"])
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

fn set_full(full: bool) {
    setrlimit(Resource::RLIMIT_FSIZE, if full { 1 } else { RLIM_INFINITY }, RLIM_INFINITY).unwrap();
}

/// Not a test of its own: its limits hold for its whole process.
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
    let open = || open_embedded(dir.path(), fsync, std::sync::Arc::new(SystemClock));
    let list = list_key(&fresh_feature_key(), "u");
    let probe = Probe::of(open(), list.clone(), SystemClock.now(), ttl(3_600)).await;
    let mut expected = Vec::new();
    for round in 0..3 {
        let items: Vec<_> = numbered(&format!("{round}/"), 500).into_iter().map(|value| (-SECOND, value)).collect();
        probe.add(&items).await;
        expected.extend(items);

        set_full(true);
        let refused = probe.try_add(&probe.op(), &[(0, "full")]).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
        assert!(probe.store.read_only().is_some());
        let again = probe.try_add(&probe.op(), &[(0, "full")]).await.unwrap_err();
        assert!(matches!(again, StoreError::Unavailable { outcome_unknown: false, .. }), "{again:?}");
        let removal = probe.session.remove_value(&probe.op(), &probe.list, expected[0].1.as_bytes()).await;
        assert!(matches!(removal, Err(StoreError::Unavailable { .. })), "{removal:?}");
        assert_eq!(probe.all().await, probe.in_order(&expected), "reads go on");

        set_full(false);
        recovered(&probe).await;
        // The refused add may have landed, as it said.
        let landed = probe.remove("full").await;
        assert!(landed == 0 || refused.outcome_unknown());
        assert_eq!(probe.all().await, probe.in_order(&expected));
        assert_eq!(probe.store.read_only(), None);
    }
    probe.store.close().await.unwrap();
    let base = probe.base;
    drop(probe);
    let reopened = Probe::of(open(), list, base, ttl(3_600)).await;
    assert_eq!(reopened.all().await, reopened.in_order(&expected));
    reopened.store.close().await.unwrap();
}

async fn recovered(probe: &Probe) {
    let tries = async {
        while probe.try_add(&probe.op(), &[(0, "again")]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(RECOVERY_TIMEOUT, tries).await.expect("the store did not recover");
    assert_eq!(probe.remove("again").await, 1);
}

async fn metadata() {
    let dir = tempfile::tempdir().unwrap();
    let store = liststore::metadata::embedded::open(dir.path()).unwrap();
    let id = id("user", "f");
    create(&store, &id).await;
    for round in 1..=3 {
        let before = store.update_feature(&id, feature_ttl(round), ANY, by("editor")).await.unwrap();
        set_full(true);
        for _ in 0..2 {
            let refused = store.update_feature(&id, feature_ttl(100), ANY, by("editor")).await.unwrap_err();
            assert!(matches!(refused, MetadataError::Unavailable { .. }), "{refused:?}");
        }
        assert_eq!(read(&store, &id).await, before, "reads go on");
        set_full(false);
        let after = store.update_feature(&id, feature_ttl(200), ANY, by("editor")).await.unwrap();
        assert_eq!(whole_history(&store, &id).await.unwrap().len() as u64, after.revision.0);
    }
    let last = read(&store, &id).await;
    drop(store);
    let reopened = liststore::metadata::embedded::open(dir.path()).unwrap();
    assert_eq!(read(&reopened, &id).await, last);
}
