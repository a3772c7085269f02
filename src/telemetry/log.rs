//! The log of a running process: what of it is written may change while the process runs.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload;

use super::{TelemetryError, parse};
use crate::domain::{AccessLog, Clock, SystemClock};

type Reload = Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>;

/// What of the log is written.
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
    /// None where this process has set up no log of ours: then its filter is a word.
    reload: Option<Reload>,
    is_json: bool,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.state()).finish()
    }
}

impl Log {
    /// The log of a process that has set up none.
    pub fn unset() -> Self {
        Self::new("info".to_owned(), AccessLog::Off, None, false)
    }

    pub(super) fn new(filter: String, access: AccessLog, reload: Option<Reload>, is_json: bool) -> Self {
        Self { filter: Mutex::new(filter), access: AtomicU8::new(access as u8), reload, is_json }
    }

    /// Of which requests there is a line. Asked with every request: one load.
    pub fn access(&self) -> AccessLog {
        AccessLog::ALL[usize::from(self.access.load(Ordering::Relaxed))]
    }

    pub fn state(&self) -> LogState {
        let filter = self.filter.lock().unwrap_or_else(PoisonError::into_inner).clone();
        LogState { filter, access: self.access() }
    }

    /// Uses other directives from now on, or logs lines of other requests. `None` leaves a part as it is. Invalid
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

/// Tells why a process ends: as an object in a line where its log has those, else as all commands do.
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
