//! A disk whose write-back really fails: ext4 on a loop device, over a full file system. The kernel continues to show
//! the bytes that it could not write, and the next fsync succeeds. They are gone once the file system is mounted
//! again. Stores that were opened again in between must not have relied on them.
//!
//! They may disappear earlier, if the kernel needs its memory. This disk cannot show that in `group` mode, because a
//! loop device confirms a write of which only a part had room.
//!
//! The test runs itself in a separate mount namespace, if the machine allows it. Where LISTSTORE_TEST_TOOLS is
//! `required`, every machine with loop devices must.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::domain::{Clock, SystemClock};
use liststore::items::embedded::{EmbeddedOptions, EmbeddedStore, Fsync};
use liststore::items::{ItemStore, StoreError};
use liststore::metadata::{Calls, FeaturePatch};
use liststore::wire::Annotations;
use prometheus::Registry;

use crate::items::probe::{Probe, SECOND, fresh_feature_key, list_key, numbered, ttl};
use crate::metadata::sample::{ANY, by, create, description, id, read};

const DIR: &str = "LISTSTORE_TEST_LOST_WRITES";
/// The exit status of the script if there are no loop devices, no mkfs.ext4, or no right to mount.
const CANNOT_MOUNT: i32 = 77;
/// Without a journal, because a failed journal would end all writing at once.
const SCRIPT: &str = r#"
    PATH=$PATH:/usr/sbin:/sbin
    mount -t tmpfs -o size=64m tmpfs "$1/below" && truncate -s 256M "$1/below/image" &&
        mkfs.ext4 -q -O ^has_journal "$1/below/image" && mount -o loop "$1/below/image" "$1/disk" || exit 77
    shift
    exec "$@"
"#;
/// Items that are added at once.
const BATCH: usize = 100;
/// Longer than a file system is busy.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(60);
/// More than fits.
const BATCHES_MAX: usize = 2_000;

#[test]
fn a_start_after_a_failed_fsync_makes_recovered_writes_durable() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["below", "disk"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .args(["lost_writes::child", "--exact", "--ignored", "--nocapture"])
        .env(DIR, dir.path())
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) if status.code() != Some(CANNOT_MOUNT) && status.code() != Some(1) => panic!("{status}"),
        // `unshare` itself ends with 1, as a failed test does with 101.
        other => {
            let required = std::env::var("LISTSTORE_TEST_TOOLS").is_ok_and(|value| value == "required");
            let has_loops = Path::new("/dev/loop-control").exists();
            assert!(!required || !has_loops, "this test needs mkfs.ext4 and the right to mount ({other:?})");
            eprintln!("not tested: no ext4 of its own can be mounted here ({other:?})");
        }
    }
}

/// Not a separate test: it needs the mounts of its process.
#[test]
#[ignore = "run by the test above, as a process of its own"]
fn child() {
    let disk = Disk(PathBuf::from(std::env::var_os(DIR).unwrap()));
    crate::run(async {
        for (name, fsync) in [("group", Fsync::Group), ("interval", Fsync::Interval(Duration::from_millis(20)))] {
            items(&disk, &disk.0.join("disk").join(name), fsync).await;
        }
        metadata(&disk, &disk.0.join("disk/definitions")).await;
    });
}

struct Disk(PathBuf);

