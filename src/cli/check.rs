//! `liststore check`: checks whether `serve` would start, or whether a data directory is complete.

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

An embedded store of a running server is reported as in use. With --dir, the
command verifies every checksum in the directory and changes nothing.";

/// Check the settings and stores; exit with 1 if serve would not be ready
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Instead verify a backup, or the data directory of a stopped server, by reading all of it
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["config", "listen", "data_dir"])]
    dir: Option<PathBuf>,
    #[command(flatten)]
    format: FormatOption,
}

/// The findings.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<&'a Path>,
    /// The settings that differ from their defaults, and their sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<&'a BTreeMap<String, String>>,
    warnings: Vec<String>,
    findings: Vec<Found>,
    /// `serve` would start, or the directory is complete.
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

impl Found {
    fn line(&self) -> String {
        let Self { part, found, error } = self;
        let reported = error.as_ref().map(|error| format!("FAILED: {error}"));
        format!("{part:9} {}", reported.as_ref().or(found.as_ref()).map_or("", String::as_str))
    }
}

impl<'a> Report<'a> {
    /// A report before any check.
    fn of(dir: Option<&'a Path>, settings: Option<&'a BTreeMap<String, String>>, warnings: Vec<String>) -> Self {
        Self { dir, settings, warnings, findings: Vec::new(), sound: true }
    }

    /// The first lines for people.
    fn head(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.settings.is_some_and(BTreeMap::is_empty) {
            lines.push("settings  all defaults".to_owned());
        }
        let settings = self.settings.into_iter().flatten();
        lines.extend(settings.map(|(key, origin)| format!("settings  {key} is set by {origin}")));
        lines.extend(self.warnings.iter().map(|warning| format!("warning   {warning}")));
        lines
    }

    /// The failed parts, if any.
    fn failed(&self) -> Option<String> {
        let mut parts: Vec<_> =
            self.findings.iter().filter(|finding| finding.error.is_some()).map(|finding| finding.part).collect();
        parts.dedup();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Prints a report. People get each line immediately, because a store may take long to answer. Programs get one
/// document at the end.
struct Printer<'a> {
    report: Report<'a>,
    format: Format,
    printed: Result<(), Failure>,
}

impl<'a> Printer<'a> {
    fn begin(report: Report<'a>, format: Format) -> Self {
        let mut printer = Self { report, format, printed: Ok(()) };
        printer.people(&printer.report.head());
        printer
    }

    fn add(&mut self, finding: Finding) {
        let found = Found::from(finding);
        self.people(&[found.line()]);
        self.report.sound &= found.error.is_none();
        self.report.findings.push(found);
    }

    /// Prints `well` if all checks passed, otherwise the failed parts.
    fn end(mut self, well: &str) -> Result<Option<String>, Failure> {
        if self.report.sound {
            self.people(&[well.to_owned()]);
        }
        self.printed?;
        if self.format != Format::Table {
            let mut output = Output::open();
            output.json(&self.report)?;
            output.flush()?;
        }
        Ok(self.report.failed())
    }

    /// If the reader closes the output, the checks continue.
    fn people(&mut self, lines: &[String]) {
        if self.format == Format::Table && self.printed.is_ok() {
            let mut output = Output::open();
            let printed = lines.iter().try_for_each(|line| output.line(line));
            self.printed = printed.and_then(|()| output.flush());
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let format = arguments.format.output;
    if let Some(dir) = &arguments.dir {
        return verify(dir, format);
    }
    let loaded = arguments.settings.load()?;
    let report = Report::of(None, Some(&loaded.origins), loaded.settings.warnings());
    let mut printer = Printer::begin(report, format);
    block_on(async {
        app::check(&loaded.settings, |finding| printer.add(finding)).await;
        Ok(())
    })?;
    printer.end("liststore serve would start")?.map_or(Ok(()), |parts| {
        Err(Failure::failed(format!("liststore serve would not start or not be ready: see {parts} above")))
    })
}

/// Reads all that a data directory holds, and reports it under the name `shown`. Returns the parts that failed.
pub(super) fn report(dir: &Path, shown: &Path, format: Format, well: &str) -> Result<Option<String>, Failure> {
    let mut printer = Printer::begin(Report::of(Some(shown), None, Vec::new()), format);
    let is_in_use = app::verify(dir, |finding| printer.add(finding));
    let failed = printer.end(well)?;
    if is_in_use {
        let reported = "is in use by a running server: stop it, or check a backup that `liststore backup` made";
        return Err(Failure::failed(format!("{} {reported}", shown.display())));
    }
    Ok(failed)
}

fn verify(dir: &Path, format: Format) -> Result<(), Failure> {
    report(dir, dir, format, &format!("{} is whole", dir.display()))?.map_or(Ok(()), |parts| {
        Err(Failure::failed(format!("{} is incomplete or damaged: see {parts} above", dir.display())))
    })
}
