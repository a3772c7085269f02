//! Items that become a part of a store, new or adopted, by starts that are interrupted at any operation of the disk.

use std::path::Path;

use liststore::data_dir::{DataDir, DataDirError, Part};
use liststore::domain::StoreId;
use liststore::items::ItemStore;
use liststore::items::embedded::{Disk, EmbeddedOptions, Fsync};

use crate::harness::{
    Change, DIR, Opened, START, carry_out, everything, item, list, open, operation, runtime, small_options, try_open,
};
use crate::sim_disk::{Rng, SimDisk};

/// More operations of the disk than a start takes.
const OPERATIONS_MAX: u64 = 300;

fn id(n: u128) -> StoreId {
    StoreId::new(n).unwrap()
}

/// Starts as a server does whose definitions are elsewhere.
async fn start(disk: &SimDisk, new_id: StoreId) -> Result<(Opened, DataDir), String> {
    let mut dir =
        DataDir::enter(disk, Path::new("/data"), &[Part::Items], new_id).map_err(|error| error.to_string())?;
    let options = EmbeddedOptions { belonging: dir.plan().belonging(Part::Items), ..small_options(Fsync::Group) };
    let opened = try_open(disk, options).await.map_err(|error| error.to_string())?;
    dir.complete(disk).map_err(|error| error.to_string())?;
    Ok((opened, dir))
}

async fn items_of(opened: &Opened) -> usize {
    opened.session.get(&operation(START, 600), &list(1), &everything()).await.unwrap().items.len()
}

async fn add(opened: &Opened, n: u64) {
    let change = Change::Add(vec![item(START - n, b"value", 600)]);
    carry_out(&opened.session, &operation(START, 600), 1, &change).await.unwrap();
}

/// Items in data files and in the log that belong to no store.
async fn of_no_store() -> SimDisk {
    let disk = SimDisk::default();
    let opened = open(&disk, small_options(Fsync::Group)).await;
    for n in 0..40 {
        add(&opened, n).await;
        if n == 20 {
            opened.store.flush().unwrap();
        }
    }
    opened.store.close().await.unwrap();
    drop(opened);
    disk.killed()
}

async fn cut_short_anywhere(disk: SimDisk, items: usize, crashed: impl Fn(&SimDisk, &mut Rng) -> SimDisk) {
    let mut rng = Rng(3);
    let mut completed = false;
    for operations in 0..OPERATIONS_MAX {
        let disk = disk.copy();
        disk.stop_after(operations);
        completed = start(&disk, id(1)).await.is_ok() && !disk.has_stopped();
        let disk = crashed(&disk, &mut rng);
        let started = start(&disk, id(2)).await;
        let (opened, dir) = started.unwrap_or_else(|error| panic!("cut short after {operations}: {error}"));
        assert_eq!(items_of(&opened).await, items, "cut short after {operations}");
        add(&opened, 1_000).await;
        let found = dir.plan().id();
        drop((opened, dir));
        // From now on it is that store, and no other.
        let disk = disk.crashed_hard();
        let (opened, dir) = start(&disk, id(3)).await.unwrap();
        assert_eq!((dir.plan().id(), items_of(&opened).await), (found, items + 1));
        if completed {
            return;
        }
    }
    assert!(completed, "no start came to its end");
}

#[test]
fn an_interrupted_first_start_leaves_a_directory_that_starts() {
    runtime().block_on(async {
        cut_short_anywhere(SimDisk::default(), 0, |disk, _| disk.killed()).await;
        cut_short_anywhere(SimDisk::default(), 0, SimDisk::crashed).await;
    });
}

#[test]
fn interrupted_starts_adopt_items_of_no_store() {
    runtime().block_on(async {
        let disk = of_no_store().await;
        cut_short_anywhere(disk.copy(), 40, |disk, _| disk.killed()).await;
        cut_short_anywhere(disk, 40, SimDisk::crashed).await;
    });
}

#[test]
fn files_of_another_store_are_refused_and_named() {
    runtime().block_on(async {
        let disks = [SimDisk::default(), SimDisk::default()];
        for (n, disk) in disks.iter().enumerate() {
            let (opened, _dir) = start(disk, id(n as u128 + 1)).await.unwrap();
            for n in 0..40 {
                add(&opened, n).await;
                if n == 20 {
                    opened.store.flush().unwrap();
                }
            }
            opened.store.close().await.unwrap();
        }
        let [ours, theirs] = disks;
        let (mut refused, mut harmless) = (Vec::new(), Vec::new());
        for path in ours.files().into_iter().filter(|path| theirs.files().contains(path)) {
            let mixed = ours.copy();
            mixed.set_content(&path, theirs.content(&path));
            match start(&mixed, id(9)).await {
                Ok((opened, _dir)) => {
                    assert_eq!(items_of(&opened).await, 40, "{}", path.display());
                    harmless.push(path);
                }
                Err(error) => {
                    assert!(error.contains("store") && error.contains("/data"), "{error}");
                    refused.push(path);
                }
            }
        }
        let harmless: Vec<_> = harmless.iter().map(|path| path.file_name().unwrap().to_string_lossy()).collect();
        let (logs, others): (Vec<_>, Vec<_>) = harmless.iter().partition(|name| name.ends_with(".log"));
        // A segment that was made ready, and not used.
        assert!(logs.len() <= 1, "{logs:?}");
        assert!(
            others.iter().all(|name| **name == "FORMAT" || **name == "DURABLE" || name.ends_with("spare")),
            "{others:?}"
        );
        assert!(refused.iter().any(|path| path.ends_with("STORE")) && refused.len() >= 4, "{refused:?}");
    });
}

#[test]
fn a_directory_without_its_items_is_refused_unchanged() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        drop(start(&disk, id(1)).await.unwrap());
        for path in disk.files().into_iter().filter(|path| path.starts_with(DIR)) {
            Disk::remove(&disk, &path).unwrap();
        }
        let files = disk.files();
        let error = start(&disk, id(2)).await.err().unwrap();
        assert!(error.contains("/data/items is missing"), "{error}");
        assert_eq!(disk.files(), files);
        let store = Path::new("/data/STORE");
        let mut bytes = disk.content(store);
        bytes[30] ^= 1;
        disk.set_content(store, bytes);
        let damaged = DataDir::enter(&disk, Path::new("/data"), &[Part::Items], id(2)).err().unwrap();
        assert!(matches!(&damaged, DataDirError::Damaged { path } if path == store), "{damaged}");
    });
}
