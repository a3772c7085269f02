//! Why a person's request failed.

use std::fmt::Display;

use super::error::{ClientError, Problem, line};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
    /// The server refused it.
    #[error("{}", line(.0))]
    Refused(Box<Problem>),
    /// The reader of the output has ended, as `| head` does.
    #[error("the reader of the output has ended")]
    OutputClosed,
}

impl Failure {
    /// A failure to write to a file or to standard output.
    pub fn cannot_write(name: &dyn Display, error: &dyn Display) -> Self {
        let error = error.to_string();
        // Writers of rows retain the text of a system error, but not its kind.
        if error.contains("Broken pipe") {
            Self::OutputClosed
        } else {
            Self::Failed(format!("cannot write {name}: {error}"))
        }
    }

    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
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
