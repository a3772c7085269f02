//! Why something that a person asked for was not done.

use super::error::ClientError;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was asked for in a way that cannot be carried out.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.to_string())
    }
}
