//! Why a list operation, or a change of the pool, fails.

use crate::access::Limited;
use crate::domain::Invalid;
use crate::items::StoreError;

/// Why a list operation, or a change of the pool, did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ListError {
    /// All permits of the list's actor stayed taken. Nothing was done.
    #[error("too many operations in flight on this list actor")]
    Overloaded,
    /// The server is stopping and takes no more operations. Nothing was done.
    #[error("the server is stopping")]
    Draining,
    /// The list's actor currently has no session. Nothing was done.
    #[error("no item-store session: {reason}")]
    NoSession { reason: String },
    /// A new actor could not open its session. The pool is unchanged.
    #[error("the pool was not resized: {reason}")]
    NotResized { reason: String },
    /// An earlier change of the pool did not end in time. Nothing was done.
    #[error("the pool is still being resized")]
    Resizing,
    #[error("deadline exceeded")]
    DeadlineExceeded { outcome_unknown: bool },
    /// One item of an add can be stored nowhere. Nothing was done.
    #[error("{invalid}")]
    ItemRefused { index: usize, invalid: Invalid },
    /// The caller has reached their limit of operations in flight. Nothing was done.
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operation panicked.
    #[error("the operation failed")]
    Panicked { outcome_unknown: bool },
}

impl ListError {
    /// Whether the write may have been made, in whole or in part.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::DeadlineExceeded { outcome_unknown } | Self::Panicked { outcome_unknown } => *outcome_unknown,
            Self::Store(error) => error.outcome_unknown(),
            Self::Overloaded
            | Self::Draining
            | Self::NoSession { .. }
            | Self::NotResized { .. }
            | Self::Resizing
            | Self::ItemRefused { .. }
            | Self::Limited(_) => false,
        }
    }

    /// The same failure of an operation that has already made a part of its changes.
    pub fn with_outcome_unknown(self) -> Self {
        match self {
            Self::DeadlineExceeded { .. } => Self::DeadlineExceeded { outcome_unknown: true },
            Self::Panicked { .. } => Self::Panicked { outcome_unknown: true },
            Self::Store(error) => Self::Store(error.with_outcome_unknown()),
            other => Self::Store(StoreError::Unavailable { reason: other.to_string(), outcome_unknown: true }),
        }
    }
}
