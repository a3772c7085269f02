//! How a command fails: what it tells, and its exit status.

use std::io;
use std::process::ExitCode;

use crate::client;
use crate::client::{ClientError, printable};
use crate::config::SettingError;

const FAILED: u8 = 1;
pub(super) const WRONG_USAGE: u8 = 2;

#[derive(Debug)]
pub(super) enum Failure {
    /// The command could not be done: exit status 1.
    Failed(String),
    /// The command line asks for what cannot be: exit status 2.
    Usage(String),
    /// Exit status 2.
    Settings(Vec<SettingError>),
    /// The log has told already what failed, or which settings are wrong.
    Told,
    SettingsTold,
    /// Nobody reads the output any more, as after `| head`: a quiet end.
    OutputClosed,
}

impl Failure {
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// What is left to tell, one line a mistake, and the exit status.
    pub(super) fn report(self) -> ExitCode {
        match self {
            Self::Failed(text) => {
                error(&text);
                ExitCode::from(FAILED)
            }
            Self::Usage(text) => {
                error(&text);
                ExitCode::from(WRONG_USAGE)
            }
            Self::Settings(errors) => {
                errors.iter().for_each(|one| error(&one.to_string()));
                ExitCode::from(WRONG_USAGE)
            }
            Self::Told => ExitCode::from(FAILED),
            Self::SettingsTold => ExitCode::from(WRONG_USAGE),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// Prints an error, whose text may come from a file or a server. It has several lines if it shows a part of a file.
fn error(text: &str) {
    eprintln!("error: {}", lines(text));
}

pub(super) fn warn(text: &str) {
    eprintln!("warning: {}", lines(text));
}

fn lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// A failure to write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("cannot write to standard output: {error}")),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<client::Failure> for Failure {
    fn from(failure: client::Failure) -> Self {
        match failure {
            client::Failure::Usage(text) => Self::Usage(text),
            client::Failure::Failed(text) => Self::Failed(text),
        }
    }
}
