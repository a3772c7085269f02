//! How many attempts beyond the first there may be.

use std::sync::atomic::{AtomicI64, Ordering};

/// What all retries of the process draw on: a bucket of tokens that every request adds a fifth of
/// a token to, and every further attempt takes one from. So in an outage of any length the
/// database sees at most a fifth more attempts than there are requests, and beyond that only what
/// the bucket held: enough for the requests that were in flight when a node died.
#[derive(Debug)]
pub struct RetryBudget {
    /// In thousandths of a token.
    tokens: AtomicI64,
}

impl RetryBudget {
    const TOKEN: i64 = 1_000;
    const TOKENS_MAX: i64 = 2_000 * Self::TOKEN;
    const PER_REQUEST: i64 = Self::TOKEN / 5;

    pub fn full() -> Self {
        Self { tokens: AtomicI64::new(Self::TOKENS_MAX) }
    }

    #[cfg(test)]
    pub fn empty() -> Self {
        Self { tokens: AtomicI64::new(0) }
    }

    pub fn earn(&self) {
        // A full bucket is the rule: then nothing is written that other cores would have to read.
        if self.tokens.load(Ordering::Relaxed) < Self::TOKENS_MAX {
            self.tokens.fetch_add(Self::PER_REQUEST, Ordering::Relaxed);
        }
    }

    pub fn spend(&self) -> bool {
        self.tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tokens| {
                (tokens >= Self::TOKEN).then_some(tokens - Self::TOKEN)
            })
            .is_ok()
    }
}
