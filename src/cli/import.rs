//! `liststore import`: bulk load from CSV and NDJSON files. [`crate::import`] does the work.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::block_on;
use super::failure::{Failure, warn};
use super::output::{Format, Output, counted};
use super::parse::{Server, VersionOption};
use super::reading::ReadingArguments;
use crate::domain::{EntityType, FeatureId, FeatureName};
use crate::import::{self, Columns, FileFormat, ImportOptions, Summary};

const CONCURRENCY_DEFAULT: &str = "32";
const COMPARED_DEFAULT: &str = "100000";

const EXAMPLES: &str = "\
Examples:
  liststore import user story_presented events-*.csv.gz \\
    --entity-id-column user_id --timestamp-column at --value-column story

  liststore import customer purchase 2010-12.csv --bad-rows bad.csv \\
    --entity-id-column customer_id --timestamp-column invoice_date \\
    --value-columns stock_code,quantity

  some-export | liststore import user click - --format ndjson \\
    --entity-id-column user --value-column page \\
    --timestamp-column ts --timestamp-unit ms

  liststore import user story_presented exported.ndjson.zst

  liststore import status suspended --key-column user suspended.csv

CSV files begin with a line of column names; NDJSON files have one object per
line. Importing a file again adds nothing, because adding an item again
stores no second one. The summary counts such items as already there.

Truncated files are refused if the truncation is detectable. A CSV file without
a final line end is imported with a warning. The file of bad rows doubles its
quotes, regardless of --csv-escape.

Rows of a pipe are sent within about a second. Ctrl-C sends the rows that were
read and ends; a second one ends at once.

A timestamp is RFC 3339, a date, a time as databases write it, or a number in
the unit that --timestamp-unit names. --timestamp-format reads any other form.
Files are UTF-8, or UTF-16 if they begin with a byte order mark.";

/// Load items from CSV or NDJSON files, plain or compressed with gzip or zstd
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The kind of entity, instead of the first argument
    #[arg(long, value_parser = EntityType::new, requires = "feature", hide = true)]
    pub entity_type: Option<EntityType>,
    /// The feature's name, instead of the second argument
    #[arg(long, value_parser = FeatureName::new, requires = "entity_type", hide = true)]
    pub feature: Option<FeatureName>,
    #[command(flatten)]
    pub version: VersionOption,
    /// The format of the files [default: from their names]
    #[arg(long, value_enum)]
    pub format: Option<FileFormat>,
    /// The column with the entity ID
    #[arg(long, value_name = "COLUMN", default_value = "entity_id")]
    pub entity_id_column: String,
    /// The column with the timestamp
    #[arg(long, value_name = "COLUMN", default_value = "timestamp")]
    pub timestamp_column: String,
    #[command(flatten)]
    pub reading: ReadingArguments,
    /// The column with the value
    #[arg(long, value_name = "COLUMN", default_value = "value")]
    pub value_column: String,
    /// The column with the key, if items have keys [default: key]
    #[arg(long, value_name = "COLUMN")]
    pub key_column: Option<String>,
    /// The columns to combine into one JSON object per row, for a json feature; CSV cells become strings
    #[arg(long, value_name = "COLUMN,COLUMN,…", value_delimiter = ',', conflicts_with = "value_column")]
    pub value_columns: Vec<String>,
    /// Continue after bad rows and write them to this file with the reason, for correction
    #[arg(long, value_name = "FILE")]
    pub bad_rows: Option<PathBuf>,
    /// Maximum number of adds in flight; a higher number helps if lists are short
    #[arg(long, default_value = CONCURRENCY_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
    /// Maximum number of items to compare with their lists, to count items that were already there; all has no limit
    #[arg(long, value_name = "ITEMS", default_value = COMPARED_DEFAULT, value_parser = items_max)]
    pub compare: u64,
    /// Accept that most rows have already expired or have timestamps of another unit; otherwise the exit status is 1
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub server: Server,
    /// How to print the summary
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// The kind of entity and the feature's name, such as user story_presented, followed by the files; - is standard
    /// input
    #[arg(required = true, value_names = ["ENTITY_TYPE", "FEATURE", "FILE"], num_args = 1..)]
    pub words: Vec<OsString>,
}

