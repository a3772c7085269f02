//! Bags: a bag and its entries exist together, in any case, and a large document is stored, and its space freed, like
//! small items.

use std::rc::Rc;

use bytes::Bytes;
use liststore::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, Generation, Item, ListKey, NewItem, Timestamp, Ttl, VersionLabel,
};
use liststore::items::bags::BAG_BYTES_MAX;
use liststore::items::embedded::{EmbeddedOptions, Fsync};
use liststore::items::{BagAfter, BagSwap, EntryChange, ItemSession, ItemStore, OpContext, Swapped};
use proptest::prelude::*;

use crate::harness::{START, at, everything, open, operation, runtime, small_options};
use crate::sim_disk::{Rng, SimDisk};

const BAGS: u64 = 3;
/// Lists of entries: a bag has one in some of them.
const LISTS: u64 = 4;

fn key(label: &str, entity: &str) -> ListKey {
    let id = FeatureId::of_bags(EntityType::new("user").unwrap());
    let feature = FeatureKey::new(&id, &VersionLabel::new(label).unwrap(), Generation::FIRST);
    ListKey::new(feature, EntityId::new(entity).unwrap())
}

fn bag_list(bag: u64) -> ListKey {
    key("", &format!("u-{bag}"))
}

fn entry_list(list: u64) -> ListKey {
    key("by", &format!("v-{list}"))
}

fn op() -> OpContext {
    operation(START, 600)
}

/// The state of a bag: its stamp, and a document that it determines.
fn document(stamp: u64) -> Bytes {
    let len = if stamp.is_multiple_of(9) { 70_000 } else { 20 };
    [stamp.to_string().into_bytes(), vec![b'.'; len]].concat().into()
}

fn new_item(timestamp: u64, value: Bytes) -> NewItem {
    let expires_at = Ttl::from_secs(600).unwrap().expiry_of(at(START));
    NewItem { timestamp: at(timestamp), value, expires_at }
}

/// The entries that a bag with this stamp has: in which lists, and at which places.
fn entries_of(bag: u64, stamp: u64) -> Vec<(u64, NewItem)> {
    let lists = (0..LISTS).filter(|list| stamp >> list & 1 == 1);
    lists.map(|list| (list, new_item(stamp % 5, format!("u-{bag}").into()))).collect()
}

fn swap(bag: u64, before: Option<u64>, after: Option<u64>) -> BagSwap {
    let old = before.map_or_else(Vec::new, |stamp| entries_of(bag, stamp));
    let new = after.map_or_else(Vec::new, |stamp| entries_of(bag, stamp));
    let of = |list: u64| {
        let added: Vec<_> = new.iter().filter(|(of, _)| *of == list).map(|(_, entry)| entry.clone()).collect();
        let removed = old.iter().filter(|(of, _)| *of == list).map(|(_, entry)| (entry.timestamp, entry.value.clone()));
        let removed = removed.filter(|gone| added.iter().all(|new| (new.timestamp, &new.value) != (gone.0, &gone.1)));
        EntryChange { list: entry_list(list), removed: removed.collect(), added: added.clone() }
    };
    let entries = (0..LISTS).map(of).filter(|change| !(change.removed.is_empty() && change.added.is_empty()));
    let after =
        after.map_or(BagAfter::Gone, |stamp| BagAfter::Put(new_item(START - 1_000_000 + stamp, document(stamp))));
    BagSwap { before: before.map(stamp_at), after, entries: entries.collect(), row: None, entered_in: None }
}

fn stamp_at(stamp: u64) -> Timestamp {
    at(START - 1_000_000 + stamp)
}

/// The stamps of all bags. Their documents, and the entries of all, must match the stamps.
async fn checked(session: &Rc<dyn ItemSession>, what: &str) -> Vec<Option<u64>> {
    let mut stamps = Vec::new();
    for bag in 0..BAGS {
        let found = session.bag(&op(), &bag_list(bag)).await.unwrap().bag;
        let stamp = found.as_ref().map(|bag| bag.timestamp.as_nanos() - (START - 1_000_000));
        assert_eq!(found.map(|bag| bag.value), stamp.map(document), "{what}");
        stamps.push(stamp);
    }
    let endless = OpContext::new(at(START), Ttl::ENDLESS, op().deadline);
    for list in 0..LISTS {
        let found = session.get(&endless, &entry_list(list), &everything()).await.unwrap().items;
        let mut found: Vec<(Timestamp, Bytes)> =
            found.into_iter().map(|Item { timestamp, value }| (timestamp, value)).collect();
        let bags = (0..BAGS).zip(&stamps).filter_map(|(bag, stamp)| Some(entries_of(bag, (*stamp)?)));
        let of_list = bags.flatten().filter(|(of, _)| *of == list);
        let mut expected: Vec<_> = of_list.map(|(_, entry)| (entry.timestamp, entry.value)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "list {list}, {stamps:?}, {what}");
    }
    stamps
}

