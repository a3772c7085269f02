//! A load generator for a running server, which measures it as well: what `liststore bench` does.
//!
//! The course of a run: the data set is found or loaded ([`setup`], [`dataset`], [`load`]). Threads with separate
//! connections send requests and measure ([`worker`]) while one thread conducts them ([`conductor`]). Then a report is
//! made ([`report`]). The generator has a cheap HTTP client ([`http`], [`socket`]), so that it can share a small
//! machine with the server.

mod batch;
mod checks;
mod choice;
mod conductor;
mod connection;
mod cpu;
mod data;
mod dataset;
mod draw;
mod endpoint;
mod http;
mod input;
mod load;
mod operation;
mod pacer;
mod plan;
mod protocol;
mod report;
mod resp;
mod response;
mod schedule;
mod setup;
mod shape;
mod socket;
mod stats;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use checks::Expectations;
use choice::Popularity;
use conductor::Conducted;
use data::DataSet;
pub use data::{LISTS_MAX, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use dataset::{Decision, Description};
use http::Http;
use liststore_client::{Failure, ServerUrl};
use liststore_contract::domain::{Clock, EntityType, FeatureName, SystemClock, Timestamp, Ttl};
pub use operation::{Kind, Mix};
pub use plan::Mode;
use plan::Plan;
use protocol::Protocol;
pub use report::{Latency, Line, Report, grouped};
use resp::Resp;
use setup::{RedisSide, ServerSide, Side};
pub use shape::Shape;

/// A get's answer of more bytes than this may end before its limit (`http.response_bytes_max`).
const WHOLE_ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Items that expire so soon after the run are not counted on.
const EXPIRY_MARGIN_NANOS: u64 = 60_000_000_000;

/// Which load, on which lists, for how long.
#[derive(Debug)]
pub struct BenchOptions {
    pub target: TargetUrl,
    /// Whether the data set is made if it is not there.
    pub load: bool,
    pub entity_type: EntityType,
    pub feature: FeatureName,
    pub shape: Shape,
    /// Of a feature that is created.
    pub ttl: Ttl,
    pub mode: Mode,
    /// Items of a get.
    pub limit: u64,
    /// Lists of a get.
    pub lists_per_get: u64,
    /// Items of an add.
    pub batch: u64,
    /// The exponent of the lists' popularity; none if all are alike.
    pub zipf: Option<f64>,
    pub seed: u64,
    pub connections: usize,
    pub threads: usize,
    pub warmup: Duration,
    /// None is measured if it is zero.
    pub duration: Duration,
    /// Of one answer.
    pub timeout: Duration,
    /// One in this many answers is checked; 0 for none.
    pub check_every: u64,
    /// A process whose CPU time is measured, including its children.
    pub server_pid: Option<u32>,
}

/// Whether a feature with these labels is a data set that this load generator made.
pub fn is_data_set(labels: &BTreeMap<String, String>) -> bool {
    Description::from_labels(labels).is_some()
}

/// The target of the load.
#[derive(Debug)]
pub enum TargetUrl {
    Server(ServerUrl),
    /// `HOST:PORT` of a Redis.
    Redis(String),
}

/// The finding of a run.
pub struct Finding {
    pub report: Report,
    /// A person ended it early.
    pub interrupted: bool,
    /// Why the server became unreachable, if it did.
    pub lost: Option<String>,
}

/// Makes the data set ready and measures; nothing is found where there was nothing to measure.
pub async fn run(options: BenchOptions) -> Result<Option<Finding>, Failure> {
    if let Some(pid) = options.server_pid {
        cpu::of_process_tree(pid).map_err(|e| Failure::Usage(format!("--server-pid: {e}")))?;
    }
    let prepared = prepare(&options).await?;
    if options.duration.is_zero() {
        return Ok(None);
    }
    let Prepared { target, addresses, description, ttl } = prepared;
    let data = description.data;
    if options.lists_per_get > data.lists {
        let text = format!("a get of {} lists needs as many: there are {}", options.lists_per_get, data.lists);
        return Err(Failure::Usage(text));
    }
    let expectations = expectations(&options, description, ttl);
    let plan = Arc::new(Plan {
        protocol: target.protocol(data, &options),
        addresses,
        mode: options.mode,
        popularity: Popularity::new(data.lists, options.zipf).map_err(Failure::Usage)?,
        data,
        batch: options.batch,
        lists_per_get: options.lists_per_get,
        expectations,
        check_every: options.check_every,
        connections: options.connections,
        threads: options.threads,
        warmup: options.warmup,
        duration: options.duration,
        timeout: options.timeout,
        seed: options.seed,
    });
    let Conducted { measured, interrupted, lost } = conductor::conduct(Arc::clone(&plan), options.server_pid).await?;
    let report = Report::new(target.name(), &plan, options.zipf, measured)?;
    Ok(Some(Finding { report, interrupted, lost }))
}

/// How to communicate with the side that stores the lists.
enum Target {
    Server { endpoint: endpoint::Endpoint, url: String },
    Redis { address: String, feature: String },
}

struct Prepared {
    target: Target,
    addresses: Vec<std::net::SocketAddr>,
    description: Description,
    ttl: Ttl,
}

impl Target {
    fn name(&self) -> String {
        match self {
            Self::Server { url, .. } => url.clone(),
            Self::Redis { address, .. } => format!("redis://{address}"),
        }
    }

    fn protocol(&self, data: DataSet, options: &BenchOptions) -> Protocol {
        let (batch, limit) = (options.batch, options.limit);
        match self {
            Self::Server { endpoint, .. } => {
                Protocol::Http(Http::new(endpoint, data, batch, limit).getting(endpoint, limit, options.lists_per_get))
            }
            Self::Redis { feature, .. } => {
                Protocol::Resp(Resp::new(feature, data, batch, limit).getting(options.lists_per_get))
            }
        }
    }
}

/// Finds or loads the data set.
async fn prepare(options: &BenchOptions) -> Result<Prepared, Failure> {
    let feature = format!("{}.{}", options.entity_type.as_str(), options.feature.as_str());
    let now_nanos = SystemClock.now().as_nanos();
    let (mut side, target) = connect(options, &feature).await?;
    let (found, ttl) = side.find().await?;
    let decision =
        dataset::decide(options.load, &options.shape, found, &feature, now_nanos).map_err(Failure::failed)?;
    let begun = |data| Description { data, loaded: false, intact: true };
    let (mut description, ttl) = match decision {
        Decision::Create(data) => {
            check_life(&data, options.ttl, now_nanos)?;
            side.create(options.ttl, begun(data)).await?;
            // Reads the labels that a later change must retain.
            side.find().await?;
            (load(&side, &target, begun(data), options).await?, options.ttl)
        }
        Decision::Load(data) => (load(&side, &target, begun(data), options).await?, ttl),
        Decision::Use(description) => {
            if options.load {
                eprintln!("{feature} is already loaded");
            } else if !description.loaded {
                eprintln!("{feature} is loaded only partly: pass --load to finish it");
            }
            (description, ttl)
        }
        // Nothing is known of these lists.
        Decision::Foreign(data) => (Description { data, loaded: false, intact: false }, ttl),
    };
    if options.mode.removes() && description.intact && !options.duration.is_zero() {
        description.intact = false;
        side.describe(description).await?;
    }
    Ok(Prepared { target, addresses: side.addresses().to_vec(), description, ttl })
}

async fn connect(options: &BenchOptions, feature: &str) -> Result<(Side, Target), Failure> {
    let url = match &options.target {
        TargetUrl::Server(url) => url,
        TargetUrl::Redis(address) => {
            // Only for commands, which know no lists.
            let protocol = Resp::new(feature, options.shape.data_set(u64::MAX).map_err(Failure::Usage)?, 1, 1);
            let side = RedisSide::new(address, feature, protocol).await?;
            return Ok((
                Side::Redis(Box::new(side)),
                Target::Redis { address: address.clone(), feature: feature.to_owned() },
            ));
        }
    };
    let side = ServerSide::new(url, options.entity_type.clone(), options.feature.clone()).await?;
    let target = Target::Server { endpoint: side.endpoint.clone(), url: url.to_string() };
    Ok((Side::Server(Box::new(side)), target))
}

/// Items that have expired already would not be stored.
fn check_life(data: &DataSet, ttl: Ttl, now_nanos: u64) -> Result<(), Failure> {
    let oldest = Timestamp::saturating_from_nanos(u128::from(data.oldest_nanos));
    if ttl.expiry_of(oldest) > now_nanos {
        return Ok(());
    }
    Err(Failure::Usage(format!("--ttl {ttl} is shorter than the time span of a list's items")))
}

/// Loads the data set, and describes it in the labels.
async fn load(
    side: &Side,
    target: &Target,
    description: Description,
    options: &BenchOptions,
) -> Result<Description, Failure> {
    let data = description.data;
    side.await_visible(&target.protocol(data, options), options.timeout).await?;
    let (protocol, addresses) = (target.protocol(data, options), side.addresses().to_vec());
    let (connections, timeout) = (options.connections, options.timeout);
    let loading = tokio::task::spawn_blocking(move || load::run(protocol, &addresses, data, connections, timeout));
    let took = loading.await.map_err(|e| Failure::failed(e.to_string()))?.map_err(Failure::failed)?;
    eprintln!(
        "loaded {} lists of {} items in {:.1} s: {} items/s",
        grouped(data.lists as f64),
        grouped(data.length as f64),
        took.as_secs_f64(),
        grouped(data.items() as f64 / took.as_secs_f64().max(1e-9))
    );
    if matches!(side, Side::Server(_)) {
        let (of, name) = (options.entity_type.as_str(), options.feature.as_str());
        eprintln!("liststore bench --entity-type {of} --feature {name} --clean-up --duration 0s removes them");
    }
    let description = Description { loaded: true, ..description };
    side.describe(description).await?;
    Ok(description)
}

fn expectations(options: &BenchOptions, description: Description, ttl: Ttl) -> Expectations {
    let Description { data, loaded, intact } = description;
    let is_ours = loaded || intact;
    let oldest = Timestamp::saturating_from_nanos(u128::from(data.oldest_nanos));
    let run_nanos = u64::try_from((options.warmup + options.duration).as_nanos()).unwrap_or(u64::MAX);
    let last_nanos = SystemClock.now().as_nanos().saturating_add(run_nanos).saturating_add(EXPIRY_MARGIN_NANOS);
    let is_whole = options.limit.saturating_mul(options.lists_per_get).saturating_mul(data.value_bytes as u64 + 64)
        <= WHOLE_ANSWER_BYTES_MAX;
    let is_complete = loaded && intact && is_whole && ttl.expiry_of(oldest) > last_nanos;
    Expectations {
        data: is_ours.then_some(data),
        items_min: if is_complete { data.length } else { 0 },
        limit: options.limit,
        batch: options.batch,
        value_bytes: data.value_bytes,
    }
}
