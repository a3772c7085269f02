//! `liststore check`: would `serve` start? And: is this data directory whole?

use std::path::{Path, PathBuf};

use clap::Args;

use super::block_on;
use super::failure::Failure;
use super::output::Output;
use super::settings::SettingsArguments;
use crate::app::{self, Finding};

const EXAMPLES: &str = "\
Examples:
  liststore check --config liststore.toml
  liststore check && liststore serve
  liststore check --dir /var/backups/liststore/monday

An embedded store that a running server holds is reported as in use. With
--dir, every checksum in the directory is verified, and nothing in it is
changed.";

/// Load the settings, connect to each store, and tell what is there; exits with 1 if serve would not be ready
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Verify a backup, or the data directory of a stopped server, instead: all that it holds is read
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["config", "listen", "data_dir"])]
    dir: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(dir) = &arguments.dir {
        return verify(dir);
    }
    let loaded = arguments.settings.load()?;
    let mut output = Output::open();
    if loaded.origins.is_empty() {
        output.line("settings  all are defaults")?;
    }
    for (key, origin) in &loaded.origins {
        output.line(&format!("settings  {key} is set by {origin}"))?;
    }
    for warning in loaded.settings.warnings() {
        output.line(&format!("warning   {warning}"))?;
    }
    let findings = block_on(async { Ok(app::check(&loaded.settings).await) })?;
    let failed = show(&mut output, findings)?;
    if failed.is_empty() {
        output.line("liststore serve would start")?;
        return output.flush();
    }
    let parts = failed.join(", ");
    Err(Failure::failed(format!("liststore serve would not start, or not be ready: see {parts} above")))
}

/// Reads all that a data directory holds.
fn verify(dir: &Path) -> Result<(), Failure> {
    let mut output = Output::open();
    let mut failed = show(&mut output, app::verify(dir))?;
    failed.dedup();
    if failed.is_empty() {
        output.line(&format!("{} is whole", dir.display()))?;
        return output.flush();
    }
    Err(Failure::failed(format!("{} is not whole: see {} above", dir.display(), failed.join(", "))))
}

/// Prints what was found; returns the parts that failed.
fn show(output: &mut Output, findings: Vec<Finding>) -> Result<Vec<&'static str>, Failure> {
    let mut failed = Vec::new();
    for finding in findings {
        match finding.outcome {
            Ok(found) => output.line(&format!("{:9} {found}", finding.part))?,
            Err(error) => {
                output.line(&format!("{:9} FAILED: {error}", finding.part))?;
                failed.push(finding.part);
            }
        }
    }
    output.flush()?;
    Ok(failed)
}
