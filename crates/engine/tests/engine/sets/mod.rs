//! Sets: an item and its reverse entry exist together, in any case, and finding a member costs the same in a short set
//! as in a long one.

mod backups;
mod clock_steps;
mod costs;
mod crashes;
mod joined;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use liststore::domain::{Identity, Item, Keep, ListKey, MaxItems, MemberKey, NewItem, Retention};
use liststore::items::embedded::{EmbeddedOptions, Fsync};
use liststore::items::{Bounds, ItemSession, ItemStore, OpContext, Reclaim, Removal};

use crate::harness::{SECOND, START, at, everything, item, list, open, operation, runtime, small_options};
use crate::sim_disk::SimDisk;
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

fn op() -> OpContext {
    operation(START, LIFE)
}

async fn walk(session: &Rc<dyn ItemSession>, op: &OpContext, set: &ListKey) -> Vec<Item> {
    session.get(op, set, &everything()).await.unwrap().items
}

async fn look_up(session: &Rc<dyn ItemSession>, op: &OpContext, set: &ListKey) -> Vec<Option<Item>> {
    let members: Vec<_> = (0..MEMBERS).map(name).collect();
    session.lookup(op, set, &members).await.unwrap()
}

/// Each member occurs once, and lookups find it at its place.
async fn checked(session: &Rc<dyn ItemSession>, op: &OpContext, set: &ListKey, what: &str) -> Vec<Item> {
    let items = walk(session, op, set).await;
    let identity = set.identity();
    let mut found_items = BTreeMap::new();
    for item in &items {
        let twice = found_items.insert(identity.member(&item.value).to_vec(), item.clone());
        assert_eq!(twice, None, "occurs twice, {what}");
    }
    let found = look_up(session, op, set).await;
    for (number, found) in (0..).zip(found) {
        assert_eq!(found.as_ref(), found_items.get(&name(number)[..]), "member {number}, {what}");
    }
    items
}

fn spacious_options() -> EmbeddedOptions {
    EmbeddedOptions { cache_bytes: 64 << 20, ..EmbeddedOptions::new("/data") }
}

#[test]
fn entries_of_a_set_are_not_entities() {
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

/// The items and entries in all data files.
fn stored_in_files(disk: &SimDisk) -> u64 {
    liststore::items::embedded::verify_on(disk, Path::new("/data"), spacious_options().list_hash).unwrap().items
}

#[test]
fn entries_are_removed_only_after_their_items() {
    runtime().block_on(async {
        for identity in [VALUES, KEYS] {
            let (disk, set) = (SimDisk::default(), set(0, identity));
            let opened = open(&disk, small_options(Fsync::Group)).await;
            // Ten members that live for an hour, and one without expiry.
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
fn entries_of_hidden_items_of_a_bounded_set_are_removed_too() {
    runtime().block_on(async {
        let (disk, set) = (SimDisk::default(), set(0, KEYS));
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let bounded = OpContext { max_items: MaxItems::new(10).ok(), ..op() };
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
        // Entries and items are compacted one after the other, in any order: in the end both are gone.
        opened.store.compact().unwrap();
        assert_eq!(checked(&opened.session, &op(), &set, "dropped").await, ten);
        // A dropped member may be added again, older than it was.
        opened.session.add(&op(), &set, vec![member(KEYS, 0, START - 5_000)]).await.unwrap();
        assert_eq!(checked(&opened.session, &op(), &set, "again").await.len(), 11);
        opened.store.close().await.unwrap();
        drop(opened);
        let stored = stored_in_files(&disk.killed());
        assert!(stored <= 10 + 20, "{stored} items and entries");
    });
}

#[test]
fn removals_leave_neither_items_nor_entries() {
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

/// Otherwise a member whose item still exists could be added twice.
#[test]
fn entries_of_a_bounded_set_stay_as_long_as_their_items() {
    runtime().block_on(async {
        // The set and its entries are in two partitions, of which one is compacted while the bound is known.
        for first_alone in [true, false] {
            let (disk, set) = (SimDisk::default(), set(0, KEYS));
            let opened = open(&disk, spacious_options()).await;
            let (asked, is_bounded) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (retention, bounded) = (op().ttl, Arc::clone(&is_bounded));
            opened.store.bound(Arc::new(move |_| {
                if !bounded.load(Ordering::SeqCst) {
                    return None;
                }
                // Each compaction queries the bound when it begins, and again at the end of the list.
                let number = asked.fetch_add(1, Ordering::SeqCst);
                let is_reported = if first_alone { number < 2 } else { number >= 1 };
                is_reported.then(|| (retention, MaxItems::new(10).unwrap()))
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
            assert_eq!(checked(&opened.session, &op(), &set, "and occurs once").await.len() as u64, MEMBERS);
        }
    });
}
