//! `liststore bench`: a load generator for a running server.
//!
//! A run goes so: the options become a plan ([`args`]); the data set is found or loaded ([`setup`],
//! [`dataset`], [`load`]); threads with connections of their own send requests and measure
//! ([`worker`]) while this file conducts them; and the results are printed ([`report`]). It speaks
//! HTTP through a client of its own, made to cost little ([`http`], [`socket`]), so that it can
//! share a small machine with the server.

mod args;
mod checks;
mod choice;
mod conductor;
mod connection;
mod cpu;
mod data;
mod dataset;
mod draw;
mod http;
mod input;
mod load;
mod operation;
mod pacer;
mod plan;
mod protocol;
mod report;
mod resp;
mod schedule;
mod setup;
mod socket;
mod stats;
mod worker;

use std::sync::Arc;

pub(super) use args::Arguments;

use super::block_on;
use super::failure::Failure;
use crate::domain::{Clock, SystemClock, Timestamp, Ttl};
use checks::Expectations;
use choice::Popularity;
use conductor::Conducted;
use data::DataSet;
use dataset::{Decision, Description};
use http::Http;
use plan::{Mode, Plan};
use protocol::Protocol;
use report::{Report, grouped};
use resp::Resp;
use setup::{RedisSide, ServerSide, Side};

/// A get's answer of more bytes than this may end before its limit (`http.response_bytes_max`).
const WHOLE_ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Items that expire so soon after the run are not counted on.
const EXPIRY_MARGIN_NANOS: u64 = 60_000_000_000;

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    arguments.check().map_err(Failure::Usage)?;
    let mode = arguments.mode().map_err(Failure::Usage)?;
    if let Some(pid) = arguments.server_pid {
        cpu::of_process_tree(pid).map_err(|e| Failure::Usage(format!("--server-pid: {e}")))?;
    }
    let prepared = block_on(prepare(&arguments, &mode))?;
    if arguments.duration.is_zero() {
        return Ok(());
    }
    let Prepared { target, addresses, description, ttl } = prepared;
    let data = description.data;
    let expectations = expectations(&arguments, description, ttl);
    let plan = Arc::new(Plan {
        protocol: target.protocol(data, &arguments),
        addresses,
        mode,
        popularity: Popularity::new(data.lists, arguments.zipf).map_err(Failure::Usage)?,
        data,
        batch: arguments.batch,
        expectations,
        check_every: arguments.check_every,
        connections: arguments.connections as usize,
        threads: arguments.threads as usize,
        warmup: arguments.warmup,
        duration: arguments.duration,
        timeout: arguments.timeout,
        seed: arguments.seed,
    });
    let Conducted { measured, interrupted, lost } =
        block_on(conductor::conduct(Arc::clone(&plan), arguments.server_pid))?;
    let report = Report::new(target.name(), &plan, arguments.zipf, measured)?;
    report.print(arguments.output)?;
    match lost {
        Some(reason) => Err(Failure::failed(format!("the server was lost: {reason}"))),
        None if report.wrong_answers > 0 => Err(Failure::failed("answers were found wrong")),
        None if report.total.requests == 0 && !interrupted => Err(Failure::failed("no request succeeded")),
        None => Ok(()),
    }
}

/// How to speak with the side that holds the lists.
enum Target {
    Server { endpoint: http::Endpoint, url: String },
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

    fn protocol(&self, data: DataSet, arguments: &Arguments) -> Protocol {
        let (batch, limit) = (arguments.batch, arguments.limit);
        match self {
            Self::Server { endpoint, .. } => Protocol::Http(Http::new(endpoint, data, batch, limit)),
            Self::Redis { feature, .. } => Protocol::Resp(Resp::new(feature, data, batch, limit)),
        }
    }
}

