//! `liststore serve`: runs the server until it is stopped.

use std::io::{self, Write};
use std::sync::Arc;

use clap::{Args, CommandFactory};

use super::environment;
use super::failure::Failure;
use super::output::Output;
use super::settings::{SettingsArguments, log_format};
use crate::app::{self, Ready};
use crate::client::ServerUrl;
use crate::config::LogSettings;
use crate::telemetry;

const EXAMPLES: &str = "\
Examples:
  liststore serve
  LISTSTORE__ACCESS__MODE=required liststore serve --listen 0.0.0.0:8080 \\
    --data-dir /var/lib/liststore
  LISTSTORE__ITEMS__ACTORS=4 liststore serve --config liststore.toml
  liststore serve --config liststore.toml --print-config

Without settings, the server stores its data in ./liststore-data, listens on
127.0.0.1:8080, and is open to everyone on this machine until you create an API
key (liststore key create). SIGTERM or Ctrl-C stops it after open requests are
finished; a second signal stops it immediately.";

/// Run the server
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Print the settings as TOML with masked secrets, and exit
    #[arg(long)]
    print_config: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.settings.load_logged()?.settings;
    if arguments.print_config {
        let text = settings.to_toml().map_err(|e| Failure::failed(format!("cannot write the settings: {e}")))?;
        let mut output = Output::open();
        output.text(&text)?;
        return output.flush();
    }
    let log = telemetry::init(&log_options(&settings.log)).map_err(|e| Failure::failed(e.to_string()))?;
    let log = Arc::new(log);
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    for warning in environment::unknown(&super::CommandLine::command()) {
        tracing::warn!("{warning}");
    }
    app::run(settings, Arc::clone(&log), announce).map_err(|error| {
        log.last_words(&error.to_string());
        Failure::Reported
    })
}

fn log_options(log: &LogSettings) -> telemetry::LogOptions {
    // https://no-color.org: any value but an empty one.
    let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    telemetry::LogOptions { format: log_format(log.format), filter: log.filter.clone(), access: log.access, coloured }
}

/// Prints the ready line, and the next commands.
fn announce(ready: Ready) {
    tracing::info!(url = ready.url, open = ready.is_open, "ready");
    let open = if ready.is_open { " anyone who can reach it has full access (no API key);" } else { "" };
    let option = if ready.url == ServerUrl::DEFAULT { String::new() } else { format!(" --url {}", ready.url) };
    let next = if ready.has_features {
        ["feature list", "pool get", "key list"].map(|command| format!("liststore {command}"))
    } else {
        [
            "feature create user story_presented --value-type string --ttl 30d",
            "list add user story_presented u-123 --value story-9",
            "list get user story_presented u-123",
        ]
        .map(|command| format!("liststore {command}"))
    };
    let next = next.map(|command| format!("  {command}{option}\n")).concat();
    let (url, console) = (&ready.url, format!("{}/console", ready.url));
    let text = format!("liststore is ready on {url};{open} console: {console}; try in another terminal:\n{next}");
    // A server with a closed output continues.
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
