//! Sets: an item and its reverse entry are there together, whatever happens, and finding a member costs the
//! same in a short set as in a long one.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use liststore::domain::{Identity, IdentityKind, Item, Keep, ListKey, MaxItems, MemberKey, NewItem, Retention};
use liststore::items::embedded::{EmbeddedOptions, Fsync};
use liststore::items::memory::MemoryStore;
use liststore::items::{Bounds, ItemSession, ItemStore, Operation, Removal};
use proptest::prelude::*;

use crate::harness::{DIR, Opened, SECOND, START, at, everything, item, list, open, operation, runtime, small_options};
use crate::sim_disk::{Rng, SimDisk};

const VALUES: Identity = Identity::Value(Keep::Newest);
const KEYS: Identity = Identity::Key(Keep::Newest);
const ALL: [Identity; 4] = [VALUES, Identity::Value(Keep::Oldest), KEYS, Identity::Key(Keep::Oldest)];
const MEMBERS: u64 = 40;
const LIFE: u64 = 3_600;

/// The same list as a set.
fn set(number: u64, identity: Identity) -> ListKey {
    let ListKey { feature_key, entity_id, .. } = list(number);
    ListKey::new(feature_key.with_identity(identity), entity_id)
}

fn name(member: u64) -> Bytes {
    format!("member-{member}").into()
}

fn stored(identity: Identity, member: u64, value: u64) -> Bytes {
    match identity {
        Identity::Key(_) => {
            MemberKey::new(std::str::from_utf8(&name(member)).unwrap()).unwrap().store(value.to_string().as_bytes())
        }
        _ => name(member),
    }
}

fn member(identity: Identity, member: u64, timestamp: u64) -> NewItem {
    item(timestamp, &stored(identity, member, 0), LIFE)
}

fn op() -> Operation {
    operation(START, LIFE)
}

async fn walk(session: &Rc<dyn ItemSession>, op: &Operation, set: &ListKey) -> Vec<Item> {
    session.get(op, set, &everything()).await.unwrap().items
}

async fn look_up(session: &Rc<dyn ItemSession>, op: &Operation, set: &ListKey) -> Vec<Option<Item>> {
    let members: Vec<_> = (0..MEMBERS).map(name).collect();
    session.lookup(op, set, &members).await.unwrap()
}

/// Each member stands once, and is found where it stands.
async fn checked(session: &Rc<dyn ItemSession>, op: &Operation, set: &ListKey, what: &str) -> Vec<Item> {
    let items = walk(session, op, set).await;
    let identity = set.identity();
    let mut standing = BTreeMap::new();
    for item in &items {
        let twice = standing.insert(identity.member(&item.value).to_vec(), item.clone());
        assert_eq!(twice, None, "stands twice, {what}");
    }
    let found = look_up(session, op, set).await;
    for (number, found) in (0..).zip(found) {
        assert_eq!(found.as_ref(), standing.get(&name(number)[..]), "member {number}, {what}");
    }
    items
}

#[derive(Debug)]
enum Change {
    Add(Vec<NewItem>),
    Remove(Removal),
    RemoveAll,
}

fn random_change(rng: &mut Rng, identity: Identity) -> Change {
    let moment = |rng: &mut Rng| START - rng.below(20) * SECOND;
    match rng.below(16) {
        0 if rng.one_in(4) => Change::RemoveAll,
        0 | 1 => {
            let (a, b) = (at(moment(rng)), at(moment(rng)));
            Change::Remove(Removal::Between(Bounds { min_timestamp: a.min(b), max_timestamp: a.max(b) }))
        }
        2 if identity.kind() == IdentityKind::Key => Change::Remove(Removal::Value(rng.below(3).to_string().into())),
        2 => Change::Remove(Removal::Value(name(rng.below(MEMBERS)))),
        3 => Change::Remove(Removal::Items(vec![(at(moment(rng)), stored(identity, rng.below(MEMBERS), 1))])),
        4..7 => Change::Remove(Removal::Members((0..1 + rng.below(4)).map(|_| name(rng.below(MEMBERS))).collect())),
        _ => {
            let count = if rng.one_in(6) { 30 } else { 1 + rng.below(4) };
            let one = |_| item(moment(rng), &stored(identity, rng.below(MEMBERS), rng.below(3)), LIFE);
            Change::Add((0..count).map(one).collect())
        }
    }
}

