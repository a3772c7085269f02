//! `liststore check`: would `serve` start? And: is this data directory whole?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::block_on;
use super::failure::Failure;
use super::output::{Format, FormatOption, Output};
use super::settings::SettingsArguments;
use crate::app::{self, Finding};

const EXAMPLES: &str = "\
Examples:
  liststore check --config liststore.toml
  liststore check && liststore serve
  liststore check --output json
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
    #[command(flatten)]
    format: FormatOption,
}

/// What was found.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<&'a Path>,
    /// What is not at its default, and where it was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<&'a BTreeMap<String, String>>,
    warnings: Vec<String>,
    findings: Vec<Found>,
    /// `serve` would start, or the directory is whole.
    sound: bool,
}

#[derive(Serialize)]
struct Found {
    part: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<Finding> for Found {
    fn from(Finding { part, outcome }: Finding) -> Self {
        match outcome {
            Ok(found) => Self { part, found: Some(found), error: None },
            Err(error) => Self { part, found: None, error: Some(error.to_string()) },
        }
    }
}

impl<'a> Report<'a> {
    fn of(findings: Vec<Finding>) -> Self {
        let findings: Vec<_> = findings.into_iter().map(Found::from).collect();
        let sound = findings.iter().all(|finding| finding.error.is_none());
        Self { dir: None, settings: None, warnings: Vec::new(), findings, sound }
    }

    /// Prints it, and to people what it means if all is well.
    fn show(&self, format: Format, well: &str) -> Result<(), Failure> {
        let mut output = Output::open();
        if format == Format::Table {
            self.table(&mut output)?;
            if self.sound {
                output.line(well)?;
            }
        } else {
            output.json(self)?;
        }
        output.flush()
    }

    fn table(&self, output: &mut Output) -> Result<(), Failure> {
        if self.settings.is_some_and(BTreeMap::is_empty) {
            output.line("settings  all are defaults")?;
        }
        for (key, origin) in self.settings.into_iter().flatten() {
            output.line(&format!("settings  {key} is set by {origin}"))?;
        }
        for warning in &self.warnings {
            output.line(&format!("warning   {warning}"))?;
        }
        for Found { part, found, error } in &self.findings {
            let told = error.as_ref().map(|error| format!("FAILED: {error}"));
            output.line(&format!("{part:9} {}", told.as_ref().or(found.as_ref()).map_or("", String::as_str)))?;
        }
        Ok(())
    }

    /// The parts that failed, unless all is well.
    fn failed(&self) -> Option<String> {
        let mut parts: Vec<_> =
            self.findings.iter().filter(|finding| finding.error.is_some()).map(|finding| finding.part).collect();
        parts.dedup();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let format = arguments.format.output;
    if let Some(dir) = &arguments.dir {
        return verify(dir, format);
    }
    let loaded = arguments.settings.load()?;
    let findings = block_on(async { Ok(app::check(&loaded.settings).await) })?;
    let warnings = loaded.settings.warnings();
    let report = Report { settings: Some(&loaded.origins), warnings, ..Report::of(findings) };
    report.show(format, "liststore serve would start")?;
    report.failed().map_or(Ok(()), |parts| {
        Err(Failure::failed(format!("liststore serve would not start, or not be ready: see {parts} above")))
    })
}

/// Reads all that a data directory holds.
fn verify(dir: &Path, format: Format) -> Result<(), Failure> {
    let report = Report { dir: Some(dir), ..Report::of(app::verify(dir)) };
    report.show(format, &format!("{} is whole", dir.display()))?;
    report
        .failed()
        .map_or(Ok(()), |parts| Err(Failure::failed(format!("{} is not whole: see {parts} above", dir.display()))))
}
