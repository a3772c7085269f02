//! The results of a load: a table for people, a document for programs.

use crate::cli::failure::Failure;
use crate::cli::output::{Format, Output, counted};
use crate::domain::FeatureId;
use crate::loadgen::{Latency, Line, Report, grouped};

/// A generator thread above this share of a core is too slow.
const BUSY_MAX: f64 = 0.85;
/// A rate counts as reached from this share on.
const RATE_MISSED: f64 = 0.99;

pub(super) fn print(report: &Report, id: &FeatureId, format: Format) -> Result<(), Failure> {
    let mut output = Output::open();
    match format {
        Format::Table => table(report, id, &mut output)?,
        Format::Json | Format::Ndjson => output.json(report)?,
    }
    output.flush()
}

/// Prints the load and its parameters.
fn head(report: &Report, id: &FeatureId, output: &mut Output) -> Result<(), Failure> {
    let data = &report.data_set;
    let asked = report.total.asked_per_sec.map(|rate| format!(", {} requests per second", grouped(rate)));
    output.fields([
        ("target", report.target.clone()),
        ("loop", format!("{}{}", report.r#loop, asked.unwrap_or_default())),
        ("connections", format!("{}, of {}", report.connections, counted(report.threads as u64, "thread"))),
        (
            "data",
            format!(
                "{id}: {} lists of {} items, values of {} bytes",
                grouped(data.lists as f64),
                grouped(data.length as f64),
                data.value_bytes
            ),
        ),
        ("measured", format!("{:.1} s", report.measured_secs)),
    ])?;
    output.line("")
}

fn table(report: &Report, id: &FeatureId, output: &mut Output) -> Result<(), Failure> {
    head(report, id, output)?;
    let lines: Vec<&Line> = match &*report.operations {
        [only] => vec![only],
        operations => operations.iter().chain([&report.total]).collect(),
    };
    let rows: Vec<Vec<String>> = lines.iter().map(|line| row(line)).collect();
    let header = ["OPERATION", "REQUESTS/S", "ITEMS/S", "P50 MS", "P90 MS", "P99 MS", "P99.9 MS", "MAX MS", "ERRORS"];
    output.table(&header, &rows)?;
    output.line("")?;
    for line in &report.operations {
        for (code, count) in &line.errors {
            output.line(&format!("{} errors: {} {code}", line.operation, grouped(*count as f64)))?;
        }
    }
    notes(report).iter().try_for_each(|note| output.line(note))
}

/// Notes for people in addition to the numbers.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for line in &report.operations {
        if let Some(asked) = line.asked_per_sec
            && line.requests_per_sec < asked * RATE_MISSED
        {
            notes.push(format!(
                "the rate was not reached: {} of {} {}s per second were answered, {} were never sent",
                grouped(line.requests_per_sec),
                grouped(asked),
                line.operation,
                grouped(line.unsent as f64)
            ));
        }
    }
    if report.reconnects > 0 {
        notes.push(format!("connections were opened again {} times", grouped(report.reconnects as f64)));
    }
    match (report.checked_answers, report.wrong_answers) {
        (0, _) => {}
        (checked, 0) => notes.push(format!("checked {} answers: all are correct", grouped(checked as f64))),
        (checked, wrong) => {
            notes.push(format!("checked {} answers: {} ARE WRONG", grouped(checked as f64), grouped(wrong as f64)));
        }
    }
    notes.extend(report.examples.iter().map(|example| format!("  {example}")));
    if let Some(server) = &report.server {
        notes.push(format!(
            "server: {:.1} µs of CPU per request, {} items per CPU-second, {:.2} cores",
            server.cpu_micros_per_request,
            grouped(server.items_per_cpu_sec),
            server.cores
        ));
    }
    if let Some(generator) = &report.generator {
        notes.push(format!("generator: {:.1} µs of CPU per request", generator.cpu_micros_per_request));
        if generator.busiest_thread > BUSY_MAX {
            notes.push(format!(
                "a generator thread was busy {:.0}% of the time, so the server may be faster than measured: raise \
                 --threads",
                generator.busiest_thread * 100.0
            ));
        }
    }
    notes
}

fn row(line: &Line) -> Vec<String> {
    let Latency { p50, p90, p99, p99_9, max, .. } = line.latency_ms;
    let mut row = vec![line.operation.to_owned(), grouped(line.requests_per_sec), grouped(line.items_per_sec)];
    row.extend([p50, p90, p99, p99_9, max].map(|millis| format!("{millis:.3}")));
    row.push(grouped((line.errors.values().sum::<u64>() + line.unsent) as f64));
    row
}
