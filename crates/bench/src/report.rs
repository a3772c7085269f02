//! The results: a table for people, a document for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use liststore_client::Failure;
use serde::Serialize;

use super::data::DataSet;
use super::operation::Kind;
use super::plan::{Mode, Plan};
use super::stats::{KindStats, Stats};

/// The report of a run, serialised as it is.
#[derive(Debug, Serialize)]
pub struct Report {
    pub target: String,
    pub data_set: DataSet,
    pub connections: usize,
    pub threads: usize,
    /// `open` or `closed`.
    pub r#loop: &'static str,
    pub batch_items: u64,
    pub limit_items: u64,
    pub lists_per_get: u64,
    pub zipf_exponent: Option<f64>,
    pub seed: u64,
    pub measured_secs: f64,
    pub operations: Vec<Line>,
    pub total: Line,
    pub checked_answers: u64,
    pub wrong_answers: u64,
    pub examples: Vec<String>,
    pub reconnects: u64,
    pub generator: Option<Generator>,
    pub server: Option<Server>,
}

/// The measurements of one kind of operation, or of all.
#[derive(Debug, Serialize)]
pub struct Line {
    pub operation: &'static str,
    pub requests: u64,
    pub requests_per_sec: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_per_sec: Option<f64>,
    pub items: u64,
    pub items_per_sec: f64,
    pub latency_ms: Latency,
    /// Of answers that refused a request, from when it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal_ms: Option<Latency>,
    pub errors: BTreeMap<String, u64>,
    pub unsent: u64,
}

/// Milliseconds from when a request was due to the end of its answer.
#[derive(Debug, Serialize)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    pub max: f64,
}

#[derive(Debug, Serialize)]
pub struct Generator {
    pub cpu_micros_per_request: f64,
    /// Share of a core that the busiest thread took.
    pub busiest_thread: f64,
}

#[derive(Debug, Serialize)]
pub struct Server {
    pub cpu_secs: f64,
    pub cores: f64,
    pub cpu_micros_per_request: f64,
    pub items_per_cpu_sec: f64,
}

/// The measurements of a run.
pub struct Measured {
    pub stats: Stats,
    /// How long was measured: shorter than planned after an interruption.
    pub time: Duration,
    /// CPU time of each thread, if known.
    pub threads_cpu: Option<Vec<Duration>>,
    pub server_cpu: Option<Duration>,
}

fn round(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

impl Latency {
    fn of(latencies: &Histogram<u64>) -> Self {
        let millis = |nanos: f64| round(nanos / 1e6);
        let at = |quantile| millis(latencies.value_at_quantile(quantile) as f64);
        Self {
            mean: millis(latencies.mean()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: millis(latencies.max() as f64),
        }
    }
}

impl Line {
    fn new(operation: &'static str, stats: &KindStats, time: Duration, asked: Option<f64>) -> Self {
        let per_sec = |count: u64| round(count as f64 / time.as_secs_f64().max(1e-9));
        Self {
            operation,
            requests: stats.done,
            requests_per_sec: per_sec(stats.done),
            asked_per_sec: asked,
            items: stats.items,
            items_per_sec: per_sec(stats.items),
            latency_ms: Latency::of(&stats.latencies),
            refusal_ms: (!stats.refusals.is_empty()).then(|| Latency::of(&stats.refusals)),
            errors: stats.errors.clone(),
            unsent: stats.unsent,
        }
    }
}

impl Report {
    pub fn new(target: String, plan: &Plan, zipf: Option<f64>, measured: Measured) -> Result<Self, Failure> {
        let Measured { stats, time, threads_cpu, server_cpu } = measured;
        let total = stats.total().map_err(Failure::failed)?;
        let asked = |kind: Kind| match &plan.mode {
            Mode::Closed(_) => None,
            Mode::Open(rates) => rates.iter().find(|(of, _)| *of == kind).map(|(_, rate)| *rate),
        };
        let used = Kind::ALL.into_iter().filter(|kind| stats.of(*kind).is_used());
        let operations: Vec<Line> =
            used.map(|kind| Line::new(kind.name(), stats.of(kind), time, asked(kind))).collect();
        let asked_in_all = match &plan.mode {
            Mode::Closed(_) => None,
            Mode::Open(rates) => Some(rates.iter().map(|(_, rate)| rate).sum()),
        };
        let requests = (total.done + total.errors_in_all()).max(1) as f64;
        let secs = time.as_secs_f64().max(1e-9);
        let generator = threads_cpu.map(|threads| Generator {
            cpu_micros_per_request: round(threads.iter().sum::<Duration>().as_secs_f64() * 1e6 / requests),
            busiest_thread: round(threads.iter().max().map_or(0.0, Duration::as_secs_f64) / secs),
        });
        let server = server_cpu.map(|cpu| Server {
            cpu_secs: round(cpu.as_secs_f64()),
            cores: round(cpu.as_secs_f64() / secs),
            cpu_micros_per_request: round(cpu.as_secs_f64() * 1e6 / requests),
            items_per_cpu_sec: if cpu.is_zero() { 0.0 } else { round(total.items as f64 / cpu.as_secs_f64()) },
        });
        Ok(Self {
            target,
            data_set: plan.data,
            connections: plan.connections,
            threads: plan.threads,
            r#loop: if asked_in_all.is_some() { "open" } else { "closed" },
            batch_items: plan.batch,
            limit_items: plan.expectations.limit,
            lists_per_get: plan.lists_per_get,
            zipf_exponent: zipf,
            seed: plan.seed,
            measured_secs: round(time.as_secs_f64()),
            operations,
            total: Line::new("total", &total, time, asked_in_all),
            checked_answers: stats.checked,
            wrong_answers: stats.wrong,
            examples: stats.examples,
            reconnects: stats.reconnects,
            generator,
            server,
        })
    }
}

/// A number as people read it: `1,234,567`, with a decimal only if it is small.
pub fn grouped(number: f64) -> String {
    if number < 100.0 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (7.25, "7.2"),
            (999.6, "1,000"),
            (1_000.0, "1,000"),
            (123_456.4, "123,456"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
