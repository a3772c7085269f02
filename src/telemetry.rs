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
    /// `info,liststore::api=debug`. The databases' drivers are heard where it names them.
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

/// The databases' drivers, by the beginning of their targets. One node that is away makes them write
/// hundreds of lines a minute, in words for their own developers; what an operator needs of that the
/// stores say themselves.
const DRIVERS: [&str; 2] = ["scylla", "sqlx"];

/// Checks a filter's directives without setting anything up.
pub fn check_filter(filter: &str) -> Result<(), TelemetryError> {
    EnvFilter::builder().parse(filter).map(|_| ()).map_err(TelemetryError::from)
}

/// The filter with the drivers silent, except for those that it names.
fn with_quiet_drivers(filter: &str) -> String {
    let names = |driver: &str| {
        filter.split(',').any(|directive| {
            let target = directive.trim().split(['=', '[']).next().unwrap_or_default();
            target.starts_with(driver)
        })
    };
    let quiet = DRIVERS.iter().filter(|driver| !names(driver)).map(|driver| format!("{driver}=off"));
    std::iter::once(filter.to_owned())
        .filter(|filter| !filter.trim().is_empty())
        .chain(quiet)
        .collect::<Vec<_>>()
        .join(",")
}

/// Sets up the log of the whole process. Works once.
pub fn init(options: &LogOptions) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder().parse(with_quiet_drivers(&options.filter))?;
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
    fn drivers_are_silent_unless_the_filter_names_them() {
        assert_eq!(with_quiet_drivers("info"), "info,scylla=off,sqlx=off");
        assert_eq!(with_quiet_drivers("debug, scylla::cluster=warn"), "debug, scylla::cluster=warn,sqlx=off");
        assert_eq!(with_quiet_drivers("scylla,sqlx=info"), "scylla,sqlx=info");
        assert_eq!(
            with_quiet_drivers("info,liststore[{sqlx}]=debug"),
            "info,liststore[{sqlx}]=debug,scylla=off,sqlx=off"
        );
        assert_eq!(with_quiet_drivers(""), "scylla=off,sqlx=off");
    }

    #[test]
    fn what_the_drivers_say_is_not_written_and_what_we_say_is() {
        use std::io::Write;
        use std::sync::{Arc, Mutex, PoisonError};

        #[derive(Clone, Default)]
        struct Lines(Arc<Mutex<Vec<u8>>>);
        impl Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let written = |filter: &str| {
            let lines = Lines::default();
            let writer = lines.clone();
            let filter = EnvFilter::builder().parse(with_quiet_drivers(filter)).unwrap();
            let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone()).finish();
            tracing::subscriber::with_default(log, || {
                tracing::error!(target: "scylla::cluster::metadata", "of-the-driver");
                tracing::error!(target: "scylla_cql::frame", "of-the-protocol");
                tracing::error!(target: "sqlx_core::pool", "of-the-pool");
                tracing::warn!("of-ours");
            });
            String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
        };
        let quiet = written("debug");
        assert!(quiet.contains("of-ours"), "{quiet}");
        assert!(
            !["of-the-driver", "of-the-protocol", "of-the-pool"].iter().any(|text| quiet.contains(text)),
            "{quiet}"
        );
        assert!(written("info,scylla=error").contains("of-the-driver"));
    }

    #[test]
    fn a_registry_tells_of_the_process() {
        let families = registry().unwrap().gather();
        assert!(families.iter().any(|family| family.name() == "process_resident_memory_bytes"));
    }
}
