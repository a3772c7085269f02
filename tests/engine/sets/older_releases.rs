//! Sets that a release without reverse entries has left.

use std::path::Path;

use liststore::domain::Identity;
use liststore::items::embedded::{EmbeddedOptions, Fsync};
use liststore::items::{ItemStore, Removal};

use super::{KEYS, MEMBERS, VALUES, checked, member, name, op, set};
use crate::harness::{DIR, START, at, list, open, runtime, small_options};
use crate::sim_disk::{Rng, SimDisk};
/// As an older release left it: items alone, in files and in the log, and a format that says so.
async fn left_by_an_older_release(identity: Identity) -> SimDisk {
    let disk = SimDisk::default();
    let opened = open(&disk, small_options(Fsync::Group)).await;
    for n in 0..MEMBERS {
        // A list of items has no entries.
        opened.session.add(&op(), &list(0), vec![member(identity, n, START - n)]).await.unwrap();
        if n == MEMBERS / 2 {
            opened.store.flush().unwrap();
        }
    }
    opened.store.close().await.unwrap();
    drop(opened);
    let disk = disk.killed();
    disk.set_content(&Path::new(DIR).join("FORMAT"), b"liststore items 3\n".to_vec());
    disk
}

#[test]
fn sets_of_an_older_release_are_read_as_they_are_and_get_entries_with_their_first_write() {
    runtime().block_on(async {
        for identity in [VALUES, KEYS] {
            let mut disk = left_by_an_older_release(identity).await;
            let (set, other) = (set(0, identity), set(1, identity));
            for restart in 0..3 {
                let opened = open(&disk, small_options(Fsync::Group)).await;
                let what = format!("{identity}, restart {restart}");
                assert_eq!(checked(&opened.session, &op(), &set, &what).await.len() as u64, MEMBERS);
                if restart > 0 {
                    let moved = member(identity, 7, START + restart);
                    opened.session.add(&op(), &set, vec![moved]).await.unwrap();
                    let items = checked(&opened.session, &op(), &set, &what).await;
                    assert_eq!((items.len() as u64, items[0].timestamp), (MEMBERS, at(START + restart)), "{what}");
                    let removed = Removal::Members(vec![name(9), name(7)]);
                    assert_eq!(opened.session.remove(&op(), &set, &removed).await.unwrap(), 2);
                    let back = vec![member(identity, 9, START), member(identity, 7, START)];
                    opened.session.add(&op(), &set, back).await.unwrap();
                    // And one that is new.
                    opened.session.add(&op(), &other, vec![member(identity, 1, START)]).await.unwrap();
                    assert_eq!(checked(&opened.session, &op(), &other, &what).await.len(), 1);
                    opened.store.flush().unwrap();
                    opened.store.compact().unwrap();
                }
                opened.store.close().await.unwrap();
                drop(opened);
                disk = disk.killed();
            }
        }
    });
}

#[test]
fn entries_of_an_older_set_that_were_begun_and_not_ended_are_begun_anew() {
    runtime().block_on(async {
        for seed in 0..60 {
            let mut rng = Rng(seed);
            let disk = left_by_an_older_release(KEYS).await;
            let set = set(0, KEYS);
            let opened = open(&disk, small_options(Fsync::Group)).await;
            disk.stop_after(seed);
            let _maybe = opened.session.add(&op(), &set, vec![member(KEYS, 3, START + 1)]).await;
            drop(opened);
            let opened = open(&disk.crashed(&mut rng), small_options(Fsync::Group)).await;
            let what = format!("stopped after {seed}");
            checked(&opened.session, &op(), &set, &what).await;
            opened.session.add(&op(), &set, vec![member(KEYS, 4, START + 2)]).await.unwrap();
            assert_eq!(checked(&opened.session, &op(), &set, &what).await.len() as u64, MEMBERS);
        }
    });
}

#[test]
fn a_backup_of_sets_has_their_entries_and_knows_of_older_ones() {
    runtime().block_on(async {
        let disk = left_by_an_older_release(KEYS).await;
        let (old, new) = (set(0, KEYS), set(1, KEYS));
        let opened = open(&disk, small_options(Fsync::Group)).await;
        opened.session.add(&op(), &new, (0..20).map(|n| member(KEYS, n, START - n)).collect()).await.unwrap();
        opened.store.flush().unwrap();
        opened.session.remove(&op(), &new, &Removal::Members(vec![name(3)])).await.unwrap();
        opened.store.backup(Path::new("/backup"), &|| false, &mut || {}).unwrap();
        opened.session.remove_all(&op(), &new).await.unwrap();
        opened.store.close().await.unwrap();
        drop(opened);
        let options = EmbeddedOptions { dir: "/backup".into(), ..small_options(Fsync::Group) };
        let restored = open(&disk.killed(), options).await;
        for (set, members) in [(&old, MEMBERS), (&new, 19)] {
            assert_eq!(checked(&restored.session, &op(), set, "restored").await.len() as u64, members);
            restored.session.add(&op(), set, vec![member(KEYS, 5, START + 1), member(KEYS, 3, START)]).await.unwrap();
            let restored = checked(&restored.session, &op(), set, "restored and written to").await;
            assert_eq!(restored.len() as u64, members.max(20));
        }
    });
}
