//! How an item store can fail, in words that do not depend on the store.

use liststore_contract::domain::Invalid;

/// Why an operation of a store did not succeed. Texts are for logs and for `detail` members of
/// answers: they never contain a payload, a secret, or a driver's text.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store cannot do this now: no connection, too few replicas, a full or failing disk.
    #[error("item store unavailable: {reason}")]
    Unavailable { reason: String, outcome_unknown: bool },
    /// The store refuses load. Nothing was done.
    #[error("item store overloaded: {reason}")]
    Overloaded { reason: String },
    /// The store must read past too many tombstones, and gives up. Another attempt fares no better before it has
    /// compacted them away.
    #[error("the database reached its limit of tombstones in this list: see docs/howto/operate/troubleshooting.md")]
    TooManyTombstones { outcome_unknown: bool },
    /// The deadline passed, or the store itself gave up waiting.
    #[error("item store timed out")]
    Timeout { outcome_unknown: bool },
    /// The request can never succeed on this store as it is.
    #[error("the item store refused the request: {0}")]
    Refused(Invalid),
    /// The stored data cannot be trusted, or the store broke an invariant.
    #[error("item store failed: {reason}")]
    Internal { reason: String, outcome_unknown: bool },
}

impl StoreError {
    /// The error for members of a list that is not a set.
    pub fn no_members() -> Self {
        Self::Internal { reason: "a list with the identity item has no members".to_owned(), outcome_unknown: false }
    }

    /// Whether the same request may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Overloaded { .. } | Self::Timeout { .. } => true,
            Self::Refused(_) | Self::Internal { .. } | Self::TooManyTombstones { .. } => false,
        }
    }

    /// Whether a write that failed so may have been carried out all the same, now or later.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Unavailable { outcome_unknown, .. }
            | Self::TooManyTombstones { outcome_unknown }
            | Self::Timeout { outcome_unknown }
            | Self::Internal { outcome_unknown, .. } => *outcome_unknown,
            Self::Overloaded { .. } | Self::Refused(_) => false,
        }
    }

    /// The same error of a write that had not changed anything yet when it met it.
    pub fn with_nothing_done(mut self) -> Self {
        match &mut self {
            Self::Unavailable { outcome_unknown, .. }
            | Self::TooManyTombstones { outcome_unknown }
            | Self::Timeout { outcome_unknown }
            | Self::Internal { outcome_unknown, .. } => *outcome_unknown = false,
            Self::Overloaded { .. } | Self::Refused(_) => {}
        }
        self
    }

    /// The same error of a write of which a part may have been carried out before.
    pub fn with_outcome_unknown(self) -> Self {
        match self {
            Self::Unavailable { reason, .. } | Self::Overloaded { reason } => {
                Self::Unavailable { reason, outcome_unknown: true }
            }
            Self::TooManyTombstones { .. } => Self::TooManyTombstones { outcome_unknown: true },
            Self::Timeout { .. } => Self::Timeout { outcome_unknown: true },
            Self::Internal { reason, .. } => Self::Internal { reason, outcome_unknown: true },
            Self::Refused(invalid) => Self::Internal { reason: invalid.detail, outcome_unknown: true },
        }
    }
}
