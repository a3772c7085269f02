//! `liststore export`: the items of a feature version in a file.

use std::path::{Path, PathBuf};

use liststore_contract::operations::get_feature;
use serde::{Deserialize, Serialize};

use super::ExportFormat;
use super::checkpoint::{Begun, Checkpoint};
use super::file::ExportFile;
use super::progress::Progress;
use super::source::{Sink, Source};
use crate::client::{Client, Failure, Request, Retries, ServerUrl, known_versions};
use crate::domain::{FeatureId, Timestamp, VersionLabel};
use crate::wire::{Feature, Item};

#[derive(Debug)]
pub struct ExportOptions {
    pub server: ServerUrl,
    pub feature: FeatureId,
    pub version: VersionLabel,
    /// Lists are written as of this time, if their items are still stored.
    pub as_of: Option<Timestamp>,
    /// `-` is standard output.
    pub output: PathBuf,
    pub format: ExportFormat,
}

/// The content of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Exported {
    pub lists: u64,
    pub items: u64,
    /// Whether an earlier run had written some of it.
    #[serde(skip_deserializing)]
    pub resumed: bool,
}

struct ToFile {
    file: ExportFile,
    exported: Exported,
    last: Option<String>,
}

impl Sink for ToFile {
    async fn take(&mut self, entity_id: &str, items: &[Item]) -> Result<(), Failure> {
        // A list may span several consecutive answers.
        if self.last.as_deref() != Some(entity_id) {
            self.exported.lists += 1;
            self.last = Some(entity_id.to_owned());
        }
        self.exported.items += items.len() as u64;
        self.file.write(entity_id, items)
    }
}

/// Writes the file, or continues an interrupted run.
pub async fn export(options: ExportOptions) -> Result<Exported, Failure> {
    let ExportOptions { server, feature, version, as_of, output, format } = options;
    let of_then = as_of.map(|moment| format!(", as of {moment},")).unwrap_or_default();
    let run = format!("the export of {feature}, version {:?},{of_then} from {server} as {format:?}", version.as_str());
    let client = Client::new(server, None, Retries::PATIENT)?.for_people();
    let found: Feature = client.ask(&Request::of_feature(&get_feature::ROW, &feature)).await?;
    let client = client.with_retries(Retries::PERSISTENT);
    let of_version = found.versions.iter().find(|known| known.version == version.as_str());
    let of_version = of_version.ok_or_else(|| {
        let (label, known) = (version.as_str(), known_versions(&found));
        Failure::failed(format!("the feature {feature} has no version {label:?} (version_not_found): {known}"))
    })?;
    // A Parquet file is invalid without its footer, so a partial one cannot be continued.
    let can_continue = output != Path::new("-") && format != ExportFormat::Parquet;
    let checkpoint = can_continue.then(|| Checkpoint::new(&output, run));
    let (part, exported, page_token) = match checkpoint.as_ref().map(Checkpoint::begin).transpose()? {
        Some(Begun::Whole(exported)) => return Ok(Exported { resumed: true, ..exported }),
        Some(Begun::Part { file, bytes, exported, page_token }) => {
            (Some((file, bytes)), Exported { resumed: bytes > 0, ..exported }, page_token)
        }
        None if output.exists() => {
            let name = output.display();
            return Err(Failure::failed(format!("{name} already exists: remove it, or write another file")));
        }
        None => (None, Exported::default(), None),
    };
    let file = ExportFile::open(
        &output,
        part,
        format,
        &feature,
        &version,
        (found.value_type, of_version.properties.identity),
    )?;
    let sink = ToFile { file, exported, last: None };
    let source = Source { client: &client, feature: &feature, version: &version, min_timestamp: None, as_of };
    let written = write(&source, sink, page_token, checkpoint.as_ref()).await;
    written.map_err(|failure| match &checkpoint {
        Some(checkpoint) => checkpoint.broken_off(failure),
        None => failure,
    })
}

/// Writes everything after a place, part by part.
async fn write(
    source: &Source<'_>,
    mut sink: ToFile,
    mut page_token: Option<String>,
    checkpoint: Option<&Checkpoint>,
) -> Result<Exported, Failure> {
    let mut progress = Progress::start();
    let bytes = loop {
        let before = sink.exported.items;
        page_token = source.part(page_token.as_deref(), &mut sink).await?;
        let bytes = sink.file.end_part()?;
        progress.add(&source.feature.to_string(), sink.exported.items - before);
        match (&page_token, checkpoint) {
            (Some(token), Some(checkpoint)) => checkpoint.hold(&sink.exported, bytes, token)?,
            (Some(_), None) => {}
            (None, _) => break bytes,
        }
    };
    progress.finish();
    sink.file.finish()?;
    checkpoint.map_or(Ok(()), |checkpoint| checkpoint.finish(&sink.exported, bytes))?;
    Ok(sink.exported)
}
