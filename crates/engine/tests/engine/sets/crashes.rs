//! Sets after a crash: the state of all acknowledged writes, item by item with its entry.

use std::rc::Rc;

use liststore::domain::{Identity, IdentityKind, ListKey, NewItem};
use liststore::items::embedded::Fsync;
use liststore::items::memory::MemoryStore;
use liststore::items::{Bounds, ItemSession, ItemStore, OpContext, Removal};
use proptest::prelude::*;

use super::{ALL, LIFE, MEMBERS, checked, name, op, set, stored, walk};
use crate::harness::{SECOND, START, at, item, open, runtime, small_options};
use crate::sim_disk::{Rng, SimDisk};
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

/// `None` if it failed; otherwise the number that a removal reports.
async fn carry_out(session: &Rc<dyn ItemSession>, op: &OpContext, set: &ListKey, change: &Change) -> Option<u64> {
    match change {
        Change::Add(items) => session.add(op, set, items.clone()).await.ok().map(|()| 0),
        Change::Remove(removal) => session.remove(op, set, removal).await.ok(),
        Change::RemoveAll => session.remove_all(op, set).await.ok().map(|()| 0),
    }
}

/// Changes sets while files are flushed and compacted, until the disk stops or syncs fail; several times over.
async fn crash(seed: u64, power: bool) {
    let mut rng = Rng(seed);
    let identity = ALL[rng.below(4) as usize];
    let sets = [set(0, identity), set(1, identity)];
    let model = MemoryStore::default().open_session().await.unwrap();
    let mut disk = SimDisk::default();
    for _ in 0..3 {
        let opened = open(&disk, small_options(Fsync::Group)).await;
        disk.stop_or_fail_syncs(&mut rng, (500, 80));
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
            opened.flush_or_compact_at_times(&mut rng, 24);
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
    fn a_loss_of_power_leaves_each_member_once_and_searchable(seed: u64) {
        runtime().block_on(crash(seed, true));
    }

    #[test]
    fn a_kill_leaves_each_member_once_and_searchable(seed: u64) {
        runtime().block_on(crash(seed, false));
    }
}