/// A number of items, or `all`.
fn items_max(text: &str) -> Result<u64, String> {
    if text == "all" { Ok(u64::MAX) } else { text.parse().map_err(|_| "must be a whole number, or all".to_owned()) }
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let format = arguments.output;
    let options = arguments.options()?;
    block_on(async {
        let (summary, done) = import::run(options).await?;
        print(&summary, format)?;
        done.map_err(Failure::from)
    })
}

impl Arguments {
    fn options(self) -> Result<ImportOptions, Failure> {
        let columns = self.columns()?;
        let (feature, files) = self.feature_and_files()?;
        Ok(ImportOptions {
            server: self.server.url().map_err(Failure::Usage)?,
            feature,
            version: self.version.version,
            files,
            format: self.format,
            columns,
            times: self.reading.times(),
            dialect: self.reading.dialect(),
            bad_rows: self.bad_rows,
            concurrency: self.concurrency.into(),
            compared_max: self.compare,
            accepts_expired: self.yes,
        })
    }

    /// The feature and files that the arguments name, or only files if options name the feature.
    fn feature_and_files(&self) -> Result<(FeatureId, Vec<PathBuf>), Failure> {
        let (feature, files) = match (&self.entity_type, &self.feature, &*self.words) {
            (Some(entity_type), Some(name), files) => {
                (FeatureId { entity_type: entity_type.clone(), name: name.clone() }, files)
            }
            (_, _, [entity_type, name, files @ ..]) if !files.is_empty() => {
                let usage = |what: &str, error: &dyn Display| Failure::Usage(format!("{what}: {error}"));
                let entity_type =
                    EntityType::new(&entity_type.to_string_lossy()).map_err(|e| usage("ENTITY_TYPE", &e))?;
                let name = FeatureName::new(&name.to_string_lossy()).map_err(|e| usage("FEATURE", &e))?;
                (FeatureId { entity_type, name }, files)
            }
            _ => {
                let reported = "name the feature and the files: liststore import ENTITY_TYPE FEATURE FILE…";
                return Err(Failure::Usage(reported.to_owned()));
            }
        };
        Ok((feature, files.iter().map(PathBuf::from).collect()))
    }

    fn columns(&self) -> Result<Columns, Failure> {
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = self.value_columns.iter().find(|column| !seen.insert(*column)) {
            return Err(Failure::Usage(format!("--value-columns names {twice:?} twice")));
        }
        let (object, values) = match &*self.value_columns {
            [] => (false, vec![self.value_column.clone()]),
            columns => (true, columns.to_vec()),
        };
        Ok(Columns {
            entity_id: self.entity_id_column.clone(),
            timestamp: self.timestamp_column.clone(),
            key: self.key_column.clone(),
            values,
            object,
        })
    }
}

fn print(summary: &Summary, format: Format) -> Result<(), Failure> {
    let Summary { counts, warnings, elapsed } = summary;
    let import::RowCounts { rows, added, already_there, compared, already_expired, bad } = *counts;
    warnings.iter().for_each(|warning| warn(warning));
    let stored = added + already_there;
    if compared < stored && compared > 0 {
        eprintln!(
            "note: {compared} of {stored} items were compared with their lists, and the rest counts as added: \
             --compare sets the maximum"
        );
    }
    let seconds = elapsed.as_secs_f64();
    let rows_per_second = (rows as f64 / seconds.max(1e-9)).round() as u64;
    let mut output = Output::open();
    match format {
        Format::Table => {
            let (rows, added) = (counted(rows, "row"), counted(added, "item"));
            let there = match compared {
                0 if stored > 0 => " or already there".to_owned(),
                _ => format!(", {already_there} already there"),
            };
            output.line(&format!(
                "{rows}: {added} added{there}, {already_expired} already expired, {bad} bad ({seconds:.1} s, \
                 {rows_per_second} rows/s)"
            ))?;
        }
        Format::Json | Format::Ndjson => output.json(&json!({
            "rows": rows, "added": added, "already_there": already_there, "compared": compared,
            "already_expired": already_expired, "bad": bad,
            "seconds": (seconds * 1e3).round() / 1e3, "rows_per_second": rows_per_second,
        }))?,
    }
    output.flush()
}
