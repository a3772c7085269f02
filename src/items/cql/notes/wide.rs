//! Finds lists whose partition grows wide, since they are not kept in buckets: before it hurts.
//!
//! Counts report long lists. Each session also picks a list that was just added to, at intervals, and counts its keys
//! in the background. So lists with many adds are found soon, even without reads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::{IntCounter, IntGauge};
use tokio::time::Instant;

use crate::domain::{ListKey, Ttl};
use crate::items::OpContext;

/// A list with this many items is reported. With 1 KB each they are about 100 MB, where Cassandra begins to warn.
pub const WIDE_ITEMS: u64 = 100_000;
/// The least time between two reports of the same list.
const REPORT_INTERVAL: Duration = Duration::from_secs(3_600);
/// The most lists whose reports are remembered.
const REPORTED_MAX: usize = 1_024;

/// The findings of all sessions of a store.
#[derive(Debug)]
pub struct WideLists {
    reported: Mutex<HashMap<ListKey, Instant>>,
    lists: IntCounter,
    widest: IntGauge,
}

impl WideLists {
    pub fn new(lists: IntCounter, widest: IntGauge) -> Self {
        Self { reported: Mutex::default(), lists, widest }
    }

    /// A list had this many items, or more.
    pub fn note(&self, list: &ListKey, items: u64) {
        if items < WIDE_ITEMS || list.identity().is_set() || list.bucket().is_some() {
            return;
        }
        let count = i64::try_from(items).unwrap_or(i64::MAX);
        self.widest.set(self.widest.get().max(count));
        if self.is_due(list, Instant::now()) {
            self.lists.inc();
            let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
            tracing::warn!(
                feature_key,
                entity_id,
                items,
                "a list has grown long: copy its items to a version with a bucket (see buckets in docs/explanation/buckets.md)"
            );
        }
    }

    fn is_due(&self, list: &ListKey, now: Instant) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.get(list).is_some_and(|at| now - *at < REPORT_INTERVAL) {
            return false;
        }
        if reported.len() >= REPORTED_MAX {
            reported.retain(|_, at| now - *at < REPORT_INTERVAL);
        }
        // If there are more wide lists than fit, others have been reported.
        reported.len() < REPORTED_MAX && reported.insert(list.clone(), now).is_none_or(|at| now - at >= REPORT_INTERVAL)
    }
}

/// The list of one session that is looked at next.
#[derive(Debug, Default)]
pub struct WideSample {
    is_chosen: AtomicBool,
    chosen: Mutex<Option<(ListKey, Ttl)>>,
}

impl WideSample {
    /// A list was added to: the first one after a look is the next to be looked at.
    pub fn added(&self, op: &OpContext, list: &ListKey) {
        let is_wanted = op.max_items.is_none() && list.bucket().is_none() && !list.identity().is_set();
        if is_wanted && !self.is_chosen.load(Ordering::Relaxed) && !self.is_chosen.swap(true, Ordering::Relaxed) {
            *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Some((list.clone(), op.ttl));
        }
    }

    /// The list that must be checked, and the TTL of its items; from then on another one is chosen.
    pub fn take(&self) -> Option<(ListKey, Ttl)> {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).take();
        if chosen.is_some() {
            self.is_chosen.store(false, Ordering::Relaxed);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        Bucket, EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, MaxItems, Timestamp, VersionLabel,
    };

    fn list(entity: &str, bucket: Option<Bucket>) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST).with_bucket(bucket);
        ListKey::new(key, EntityId::new(entity).unwrap())
    }

    #[test]
    fn a_wide_list_is_logged_once_an_hour() {
        let wide = WideLists::new(IntCounter::new("a", "a").unwrap(), IntGauge::new("b", "b").unwrap());
        wide.note(&list("a", None), WIDE_ITEMS - 1);
        wide.note(&list("b", Some(Bucket::Year)), 2 * WIDE_ITEMS);
        assert_eq!((wide.lists.get(), wide.widest.get()), (0, 0));
        wide.note(&list("a", None), WIDE_ITEMS + 5);
        wide.note(&list("a", None), WIDE_ITEMS);
        assert_eq!((wide.lists.get(), wide.widest.get()), (1, 100_005));
        assert!(wide.is_due(&list("a", None), Instant::now() + REPORT_INTERVAL));
        (0..2 * REPORTED_MAX).for_each(|n| wide.note(&list(&n.to_string(), None), WIDE_ITEMS));
        assert_eq!(wide.lists.get() as usize, REPORTED_MAX, "what is remembered is bounded");
    }

    #[test]
    fn the_first_list_with_an_add_is_checked_next() {
        let (sample, ttl) = (WideSample::default(), Ttl::DAY);
        let op = OpContext::new(Timestamp::MIN, ttl, Instant::now());
        sample.added(&op, &list("bucketed", Some(Bucket::Day)));
        sample.added(&OpContext { max_items: MaxItems::new(7).ok(), ..op }, &list("bounded", None));
        assert_eq!(sample.take(), None);
        sample.added(&op, &list("a", None));
        sample.added(&op, &list("b", None));
        assert_eq!(sample.take(), Some((list("a", None), ttl)));
        assert_eq!(sample.take(), None);
        sample.added(&op, &list("b", None));
        assert_eq!(sample.take(), Some((list("b", None), ttl)));
    }
}
