//! `liststore check`: would `serve` start?

use clap::Args;

use super::block_on;
use super::failure::Failure;
use super::output::Output;
use super::settings::SettingsArguments;
use crate::app;

const EXAMPLES: &str = "\
Examples:
  liststore check --config liststore.toml
  liststore check && liststore serve

An embedded store that a running server holds is reported as in use.";

/// Load the settings, connect to each store, and tell what is there; exits with 1 if serve would not start
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
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
    if failed.is_empty() {
        output.line("liststore serve would start")?;
        return output.flush();
    }
    Err(Failure::failed(format!("liststore serve would not start: see {} above", failed.join(", "))))
}
