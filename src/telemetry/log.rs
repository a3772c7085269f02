//! The log of a running process. Its filter can change while the process runs.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload;

use super::{TelemetryError, parse};
use crate::domain::{AccessLog, Clock, SystemClock};

type Reload = Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>;

/// The current selection of log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogState {
    /// The directives as written.
    pub filter: String,
    pub access: AccessLog,
}

/// The log of this process.
pub struct Log {
    filter: Mutex<String>,
    access: AtomicU8,
    /// `None` if another subscriber writes the log. Then the filter is only a text.
    reload: Option<Reload>,
    is_json: bool,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.state()).finish()
    }
}

impl Log {
    /// The log of a process without our subscriber.
    pub fn unset() -> Self {
        Self::new("info".to_owned(), AccessLog::Off, None, false)
    }

    pub(super) fn new(filter: String, access: AccessLog, reload: Option<Reload>, is_json: bool) -> Self {
        Self { filter: Mutex::new(filter), access: AtomicU8::new(access as u8), reload, is_json }
    }

    /// The requests that the log includes. Every request reads it, with one atomic load.
    pub fn access(&self) -> AccessLog {
        AccessLog::ALL[usize::from(self.access.load(Ordering::Relaxed))]
    }

    pub fn state(&self) -> LogState {
        let filter = self.filter.lock().unwrap_or_else(PoisonError::into_inner).clone();
        LogState { filter, access: self.access() }
    }

    /// Replaces the directives or the selection of requests from now on. `None` leaves a part unchanged. Invalid
    /// directives change nothing.
    pub fn change(&self, filter: Option<String>, access: Option<AccessLog>) -> Result<LogState, TelemetryError> {
        let mut kept = self.filter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(filter) = filter {
            let parsed = parse(&filter)?;
            if let Some(reload) = &self.reload {
                reload(parsed)?;
            }
            *kept = filter;
        }
        if let Some(access) = access {
            self.access.store(access as u8, Ordering::Relaxed);
        }
        Ok(LogState { filter: kept.clone(), access: self.access() })
    }

    /// Logs why the process ends, in the format of the log, with any filter.
    pub fn last_words(&self, text: &str) {
        last_words(text, self.is_json);
    }
}

/// Reports why the process ends: as a JSON line if the log is JSON, otherwise as all commands do.
pub fn last_words(text: &str, in_json: bool) {
    let line = if in_json {
        let timestamp = SystemClock.now().to_string();
        serde_json::json!({"timestamp": timestamp, "level": "ERROR", "message": text, "target": "liststore"})
            .to_string()
    } else {
        format!("error: {text}")
    };
    // If standard error is closed, the line is lost.
    let _unseen = writeln!(std::io::stderr(), "{line}");
}
