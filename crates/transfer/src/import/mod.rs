//! Bulk load from CSV and NDJSON files through a server's HTTP API: what `liststore import` does.
//!
//! The way of a row: a thread reads it from its file (`source`, `rows`), converts it to an item of the feature's value
//! type (`shape`) and adds it to the items of its list (`groups`). Groups cross a bounded buffer (`buffer`) to the
//! sender (`send`), which compares them with their lists (`compare`) and keeps a few adds in flight. Memory is bounded
//! for files of any size. Every row is an item: the meaning of a row must never be interpreted here.

mod bad_rows;
mod buffer;
mod coding;
mod compare;
mod csv_file;
mod csv_rows;
mod dialect;
mod groups;
mod input;
mod ndjson_rows;
mod progress;
mod read;
mod row;
mod rows;
mod send;
mod shape;
mod source;
mod stop;
mod tally;
mod target;
mod utf16;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use liststore_contract::operations::get_feature;
use tokio::time::Instant;

use crate::client::{Client, Failure, Request, Retries, ServerUrl, known_versions};
use crate::domain::{FeatureId, IdentityKind, VersionLabel};
use crate::typed_times::TimeReader;
use crate::wire::Feature;
use bad_rows::BadRows;
use buffer::Buffer;
pub(crate) use coding::{Encoder, FileCoding};
use compare::Comparison;
pub(crate) use csv_file::{CsvFile, EXPORT_COLUMNS, OPEN_END};
pub use dialect::{CsvDialect, CsvEscape};
pub(crate) use input::Input;
pub use input::{open, read_line};
pub(crate) use ndjson_rows::entity_id;
use progress::Progress;
pub(crate) use row::Unreadable;
use send::Pace;
pub use shape::Columns;
use shape::Shape;
pub use source::FileFormat;
pub(crate) use tally::NO_ZONE;
pub use tally::RowCounts;
use tally::Tally;
use target::Target;

/// The source and the destination of an import.
#[derive(Debug)]
pub struct ImportOptions {
    pub server: ServerUrl,
    pub feature: FeatureId,
    pub version: VersionLabel,
    /// `-` is standard input.
    pub files: Vec<PathBuf>,
    /// None if the files' names determine it.
    pub format: Option<FileFormat>,
    pub columns: Columns,
    pub times: TimeReader,
    pub dialect: CsvDialect,
    /// The file that bad rows go to; without one, the first of them ends the import.
    pub bad_rows: Option<PathBuf>,
    /// Adds that may be in flight.
    pub concurrency: usize,
    /// Maximum number of items to compare with their lists, to count the items that were already there.
    pub compared_max: u64,
    /// Whether an import most of whose rows have expired is a success.
    pub accepts_expired: bool,
}

/// The result of an import, complete or not.
#[derive(Debug)]
pub struct Summary {
    pub counts: RowCounts,
    /// Signs that rows were not read as they were meant.
    pub warnings: Vec<String>,
    pub elapsed: Duration,
}

/// Imports all files. An error means that nothing was sent. Otherwise there is a summary, also of an import that
/// failed half-way.
pub async fn run(options: ImportOptions) -> Result<(Summary, Result<(), Failure>), Failure> {
    let sources = source::name_all(&options.files, options.format)?;
    // A server that was never reachable is reported at once. An outage during the import is waited for.
    let client = Client::new(options.server.clone(), None, Retries::PATIENT)?.for_people();
    let shape = shape(&client, &options).await?;
    let comparison = Comparison::new(&shape.properties, options.compared_max);
    let client = client.with_retries(Retries::PERSISTENT);
    let bad_rows =
        options.bad_rows.as_deref().map(|file| BadRows::create(file, &sources, options.dialect)).transpose()?;
    let tally = Arc::new(Tally::new(bad_rows));
    let progress = Progress::start(source::total_bytes(&sources), Arc::clone(&tally));
    let started = Instant::now();

    let pace = Pace { concurrency: options.concurrency, is_live: source::is_live(&sources) };
    let buffer = Arc::new(Buffer::new(pace.concurrency, pace.is_live));
    let reading =
        read::start(sources.clone(), (shape.clone(), options.dialect), Arc::clone(&buffer), Arc::clone(&tally))?;
    let target = Target {
        client,
        feature: options.feature,
        version: options.version,
        shape,
        sources,
        tally: Arc::clone(&tally),
    };
    let sent = send::send_all(&target, &comparison, &buffer, reading, pace, &progress).await;
    progress.finish();
    let done = sent.and(tally.finish()).and_then(|()| tally.check(options.accepts_expired));
    Ok((Summary { counts: tally.counts(), warnings: tally.warnings(), elapsed: started.elapsed() }, done))
}

/// Requests the value type of the feature.
async fn shape(client: &Client, options: &ImportOptions) -> Result<Shape, Failure> {
    let id = &options.feature;
    let feature: Feature = client.ask(&Request::of_feature(&get_feature::ROW, id)).await?;
    let label = options.version.as_str();
    let version = feature.versions.iter().find(|version| version.version == label);
    let version = version.ok_or_else(|| {
        Failure::failed(format!("the feature {id} has no version {label:?}: {}", known_versions(&feature)))
    })?;
    let key = match (&options.columns.key, version.properties.identity) {
        (Some(_), IdentityKind::Item | IdentityKind::Value) => {
            return Err(Failure::Usage(format!("the items of {id} have no keys: omit --key-column")));
        }
        // As an export names it.
        (None, IdentityKind::Key) => Some("key".to_owned()),
        (given, _) => given.clone(),
    };
    let columns = Columns { key, ..options.columns.clone() };
    let mut shape = Shape::new(columns, options.times.clone(), feature.value_type)?;
    shape.properties = version.properties.clone();
    Ok(shape)
}
