//! Backups of a running store: each holds exactly the writes that were acknowledged when it began, and possibly writes
//! during it; and every byte of it counts.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

use liststore::domain::Item;
use liststore::items::embedded::{EmbeddedOptions, Fsync, OpenError, verify_on};
use liststore::items::{FileBackup, ItemStore, StoreError};
use proptest::prelude::*;

use crate::harness::{
    Model, SECOND, START, carry_out, everything, item, list, open, operation, random_change, runtime, small_options,
};
use crate::sim_disk::{Rng, SimDisk};

const LISTS: u64 = 3;

fn never() -> bool {
    false
}

async fn contents(disk: &SimDisk, options: &EmbeddedOptions, dir: &Path) -> Vec<Vec<Item>> {
    let opened = open(&disk.copy(), EmbeddedOptions { dir: dir.to_owned(), ..options.clone() }).await;
    let mut contents = Vec::new();
    for i in 0..LISTS {
        contents.push(opened.session.get(&operation(START, 60), &list(i), &everything()).await.unwrap().items);
    }
    opened.store.close().await.unwrap();
    contents
}

fn modelled(model: &Model) -> Vec<Vec<Item>> {
    let op = operation(START, 60);
    (0..LISTS).map(|i| model.visible(i, &op).into_iter().map(|(_, item, _)| item).collect()).collect()
}

fn assert_whole(disk: &SimDisk, options: &EmbeddedOptions, dir: &Path) {
    let found = verify_on(disk, dir, options.list_hash).unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}

