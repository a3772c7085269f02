//! The cost of finding, writing and storing members: read blocks, and bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use liststore::domain::ListKey;
use liststore::items::{Bounds, Removal};

use super::{VALUES, set, spacious_options, walk};
use crate::harness::{Opened, SECOND, START, at, item, open, operation, runtime};
use crate::sim_disk::SimDisk;
/// A set of this many members of 12 bytes, seconds apart.
async fn filled(disk: &SimDisk, set: &ListKey, members: u64) -> Opened {
    let opened = open(disk, spacious_options()).await;
    let one = |n: u64| item(START - n * SECOND, format!("{n:012}").as_bytes(), 100_000_000);
    for first in (0..members).step_by(1_000) {
        let items = (first..members.min(first + 1_000)).map(one).collect();
        opened.session.add(&operation(START, 100_000_000), set, items).await.unwrap();
    }
    opened.store.flush().unwrap();
    opened.store.compact().unwrap();
    opened
}

/// Blocks of data files that are read, which does not depend on the machine.
#[test]
fn members_of_long_sets_cost_as_few_blocks_as_of_short_ones() {
    runtime().block_on(async {
        let mut reads = Vec::new();
        for members in [100, 100_000] {
            let (disk, set) = (SimDisk::default(), set(0, VALUES));
            let opened = filled(&disk, &set, members).await;
            let op = operation(START, 100_000_000);
            let mut since = disk.data_reads();
            let mut blocks = || {
                let reads = disk.data_reads() - since;
                since += reads;
                reads
            };
            let there = |n: u64| Bytes::from(format!("{n:012}"));
            let found = opened.session.lookup(&op, &set, &[there(members / 2)]).await.unwrap();
            assert!(found[0].is_some());
            let looked_up = blocks();
            assert_eq!(opened.session.lookup(&op, &set, &["none".into()]).await.unwrap(), [None]);
            let missed = blocks();
            opened.session.add(&op, &set, vec![item(START + 1, b"new", 600)]).await.unwrap();
            let added = blocks();
            opened.session.add(&op, &set, vec![item(START + 2, &there(members / 3), 600)]).await.unwrap();
            let moved = blocks();
            assert_eq!(opened.session.remove(&op, &set, &Removal::Members(vec![there(members / 4)])).await.unwrap(), 1);
            reads.push([looked_up, missed, added, moved, blocks()]);
        }
        // One block of either list, or of the one in which a member is not.
        assert_eq!(reads, [[2, 1, 1, 2, 2], [2, 1, 1, 2, 2]], "lookup, of none, add, move, removal");
    });
}

/// Data that need not be requested from the disk must be updated by every write.
#[test]
fn a_frequently_searched_set_is_served_from_memory_and_stays_current() {
    const LONG: u64 = 3_000;
    runtime().block_on(async {
        let op = operation(START, 100_000_000);
        let (disk, set) = (SimDisk::default(), set(0, VALUES));
        let opened = filled(&disk, &set, LONG).await;
        let session = &opened.session;
        let there = |n: u64| Bytes::from(format!("{n:012}"));
        let all: Vec<_> = (0..LONG + 10).map(there).collect();
        // According to the set's pages, which do not come from the index of members.
        let agrees = async |what: &str| {
            let mut found_items = BTreeMap::new();
            for item in walk(session, &op, &set).await {
                assert!(found_items.insert(item.value.clone(), item).is_none(), "occurs twice, {what}");
            }
            for members in all.chunks(500) {
                let found = session.lookup(&op, &set, members).await.unwrap();
                let expected: Vec<_> = members.iter().map(|member| found_items.get(member).cloned()).collect();
                assert_eq!(found, expected, "{what}");
            }
            found_items.len() as u64
        };
        let blocks_of = async |members: &[Bytes]| {
            let before = disk.data_reads();
            session.lookup(&op, &set, members).await.unwrap();
            disk.data_reads() - before
        };
        assert_eq!(agrees("in files").await, LONG);
        assert_eq!(blocks_of(&all[..1_000]).await, 0);

        let moved = (0..100).map(|n| item(START + 1 + n, &there(7 * n), 600)).collect();
        session.add(&op, &set, moved).await.unwrap();
        session.add(&op, &set, vec![item(START + 200, &there(LONG + 3), 600)]).await.unwrap();
        let removed = Removal::Members((0..50).map(|n| there(11 * n)).collect());
        assert_eq!(session.remove(&op, &set, &removed).await.unwrap(), 50);
        assert_eq!(blocks_of(&all[..1_000]).await, 0);
        assert_eq!(agrees("after writes").await, LONG + 1 - 50);

        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        assert_eq!(blocks_of(&all[..1_000]).await, 0);
        assert_eq!(agrees("after compactions").await, LONG + 1 - 50);

        let within = Bounds::of(Some(at(START + 1)), Some(at(START + 20)));
        let removed = session.remove(&op, &set, &Removal::Between(within)).await.unwrap();
        assert!((10..=20).contains(&removed), "{removed}");
        assert_eq!(agrees("after a removal by time").await, LONG + 1 - 50 - removed);

        session.remove_all(&op, &set).await.unwrap();
        assert_eq!(agrees("after a removal of all").await, 0);
        session.add(&op, &set, vec![item(START, &there(5), 600)]).await.unwrap();
        assert_eq!(agrees("after an add to none").await, 1);
    });
}

#[test]
fn a_member_takes_few_bytes_on_the_disk() {
    runtime().block_on(async {
        const COUNT: u64 = 100_000;
        let disk = SimDisk::default();
        let opened = filled(&disk, &set(0, VALUES), COUNT).await;
        let files = disk.contents().into_iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "items"));
        let bytes: usize = files.map(|(_, content)| content.len()).sum();
        assert!(bytes as u64 <= 38 * COUNT, "{} bytes a member", bytes as f64 / COUNT as f64);
        assert_eq!(
            opened
                .session
                .count(&operation(START, 100_000_000), &set(0, VALUES), &Bounds::ALL, COUNT)
                .await
                .unwrap()
                .items,
            COUNT
        );
    });
}
