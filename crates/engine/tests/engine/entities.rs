//! The walk over a feature's entities, while lists are written to files and files are compacted.

use std::collections::BTreeSet;

use liststore::domain::{EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ListKey, VersionLabel};
use liststore::items::embedded::{EmbeddedOptions, Fsync, ListHash};

use crate::harness::{Opened, START, item, open, operation, runtime, small_options};
use crate::sim_disk::SimDisk;

fn feature(name: &str) -> FeatureKey {
    let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new(name).unwrap() };
    FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST)
}

async fn add(store: &Opened, feature: &FeatureKey, entity: &str) {
    let list = ListKey::new(feature.clone(), EntityId::new(entity).unwrap());
    let items = (0..4).map(|n| item(START - n, &[b'v'; 100], 1_000)).collect();
    store.session.add(&operation(START, 1_000), &list, items).await.unwrap();
}

/// With hashes that some lists share, in all partitions.
fn colliding(list: &[u8]) -> u64 {
    let sum: u64 = list.iter().map(|byte| u64::from(*byte)).sum();
    (sum % 251) << 56
}

fn walk_while_lists_are_written(options: EmbeddedOptions, entities: usize) {
    runtime().block_on(async {
        let store = open(&SimDisk::default(), options).await;
        let (ours, other) = (feature("ours"), feature("other"));
        for n in 0..entities {
            add(&store, &ours, &format!("u-{n}")).await;
            add(&store, &other, &format!("x-{n}")).await;
        }
        for limit in [997, 61] {
            let (mut met, mut from, mut parts) = (Vec::new(), None, 0);
            loop {
                let page = store.session.entities(&operation(START, 1_000), &ours, from.as_ref(), limit).await.unwrap();
                met.extend(page.entities);
                from = page.next;
                if from.is_none() {
                    break;
                }
                parts += 1;
                // Each part sees other files than the one before.
                for n in 0..200 {
                    add(&store, &other, &format!("y-{parts}-{n}")).await;
                    add(&store, &ours, &format!("u-{n}")).await;
                }
            }
            let expected: BTreeSet<_> = (0..entities).map(|n| EntityId::new(&format!("u-{n}")).unwrap()).collect();
            assert_eq!(met.len(), entities, "limit {limit}");
            assert!(met.into_iter().collect::<BTreeSet<_>>() == expected, "limit {limit}");
        }
    });
}

#[test]
fn a_walk_returns_every_entity_once_while_files_change() {
    walk_while_lists_are_written(small_options(Fsync::Interval(std::time::Duration::from_secs(3_600))), 3_000);
}

#[test]
fn entities_whose_lists_share_a_hash_are_returned_once() {
    let options = EmbeddedOptions {
        list_hash: ListHash::Of(colliding),
        ..small_options(Fsync::Interval(std::time::Duration::from_secs(3_600)))
    };
    walk_while_lists_are_written(options, 1_200);
}
