//! A clock that is hours ahead for a moment, while compactions run.

use liststore::items::ItemStore;
use liststore::items::embedded::Fsync;

use super::{ALL, LIFE, MEMBERS, checked, member, op, set};
use crate::harness::{SECOND, START, at, list, open, open_at, runtime, small_options};
use crate::sim_disk::SimDisk;

const HOUR: u64 = 3_600 * SECOND;

#[test]
fn a_clock_that_is_briefly_ahead_drops_neither_members_nor_entries() {
    runtime().block_on(async {
        for identity in ALL {
            let (disk, set) = (SimDisk::default(), set(0, identity));
            let opened = open(&disk, small_options(Fsync::Group)).await;
            let members = || (0..MEMBERS).map(|n| member(identity, n, START - n)).collect();
            opened.session.add(&op(), &set, members()).await.unwrap();
            opened.store.flush().unwrap();
            // Items have expired by this clock, and so have their entries.
            opened.clock.step(at(START + 10 * HOUR));
            opened.store.compact().unwrap();
            // A start does not trust the clock either.
            opened.store.close().await.unwrap();
            drop(opened);
            let opened = open_at(&disk, small_options(Fsync::Group), START + 10 * HOUR).await;
            opened.session.add(&op(), &list(1), members()).await.unwrap();
            opened.store.flush().unwrap();
            opened.store.compact().unwrap();
            opened.clock.step(at(START));
            let before = checked(&opened.session, &op(), &set, "after the step back").await;
            assert_eq!(before.len(), MEMBERS as usize);
            let moved = (0..MEMBERS).map(|n| member(identity, n, START + 1 + n)).collect();
            opened.session.add(&op(), &set, moved).await.unwrap();
            let after = checked(&opened.session, &op(), &set, "after an add").await;
            assert_eq!(after.len(), MEMBERS as usize);
        }
    });
}

#[test]
fn items_that_expired_while_the_store_was_closed_are_dropped_after_an_hour() {
    runtime().block_on(async {
        let (disk, list) = (SimDisk::default(), list(0));
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let items = (0..MEMBERS).map(|n| member(ALL[0], n, START - n)).collect();
        opened.session.add(&op(), &list, items).await.unwrap();
        opened.store.flush().unwrap();
        opened.store.close().await.unwrap();
        drop(opened);
        let opened = open_at(&disk, small_options(Fsync::Group), START + 2 * LIFE * SECOND).await;
        opened.store.compact().unwrap();
        assert_eq!(opened.counted("liststore_expired_items_dropped_total"), 0);
        opened.clock.set(at(START + 2 * LIFE * SECOND + HOUR));
        opened.store.compact().unwrap();
        assert_eq!(opened.counted("liststore_expired_items_dropped_total"), MEMBERS);
    });
}
