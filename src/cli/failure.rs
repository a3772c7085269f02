//! Failures of commands: their text, and their exit status.

use std::io;
use std::process::ExitCode;

use serde_json::json;

use crate::client;
use crate::client::{ClientError, Problem, escaped, printable};
use crate::config::SettingError;
use crate::wire::ProblemBody;

const FAILED: u8 = 1;
pub(super) const WRONG_USAGE: u8 = 2;

#[derive(Debug)]
pub(super) enum Failure {
    /// The command failed: exit status 1.
    Failed(String),
    /// The command line is invalid: exit status 2.
    Usage(String),
    /// Exit status 2.
    Settings(Vec<SettingError>),
    /// The log already contains the failure, or the wrong settings.
    Reported,
    ReportedSettings,
    /// The server refused it: exit status 1.
    Refused(Box<Problem>),
    /// The reader closed the output, as `| head` does: the command ends quietly.
    OutputClosed,
}

impl Failure {
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// Prints the errors that were not printed yet, one line each or as JSON, and returns the exit status.
    pub(super) fn report(self, as_json: bool) -> ExitCode {
        let error = |text: &str, status: u8, problem: Option<&ProblemBody>| {
            if as_json {
                json_error(text, status, problem)
            } else {
                error(text)
            }
            ExitCode::from(status)
        };
        match self {
            Self::Failed(text) => error(&text, FAILED, None),
            Self::Usage(text) => error(&text, WRONG_USAGE, None),
            Self::Refused(problem) => {
                let details = problem.details.clone();
                error(&ClientError::Problem(problem).to_string(), FAILED, Some(&details))
            }
            Self::Settings(errors) => {
                errors.iter().for_each(|one| {
                    error(&one.to_string(), WRONG_USAGE, None);
                });
                ExitCode::from(WRONG_USAGE)
            }
            Self::Reported => ExitCode::from(FAILED),
            Self::ReportedSettings => ExitCode::from(WRONG_USAGE),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// Prints an error, whose text may come from a file or a server. It has several lines if it contains a part of a file.
fn error(text: &str) {
    eprintln!("error: {}", lines(text));
}

/// Prints an error as one document: the text, the exit status, and the server's problem.
pub(super) fn json_error(text: &str, status: u8, problem: Option<&ProblemBody>) {
    let mut document = json!({ "error": text, "exit_status": status });
    if let Some(problem) = problem.and_then(|problem| serde_json::to_value(problem).ok()) {
        document["problem"] = problem;
    }
    eprintln!("{}", escaped(&document.to_string()));
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
        match error {
            ClientError::Problem(problem) => Self::Refused(problem),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<client::Failure> for Failure {
    fn from(failure: client::Failure) -> Self {
        match failure {
            client::Failure::Usage(text) => Self::Usage(text),
            client::Failure::Failed(text) => Self::Failed(text),
            client::Failure::Refused(problem) => Self::Refused(problem),
            client::Failure::OutputClosed => Self::OutputClosed,
        }
    }
}
