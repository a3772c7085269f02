//! Backups of sets.

use std::path::Path;

use liststore::items::embedded::{EmbeddedOptions, Fsync};
use liststore::items::{FileBackup, ItemStore, Removal};

use super::{KEYS, checked, member, name, op, set};
use crate::harness::{START, open, runtime, small_options};
use crate::sim_disk::SimDisk;

#[test]
fn a_backup_of_a_set_has_its_entries() {
    runtime().block_on(async {
        let (disk, set) = (SimDisk::default(), set(1, KEYS));
        let opened = open(&disk, small_options(Fsync::Group)).await;
        opened.session.add(&op(), &set, (0..20).map(|n| member(KEYS, n, START - n)).collect()).await.unwrap();
        opened.store.flush().unwrap();
        opened.session.remove(&op(), &set, &Removal::Members(vec![name(3)])).await.unwrap();
        opened.store.backup(Path::new("/backup"), &|| false, &mut || {}).unwrap();
        opened.session.remove_all(&op(), &set).await.unwrap();
        opened.store.close().await.unwrap();
        drop(opened);
        let options = EmbeddedOptions { dir: "/backup".into(), ..small_options(Fsync::Group) };
        let restored = open(&disk.killed(), options).await;
        assert_eq!(checked(&restored.session, &op(), &set, "restored").await.len(), 19);
        restored.session.add(&op(), &set, vec![member(KEYS, 5, START + 1), member(KEYS, 3, START)]).await.unwrap();
        assert_eq!(checked(&restored.session, &op(), &set, "restored and written to").await.len(), 20);
    });
}
