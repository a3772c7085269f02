//! What operators see of the process: its log, and the registry of its metrics.
//!
//! The log goes to standard error, so that what commands print on standard output stays clean. It
//! never holds a payload or a secret: whoever logs sees to that.

use std::io::IsTerminal;

use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    Text,
    Json,
}

#[derive(Debug, Clone)]
pub struct LogOptions {
    pub format: LogFormat,
    /// Directives of the `tracing-subscriber` crate's `EnvFilter`, such as `info` or
    /// `info,liststore::api=debug`.
    pub filter: String,
    /// Colours on a terminal.
    pub coloured: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("not a log filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("the log is set up already: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
}

/// Checks a filter's directives without setting anything up.
pub fn check_filter(filter: &str) -> Result<(), TelemetryError> {
    EnvFilter::builder().parse(filter).map(|_| ()).map_err(TelemetryError::from)
}

/// Sets up the log of the whole process. Works once.
pub fn init(options: &LogOptions) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder().parse(&options.filter)?;
    let on_terminal = std::io::stderr().is_terminal();
    let coloured = on_terminal && options.coloured;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(coloured);
    let json = match options.format {
        LogFormat::Auto => !on_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    if json {
        lines.json().finish().try_init()?
    } else {
        lines.finish().try_init()?
    }
    Ok(())
}

/// A registry with the metrics of the process itself: CPU seconds, memory, open files, start time.
pub fn registry() -> prometheus::Result<Registry> {
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::for_self()))?;
    Ok(registry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_checked() {
        assert!(check_filter("info,liststore::api=debug").is_ok());
        assert!(check_filter("liststore=loud").is_err());
    }

    #[test]
    fn a_registry_tells_of_the_process() {
        let families = registry().unwrap().gather();
        assert!(families.iter().any(|family| family.name() == "process_resident_memory_bytes"));
    }
}
