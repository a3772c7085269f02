//! The bare driver under the load of `liststore bench`: the server's statements, on the same keyspace and the same
//! lists, in a closed loop. The difference between the two, which `scripts/compare-driver` measures, is the server's
//! other work.
//!
//! `cargo bench --bench driver -- --contact-points 127.0.0.1:9042 --lists 1000` needs a data set that
//! `liststore bench --load` has put there through a server. Prints one JSON document.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use liststore::domain::{
    Clock, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ItemKey, SystemClock, Timestamp, Ttl,
    ValueDigest, VersionLabel,
};
use liststore::items::cql::{Dialect, Texts};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::PagingState;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    Gets,
    Adds,
}

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, value_delimiter = ',', required = true)]
    contact_points: Vec<String>,
    #[arg(long, default_value = "liststore")]
    keyspace: String,
    #[arg(long, default_value = "bench")]
    entity_type: String,
    #[arg(long, default_value = "lists")]
    feature: String,
    #[arg(long)]
    lists: u64,
    #[arg(long, value_enum, default_value = "gets")]
    work: Work,
    #[arg(long, default_value_t = 50)]
    limit: i32,
    #[arg(long, default_value_t = 10)]
    batch: u64,
    #[arg(long)]
    zipf: Option<f64>,
    /// Requests in flight
    #[arg(long, default_value_t = 50)]
    connections: u64,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[arg(long, default_value_t = 2)]
    warmup_secs: u64,
    #[arg(long, default_value_t = 10)]
    duration_secs: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The argument that cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

struct Driver {
    arguments: Arguments,
    session: Session,
    get: PreparedStatement,
    add: PreparedStatement,
    feature_key: String,
    began: Instant,
}

/// The items that are loaded live longer than this, so that the bound hides none of them.
const TTL_SECS: u64 = 3_650 * 86_400;

impl Driver {
    async fn open(arguments: Arguments) -> Self {
        let session = SessionBuilder::new().known_nodes(&arguments.contact_points).build().await.unwrap();
        let texts = Texts::of(&arguments.keyspace, Dialect::Cassandra);
        let prepare = async |text: &str| {
            let mut prepared = session.prepare(text).await.unwrap();
            prepared.set_consistency(Consistency::LocalQuorum);
            prepared.set_is_idempotent(true);
            prepared.set_use_cached_result_metadata(true);
            prepared.set_page_size(arguments.limit + 1);
            prepared
        };
        let (get, add) = (prepare(&texts.get).await, prepare(&texts.add).await);
        let id = FeatureId {
            entity_type: EntityType::new(&arguments.entity_type).unwrap(),
            name: FeatureName::new(&arguments.feature).unwrap(),
        };
        let feature_key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        Self { session, get, add, feature_key: feature_key.as_str().to_owned(), began: Instant::now(), arguments }
    }

    fn pick(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self.arguments.zipf {
            None => random.random_range(0..self.arguments.lists),
            Some(exponent) => Zipf::new(self.arguments.lists as f64, exponent).unwrap().sample(random) as u64 - 1,
        }
    }

    async fn get(&self, entity_id: &str) {
        // Like a server's request: from the oldest visible item, with one item more than requested, to detect whether
        // more follow.
        let ttl = Ttl::from_secs(TTL_SECS).unwrap();
        let lower = format!("{:019}", ttl.visible_from(SystemClock.now()).as_nanos());
        let upper = format!("{}$", Timestamp::MAX.as_nanos());
        let values = (&self.feature_key, entity_id, lower, upper, self.arguments.limit + 1);
        let (rows, _) = self.session.execute_single_page(&self.get, values, PagingState::start()).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        let read = rows.rows::<(&str, &[u8])>().unwrap().inspect(|row| assert!(row.is_ok())).count();
        assert!(read > 0, "{entity_id} is empty: is the data set there?");
    }

    async fn add(&self, entity_id: &str, random: &mut Xoshiro256PlusPlus) {
        let now = SystemClock.now();
        let writetime = i64::try_from(now.as_micros()).unwrap();
        let mut batch = Batch::new(BatchType::Logged);
        batch.set_consistency(Consistency::LocalQuorum);
        let items: Vec<(String, Vec<u8>)> = (0..self.arguments.batch)
            .map(|i| {
                batch.append_statement(self.add.clone());
                let value = format!("B{:011x}", random.random::<u64>() >> 20).into_bytes();
                let timestamp = Timestamp::from_nanos(now.as_nanos() - i * 1_000).unwrap();
                (ItemKey::new(timestamp, ValueDigest::of(&value)).to_string(), value)
            })
            .collect();
        let ttl_secs = i32::try_from(TTL_SECS).unwrap() + 1;
        let rows: Vec<_> = items
            .iter()
            .map(|(key, value)| (&self.feature_key, entity_id, key, value.as_slice(), ttl_secs, writetime))
            .collect();
        self.session.batch(&batch, rows).await.unwrap();
    }

    /// One of the callers. Returns the latencies of the operations that it began within the measured time.
    async fn call(self: Arc<Self>, caller: u64) -> Histogram<u64> {
        let begin = Duration::from_secs(self.arguments.warmup_secs);
        let end = begin + Duration::from_secs(self.arguments.duration_secs);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.arguments.seed * 1_000_003 + caller);
        let mut latencies = Histogram::new_with_bounds(1_000, 3_600_000_000_000, 3).unwrap();
        loop {
            let at = self.began.elapsed();
            if at >= end {
                return latencies;
            }
            let entity_id = format!("list-{:08}", self.pick(&mut random));
            match self.arguments.work {
                Work::Gets => self.get(&entity_id).await,
                Work::Adds => self.add(&entity_id, &mut random).await,
            }
            if at >= begin {
                latencies.saturating_record((self.began.elapsed() - at).as_nanos() as u64);
            }
        }
    }
}

/// CPU that this process has used, in microseconds.
fn cpu_micros() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
}

fn main() {
    let arguments = Arguments::parse();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(arguments.threads).enable_all().build().unwrap();
    runtime.block_on(async {
        let driver = Arc::new(Driver::open(arguments).await);
        let callers: Vec<_> =
            (0..driver.arguments.connections).map(|caller| tokio::spawn(Arc::clone(&driver).call(caller))).collect();
        tokio::time::sleep(Duration::from_secs(driver.arguments.warmup_secs)).await;
        let cpu_before = cpu_micros();
        let mut latencies: Histogram<u64> = Histogram::new_with_bounds(1_000, 3_600_000_000_000, 3).unwrap();
        for caller in callers {
            latencies.add(caller.await.unwrap()).unwrap();
        }
        let millis = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e6;
        let report = serde_json::json!({
            "requests": latencies.len(),
            "requests_per_sec": latencies.len() as f64 / driver.arguments.duration_secs as f64,
            "cpu_micros_per_request": (cpu_micros() - cpu_before) as f64 / latencies.len() as f64,
            "latency_ms": {"p50": millis(0.5), "p99": millis(0.99), "p99.9": millis(0.999)},
        });
        println!("{report}");
    });
}
