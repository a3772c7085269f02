//! Adds that wait for one set at the same time become one write, with the result of one after the other.

use std::pin::Pin;
use std::rc::Rc;

use futures_util::future::join_all;
use liststore::domain::{Identity, Item, Keep, ListKey, NewItem};
use liststore::items::embedded::Fsync;
use liststore::items::{ItemSession, ItemStore, OpContext, Removal, StoreError};
use tokio::sync::oneshot;

use super::{ALL, KEYS, LIFE, VALUES, checked, member, name, op, set, stored, walk};
use crate::harness::{Opened, SECOND, START, at, item, open, operation, runtime, small_options, start_add};
use crate::sim_disk::{Rng, SimDisk};

const JOINED: &str = "liststore_set_adds_joined_total";
const GROUPS: &str = "liststore_commit_groups_total";

type Added = oneshot::Receiver<Result<(), StoreError>>;

/// Adds that have been started, each before the next.
#[derive(Default)]
struct Started {
    added: Vec<Added>,
    waits: Vec<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Started {
    fn start(&mut self, session: &Rc<dyn ItemSession>, op: OpContext, set: &ListKey, items: Vec<NewItem>) {
        let (added, waits) = start_add(session, op, set.clone(), items);
        self.added.push(added);
        self.waits.extend(waits);
    }

    /// Returns their outcomes in order.
    async fn end(self) -> Vec<Result<(), StoreError>> {
        let Self { added, waits } = self;
        let (_, added) = tokio::join!(join_all(waits), join_all(added));
        added.into_iter().map(|added| added.unwrap()).collect()
    }
}

/// Adds of few members, repeatedly, by operations of several moments, each of which sees its items.
fn random_adds(rng: &mut Rng, identity: Identity, count: u64) -> Vec<(OpContext, Vec<NewItem>)> {
    // Adds with distant deadlines do not all wait together.
    let deadline = op().deadline;
    let add = |rng: &mut Rng| {
        let now = START + rng.below(8) * SECOND;
        let life = 1 + rng.below(12);
        let items = (0..1 + rng.below(5)).map(|_| {
            let age = rng.below(life.min(6)) * SECOND;
            item(now - age, &stored(identity, rng.below(5), rng.below(3)), life)
        });
        (OpContext { deadline, ..operation(now, LIFE) }, items.collect())
    };
    (0..count).map(|_| add(rng)).collect()
}

#[test]
fn joined_adds_are_one_write_with_the_result_of_single_adds() {
    runtime().block_on(async {
        for (seed, identity) in (0..48).zip(ALL.into_iter().cycle()) {
            let (disk, mut rng) = (SimDisk::default(), Rng(seed));
            let opened = open(&disk, small_options(Fsync::Group)).await;
            let (together, one_by_one) = (set(0, identity), set(1, identity));
            let mut adds = random_adds(&mut rng, identity, 3 + seed % 20);
            for set in [&together, &one_by_one] {
                let before = random_adds(&mut Rng(seed + 1_000), identity, 4);
                for (op, items) in before {
                    opened.session.add(&op, set, items).await.unwrap();
                }
            }
            if seed % 3 == 0 {
                opened.store.flush().unwrap();
            }
            let groups = opened.counted(GROUPS);
            {
                let held = disk.hold_syncs();
                let mut started = Started::default();
                for (op, items) in adds.clone() {
                    started.start(&opened.session, op, &together, items);
                }
                drop(held);
                assert!(started.end().await.iter().all(Result::is_ok));
            }
            // The first one has its turn at once, all others the next.
            assert_eq!(opened.counted(JOINED), adds.len() as u64 - 2, "{identity}, seed {seed}");
            assert!(opened.counted(GROUPS) - groups <= 2);
            for (op, items) in adds.drain(..) {
                opened.session.add(&op, &one_by_one, items).await.unwrap();
            }
            for now in [START - SECOND, START, START + 4 * SECOND, START + 9 * SECOND] {
                let (op, what) =
                    (operation(now, LIFE), format!("{identity}, seed {seed}, at {}", now + SECOND - START));
                let left: [Vec<Item>; 2] = [
                    checked(&opened.session, &op, &together, &what).await,
                    checked(&opened.session, &op, &one_by_one, &what).await,
                ];
                assert_eq!(left[0], left[1], "{what}");
            }
        }
    });
}

/// A failed write fails for all of its adds, and none of them has an effect.
#[test]
fn joined_adds_fail_together() {
    runtime().block_on(async {
        let (disk, set) = (SimDisk::default(), set(0, KEYS));
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let held = disk.hold_syncs();
        let (mut started, op) = (Started::default(), op());
        for n in 0..6 {
            started.start(&opened.session, op, &set, vec![member(KEYS, n, START + n)]);
        }
        // The blocked sync is the first one.
        disk.fail_syncs_once_written(&name(5));
        drop(held);
        let ended = started.end().await;
        assert!(ended[0].is_ok());
        for failed in &ended[1..] {
            let failed = failed.as_ref().unwrap_err();
            assert!(matches!(failed, StoreError::Unavailable { outcome_unknown: true, .. }), "{failed}");
        }
        assert_eq!(opened.counted(JOINED), 4);
        assert_eq!(walk(&opened.session, &op, &set).await.len(), 1, "what may not last is not shown");
    });
}

/// After a crash, an add, or all adds of one write, are complete or absent.
#[test]
fn joined_adds_survive_a_crash_together() {
    runtime().block_on(async {
        let mut seen = [0; 3];
        for seed in 0..60 {
            let (mut rng, disk, set) = (Rng(seed), SimDisk::default(), set(0, VALUES));
            let opened = open(&disk, small_options(Fsync::Group)).await;
            let held = disk.hold_syncs();
            let (mut started, op) = (Started::default(), op());
            for first in 0..8 {
                let items = (0..5).map(|n| member(VALUES, first + n, START + first)).collect();
                started.start(&opened.session, op, &set, items);
            }
            disk.stop_after(rng.below(12));
            drop(held);
            let acknowledged = started.end().await.iter().filter(|ended| ended.is_ok()).count();
            drop(opened);
            let opened = open(&disk.crashed(&mut rng), small_options(Fsync::Group)).await;
            let found = checked(&opened.session, &op, &set, "after a crash").await;
            // Nothing, the first add, or the result of all eight: twelve members, each at its last place.
            let newest: Vec<_> = found.iter().filter(|item| item.timestamp == at(START + 7)).collect();
            let state = match (found.len(), newest.len()) {
                (0, 0) => 0,
                (5, 0) => 1,
                (12, 5) => 2,
                other => panic!("{other:?} items, seed {seed}"),
            };
            assert!([0, 1, 8][state] >= acknowledged, "{acknowledged} were acknowledged, seed {seed}");
            seen[state] += 1;
        }
        assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
    });
}

#[test]
fn an_add_after_a_removal_waits_for_it() {
    runtime().block_on(async {
        let (disk, set) = (SimDisk::default(), set(0, KEYS));
        let opened = open(&disk, small_options(Fsync::Group)).await;
        let Opened { session, .. } = &opened;
        let held = disk.hold_syncs();
        let (mut before, operation) = (Started::default(), op());
        for n in 0..3 {
            before.start(session, operation, &set, vec![member(KEYS, n, START + n)]);
        }
        let members = Removal::Members((0..9).map(name).collect());
        let mut removal = Box::pin(session.remove(&operation, &set, &members));
        assert!(futures_util::poll!(&mut removal).is_pending());
        let mut after = Started::default();
        for n in 3..6 {
            after.start(session, operation, &set, vec![member(KEYS, n, START + n)]);
        }
        drop(held);
        let (before, removed, after) = tokio::join!(before.end(), removal, after.end());
        assert!(before.iter().chain(&after).all(Result::is_ok));
        assert_eq!(removed.unwrap(), 3);
        assert_eq!(checked(session, &op(), &set, "the last three").await.len(), 3);
        assert_eq!(opened.counted(JOINED), 1 + 2);
    });
}

/// The turns that block other operations end with a session, and its writes may still be queued then.
#[test]
fn a_later_session_sees_queued_writes_of_an_earlier_one() {
    runtime().block_on(async {
        for keep in [Keep::Newest, Keep::Oldest] {
            let identity = Identity::Key(keep);
            let (disk, set) = (SimDisk::default(), set(0, identity));
            let opened = open(&disk, small_options(Fsync::Group)).await;
            // Its table is in memory, and needs no check of the data behind it.
            for _ in 0..40 {
                let members = (0..4).map(|n| member(identity, n, START + n)).collect();
                opened.session.add(&op(), &set, members).await.unwrap();
            }
            let next = liststore_testkit::in_turn::InTurn::around(opened.store.open_session().await.unwrap());
            let Opened { store, session, .. } = opened;
            let held = disk.hold_syncs();
            let mut left = Started::default();
            left.start(&session, op(), &set, vec![member(identity, 1, START + 100), member(identity, 7, START + 7)]);
            assert!(left.waits.is_empty(), "it is queued");
            drop(session);
            let mut started = Started::default();
            started.start(&next, op(), &set, vec![member(identity, 1, START + 50), member(identity, 7, START + 50)]);
            drop(held);
            assert!(left.end().await.iter().chain(&started.end().await).all(Result::is_ok));
            let found = checked(&next, &op(), &set, "after both").await;
            assert_eq!(found.len(), 5);
            drop(store);
        }
    });
}
