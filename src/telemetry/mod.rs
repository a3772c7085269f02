//! The view of operators into the process: its log, and the registry of its metrics.
//!
//! The log goes to standard error, so that standard output of commands stays clean. It never contains a payload or a
//! secret. Each caller ensures that.

mod log;
mod process;

use std::io::IsTerminal;

use prometheus::Registry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, reload};

use crate::domain::AccessLog;

use process::ProcessMetrics;

pub use log::{Log, LogState, last_words};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, otherwise JSON.
    Auto,
    Text,
    Json,
}

#[derive(Debug, Clone)]
pub struct LogOptions {
    pub format: LogFormat,
    /// Directives of the `tracing-subscriber` crate's `EnvFilter`, such as `info` or `info,liststore::api=debug`. Lines
    /// of the database drivers appear only if the directives name them.
    pub filter: String,
    /// The requests that the log includes.
    pub access: AccessLog,
    /// Whether a terminal shows colours.
    pub coloured: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("not a log filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    #[error("the log is set up already: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
    #[error("the filter of the log cannot be changed: {0}")]
    Fixed(#[from] reload::Error),
}

/// The target of the lines of requests. [`AccessLog`] selects them, regardless of the filter.
pub const ACCESS_TARGET: &str = "access_log";

/// The default levels of some targets, by the prefix of their name. A filter that names a target overrides its level.
///
/// The database drivers write hundreds of lines a minute while one node is unavailable, for their own developers. The
/// stores log the facts that an operator needs. The server framework logs each worker at every start.
const UNLESS_NAMED: [(&str, &str); 4] =
    [("scylla", "off"), ("sqlx", "off"), ("actix_server", "warn"), (ACCESS_TARGET, "info")];

/// Checks a filter's directives without setting anything up.
pub fn check_filter(filter: &str) -> Result<(), TelemetryError> {
    EnvFilter::builder().parse(filter).map(|_| ()).map_err(TelemetryError::from)
}

/// A filter of these directives, with the default levels of the targets that they do not name.
fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    // An omitted part must not turn a wrong directive into a filter.
    check_filter(filter)?;
    Ok(EnvFilter::builder().parse(with_usual(filter))?)
}

fn with_usual(filter: &str) -> String {
    let names = |beginning: &str| {
        filter.split(',').any(|directive| {
            let target = directive.trim().split(['=', '[']).next().unwrap_or_default();
            target.starts_with(beginning)
        })
    };
    let unnamed = UNLESS_NAMED.iter().filter(|(beginning, _)| !names(beginning));
    std::iter::once(filter.to_owned())
        .filter(|filter| !filter.trim().is_empty())
        .chain(unnamed.map(|(beginning, level)| format!("{beginning}={level}")))
        .collect::<Vec<_>>()
        .join(",")
}

impl LogFormat {
    /// Whether lines are JSON objects.
    pub fn is_json(self) -> bool {
        match self {
            Self::Auto => !std::io::stderr().is_terminal(),
            Self::Text => false,
            Self::Json => true,
        }
    }
}

/// Sets up the log of the whole process. Works once.
pub fn init(options: &LogOptions) -> Result<Log, TelemetryError> {
    let is_json = options.format.is_json();
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = if is_json {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    } else {
        lines.with_ansi(std::io::stderr().is_terminal() && options.coloured).boxed()
    };
    let (filter, handle) = reload::Layer::new(parse(&options.filter)?);
    tracing_subscriber::registry().with(filter).with(lines).try_init()?;
    let reload = Box::new(move |filter| handle.reload(filter));
    Ok(Log::new(options.filter.clone(), options.access, Some(reload), is_json))
}

/// A registry with the metrics of the process: CPU seconds, memory, open files, start time.
pub fn registry() -> prometheus::Result<Registry> {
    let registry = Registry::new();
    registry.register(Box::new(ProcessMetrics::new()?))?;
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
    fn some_targets_are_quiet_unless_the_filter_names_them() {
        const REST: &str = "actix_server=warn,access_log=info";
        for (filter, usual) in [
            ("info", "info,scylla=off,sqlx=off,"),
            ("debug, scylla::cluster=warn", "debug, scylla::cluster=warn,sqlx=off,"),
            ("scylla,sqlx=info", "scylla,sqlx=info,"),
            ("info,liststore[{sqlx}]=debug", "info,liststore[{sqlx}]=debug,scylla=off,sqlx=off,"),
            ("", "scylla=off,sqlx=off,"),
        ] {
            assert_eq!(with_usual(filter), format!("{usual}{REST}"));
        }
        assert_eq!(with_usual("scylla,sqlx,actix_server=info,access_log=off").matches(',').count(), 3);
    }

    #[test]
    fn a_filter_change_is_complete_or_refused() {
        let log = Log::unset();
        assert!(log.change(Some("liststore=loud".to_owned()), Some(AccessLog::All)).is_err());
        assert_eq!(log.state(), LogState { filter: "info".to_owned(), access: AccessLog::Off });
        log.change(None, Some(AccessLog::Errors)).unwrap();
        let changed = log.change(Some("debug".to_owned()), None).unwrap();
        assert_eq!(changed, LogState { filter: "debug".to_owned(), access: AccessLog::Errors });
        assert_eq!(log.state(), changed);
    }

    #[test]
    fn lines_of_drivers_are_not_logged_and_ours_are() {
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
            let filter = parse(filter).unwrap();
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
    fn a_registry_has_metrics_of_the_process() {
        let families = registry().unwrap().gather();
        assert!(families.iter().any(|family| family.name() == "process_resident_memory_bytes"));
    }
}