async fn crash(seed: u64, power: bool) {
    let mut rng = Rng(seed);
    let mut disk = SimDisk::default();
    let mut model = vec![None; BAGS as usize];
    let mut next = 1;
    for _ in 0..3 {
        let opened = open(&disk, small_options(Fsync::Group)).await;
        disk.stop_or_fail_syncs(&mut rng, (500, 80));
        let mut unsure = None;
        for _ in 0..150 {
            let bag = rng.below(BAGS);
            let before = model[bag as usize];
            let after = (!rng.one_in(6)).then_some(next);
            next += 1;
            // A swap that comes too late.
            let late = swap(bag, Some(before.unwrap_or(0) + 1_000), Some(next + 5_000));
            match opened.session.swap_bag(&op(), &bag_list(bag), late).await {
                Ok(swapped) => assert_eq!(swapped, Swapped::Lost),
                Err(_) => break,
            }
            match opened.session.swap_bag(&op(), &bag_list(bag), swap(bag, before, after)).await {
                Ok(swapped) => assert_eq!(swapped, Swapped::Done),
                Err(_) => {
                    unsure = Some((bag, after));
                    break;
                }
            }
            model[bag as usize] = after;
            opened.flush_or_compact_at_times(&mut rng, 20);
        }
        drop(opened);
        disk = if power { disk.crashed(&mut rng) } else { disk.killed() };
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let found = checked(&opened.session, &format!("seed {seed}, after {unsure:?}")).await;
        if let Some((bag, after)) = unsure
            && found != model
        {
            model[bag as usize] = after;
        }
        assert_eq!(found, model, "seed {seed}");
        opened.store.close().await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_loss_of_power_leaves_each_bag_with_its_entries(seed: u64) {
        runtime().block_on(crash(seed, true));
    }

    #[test]
    fn a_kill_leaves_each_bag_with_its_entries(seed: u64) {
        runtime().block_on(crash(seed, false));
    }
}

/// Bytes of data files.
fn stored(disk: &SimDisk) -> usize {
    let files = disk.contents().into_iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "items"));
    files.map(|(_, content)| content.len()).sum()
}

#[test]
fn the_largest_documents_are_stored_and_the_space_of_former_ones_is_freed() {
    runtime().block_on(async {
        let (disk, options) =
            (SimDisk::default(), EmbeddedOptions { cache_bytes: 4 << 20, ..EmbeddedOptions::new("/data") });
        let opened = open(&disk, options.clone()).await;
        let large = |stamp: u64| Bytes::from(vec![stamp as u8; BAG_BYTES_MAX]);
        let mut before = [None; 4];
        for stamp in 1..=40_u64 {
            let bag = stamp % 4;
            let item = new_item(START - 1_000 + stamp, large(stamp));
            let swap = BagSwap {
                before: before[bag as usize],
                after: BagAfter::Put(item),
                entries: Vec::new(),
                row: None,
                entered_in: None,
            };
            assert_eq!(opened.session.swap_bag(&op(), &bag_list(bag), swap).await.unwrap(), Swapped::Done);
            before[bag as usize] = Some(at(START - 1_000 + stamp));
            let found = opened.session.bag(&op(), &bag_list(bag)).await.unwrap().bag.unwrap();
            assert!(found.value == large(stamp), "{stamp}");
        }
        opened.store.flush().unwrap();
        opened.store.compact().unwrap();
        let bytes = stored(&disk);
        assert!(bytes < 5 * BAG_BYTES_MAX, "{bytes} bytes of four documents");
        opened.store.close().await.unwrap();
        drop(opened);
        let opened = open(&disk.killed(), options).await;
        for stamp in 37..=40 {
            let found = opened.session.bag(&op(), &bag_list(stamp % 4)).await.unwrap().bag.unwrap();
            assert!(found.value == large(stamp), "{stamp}");
        }
    });
}