impl Disk {
    fn fill(&self) {
        let mut filler = File::create(self.0.join("below/filler")).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("below/filler")).unwrap();
    }

    /// Drops everything that is not on the disk.
    async fn remount(&self) {
        let (image, disk) = (self.0.join("below/image"), self.0.join("disk"));
        for command in
            [Command::new("umount").arg(&disk), Command::new("mount").args(["-o", "loop"]).arg(image).arg(&disk)]
        {
            // Files and loop devices that were closed the kernel lets go of a little later, and is busy until then.
            let give_up = Instant::now() + MOUNT_TIMEOUT;
            while !command.status().unwrap().success() {
                assert!(Instant::now() < give_up, "{command:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn items(disk: &Disk, dir: &Path, fsync: Fsync) {
    // With this much memory nothing is flushed, and the log fills the disk.
    let open = || -> Arc<dyn ItemStore> {
        let options = EmbeddedOptions { fsync, cache_bytes: 1 << 30, ..EmbeddedOptions::new(dir) };
        Arc::new(EmbeddedStore::open(options, Arc::new(SystemClock), &Registry::new()).unwrap())
    };
    let (list, base) = (list_key(&fresh_feature_key(), "u"), SystemClock.now());
    let probe = Probe::of(open(), list.clone(), base, ttl(3_600)).await;
    let mut acknowledged = batch(0);
    probe.add(&acknowledged).await;
    disk.fill();
    let (refused, unknown) = loop {
        let next = batch(acknowledged.len());
        match probe.try_add(&probe.op(), &next).await {
            Ok(()) => acknowledged.extend(next),
            Err(error) => break (error, next),
        }
        assert!(acknowledged.len() < BATCHES_MAX * BATCH, "the disk never was full");
    };
    assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
    assert!(probe.store.read_only().is_some_and(|why| why.contains("fsync of the log failed")), "{refused}");
    let _read_only = probe.store.close().await;
    drop(probe);
    disk.free();

    let probe = Probe::of(open(), list.clone(), base, ttl(3_600)).await;
    let there = probe.all().await.len();
    let counts = format!("{there} items are there, {} were acknowledged ({fsync:?}, {refused:?})", acknowledged.len());
    if there > acknowledged.len() {
        assert_eq!(there, acknowledged.len() + unknown.len(), "{counts}");
        assert!(refused.outcome_unknown(), "what was refused for certain is there: {counts}");
        acknowledged.extend(unknown);
    } else if there < acknowledged.len() {
        // Writes without a confirmed fsync may be lost as by a loss of power: the newest, and whole adds.
        assert!(matches!(fsync, Fsync::Interval(_)), "what an fsync had confirmed is gone: {counts}");
        assert_eq!(there % BATCH, 0, "{counts}");
        acknowledged.truncate(there);
    }
    assert_eq!(probe.all().await, probe.in_order(&acknowledged));
    for n in 0..50 {
        let one = (-2 * SECOND, format!("later-{n}"));
        probe.add(std::slice::from_ref(&one)).await;
        acknowledged.push(one);
    }
    assert_eq!(probe.all().await, probe.in_order(&acknowledged));
    probe.store.close().await.unwrap();
    drop(probe);
    disk.remount().await;

    let probe = Probe::of(open(), list, base, ttl(3_600)).await;
    assert_eq!(probe.all().await, probe.in_order(&acknowledged));
    probe.store.close().await.unwrap();
}

/// A hundred items of two kilobytes.
fn batch(first: usize) -> Vec<(i64, String)> {
    numbered(&format!("{first}/{}/", "x".repeat(2_000)), BATCH).into_iter().map(|value| (-SECOND, value)).collect()
}

async fn metadata(disk: &Disk, dir: &Path) {
    let store = liststore::metadata::embedded::open(dir).unwrap();
    let id = id("user", "f");
    let mut present = create(&store, &id).await;
    let mut texts = (0..).map(|n: u64| description(&format!("{n:02000}")));
    let mut change = || FeaturePatch::from(Annotations { description: texts.next(), ..Annotations::default() });
    disk.fill();
    for n in 0.. {
        match store.update_feature(&id, change(), ANY, by("editor")).await {
            Ok(feature) => present = feature,
            Err(_) => break,
        }
        assert!(n < BATCHES_MAX, "the disk never was full");
    }
    disk.free();
    // It opens its file again automatically.
    for _ in 0..20 {
        present = store.update_feature(&id, change(), ANY, by("editor")).await.unwrap();
    }
    drop(store);
    disk.remount().await;
    assert_eq!(read(&liststore::metadata::embedded::open(dir).unwrap(), &id).await, present);
}
