//! `liststore export`: the items of feature versions in a file. [`crate::transfer`] does the work.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::block_on;
use super::failure::{Failure, warn};
use super::output::{Format, Output, counted};
use super::parse::{self, ServerOptions, VersionOption};
use super::reading::ReadingArguments;
use crate::client::printable;
use crate::domain::{EntityType, FeatureId, FeatureName, Limit, Timestamp};
use crate::left_out::PARQUET;
use crate::transfer::{self, ExportFormat, ExportOptions, Exported, Joined, SpineFile, TrainingOptions};

const LIMIT_DEFAULT: &str = "100";

const EXAMPLES: &str = "\
Examples:
  liststore export user story_presented --file presented.ndjson.zst
  liststore export user story_presented --version v2 --file presented.csv
  liststore export user story_presented | wc -l
  liststore import user story_presented presented.ndjson.zst

  liststore export user story_presented --as-of 2024-08-30T00:00:00Z \\
    --file presented.parquet
  liststore export user story_presented purchase --spine clicks.csv \\
    --timestamp-column clicked_at --limit 50 --file training.parquet

A row has entity_type, feature, version, entity_id, timestamp and value. The
file is named FILE.part until it is complete. Run the same command again to
continue an interrupted export: FILE.state has its position.

With --spine, the file is a training set: the rows of the spine (an entity, a
timestamp and other columns) with the lists as of that time.";

/// Write the items of a feature to a CSV, NDJSON or Parquet file, or a training set
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The feature's name, such as story_presented; several are allowed with --spine
    #[arg(value_name = "FEATURE", value_parser = FeatureName::new, required = true)]
    features: Vec<FeatureName>,
    #[command(flatten)]
    version: VersionOption,
    /// The file; compressed if its name ends with .gz or .zst; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The format of the file [default: from its name; ndjson for standard output]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// Lists as of this time, without items that have expired or been removed since
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true, conflicts_with = "spine")]
    as_of: Option<Timestamp>,
    /// A CSV or NDJSON file of entities and timestamps to join with their lists
    #[arg(long, value_name = "FILE")]
    spine: Option<PathBuf>,
    /// The spine's column with the entity ID
    #[arg(long, value_name = "COLUMN", default_value = "entity_id", requires = "spine")]
    entity_id_column: String,
    /// The spine's column with the timestamp
    #[arg(long, value_name = "COLUMN", default_value = "timestamp", requires = "spine")]
    timestamp_column: String,
    #[command(flatten)]
    reading: ReadingArguments,
    /// Maximum number of newest items per joined list, 1 to 10000
    #[arg(long, value_name = "ITEMS", default_value = LIMIT_DEFAULT, value_parser = limit, requires = "spine")]
    limit: Limit,
    #[command(flatten)]
    options: ServerOptions,
}

fn limit(text: &str) -> Result<Limit, String> {
    let limit = text.parse().map_err(|_| "must be a whole number".to_owned())?;
    Limit::of_items(limit).map_err(|e| e.to_string())
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let (to_stdout, output) = (arguments.file.as_os_str() == "-", arguments.options.output);
    let by_name = || if to_stdout { Some(ExportFormat::Ndjson) } else { ExportFormat::by_name(&arguments.file) };
    let format = arguments.format.or_else(by_name).ok_or_else(|| {
        let remedy = "cannot derive the format from the file's name: pass --format csv, ndjson or parquet";
        Failure::Usage(format!("{}: {remedy}", arguments.file.display()))
    })?;
    if format == ExportFormat::Parquet {
        PARQUET.needed().map_err(|left_out| Failure::Usage(left_out.to_string()))?;
    }
    if arguments.spine.is_some() {
        let joined = training_set(arguments, format)?;
        joined.warnings.iter().for_each(|warning| warn(warning));
        return print_summary(
            &joined,
            &format!("{} with {}", counted(joined.rows, "row"), counted(joined.items, "item")),
            to_stdout,
            output,
        );
    }
    if arguments.reading.is_given() {
        let remedy = "the timestamps and cells of a spine: name it with --spine, or leave these options out";
        return Err(Failure::Usage(format!(
            "--timestamp-unit, --timestamp-format, --timezone, --delimiter and --csv-escape describe {remedy}"
        )));
    }
    let exported = items(arguments, format)?;
    let summary = format!(
        "{} of {}{}",
        counted(exported.items, "item"),
        counted(exported.lists, "list"),
        resume_note(exported.resumed)
    );
    print_summary(&exported, &summary, to_stdout, output)
}

/// The note about a file that an earlier run began.
pub(super) fn resume_note(resumed: bool) -> &'static str {
    if resumed { ", some of them by an earlier run" } else { "" }
}

/// Prints the summary: on standard output, unless the data went there.
pub(super) fn print_summary(
    result: &impl Serialize,
    summary: &str,
    to_stdout: bool,
    format: Format,
) -> Result<(), Failure> {
    let json = match format {
        Format::Table => None,
        Format::Json | Format::Ndjson => Some(serde_json::to_string(result)),
    };
    let summary = match json {
        None => summary.to_owned(),
        Some(json) => json.map_err(|error| Failure::failed(error.to_string()))?,
    };
    if to_stdout {
        eprintln!("{}", printable(&summary));
        return Ok(());
    }
    let mut output = Output::open();
    output.line(&summary)?;
    output.flush()
}

fn items(arguments: Arguments, format: ExportFormat) -> Result<Exported, Failure> {
    let Arguments { entity_type, features, version, file, as_of, options, .. } = arguments;
    let [name]: [FeatureName; 1] = features
        .try_into()
        .map_err(|_| Failure::Usage("name one feature: several are allowed only with --spine".to_owned()))?;
    let server = options.server.url().map_err(Failure::Usage)?;
    let feature = FeatureId { entity_type, name };
    let options = ExportOptions { server, feature, version: version.version, as_of, output: file, format };
    block_on(async { transfer::export(options).await.map_err(Failure::from) })
}

fn training_set(arguments: Arguments, format: ExportFormat) -> Result<Joined, Failure> {
    let Arguments { entity_type, features, version, file, spine, limit, options, .. } = arguments;
    let path = spine.unwrap_or_default();
    let spine = SpineFile {
        format: transfer::spine_format(&path)?,
        path,
        entity_id: arguments.entity_id_column,
        timestamp: arguments.timestamp_column,
        times: arguments.reading.times(),
        dialect: arguments.reading.dialect(),
    };
    let of_type = |name| FeatureId { entity_type: entity_type.clone(), name };
    let options = TrainingOptions {
        server: options.server.url().map_err(Failure::Usage)?,
        spine,
        features: features.into_iter().map(of_type).collect(),
        version: version.version,
        limit,
        output: file,
        format,
    };
    block_on(async { transfer::join(options).await.map_err(Failure::from) })
}
