//! `liststore export`: the items of feature versions in a file. [`crate::transfer`] does the work.

use std::path::PathBuf;

use clap::Args;

use super::block_on;
use super::failure::Failure;
use super::output::Output;
use super::parse::{Server, VersionOption};
use crate::domain::{EntityType, FeatureId, FeatureName, Limit, Timestamp};
use crate::import::TimestampUnit;
use crate::transfer::{self, ExportFormat, ExportOptions, SpineFile, TrainingOptions};

const LIMIT_DEFAULT: &str = "100";

const EXAMPLES: &str = "\
Examples:
  liststore export user story_presented --output presented.ndjson.gz
  liststore export user story_presented --version v2 --output presented.csv
  liststore export user story_presented --format ndjson --output - | wc -l
  liststore import user story_presented presented.ndjson.gz

  liststore export user story_presented --as-of 2024-08-30T00:00:00Z \\
    --output presented.parquet
  liststore export user story_presented purchase --spine clicks.csv \\
    --timestamp-column clicked_at --limit 50 --output training.parquet

A row is entity_type, feature, version, entity_id, timestamp and value. A run
that was cut off is taken up by the same command: FILE.state says where.

With --spine it is a training set: the spine's rows, each an entity and a
moment with columns of its own, and the lists as they were at that moment.";

/// Write the items of a feature to a CSV, NDJSON or Parquet file, or a training set
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The feature's name, such as story_presented; several of them with --spine
    #[arg(value_name = "FEATURE", value_parser = FeatureName::new, required = true)]
    features: Vec<FeatureName>,
    #[command(flatten)]
    version: VersionOption,
    /// The file; compressed if its name ends with .gz; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The format of the file [default: by its name]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// Lists as they were at this moment, without what has expired or was removed since
    #[arg(long, value_name = "TIME", value_parser = Timestamp::parse, conflicts_with = "spine")]
    as_of: Option<Timestamp>,
    /// A CSV or NDJSON file of entities and moments, each of which is joined with its lists
    #[arg(long, value_name = "FILE")]
    spine: Option<PathBuf>,
    /// The column of the spine that names the entity
    #[arg(long, value_name = "COLUMN", default_value = "entity_id", requires = "spine")]
    entity_id_column: String,
    /// The column of the spine that tells the moment: RFC 3339, or an integer
    #[arg(long, value_name = "COLUMN", default_value = "timestamp", requires = "spine")]
    timestamp_column: String,
    /// The unit of the spine's moments that are integers
    #[arg(long, value_enum, default_value_t, value_name = "UNIT", requires = "spine")]
    timestamp_unit: TimestampUnit,
    /// Items of each list that is joined: its newest of the moment, 1 to 10000
    #[arg(long, value_name = "ITEMS", default_value = LIMIT_DEFAULT, value_parser = limit, requires = "spine")]
    limit: Limit,
    #[command(flatten)]
    server: Server,
}

fn limit(text: &str) -> Result<Limit, String> {
    let limit = text.parse().map_err(|_| "must be a whole number".to_owned())?;
    Limit::of_items(limit).map_err(|e| e.to_string())
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let format = arguments.format.or_else(|| ExportFormat::by_name(&arguments.output)).ok_or_else(|| {
        let told = "cannot tell the format from the file's name: pass --format csv, ndjson or parquet";
        Failure::Usage(format!("{}: {told}", arguments.output.display()))
    })?;
    let to_stdout = arguments.output.as_os_str() == "-";
    let told = match arguments.spine.is_some() {
        true => training_set(arguments, format)?,
        false => items(arguments, format)?,
    };
    if to_stdout {
        eprintln!("{told}");
        return Ok(());
    }
    let mut output = Output::open();
    output.line(&told)?;
    output.flush()
}

fn items(arguments: Arguments, format: ExportFormat) -> Result<String, Failure> {
    let Arguments { entity_type, features, version, output, as_of, server, .. } = arguments;
    let [name]: [FeatureName; 1] = features.try_into().map_err(|_| {
        Failure::Usage("one feature at a time: several are for a training set, with --spine".to_owned())
    })?;
    let server = server.url().map_err(Failure::Usage)?;
    let feature = FeatureId { entity_type, name };
    let options = ExportOptions { server, feature, version: version.version, as_of, output, format };
    let exported = block_on(async { transfer::export(options).await.map_err(Failure::from) })?;
    let went_on = if exported.resumed { ", of which an earlier run wrote some" } else { "" };
    Ok(format!("{} items of {} lists{went_on}", exported.items, exported.lists))
}

fn training_set(arguments: Arguments, format: ExportFormat) -> Result<String, Failure> {
    let Arguments { entity_type, features, version, output, spine, limit, server, .. } = arguments;
    let path = spine.unwrap_or_default();
    let spine = SpineFile {
        format: transfer::spine_format(&path)?,
        path,
        entity_id: arguments.entity_id_column,
        timestamp: arguments.timestamp_column,
        unit: arguments.timestamp_unit,
    };
    let of_type = |name| FeatureId { entity_type: entity_type.clone(), name };
    let options = TrainingOptions {
        server: server.url().map_err(Failure::Usage)?,
        spine,
        features: features.into_iter().map(of_type).collect(),
        version: version.version,
        limit,
        output,
        format,
    };
    let joined = block_on(async { transfer::join(options).await.map_err(Failure::from) })?;
    Ok(format!("{} rows with {} items", joined.rows, joined.items))
}
