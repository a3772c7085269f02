//! What the item session costs over the bare driver: the same statements on the same Cassandra, in
//! turns, as many requests in flight. Prints operations per second and client CPU per operation, and
//! the session's share of the bare driver's.
//!
//! `cargo bench --bench cql` uses the node that `LISTSTORE_TEST_CASSANDRA` names, or starts one. One
//! thread drives each side, as an arbiter does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark prints")]

#[path = "../tests/support/cassandra.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod cassandra;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use liststore::domain::{
    Clock, EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ItemKey, ListKey, NewItem,
    SystemClock, Timestamp, Ttl, ValueDigest, VersionLabel,
};
use liststore::items::cql::{CqlOptions, CqlStore, Texts};
use liststore::items::{ItemSession, ItemStore, Operation, Range};
use prometheus::Registry;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::PagingState;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

const LISTS: usize = 1_000;
const ITEMS: u64 = 200;
const IN_FLIGHT: usize = 50;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(3);
const VALUE_BYTES: usize = 12;

struct Bench {
    driver: Session,
    get: PreparedStatement,
    add: PreparedStatement,
    session: Rc<dyn ItemSession>,
    lists: Vec<ListKey>,
    newest: u64,
    ttl: Ttl,
}

#[derive(Clone, Copy)]
enum Side {
    Bare,
    Session,
}

#[derive(Clone, Copy)]
enum Work {
    Get,
    Add,
}

