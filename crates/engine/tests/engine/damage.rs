//! Damaged files: the damage is named and refused, never guessed around; a log that was cut is read up to its end.

use std::path::{Path, PathBuf};

use liststore::domain::Item;
use liststore::items::ItemStore;
use liststore::items::embedded::{EmbeddedOptions, Fsync, OpenError, verify_on};

use crate::harness::{DEADLINE, DIR, START, everything, item, list, open, operation, runtime, small_options, try_open};
use crate::sim_disk::{Rng, SimDisk};

fn options() -> EmbeddedOptions {
    small_options(Fsync::Group)
}

/// Adds this many items one by one, each synced.
async fn fill(disk: &SimDisk, items: u64, flush: bool) {
    let opened = open(disk, options()).await;
    for i in 0..items {
        let item = item(START - i, format!("value-{i}").as_bytes(), 600);
        opened.session.add(&operation(START, 600), &list(i % 3), vec![item]).await.unwrap();
    }
    if flush {
        opened.store.flush().unwrap();
    }
    drop(opened);
}

async fn all(opened: &crate::harness::Opened) -> Result<Vec<Item>, liststore::items::StoreError> {
    let mut items = Vec::new();
    for i in 0..3 {
        items.extend(opened.session.get(&operation(START, 600), &list(i), &everything()).await?.items);
    }
    Ok(items)
}

fn logs(disk: &SimDisk) -> Vec<PathBuf> {
    disk.files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}

fn data_files(disk: &SimDisk) -> Vec<PathBuf> {
    disk.files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "items")).collect()
}

#[test]
fn a_truncated_log_is_read_up_to_its_end() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 12, false).await;
        let [log] = &logs(&disk)[..] else { panic!("one segment is enough for this test") };
        let whole = disk.content(log);
        let mut items_before = 0;
        for cut in 64..1_600 {
            let disk = disk.copy();
            // As after a loss of power, which may leave an old one.
            liststore::items::embedded::Disk::remove(&disk, &Path::new(DIR).join("DURABLE")).unwrap();
            disk.set_content(log, whole[..cut].to_vec());
            let opened = open(&disk, options()).await;
            let items = all(&opened).await.unwrap().len();
            assert!(items >= items_before, "cut at {cut}");
            items_before = items;
            // A later add survives the next start, next to the recovered items.
            let new = item(START, b"new", 600);
            opened.session.add(&operation(START, 600), &list(0), vec![new]).await.unwrap();
            drop(opened);
            assert_eq!(all(&open(&disk, options()).await).await.unwrap().len(), items + 1, "cut at {cut}");
        }
        assert_eq!(items_before, 12);
    });
}

/// The log alone cannot distinguish this from its torn end.
#[test]
fn a_log_truncated_after_its_close_is_refused_and_named() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 12, false).await;
        let [log] = &logs(&disk)[..] else { panic!("one segment is enough for this test") };
        let whole = disk.content(log);
        let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
        for cut in 0..=used {
            let disk = disk.copy();
            disk.set_content(log, whole[..cut].to_vec());
            let error = try_open(&disk, options()).await.err().expect("refused");
            assert!(matches!(&error, OpenError::Damaged(damage) if damage.file == *log), "cut at {cut}: {error}");
            assert!(verify_on(&disk, Path::new("/data"), options().list_hash).unwrap().problems.len() == 1);
        }
    });
}

#[test]
fn a_log_truncated_after_a_kill_is_refused_too() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, options()).await;
        for i in 0..12 {
            let item = item(START - i, format!("value-{i}").as_bytes(), 600);
            opened.session.add(&operation(START, 600), &list(0), vec![item]).await.unwrap();
        }
        // It is reported in the background, soon after it happens.
        let refused = async {
            loop {
                let killed = disk.killed();
                let logs = logs(&killed);
                let log = logs.last().unwrap();
                let whole = killed.content(log);
                let last_value = whole.windows(8).position(|window| window == b"value-11").unwrap();
                killed.set_content(log, whole[..last_value].to_vec());
                match try_open(&killed, options()).await {
                    Err(OpenError::Damaged(damage)) if damage.file == *log => return,
                    Err(other) => panic!("{other}"),
                    Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
                }
            }
        };
        tokio::time::timeout(DEADLINE, refused).await.expect("it is never reported");
    });
}

