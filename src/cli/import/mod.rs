//! `liststore import`: bulk load from CSV and NDJSON files through a server's HTTP API.
//!
//! A row travels so: a thread reads it from its file (`source`, `rows`), turns it into an item of
//! the feature's value type (`shape`) and puts it among the items of its list (`groups`); groups
//! cross a bounded channel to the sender (`send`), which keeps a few adds in flight. Memory is
//! bounded whatever the files' size. Every row is an item: what a row means must never be
//! interpreted here.

mod arguments;
mod bad_rows;
mod csv_rows;
mod groups;
mod line_starts;
mod ndjson_rows;
mod progress;
mod read;
mod rows;
mod send;
mod shape;
mod source;
mod tally;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::block_on;
use super::client::{Client, Request, Retries};
use super::failure::Failure;
use super::output::{Format, Output};
use crate::domain::Ttl;
use crate::service::OperationId;
use crate::wire::Feature;
pub(super) use arguments::Arguments;
use bad_rows::BadRows;
use progress::Progress;
use send::Target;
use shape::Shape;
use source::Source;
use tally::Tally;

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let columns = arguments.columns()?;
    let sources = source::name_all(&arguments.files, arguments.format)?;
    block_on(import(arguments, columns, sources))
}

async fn import(arguments: Arguments, columns: shape::Columns, sources: Vec<Source>) -> Result<(), Failure> {
    // A server that was never there is told at once; one that goes away later is waited for.
    let client = Client::new(arguments.server.url.clone(), None, Retries::PATIENT)?;
    let shape = shape(&client, &arguments, columns).await?;
    let client = client.with_retries(Retries::PERSISTENT);
    let bad_rows = arguments.bad_rows.as_deref().map(|file| BadRows::create(file, &sources)).transpose()?;
    let tally = Arc::new(Tally::new(bad_rows));
    let progress = Progress::start(source::total_bytes(&sources), Arc::clone(&tally));
    let started = Instant::now();

    let (groups_in, groups_out) = mpsc::channel(usize::from(arguments.concurrency));
    let reading = read::start(sources.clone(), shape.clone(), groups_in, Arc::clone(&tally))?;
    let target = Target {
        client,
        feature: arguments.feature_id(),
        version: arguments.version.version.clone(),
        shape,
        sources,
        tally: Arc::clone(&tally),
    };
    let sent = send::send_all(&target, groups_out, reading, usize::from(arguments.concurrency), &progress).await;
    progress.finish();
    let done = sent.and(tally.finish());
    summary(&tally, started.elapsed(), arguments.output)?;
    done
}

/// Asks the server what the feature's values are.
async fn shape(client: &Client, arguments: &Arguments, columns: shape::Columns) -> Result<Shape, Failure> {
    let id = arguments.feature_id();
    let feature: Feature = client.ask(&Request::of_feature(OperationId::GetFeature, &id)).await?;
    let label = arguments.version.version.as_str();
    let version = feature.versions.iter().find(|version| version.version == label);
    let version = version.ok_or_else(|| Failure::failed(format!("the feature {id} has no version {label:?}")))?;
    let ttl = Ttl::parse(&version.ttl)
        .map_err(|e| Failure::failed(format!("the server's response has a ttl that cannot be read: {e}")))?;
    Shape::new(columns, arguments.timestamp_unit, feature.value_type, ttl)
}

fn summary(tally: &Tally, elapsed: Duration, format: Format) -> Result<(), Failure> {
    let (rows, added, already_expired, bad) = tally.counts();
    let seconds = elapsed.as_secs_f64();
    let rows_per_second = (rows as f64 / seconds.max(1e-9)).round() as u64;
    let mut output = Output::open();
    match format {
        Format::Table => output.line(&format!(
            "{rows} rows: {added} items added, {already_expired} already expired, {bad} bad ({seconds:.1} s, \
             {rows_per_second} rows/s)"
        ))?,
        Format::Json | Format::Ndjson => output.json(&json!({
            "rows": rows, "added": added, "already_expired": already_expired, "bad": bad,
            "seconds": (seconds * 1e3).round() / 1e3, "rows_per_second": rows_per_second,
        }))?,
    }
    output.flush()
}
