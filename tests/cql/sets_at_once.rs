//! Several servers that write one set at once, with answers and requests that are late or lost, and one that is killed
//! repeatedly. No reader encounters a member twice, no add is lost, and in the end rows and entries agree.
//! `LISTSTORE_TEST_SET_OPERATIONS` is the number of operations.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use liststore::domain::{Identity, Item, ItemKey, Keep, ListKey, MemberKey, NewItem, Order, Timestamp, ValueDigest};
use liststore::items::cql::CqlOptions;
use liststore::items::{ItemPage, Range, Removal, StoreError};
use scylla_proxy::{Condition, Reaction, RequestOpcode, RequestReaction, RequestRule};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::cassandra::shared_options;
use crate::forger::Forger;
use crate::probe::{EVERYTHING, Server, bare, fresh_set, now};
use crate::sets::StoredSet;

const MEMBERS: usize = 50;
/// Members that are added and never removed: of these no add may be lost.
const KEPT: usize = 10;
const OPERATIONS: i64 = 2_400;
/// The number of operations after which the next sets begin: a lost write of a set is visible as long as nothing newer
/// covers it.
const ROUND: i64 = 150;
const IDENTITIES: [Identity; 2] = [Identity::Key(Keep::Newest), Identity::Value(Keep::Oldest)];
/// How long a server lives that is killed over and over.
const LIFE: Duration = Duration::from_millis(1_500);
/// A row of a write that may be under way is left alone for 40 s.
const PATIENCE: Duration = Duration::from_secs(300);

/// The shared state of all servers of the test.
struct Common {
    /// The sets of each round, from the last to the first.
    rounds: Vec<[ListKey; 2]>,
    base: Timestamp,
    left: AtomicI64,
    /// The item that must remain of a kept member, by round and set.
    acknowledged: Mutex<BTreeMap<(usize, usize, usize), ItemKey>>,
    failed: AtomicU64,
}

impl Common {
    fn stored(&self, set: usize, member: usize) -> Bytes {
        let (name, payload) = (format!("m{member}"), format!("v{}", fastrand::u8(..7)));
        match IDENTITIES[set] {
            Identity::Key(_) => MemberKey::new(&name).unwrap().store(payload.as_bytes()),
            _ => name.into(),
        }
    }

