//! `liststore migrate`: migrates the stores' schemas.

use clap::Args;
use serde_json::json;

use super::block_on;
use super::failure::Failure;
use super::output::{Format, FormatOption, Output};
use super::settings::SettingsArguments;
use crate::app::{self, Migration};

const EXAMPLES: &str = "\
Examples:
  liststore migrate --config liststore.toml --dry-run
  liststore migrate --config liststore.toml

Running it twice, or two at the same time, is safe.";

/// Bring the schemas of the item store and the metadata store up to date
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Show the steps without running them
    #[arg(long)]
    dry_run: bool,
    /// Afterwards rebuild the bucket directories from all items in ScyllaDB or Cassandra, if the table list_buckets was
    /// lost
    #[arg(long, conflicts_with = "dry_run")]
    rebuild_buckets: bool,
    #[command(flatten)]
    format: FormatOption,
}

impl Arguments {
    fn how(&self) -> Migration {
        match (self.dry_run, self.rebuild_buckets) {
            (true, _) => Migration::Reported,
            (false, false) => Migration::Done,
            (false, true) => Migration::WithDirectories,
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.settings.load()?.settings;
    let migrated = async { app::migrate(&settings, arguments.how()).await.map_err(|e| Failure::failed(e.to_string())) };
    let lines = block_on(migrated)?;
    let mut output = Output::open();
    match arguments.format.output {
        Format::Table => lines.iter().try_for_each(|line| output.line(line))?,
        Format::Json | Format::Ndjson => output.json(&json!({"dry_run": arguments.dry_run, "steps": lines}))?,
    }
    output.flush()
}