/// It only helps: without it, the log is unchanged.
#[test]
fn a_broken_note_of_the_durable_length_does_no_harm() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 12, false).await;
        let note = Path::new(DIR).join("DURABLE");
        let whole = disk.content(&note);
        let broken = (0..whole.len()).flat_map(|at| {
            let flipped = whole.iter().enumerate().map(|(i, byte)| byte ^ u8::from(i == at)).collect();
            [flipped, whole[..at].to_vec()]
        });
        for bytes in broken {
            let disk = disk.copy();
            disk.set_content(&note, bytes);
            assert_eq!(all(&open(&disk, options()).await).await.unwrap().len(), 12);
            assert!(disk.content(&note).starts_with(b"durable 0"));
        }
    });
}

#[test]
fn a_flipped_bit_in_the_log_is_refused_or_is_its_torn_end() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 60, false).await;
        let logs = logs(&disk);
        assert!(logs.len() > 1, "the log has several segments");
        let mut rng = Rng(7);
        let (mut refused, mut harmless) = (0, 0);
        for log in &logs {
            let whole = disk.content(log);
            let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
            for at in (0..=used).step_by(3) {
                let disk = disk.copy();
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << rng.below(8);
                disk.set_content(log, bytes);
                match try_open(&disk, options()).await {
                    Err(OpenError::Damaged(damage)) => {
                        assert_eq!(damage.file, *log);
                        assert!(damage.offset <= at as u64, "{damage}");
                        refused += 1;
                    }
                    Err(other) => panic!("{other}"),
                    // Padding, or a frame that only states that everything before it is durable.
                    Ok(opened) => {
                        assert_eq!(all(&opened).await.unwrap().len(), 60, "{} at {at}", log.display());
                        harmless += 1;
                    }
                }
            }
        }
        assert!(refused > 20 * harmless, "{refused} refused, {harmless} harmless");
    });
}

#[test]
fn a_log_truncated_in_its_first_bytes_is_refused() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 12, false).await;
        let [log] = &logs(&disk)[..] else { panic!("one segment is enough for this test") };
        for cut in 0..64 {
            let disk = disk.copy();
            disk.set_content(log, disk.content(log)[..cut].to_vec());
            let error = try_open(&disk, options()).await.err().expect("refused");
            assert!(matches!(&error, OpenError::Damaged(damage) if damage.file == *log), "{error}");
        }
    });
}

#[test]
fn a_missing_segment_is_refused() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 60, false).await;
        for log in &logs(&disk) {
            let disk = disk.copy();
            liststore::items::embedded::Disk::remove(&disk, log).unwrap();
            let error = try_open(&disk, options()).await.err().expect("refused");
            assert!(matches!(&error, OpenError::Damaged(damage) if damage.file == *log), "{error}");
        }
    });
}

#[test]
fn a_truncated_data_file_is_refused() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 40, true).await;
        for file in data_files(&disk) {
            let whole = disk.content(&file);
            for cut in 0..whole.len() {
                let disk = disk.copy();
                disk.set_content(&file, whole[..cut].to_vec());
                let error = try_open(&disk, options()).await.err().expect("refused");
                assert!(matches!(&error, OpenError::Damaged(damage) if damage.file == file), "{error}");
            }
        }
    });
}

