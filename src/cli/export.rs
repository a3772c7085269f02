//! `liststore export`: the items of a feature version in a file. [`crate::transfer`] does the work.

use std::path::PathBuf;

use clap::Args;

use super::block_on;
use super::failure::Failure;
use super::output::Output;
use super::parse::{FeatureArguments, Server, VersionOption};
use crate::import::FileFormat;
use crate::transfer::{self, ExportOptions};

const EXAMPLES: &str = "\
Examples:
  liststore export user story_presented --output presented.ndjson.gz
  liststore export user story_presented --version v2 --output presented.csv
  liststore export user story_presented --format ndjson --output - | wc -l
  liststore import user story_presented presented.ndjson.gz

A row is entity_type, feature, version, entity_id, timestamp and value. A run
that was cut off is taken up by the same command: FILE.state says where.";

/// Write the items of a feature to a CSV or NDJSON file, plain or compressed with gzip
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    feature: FeatureArguments,
    #[command(flatten)]
    version: VersionOption,
    /// The file; compressed if its name ends with .gz; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The format of the file [default: by its name]
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    #[command(flatten)]
    server: Server,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { feature, version, output, format, server } = arguments;
    let format = format.or_else(|| FileFormat::by_name(&output)).ok_or_else(|| {
        let told = "cannot tell the format from the file's name: pass --format csv or --format ndjson";
        Failure::Usage(format!("{}: {told}", output.display()))
    })?;
    let to_stdout = output.as_os_str() == "-";
    let server = server.url().map_err(Failure::Usage)?;
    let options = ExportOptions { server, feature: feature.id(), version: version.version, output, format };
    let exported = block_on(async { transfer::export(options).await.map_err(Failure::from) })?;
    let went_on = if exported.resumed { ", of which an earlier run wrote some" } else { "" };
    let told = format!("{} items of {} lists{went_on}", exported.items, exported.lists);
    if to_stdout {
        eprintln!("{told}");
        return Ok(());
    }
    let mut output = Output::open();
    output.line(&told)?;
    output.flush()
}
