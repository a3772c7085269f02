//! Reclaims the space of expired rows whenever the engine compacts them. What is visible is never
//! decided here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use fjall::compaction::filter::{CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict};

use super::keys;
use crate::domain::Clock;

/// A row is kept for a minute beyond its expiry: an operation that is under way may have read its
/// `now` a moment ago, and clocks are stepped back by moments.
const SLACK_NANOS: u64 = 60_000_000_000;

/// Makes a filter for each compaction. Its clock is only read: a panic in it leaves nothing torn.
pub struct ExpiryFactory(pub AssertUnwindSafe<Arc<dyn Clock>>);

impl Factory for ExpiryFactory {
    fn name(&self) -> &str {
        "expiry"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(ExpiryFilter { expired_at: self.0.now().as_nanos().saturating_sub(SLACK_NANOS) })
    }
}

struct ExpiryFilter {
    expired_at: u64,
}

impl CompactionFilter for ExpiryFilter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        let expired = keys::split_expiry(&item.value()?).is_some_and(|(expires_at, _)| expires_at <= self.expired_at);
        // A tombstone, lest an older row of the same key with a later expiry show again.
        Ok(if expired { Verdict::Remove } else { Verdict::Keep })
    }
}
