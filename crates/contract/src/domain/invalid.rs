//! Why a value from outside was refused: the one error type of the domain's constructors.

/// Which documented error a refusal is answered with (see `docs/reference/api.md`, "Errors").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    InvalidArgument,
    InvalidTimestamp,
    InvalidPageToken,
    ValueTypeMismatch,
    IdentityMismatch,
    TtlTooLong,
    TimestampTooFarAhead,
}

impl Code {
    pub const ALL: [Self; 7] = [
        Self::InvalidArgument,
        Self::InvalidTimestamp,
        Self::InvalidPageToken,
        Self::ValueTypeMismatch,
        Self::IdentityMismatch,
        Self::TtlTooLong,
        Self::TimestampTooFarAhead,
    ];
}

/// A refused value: the documented code and a sentence about the accepted values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Invalid {
    pub code: Code,
    pub detail: String,
}

impl Invalid {
    pub fn argument(detail: impl Into<String>) -> Self {
        Self { code: Code::InvalidArgument, detail: detail.into() }
    }

    pub fn timestamp(detail: impl Into<String>) -> Self {
        Self { code: Code::InvalidTimestamp, detail: detail.into() }
    }

    pub fn page_token(detail: impl Into<String>) -> Self {
        Self { code: Code::InvalidPageToken, detail: detail.into() }
    }

    pub fn value_type(detail: impl Into<String>) -> Self {
        Self { code: Code::ValueTypeMismatch, detail: detail.into() }
    }

    pub fn identity(detail: impl Into<String>) -> Self {
        Self { code: Code::IdentityMismatch, detail: detail.into() }
    }

    pub fn timestamp_too_far_ahead(detail: impl Into<String>) -> Self {
        Self { code: Code::TimestampTooFarAhead, detail: detail.into() }
    }

    pub fn ttl_too_long(detail: impl Into<String>) -> Self {
        Self { code: Code::TtlTooLong, detail: detail.into() }
    }
}