impl Bench {
    async fn open(options: CqlOptions) -> Self {
        let driver = SessionBuilder::new().known_nodes(&options.contact_points).build().await.unwrap();
        let texts = Texts::of(&options.keyspace);
        let prepare = async |text: &str| {
            let mut prepared = driver.prepare(text).await.unwrap();
            prepared.set_consistency(Consistency::LocalQuorum);
            prepared.set_use_cached_result_metadata(true);
            prepared.set_page_size(51);
            prepared
        };
        let (get, add) = (prepare(&texts.get).await, prepare(&texts.add).await);
        let store = CqlStore::open(options, Arc::new(SystemClock), &Registry::new()).unwrap();
        let session = store.open_session().await.unwrap();
        let name = FeatureName::new(&format!("bench{}", uuid::Uuid::new_v4().simple())).unwrap();
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name };
        let key = FeatureKey::new(&id, &VersionLabel::new("").unwrap(), Generation::FIRST);
        let lists = (0..LISTS).map(|n| ListKey::new(key.clone(), EntityId::new(&format!("u-{n}")).unwrap())).collect();
        let newest = SystemClock.now().as_nanos();
        let bench = Self { driver, get, add, session, lists, newest, ttl: Ttl::from_secs(86_400).unwrap() };
        for list in bench.lists.chunks(IN_FLIGHT) {
            let fills = list.iter().map(|list| bench.session.add(&bench.op(), list, bench.items(0, ITEMS)));
            join_all(fills.collect::<Vec<_>>()).await.into_iter().for_each(|filled| filled.unwrap());
        }
        bench
    }

    fn op(&self) -> Operation {
        Operation { now: SystemClock.now(), ttl: self.ttl, deadline: tokio::time::Instant::now() + Duration::from_secs(10) }
    }

    /// Items that are older than all before, so that the newest stay the same.
    fn items(&self, from: u64, count: u64) -> Vec<NewItem> {
        (from..from + count)
            .map(|n| {
                let timestamp = Timestamp::from_nanos(self.newest - n * 1_000).unwrap();
                let value = format!("{n:0VALUE_BYTES$}").into_bytes();
                NewItem { timestamp, value: value.into(), expires_at: self.ttl.expiry_of(timestamp) }
            })
            .collect()
    }

    async fn once(&self, side: Side, work: Work, n: usize) {
        let list = &self.lists[n.wrapping_mul(0x9e37_79b9) % LISTS];
        match (work, side) {
            (Work::Get, Side::Bare) => self.bare_get(list).await,
            (Work::Get, Side::Session) => {
                let range = Range {
                    min_timestamp: Timestamp::MIN,
                    max_timestamp: Timestamp::MAX,
                    after: None,
                    limit: 50,
                    value_bytes_max: 4 << 20,
                };
                let page = self.session.get(&self.op(), list, &range).await.unwrap();
                assert!(page.items.len() == 50 && page.more);
            }
            (Work::Add, Side::Bare) => self.bare_add(list, self.items(ITEMS + n as u64, 10)).await,
            (Work::Add, Side::Session) => {
                self.session.add(&self.op(), list, self.items(ITEMS + n as u64, 10)).await.unwrap();
            }
        }
    }

    async fn bare_get(&self, list: &ListKey) {
        let lower = format!("{:019}", self.ttl.visible_from(SystemClock.now()).as_nanos());
        let values = (list.feature_key.as_str(), list.entity_id.as_str(), lower, "9999999999999999999$", 51);
        let (rows, _) = self.driver.execute_single_page(&self.get, values, PagingState::start()).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        let read = rows.rows::<(&str, &[u8])>().unwrap().map(|row| row.unwrap().1.len()).count();
        assert_eq!(read, 51);
    }

    async fn bare_add(&self, list: &ListKey, items: Vec<NewItem>) {
        let writetime = i64::try_from(SystemClock.now().as_micros()).unwrap();
        let mut batch = Batch::new(BatchType::Logged);
        batch.set_consistency(Consistency::LocalQuorum);
        let rows: Vec<_> = items
            .iter()
            .map(|item| {
                batch.append_statement(self.add.clone());
                let key = ItemKey::new(item.timestamp, ValueDigest::of(&item.value)).to_string();
                (list.feature_key.as_str(), list.entity_id.as_str(), key, &item.value[..], 86_401, writetime)
            })
            .collect();
        self.driver.batch(&batch, rows).await.unwrap();
    }

    /// Operations per second, and microseconds of this thread's CPU per operation.
    async fn round(&self, side: Side, work: Work, seed: usize) -> (f64, f64) {
        let (began, cpu) = (Instant::now(), thread_cpu());
        let callers = (0..IN_FLIGHT).map(|caller| async move {
            let mut done = 0;
            while began.elapsed() < ROUND {
                self.once(side, work, seed + caller * 1_000_000 + done * 10).await;
                done += 1;
            }
            done
        });
        let done: usize = join_all(callers).await.into_iter().sum();
        let used = thread_cpu() - cpu;
        (done as f64 / began.elapsed().as_secs_f64(), used.as_secs_f64() * 1e6 / done as f64)
    }
}

/// The CPU time of the thread that asks (Linux, proc(5), `/proc/pid/schedstat`).
fn thread_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = Bench::open(cassandra::shared_options()).await;
        println!("{LISTS} lists of {ITEMS} items, {IN_FLIGHT} requests in flight, medians of {ROUNDS} rounds of {ROUND:?}");
        for (name, work) in [("get 50", Work::Get), ("add 10", Work::Add)] {
            let mut rounds = Vec::new();
            for round in 0..=ROUNDS {
                let bare = bench.round(Side::Bare, work, round).await;
                let session = bench.round(Side::Session, work, round + 5).await;
                // The first pair warms up.
                if round > 0 {
                    rounds.push((bare, session));
                }
            }
            let of = |pick: fn(&((f64, f64), (f64, f64))) -> f64| median(rounds.iter().map(pick).collect());
            println!(
                "{name}: bare {:.0}/s and {:.1} µs CPU, session {:.0}/s and {:.1} µs CPU; session ÷ bare: {:.3} of the \
                 operations, {:.3} of the CPU",
                of(|(bare, _)| bare.0),
                of(|(bare, _)| bare.1),
                of(|(_, session)| session.0),
                of(|(_, session)| session.1),
                of(|(bare, session)| session.0 / bare.0),
                of(|(bare, session)| session.1 / bare.1),
            );
        }
    });
}