/// Finds or loads the data set.
async fn prepare(arguments: &Arguments, mode: &Mode) -> Result<Prepared, Failure> {
    let feature = format!("{}.{}", arguments.entity_type.as_str(), arguments.feature.as_str());
    let now_nanos = SystemClock.now().as_nanos();
    let (mut side, target) = connect(arguments, &feature).await?;
    let (found, ttl) = side.find().await?;
    let decision =
        dataset::decide(arguments.load, &arguments.shape(), found, &feature, now_nanos).map_err(Failure::failed)?;
    let begun = |data| Description { data, loaded: false, intact: true };
    let (mut description, ttl) = match decision {
        Decision::Create(data) => {
            check_life(&data, arguments.ttl, now_nanos)?;
            side.create(arguments.ttl, begun(data)).await?;
            // Learns the labels that a later change must keep.
            side.find().await?;
            (load(&side, &target, begun(data), arguments).await?, arguments.ttl)
        }
        Decision::Load(data) => (load(&side, &target, begun(data), arguments).await?, ttl),
        Decision::Use(description) => {
            if arguments.load {
                eprintln!("{feature} is loaded already");
            } else if !description.loaded {
                eprintln!("{feature} was not loaded to its end: --load finishes it");
            }
            (description, ttl)
        }
        // Nothing is known of these lists.
        Decision::Foreign(data) => (Description { data, loaded: false, intact: false }, ttl),
    };
    if mode.removes() && description.intact && !arguments.duration.is_zero() {
        description.intact = false;
        side.describe(description).await?;
    }
    Ok(Prepared { target, addresses: side.addresses().to_vec(), description, ttl })
}

async fn connect(arguments: &Arguments, feature: &str) -> Result<(Side, Target), Failure> {
    if let Some(address) = &arguments.redis {
        // Only for commands, which know no lists.
        let protocol = Resp::new(feature, arguments.shape().data_set(u64::MAX).map_err(Failure::Usage)?, 1, 1);
        let side = RedisSide::new(address, feature, protocol).await?;
        return Ok((
            Side::Redis(Box::new(side)),
            Target::Redis { address: address.clone(), feature: feature.to_owned() },
        ));
    }
    let side = ServerSide::new(&arguments.server, arguments.entity_type.clone(), arguments.feature.clone()).await?;
    let target = Target::Server { endpoint: side.endpoint.clone(), url: arguments.server.url.to_string() };
    Ok((Side::Server(Box::new(side)), target))
}

/// Items that have expired already would not be stored.
fn check_life(data: &DataSet, ttl: Ttl, now_nanos: u64) -> Result<(), Failure> {
    let oldest = Timestamp::saturating_from_nanos(u128::from(data.oldest_nanos));
    if ttl.expiry_of(oldest) > now_nanos {
        return Ok(());
    }
    Err(Failure::Usage(format!("--ttl {ttl} is shorter than the time that the items of a list span")))
}

/// Loads the data set, and says so in its description.
async fn load(
    side: &Side,
    target: &Target,
    description: Description,
    arguments: &Arguments,
) -> Result<Description, Failure> {
    let data = description.data;
    side.await_visible(&target.protocol(data, arguments), arguments.timeout).await?;
    let (protocol, addresses) = (target.protocol(data, arguments), side.addresses().to_vec());
    let (connections, timeout) = (arguments.connections as usize, arguments.timeout);
    let loading = tokio::task::spawn_blocking(move || load::run(protocol, &addresses, data, connections, timeout));
    let took = loading.await.map_err(|e| Failure::failed(e.to_string()))?.map_err(Failure::failed)?;
    eprintln!(
        "loaded {} lists of {} items in {:.1} s: {} items/s",
        grouped(data.lists as f64),
        grouped(data.length as f64),
        took.as_secs_f64(),
        grouped(data.items() as f64 / took.as_secs_f64().max(1e-9))
    );
    let description = Description { loaded: true, ..description };
    side.describe(description).await?;
    Ok(description)
}

fn expectations(arguments: &Arguments, description: Description, ttl: Ttl) -> Expectations {
    let Description { data, loaded, intact } = description;
    let is_ours = loaded || intact;
    let oldest = Timestamp::saturating_from_nanos(u128::from(data.oldest_nanos));
    let run_nanos = u64::try_from((arguments.warmup + arguments.duration).as_nanos()).unwrap_or(u64::MAX);
    let last_nanos = SystemClock.now().as_nanos().saturating_add(run_nanos).saturating_add(EXPIRY_MARGIN_NANOS);
    let is_whole = arguments.limit.saturating_mul(data.value_bytes as u64 + 64) <= WHOLE_ANSWER_BYTES_MAX;
    let is_complete = loaded && intact && is_whole && ttl.expiry_of(oldest) > last_nanos;
    Expectations {
        data: is_ours.then_some(data),
        items_min: if is_complete { data.length } else { 0 },
        limit: arguments.limit,
        batch: arguments.batch,
        value_bytes: data.value_bytes,
    }
}