/// Changes lists, flushes and compacts at random, makes backups in between, and checks all backups at the end, after
/// all later changes.
async fn run(seed: u64, options: EmbeddedOptions) {
    let mut rng = Rng(seed);
    let disk = SimDisk::default();
    let opened = open(&disk, options.clone()).await;
    let mut model = Model::default();
    let mut backups: Vec<(PathBuf, Model)> = Vec::new();
    for _ in 0..400 {
        match rng.below(40) {
            0 => opened.store.flush().unwrap(),
            1 => opened.store.compact().unwrap(),
            2 | 3 => {
                let links_fail = rng.one_in(2);
                disk.fail_links(links_fail);
                let dir = PathBuf::from(format!("/backup-{}", backups.len()));
                let made = opened.store.backup(&dir, &never, &mut || {}).unwrap();
                assert_eq!(made.copied_files, if links_fail { made.data_files } else { 0 });
                backups.push((dir, model.clone()));
            }
            _ => {
                let (list, change) = (rng.below(LISTS), random_change(&mut rng, START));
                carry_out(&opened.session, &operation(START, 60), list, &change).await.unwrap();
                model.apply(list, &change);
            }
        }
    }
    // A backup survives a loss of power, and the store that it was made from.
    opened.store.close().await.unwrap();
    let disk = disk.crashed(&mut rng);
    for (dir, model) in &backups {
        assert_whole(&disk, &options, dir);
        assert_eq!(contents(&disk, &options, dir).await, modelled(model), "{}", dir.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_backup_has_all_stored_items(seed: u64) {
        runtime().block_on(run(seed, small_options(Fsync::Group)));
    }

    #[test]
    fn a_backup_has_all_stored_items_in_interval_mode(seed: u64) {
        let interval = Fsync::Interval(std::time::Duration::from_millis(3));
        runtime().block_on(run(seed, small_options(interval)));
    }
}

/// Adds, log segments, flushes and compactions continue during backups.
#[test]
fn a_backup_under_load_has_all_earlier_acknowledged_writes() {
    const ITEMS: u64 = 5;
    let disk = SimDisk::default();
    let options = small_options(Fsync::Group);
    let runtime = runtime();
    let opened = runtime.block_on(open(&disk, options.clone()));
    let (acknowledged, made) = (AtomicU64::new(0), AtomicU64::new(0));
    let (ask, asked) = sync_channel(1);
    let backups = std::thread::scope(|scope| {
        let (store, acknowledged, made, disk) = (&opened.store, &acknowledged, &made, &disk);
        let backing_up = scope.spawn(move || {
            let mut backups = Vec::new();
            for () in asked {
                disk.fail_links(backups.len() % 2 == 1);
                let dir = PathBuf::from(format!("/backup-{}", backups.len()));
                let before = acknowledged.load(Ordering::Acquire);
                store.backup(&dir, &never, &mut || {}).unwrap();
                backups.push((dir, before));
                made.fetch_add(1, Ordering::Release);
            }
            backups
        });
        runtime.block_on(async {
            for round in 0..20_000 {
                if round >= 600 && made.load(Ordering::Acquire) > 3 {
                    break;
                }
                if round % 50 == 25 {
                    // Full while a backup is still being made: then the next one waits.
                    let _under_way = ask.try_send(());
                }
                let items = (0..ITEMS).map(|i| item(START - round * ITEMS - i, &[b'v'; 40], 60)).collect();
                opened.session.add(&operation(START, 60), &list(round % LISTS), items).await.unwrap();
                acknowledged.store(round + 1, Ordering::Release);
                match round % 50 {
                    30 => store.flush().unwrap(),
                    40 => store.compact().unwrap(),
                    _ => {}
                }
            }
        });
        drop(ask);
        backing_up.join().unwrap()
    });
    runtime.block_on(opened.store.close()).unwrap();
    assert!(backups.len() > 3, "{} backups", backups.len());
    for (dir, before) in backups {
        assert_whole(&disk, &options, &dir);
        let contents = runtime.block_on(contents(&disk, &options, &dir));
        let items: usize = contents.iter().map(Vec::len).sum();
        assert!(items as u64 >= before * ITEMS, "{items} items after {before} adds in {}", dir.display());
        // One after another: the contents are a prefix of the added items.
        let mut rounds: Vec<_> =
            contents.iter().flatten().map(|item| (START - item.timestamp.as_nanos()) / ITEMS).collect();
        rounds.sort_unstable();
        assert!(rounds.iter().enumerate().all(|(i, round)| *round == i as u64 / ITEMS), "{}", dir.display());
    }
}

#[test]
fn every_flipped_byte_of_a_backup_is_found_and_its_file_named() {
    let options = small_options(Fsync::Group);
    let disk = SimDisk::default();
    let dir = Path::new("/backup");
    runtime().block_on(async {
        let opened = open(&disk, options.clone()).await;
        for round in 0..80 {
            let items = (0..3).map(|i| item(START + SECOND - round * 7 - i, b"a value of some bytes", 60)).collect();
            opened.session.add(&operation(START, 60), &list(round % LISTS), items).await.unwrap();
            if round == 40 {
                opened.store.flush().unwrap();
            }
        }
        opened.store.backup(dir, &never, &mut || {}).unwrap();
        opened.store.close().await.unwrap();
    });
    let files: Vec<_> = disk.files().into_iter().filter(|path| path.starts_with(dir)).collect();
    let of = |kind: &str| files.iter().filter(|path| path.extension().is_some_and(|other| other == kind)).count();
    assert!(of("items") > 0 && of("log") > 1, "{files:?}");
    for path in &files {
        let whole = disk.content(path);
        for at in 0..whole.len() {
            let disk = disk.copy();
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            disk.set_content(path, bytes);
            let named = match verify_on(&disk, dir, options.list_hash) {
                Ok(found) => found.problems.iter().map(ToString::to_string).collect::<String>(),
                Err(error @ (OpenError::Damaged(_) | OpenError::Foreign { .. } | OpenError::Newer { .. })) => {
                    error.to_string()
                }
                Err(other) => panic!("{other}"),
            };
            // The part of the first segment that is in data files already is left out: a hole.
            let hole = whole[at] == 0 && path.extension().is_some_and(|kind| kind == "log");
            let about = path.parent().unwrap().to_str().unwrap();
            assert!(hole || named.contains(about), "{} byte {at}: {named:?}", path.display());
            if path.extension().is_some() && !named.is_empty() {
                assert!(named.contains(path.to_str().unwrap()), "{} byte {at}: {named}", path.display());
            }
        }
    }
}

#[test]
fn a_cancelled_backup_ends_and_the_store_continues() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let op = operation(START, 60);
        for round in 0..200 {
            let added = opened.session.add(&op, &list(0), vec![item(START - round, &[b'v'; 200], 60)]).await;
            added.unwrap();
            if round == 100 {
                let error = opened.store.backup(Path::new("/backup"), &|| true, &mut || {}).unwrap_err();
                assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
                assert!(verify_on(&disk, Path::new("/backup"), small_options(Fsync::Group).list_hash).is_err());
            }
        }
        opened.store.flush().unwrap();
        // The log's segments are given back as ever.
        let logs = disk
            .files()
            .into_iter()
            .filter(|path| path.starts_with("/data") && path.extension().unwrap_or_default() == "log");
        assert!(logs.count() <= 2);
    });
}