    /// Usually the last one stays, and among concurrent ones any.
    fn at(&self, set: usize) -> Timestamp {
        let elapsed = now().as_nanos() - self.base.as_nanos() + fastrand::u64(..40) * 1_000_000;
        let nanos = match IDENTITIES[set].keep().unwrap() {
            Keep::Newest => self.base.as_nanos() + elapsed,
            Keep::Oldest => self.base.as_nanos() - elapsed,
        };
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn expected(&self, (round, set): (usize, usize), member: usize) -> ItemKey {
        self.acknowledged.lock().unwrap()[&(round, set, member)]
    }

    fn acknowledge(&self, (round, set): (usize, usize), member: usize, key: ItemKey) {
        let mut all = self.acknowledged.lock().unwrap();
        let stays = all.entry((round, set, member)).or_insert(key);
        if IDENTITIES[set].keep().unwrap().replaces(&key, stays) {
            *stays = key;
        }
    }

    /// Adds some items to a set.
    async fn add(&self, server: &Server, (round, set): (usize, usize)) -> Result<(), StoreError> {
        let op = server.op();
        let mut items = Vec::new();
        let mut keys = Vec::new();
        for _ in 0..fastrand::usize(1..4) {
            // Half of them from the kept ones.
            let among = if fastrand::bool() { KEPT } else { MEMBERS };
            let member = fastrand::usize(..among);
            let (timestamp, value) = (self.at(set), self.stored(set, member));
            keys.push((member, ItemKey::new(timestamp, ValueDigest::of(&value))));
            items.push(NewItem { timestamp, value, expires_at: op.ttl.expiry_of(timestamp) });
        }
        server.session.add(&op, &self.rounds[round][set], items).await?;
        keys.retain(|(member, _)| *member < KEPT);
        for (member, key) in &keys {
            self.acknowledge((round, set), *member, *key);
        }
        let expected: Vec<_> = keys.iter().map(|(member, _)| self.expected((round, set), *member)).collect();
        let members: Vec<_> = keys.iter().map(|(member, _)| Bytes::from(format!("m{member}"))).collect();
        let found = server.session.lookup(&server.op(), &self.rounds[round][set], &members).await?;
        for ((member, expected), found) in members.iter().zip(expected).zip(found) {
            assert_stays(set, member, expected, found.as_ref().map(Item::key));
        }
        Ok(())
    }

    async fn remove(&self, server: &Server, (round, set): (usize, usize)) -> Result<(), StoreError> {
        let members = (0..fastrand::usize(1..4)).map(|_| fastrand::usize(KEPT..MEMBERS));
        let members = members.map(|member| format!("m{member}").into()).collect();
        server.session.remove(&server.op(), &self.rounds[round][set], &Removal::Members(members)).await.map(drop)
    }

    async fn read(&self, server: &Server, (round, set): (usize, usize)) -> Result<(), StoreError> {
        let order = if fastrand::bool() { Order::Newest } else { Order::Oldest };
        let mut range = Range { limit: fastrand::usize(1..60), order, ..EVERYTHING };
        for _ in 0..fastrand::usize(1..6) {
            let page = server.session.get(&server.op(), &self.rounds[round][set], &range).await?;
            self.check(set, &page);
            range.after = page.items.last().map(Item::key);
            if !page.more {
                break;
            }
        }
        Ok(())
    }

    fn check(&self, set: usize, page: &ItemPage) {
        let members: HashSet<_> = page.items.iter().map(|item| IDENTITIES[set].member(&item.value)).collect();
        assert_eq!(members.len(), page.items.len(), "a member stands twice: {page:?}");
    }

    /// Each kept member has the acknowledged item that must stay, or one of unknown outcome that took effect and
    /// precedes it.
    fn nothing_is_lost(&self, (round, set): (usize, usize), page: &ItemPage) {
        let acknowledged = self.acknowledged.lock().unwrap();
        for (&(.., member), expected) in acknowledged.range((round, set, 0)..(round, set, KEPT)) {
            let is_its = |item: &&Item| IDENTITIES[set].member(&item.value) == format!("m{member}").as_bytes();
            let found = page.items.iter().find(is_its).map(Item::key);
            assert_stays(set, format!("m{member}").as_bytes(), *expected, found);
        }
    }

    async fn work(&self, server: &Server) {
        loop {
            let left = self.left.fetch_sub(1, Ordering::SeqCst);
            if left <= 0 {
                return;
            }
            let set = (usize::try_from((left - 1) / ROUND).unwrap(), fastrand::usize(..2));
            let done = match fastrand::u8(..10) {
                0..6 => self.add(server, set).await,
                6..8 => self.remove(server, set).await,
                _ => self.read(server, set).await,
            };
            self.failed.fetch_add(u64::from(done.is_err()), Ordering::SeqCst);
        }
    }
}

#[track_caller]
fn assert_stays(set: usize, member: &[u8], expected: ItemKey, found: Option<ItemKey>) {
    let stays = found.is_some_and(|found| IDENTITIES[set].keep().unwrap().replaces(&found, &expected));
    let (identity, member) = (IDENTITIES[set], String::from_utf8_lossy(member));
    assert!(stays, "{member} of {identity}: {expected} was acknowledged, and there is {found:?}");
}

/// A server on a separate thread, until the work is done or it is killed: then its connections break, at any step.
/// Returns the number of its repairs.
fn serve(common: Arc<Common>, options: CqlOptions, killed: Option<oneshot::Receiver<()>>) -> thread::JoinHandle<f64> {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let repaired = LocalSet::new().block_on(&runtime, async {
            let mut server = Server::open(options).await;
            server.deadline = Duration::from_secs(2);
            let killed = async {
                match killed {
                    Some(killed) => drop(killed.await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = common.work(&server) => {}
                () = killed => {}
            }
            server.metric("liststore_cql_members_repaired_total", "")
        });
        runtime.shutdown_background();
        repaired
    })
}

fn late_and_lost() -> Vec<RequestRule> {
    let some = |opcode, probability| {
        Condition::RequestOpcode(opcode)
            .and(Condition::not(Condition::ConnectionRegisteredAnyEvent))
            .and(Condition::RandomWithProbability(probability))
    };
    let delay = |millis| RequestReaction::delay(Duration::from_millis(millis));
    vec![
        RequestRule(some(RequestOpcode::Batch, 0.02), RequestReaction::drop_frame()),
        RequestRule(some(RequestOpcode::Batch, 0.01), delay(2_500)),
        RequestRule(some(RequestOpcode::Batch, 0.5), delay(15)),
        RequestRule(some(RequestOpcode::Execute, 0.1), delay(10)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_servers_lose_no_add_and_show_no_member_twice() {
    let operations = std::env::var("LISTSTORE_TEST_SET_OPERATIONS").ok().map_or(OPERATIONS, |n| n.parse().unwrap());
    let common = Arc::new(Common {
        rounds: (0..=operations / ROUND).map(|_| IDENTITIES.map(fresh_set)).collect(),
        base: now(),
        left: AtomicI64::new(operations),
        acknowledged: Mutex::default(),
        failed: AtomicU64::new(0),
    });
    let mut forger = Forger::start().await;
    forger.on_requests(late_and_lost());
    let whole = [shared_options(), forger.options.clone()];
    let whole = whole.map(|options| serve(Arc::clone(&common), options, None));
    let (mut kills, mut repaired) = (0, 0.0);
    while common.left.load(Ordering::SeqCst) > 0 {
        let (kill, killed) = oneshot::channel();
        let server = serve(Arc::clone(&common), forger.options.clone(), Some(killed));
        tokio::time::sleep(LIFE).await;
        kills += usize::from(kill.send(()).is_ok());
        repaired += tokio::task::spawn_blocking(|| server.join().unwrap()).await.unwrap();
    }
    for server in whole {
        repaired += tokio::task::spawn_blocking(|| server.join().unwrap()).await.unwrap();
    }
    forger.heal();
    let local = LocalSet::new();
    local.run_until(settle(&common, repaired, kills)).await;
}

/// Reads the sets until rows and entries agree, and compares them with the acknowledged operations.
async fn settle(common: &Common, mut repaired: f64, kills: usize) {
    let options = shared_options();
    let (server, bare) = (Server::open(options.clone()).await, bare(&options).await);
    let until = Instant::now() + PATIENCE;
    for (round, sets) in common.rounds.iter().enumerate() {
        for (set, list) in sets.iter().enumerate() {
            let page = loop {
                let page = server.get(list).await;
                common.check(set, &page);
                let stored = StoredSet::read(&bare, list).await;
                let shown: Vec<_> = page.items.iter().map(|item| item.key().to_string()).collect();
                let rows: Vec<_> = stored.rows.iter().map(|(key, _)| key.clone()).collect();
                // Requests from before a server's death may still arrive in between.
                let wrong = stored.disagreement().or_else(|| (shown != rows).then(|| format!("{shown:?}, {rows:?}")));
                let Some(wrong) = wrong else { break page };
                assert!(Instant::now() < until, "{wrong}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            common.nothing_is_lost((round, set), &page);
        }
    }
    repaired += server.metric("liststore_cql_members_repaired_total", "");
    let failed = common.failed.load(Ordering::SeqCst);
    eprintln!("{kills} kills, {failed} operations failed, {repaired} members repaired");
}
