//! Settings of the log.

use std::fmt::Display;

use serde::{Serialize, Serializer};

use super::choices::LogFormat;
use super::forms::{access_log, log_filter};
use super::reader::{Reader, choice, number};
use super::section::section;
use crate::domain::AccessLog;

section! {
    LogSettings "log."
    format: LogFormat = LogFormat::Auto, choice;
    /// In the syntax of `tracing_subscriber::EnvFilter`.
    filter: String = "info".into(), log_filter;
    #[serde(serialize_with = "as_text")]
    access: AccessLog = AccessLog::Off, access_log;
    access_lines_per_second_max: u32 = 1_000, number(1..=1_000_000);
}

fn as_text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