#[test]
fn a_flipped_bit_in_a_data_file_is_refused_at_the_start_or_when_it_is_read() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 40, true).await;
        let mut rng = Rng(11);
        for file in data_files(&disk) {
            let whole = disk.content(&file);
            for at in 0..whole.len() {
                let disk = disk.copy();
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << rng.below(8);
                disk.set_content(&file, bytes);
                match try_open(&disk, options()).await {
                    Err(OpenError::Damaged(damage)) => assert_eq!(damage.file, file),
                    Err(other) => panic!("{other}"),
                    Ok(opened) => {
                        let error = all(&opened).await.expect_err("damage goes unnoticed").to_string();
                        assert!(error.contains(&*file.to_string_lossy()) && error.contains("byte"), "{error}");
                    }
                }
            }
        }
    });
}

#[test]
fn damage_in_one_file_leaves_other_lists_readable() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 40, true).await;
        let file = &data_files(&disk)[0];
        let mut bytes = disk.content(file);
        bytes[20] ^= 1;
        disk.set_content(file, bytes);
        let opened = open(&disk, options()).await;
        let mut readable = 0;
        for i in 0..3 {
            readable += usize::from(opened.session.get(&operation(START, 600), &list(i), &everything()).await.is_ok());
        }
        assert_eq!(readable, 2);
    });
}

#[test]
fn a_missing_data_file_and_a_missing_or_damaged_manifest_are_refused() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        fill(&disk, 40, true).await;
        let manifest = Path::new(DIR).join("MANIFEST");
        for path in [data_files(&disk)[0].clone(), manifest.clone()] {
            let disk = disk.copy();
            liststore::items::embedded::Disk::remove(&disk, &path).unwrap();
            let error = try_open(&disk, options()).await.err().expect("refused");
            assert!(matches!(&error, OpenError::Damaged(damage) if damage.file == path), "{error}");
        }
        let mut bytes = disk.content(&manifest);
        bytes[30] ^= 1;
        disk.set_content(&manifest, bytes);
        let error = try_open(&disk, options()).await.err().expect("refused");
        assert!(matches!(&error, OpenError::Damaged(damage) if damage.file == manifest), "{error}");
    });
}

/// Otherwise the store would start empty over the contents of the log.
#[test]
fn a_missing_manifest_is_refused_if_only_the_log_has_items() {
    runtime().block_on(async {
        let manifest = Path::new(DIR).join("MANIFEST");
        // A start continues in a new segment: the first one only proves that it is complete.
        for missing in [0..0, 0..1, 1..2] {
            let disk = SimDisk::default();
            fill(&disk, 60, false).await;
            assert_eq!(data_files(&disk), [] as [PathBuf; 0]);
            let logs = logs(&disk);
            assert_eq!(logs.len(), 2);
            for path in logs[missing].iter().chain([&manifest]) {
                liststore::items::embedded::Disk::remove(&disk, path).unwrap();
            }
            let files = disk.files();
            let error = try_open(&disk, options()).await.err().expect("refused");
            assert!(matches!(&error, OpenError::Damaged(damage) if damage.file == manifest), "{error}");
            assert_eq!(disk.files(), files);
        }
    });
}

#[test]
fn foreign_and_newer_directories_are_refused_unchanged() {
    runtime().block_on(async {
        for (name, content) in [
            ("keyspaces", "fjall"),
            ("FORMAT", "liststore items 2\n"),
            ("FORMAT", "liststore items 0\n"),
            ("FORMAT", "something"),
        ] {
            let disk = SimDisk::default();
            let path = Path::new(DIR).join(name);
            disk.set_content(&path, content.into());
            let error = try_open(&disk, options()).await.err().expect("refused");
            let newer = content.ends_with("2\n");
            assert!(matches!(&error, OpenError::Newer { found: 2, .. }) == newer, "{error}");
            assert!(matches!(&error, OpenError::Foreign { .. }) != newer, "{error}");
            assert_eq!(disk.files(), [path]);
        }
    });
}

#[test]
fn a_directory_in_use_is_refused() {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let opened = open(&disk, options()).await;
        assert!(matches!(try_open(&disk, options()).await, Err(OpenError::Locked { .. })));
        opened.store.close().await.unwrap();
        open(&disk, options()).await;
    });
}
