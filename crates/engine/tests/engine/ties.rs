//! Lists of which thousands of items have one timestamp, so that digests alone put them in order:
//! pages begin in the middle of them, wherever they are stored.

use bytes::Bytes;
use liststore::domain::{Item, Order};
use liststore::items::Range;
use liststore::items::embedded::{EmbeddedOptions, Fsync, ListHash};

use crate::harness::{Change, Model, START, carry_out, everything, item, list, newest, open, operation, runtime};
use crate::sim_disk::{Rng, SimDisk};

const TTL_SECS: u64 = 3_600;

/// Mostly one timestamp, and values of all lengths that come again in other adds.
fn change(rng: &mut Rng) -> Change {
    if rng.one_in(12) {
        return Change::RemoveValue(value(rng));
    }
    let count = if rng.one_in(3) { 600 } else { 1 + rng.below(5) };
    let shared = value(rng);
    let shares = rng.one_in(2);
    let items = (0..count).map(|n| {
        let age = if rng.one_in(8) { rng.below(4) } else { u64::from(shares) * n };
        item(START - age, &if shares { shared.clone() } else { value(rng) }, TTL_SECS)
    });
    Change::Add(items.collect())
}

fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.below(40) {
        0 => vec![rng.below(3) as u8; 9_000],
        1 => Vec::new(),
        _ => format!("value-{}", rng.below(6_000)).into_bytes(),
    }
}

fn assert_walks_equal_the_model(list_hash: ListHash, seed: u64) {
    runtime().block_on(async {
        let disk = SimDisk::default();
        let options = EmbeddedOptions { list_hash, fsync: Fsync::Group, ..EmbeddedOptions::new("/data") };
        let opened = open(&disk, options).await;
        let (mut model, mut rng, op) = (Model::default(), Rng(seed), operation(START, TTL_SECS));
        for round in 0..4 {
            for _ in 0..24 {
                let (list, change) = (rng.below(2), change(&mut rng));
                carry_out(&opened.session, &op, list, &change).await.unwrap();
                model.apply(list, &change);
            }
            match round {
                1 => opened.store.flush().unwrap(),
                2 => {
                    opened.store.flush().unwrap();
                    opened.store.compact().unwrap();
                }
                _ => {}
            }
            for (list_number, order) in [(0, Order::Newest), (1, Order::Newest), (0, Order::Oldest), (1, Order::Oldest)]
            {
                let expected = model.page(list_number, &op, &Range { order, ..everything() }).items;
                let (mut after, mut walked) = (None, Vec::<Item>::new());
                loop {
                    let range = Range { after, order, ..newest(1 + rng.below(400) as usize) };
                    let page = opened.session.get(&op, &list(list_number), &range).await.unwrap();
                    walked.extend(
                        page.items.into_iter().map(|item| Item { value: Bytes::from(item.value.to_vec()), ..item }),
                    );
                    after = walked.last().map(Item::key);
                    if !page.more {
                        break;
                    }
                }
                assert!(walked == expected, "{} and {} items, round {round}", walked.len(), expected.len());
            }
        }
    });
}

#[test]
fn a_walk_among_ties_returns_each_item_once() {
    for seed in 0..3 {
        assert_walks_equal_the_model(EmbeddedOptions::new("/").list_hash, seed);
    }
}

/// The index cannot distinguish the lists' blocks.
#[test]
fn a_walk_among_ties_returns_each_item_once_where_hashes_collide() {
    assert_walks_equal_the_model(ListHash::Of(|_| 42), 9);
}
