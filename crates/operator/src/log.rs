//! The operator's log, on standard error: text on a terminal, otherwise JSON.

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// Sets up the log of the whole process. Works once.
pub fn init(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::builder().parse(filter).map_err(|error| format!("not a log filter: {error}"))?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = if std::io::stderr().is_terminal() {
        lines.with_ansi(false).boxed()
    } else {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    };
    let log = tracing_subscriber::registry().with(filter).with(lines);
    log.try_init().map_err(|error| format!("the log is set up already: {error}"))
}