/// `None` if it failed; else how many a removal says that it has removed.
async fn carry_out(session: &Rc<dyn ItemSession>, op: &Operation, set: &ListKey, change: &Change) -> Option<u64> {
    match change {
        Change::Add(items) => session.add(op, set, items.clone()).await.ok().map(|()| 0),
        Change::Remove(removal) => session.remove(op, set, removal).await.ok(),
        Change::RemoveAll => session.remove_all(op, set).await.ok().map(|()| 0),
    }
}

/// Changes sets while files are flushed and merged, until the disk stops or syncs fail; several times over.
async fn crash(seed: u64, power: bool) {
    let mut rng = Rng(seed);
    let identity = ALL[rng.below(4) as usize];
    let sets = [set(0, identity), set(1, identity)];
    let model = MemoryStore::default().open_session().await.unwrap();
    let mut disk = SimDisk::default();
    for _ in 0..3 {
        let opened = open(&disk, small_options(Fsync::Group)).await;
        if rng.one_in(2) {
            disk.stop_after(rng.below(500));
        } else {
            disk.fail_syncs_after(rng.below(80), rng.below(3));
        }
        let mut unsure = None;
        for _ in 0..200 {
            let (set, change) = (&sets[rng.below(2) as usize], random_change(&mut rng, identity));
            let carried_out = carry_out(&opened.session, &op(), set, &change).await;
            if carried_out.is_none() {
                unsure = Some((set, change));
                break;
            }
            let expected = carry_out(&model, &op(), set, &change).await;
            assert_eq!(carried_out, expected, "{change:?}");
            match rng.below(24) {
                0 => drop(opened.store.flush()),
                1 => drop(opened.store.compact()),
                _ => {}
            }
        }
        drop(opened);
        disk = if power { disk.crashed(&mut rng) } else { disk.killed() };
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let what = format!("{identity}, seed {seed}, after {unsure:?}");
        for set in &sets {
            let found = checked(&opened.session, &op(), set, &what).await;
            let expected = walk(&model, &op(), set).await;
            if let Some((_, change)) = unsure.take_if(|(changed, _)| *changed == set && found != expected) {
                carry_out(&model, &op(), set, &change).await;
            }
            assert_eq!(found, walk(&model, &op(), set).await, "{what}");
        }
        opened.store.close().await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_loss_of_power_leaves_each_member_once_and_found(seed: u64) {
        runtime().block_on(crash(seed, true));
    }

    #[test]
    fn a_kill_leaves_each_member_once_and_found(seed: u64) {
        runtime().block_on(crash(seed, false));
    }
}

fn spacious_options() -> EmbeddedOptions {
    EmbeddedOptions { cache_bytes: 64 << 20, ..EmbeddedOptions::new("/data") }
}

/// A set of so many members of 12 bytes, seconds apart.
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
fn members_of_long_sets_are_found_removed_and_added_with_as_few_blocks_as_of_short_ones() {
    runtime().block_on(async {
        let op = operation(START, 100_000_000);
        let mut reads = Vec::new();
        for members in [100, 100_000] {
            let (disk, set) = (SimDisk::default(), set(0, VALUES));
            let opened = filled(&disk, &set, members).await;
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

/// What the disk need not be asked for, no write may leave as it was.
#[test]
fn a_set_that_is_looked_into_again_and_again_is_found_in_memory_as_every_write_leaves_it() {
    const LONG: u64 = 3_000;
    runtime().block_on(async {
        let op = operation(START, 100_000_000);
        let (disk, set) = (SimDisk::default(), set(0, VALUES));
        let opened = filled(&disk, &set, LONG).await;
        let session = &opened.session;
        let there = |n: u64| Bytes::from(format!("{n:012}"));
        let all: Vec<_> = (0..LONG + 10).map(there).collect();
        // As the set itself tells, whose pages do not come from where members are found.
        let agrees = async |what: &str| {
            let mut standing = BTreeMap::new();
            for item in walk(session, &op, &set).await {
                assert!(standing.insert(item.value.clone(), item).is_none(), "stands twice, {what}");
            }
            for members in all.chunks(500) {
                let found = session.lookup(&op, &set, members).await.unwrap();
                let expected: Vec<_> = members.iter().map(|member| standing.get(member).cloned()).collect();
                assert_eq!(found, expected, "{what}");
            }
            standing.len() as u64
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
        assert_eq!(agrees("after merges").await, LONG + 1 - 50);

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

#[test]
fn what_goes_with_a_set_is_no_entity_of_its_own() {
    runtime().block_on(async {
        let opened = open(&SimDisk::default(), small_options(Fsync::Group)).await;
        for number in 0..20 {
            opened.session.add(&op(), &set(number, KEYS), vec![member(KEYS, 1, START)]).await.unwrap();
            if number % 7 == 0 {
                opened.store.flush().unwrap();
            }
        }
        let (mut met, mut from) = (0, None);
        loop {
            let page = opened.session.entities(&op(), &set(0, KEYS).feature_key, from.as_ref(), 3).await.unwrap();
            met += page.entities.len();
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(met, 20);
    });
}

/// Of all data files, what lies in them: items and entries.
fn stored_in_files(disk: &SimDisk) -> u64 {
    liststore::items::embedded::verify_on(disk, Path::new("/data"), spacious_options().list_hash).unwrap().items
}

#[test]
fn entries_go_once_their_items_are_gone_and_not_before() {
    runtime().block_on(async {
        for identity in [VALUES, KEYS] {
            let (disk, set) = (SimDisk::default(), set(0, identity));
            let opened = open(&disk, small_options(Fsync::Group)).await;
            // Ten members that live for an hour, and one for ever.
            let mut items: Vec<_> = (0..10).map(|n| member(identity, n, START - n)).collect();
            items.push(item(START, &stored(identity, 10, 0), 10_000_000));
            opened.session.add(&op(), &set, items).await.unwrap();
            opened.store.flush().unwrap();
            opened.clock.set(at(START + (LIFE + 3_600) * SECOND));
            opened.store.compact().unwrap();
            let found = opened.session.get(&operation(START, 10_000_000), &set, &everything()).await.unwrap();
            assert_eq!(found.items.len(), 1, "items that have expired are gone, even if the clock is set back");
            // Their entries are not, and hide nothing: an older item counts as the first one would.
            let again = operation(START + 2 * LIFE * SECOND, 10_000_000);
            let older = item(START - 9 * SECOND, &stored(identity, 3, 0), 10_000_000);
            opened.session.add(&again, &set, vec![older.clone()]).await.unwrap();
            assert_eq!(checked(&opened.session, &again, &set, "after expiry").await.len(), 2);
            opened.clock.set(at(START + (LIFE + 3 * 3_600) * SECOND));
            opened.store.flush().unwrap();
            opened.store.compact().unwrap();
            assert_eq!(checked(&opened.session, &again, &set, "after all went").await.len(), 2);
            opened.store.close().await.unwrap();
            drop(opened);
            assert_eq!(stored_in_files(&disk.killed()), 4, "two items and their entries");
        }
    });
}

#[test]
fn entries_of_what_a_bounded_set_does_not_show_go_too() {
    runtime().block_on(async {
        let (disk, set) = (SimDisk::default(), set(0, KEYS));
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let bounded = Operation { max_items: MaxItems::new(10).ok(), ..op() };
        let bound = Arc::new(Mutex::new(Retention { ttl: bounded.ttl, max_items: None }));
        let asked = Arc::clone(&bound);
        opened.store.bound(Arc::new(move |_| {
            let Retention { ttl, max_items } = *asked.lock().unwrap();
            Some((ttl, max_items?))
        }));
        for n in 0..MEMBERS {
            opened.session.add(&bounded, &set, vec![member(KEYS, n, START - 1_000 + n)]).await.unwrap();
        }
        let ten: Vec<_> = walk(&opened.session, &bounded, &set).await;
        assert_eq!(ten.len(), 10);
        assert_eq!(checked(&opened.session, &bounded, &set, "beyond is not found").await, ten);
        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        assert_eq!(checked(&opened.session, &op(), &set, "nothing was dropped").await.len() as u64, MEMBERS);
        bound.lock().unwrap().max_items = bounded.max_items;
        opened.store.compact().unwrap();
        // Entries and items are merged one after the other, in any order: in the end both are gone.
        opened.store.compact().unwrap();
        assert_eq!(checked(&opened.session, &op(), &set, "dropped").await, ten);
        // What was dropped may come again, older than it was.
        opened.session.add(&op(), &set, vec![member(KEYS, 0, START - 5_000)]).await.unwrap();
        assert_eq!(checked(&opened.session, &op(), &set, "again").await.len(), 11);
        opened.store.close().await.unwrap();
        drop(opened);
        let stored = stored_in_files(&disk.killed());
        assert!(stored <= 10 + 20, "{stored} items and entries");
    });
}

#[test]
fn what_was_removed_leaves_neither_items_nor_entries() {
    runtime().block_on(async {
        let everything = Removal::Between(Bounds::ALL);
        let members = Removal::Members((0..MEMBERS).map(name).collect());
        for removal in [Some(everything), Some(members), None] {
            let (disk, set) = (SimDisk::default(), set(0, KEYS));
            let opened = open(&disk, small_options(Fsync::Group)).await;
            let items = (0..MEMBERS).map(|n| member(KEYS, n, START - n)).collect();
            opened.session.add(&op(), &set, items).await.unwrap();
            opened.store.flush().unwrap();
            match &removal {
                Some(removal) => assert_eq!(opened.session.remove(&op(), &set, removal).await.unwrap(), MEMBERS),
                None => opened.session.remove_all(&op(), &set).await.unwrap(),
            }
            assert_eq!(checked(&opened.session, &op(), &set, "removed").await, []);
            opened.store.flush().unwrap();
            opened.store.compact().unwrap();
            opened.store.close().await.unwrap();
            drop(opened);
            assert_eq!(stored_in_files(&disk.killed()), 0, "{removal:?}");
        }
    });
}

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
        opened.store.backup(Path::new("/backup"), &|| false).unwrap();
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

/// Else a member whose item is still there could be added twice.
#[test]
fn entries_of_a_bounded_set_stay_for_as_long_as_their_items_do() {
    runtime().block_on(async {
        // The set and its entries are in two partitions, of which one is merged while the bound is known.
        for first_alone in [true, false] {
            let (disk, set) = (SimDisk::default(), set(0, KEYS));
            let opened = open(&disk, spacious_options()).await;
            let (asked, is_bounded) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (retention, bounded) = (op().ttl, Arc::clone(&is_bounded));
            opened.store.bound(Arc::new(move |_| {
                if !bounded.load(Ordering::SeqCst) {
                    return None;
                }
                // Each merge asks when it begins, and again when it has found the end of the list.
                let number = asked.fetch_add(1, Ordering::SeqCst);
                let is_told = if first_alone { number < 2 } else { number >= 1 };
                is_told.then(|| (retention, MaxItems::new(10).unwrap()))
            }));
            let items = (0..MEMBERS).map(|n| member(KEYS, n, START - n)).collect();
            opened.session.add(&op(), &set, items).await.unwrap();
            opened.store.flush().unwrap();
            opened.store.compact().unwrap();
            is_bounded.store(true, Ordering::SeqCst);
            opened.store.compact().unwrap();
            let left = checked(&opened.session, &op(), &set, "all that is there is found").await.len() as u64;
            assert!([10, MEMBERS].contains(&left), "{left}");
            let moved = (0..MEMBERS).map(|n| member(KEYS, n, START + n)).collect();
            opened.session.add(&op(), &set, moved).await.unwrap();
            assert_eq!(checked(&opened.session, &op(), &set, "and stands once").await.len() as u64, MEMBERS);
        }
    });
}
