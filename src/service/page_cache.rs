//! Pages of items as they were rendered, for the next get that is alike.
//!
//! A page is the answer for as long as its list is in the state that it was read from, which the store
//! tells by a token, and until one of its items expires ([`Validity`]). A hit costs one look-up and one
//! comparison of tokens, and copies nothing. Memory is bounded, and a part of the store's cache setting.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntGauge, Registry};
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};

use crate::domain::{Int64As, ListKey, Retention, Timestamp};
use crate::items::{StateToken, Validity};

/// A page of items as it was written for those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPage {
    pub text: Bytes,
    /// An entity tag: pages with the same tag have the same text, on every server.
    pub tag: Bytes,
    /// How many items are in it.
    pub items: usize,
}

/// What a page costs in memory beside its text and its list's name: an estimate.
const OVERHEAD: usize = 320;
/// The allocator rounds bytes up by such a part of them, on average.
const ROUNDED_UP: usize = 8;
/// Pages are about as long as this: only the cache's first allocation depends on it.
const PAGE_BYTES: u64 = 4 << 10;

/// Gets of one list that begin at its newest item, without bounds: they differ in their limits and the form of values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    list: ListKey,
    limit: usize,
    int64_as: Int64As,
}

/// The same, borrowed.
struct BorrowedKey<'a> {
    list: &'a ListKey,
    limit: usize,
    int64_as: Int64As,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BorrowedKey { list: &self.list, limit: self.limit, int64_as: self.int64_as }.hash(state);
    }
}

impl Hash for BorrowedKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state);
        state.write_usize(self.limit);
        self.int64_as.hash(state);
    }
}

impl Equivalent<Key> for BorrowedKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.limit == key.limit && self.int64_as == key.int64_as && *self.list == key.list
    }
}

#[derive(Debug, Clone)]
struct Entry {
    retention: Retention,
    validity: Validity,
    page: RenderedPage,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Key, Entry> for ByBytes {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        let bytes = key.list.bytes().len() + entry.page.text.len();
        (bytes + bytes / ROUNDED_UP + OVERHEAD) as u64
    }
}

/// Shared by all threads.
#[derive(Debug)]
pub(crate) struct PageCache {
    pages: Arc<Cache<Key, Entry, ByBytes>>,
    hits: IntCounter,
}

impl PageCache {
    pub(super) fn new(bytes: u64, registry: &Registry) -> prometheus::Result<Self> {
        let pages = usize::try_from(bytes / PAGE_BYTES).unwrap_or(usize::MAX).max(16);
        let pages = Arc::new(Cache::with_weighter(pages, bytes, ByBytes));
        let hits = IntCounter::new("liststore_page_cache_hits_total", "Gets answered from the page cache.")?;
        let gauge = IntGauge::new("liststore_page_cache_bytes", "Memory of the page cache.")?;
        registry.register(Box::new(hits.clone()))?;
        registry.register(Box::new(MemoryGauge { gauge, pages: Arc::clone(&pages) }))?;
        Ok(Self { pages, hits })
    }

    /// The page of a list that is in `state`, if it was kept.
    pub(super) fn get(
        &self,
        list: &ListKey,
        (limit, int64_as): (usize, Int64As),
        retention: Retention,
        now: Timestamp,
        state: StateToken,
    ) -> Option<RenderedPage> {
        let Entry { retention: kept, validity, page } = self.pages.get(&BorrowedKey { list, limit, int64_as })?;
        let in_time = validity.from <= now && now.as_nanos() < validity.until;
        if validity.state != state || kept != retention || !in_time {
            return None;
        }
        self.hits.inc();
        Some(page)
    }

    /// Keeps a page in place of an older one.
    pub(super) fn insert(
        &self,
        list: &ListKey,
        (limit, int64_as): (usize, Int64As),
        retention: Retention,
        validity: Validity,
        page: &RenderedPage,
    ) {
        self.pages
            .insert(Key { list: list.clone(), limit, int64_as }, Entry { retention, validity, page: page.clone() });
    }
}

/// A gauge that is read when somebody asks for it.
struct MemoryGauge {
    gauge: IntGauge,
    pages: Arc<Cache<Key, Entry, ByBytes>>,
}

impl Collector for MemoryGauge {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gauge.set(i64::try_from(self.pages.weight()).unwrap_or(i64::MAX));
        self.gauge.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Int64As::Number;
    use crate::domain::Ttl;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, VersionLabel};

    fn list(entity_id: &str) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        ListKey::new(key, EntityId::new(entity_id).unwrap())
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn page(text: &str) -> RenderedPage {
        RenderedPage { text: text.to_owned().into(), tag: Bytes::from_static(b"\"1\""), items: 3 }
    }

    fn ttl(secs: u64) -> Retention {
        Ttl::parse(&format!("{secs}s")).unwrap().into()
    }

    #[test]
    fn a_page_is_the_answer_to_gets_like_the_first_and_no_others() {
        let cache = PageCache::new(1 << 20, &Registry::new()).unwrap();
        let (state, other) = (StateToken::new(2), StateToken::new(4));
        cache.insert(&list("a"), (3, Number), ttl(100), Validity { state, from: at(10), until: 20 }, &page("kept"));
        let get = |entity_id, limit, secs, now, state| {
            cache.get(&list(entity_id), (limit, Number), ttl(secs), at(now), state)
        };
        assert_eq!(get("a", 3, 100, 10, state), Some(page("kept")));
        assert_eq!(get("a", 3, 100, 19, state), Some(page("kept")));
        assert_eq!(get("a", 3, 100, 20, state), None, "an item has expired");
        assert_eq!(get("a", 3, 100, 9, state), None, "by a clock that was stepped back");
        assert_eq!(get("a", 3, 100, 10, other), None, "another state of the list");
        assert_eq!(get("a", 3, 99, 10, state), None, "another TTL");
        assert_eq!(get("a", 4, 100, 10, state), None, "another limit");
        assert_eq!(get("b", 3, 100, 10, state), None, "another list");
        assert_eq!(cache.get(&list("a"), (3, Int64As::String), ttl(100), at(10), state), None, "another form");
        assert_eq!(cache.hits.get(), 2);
    }

    #[test]
    fn memory_is_bounded_and_pages_of_other_limits_are_kept_beside() {
        const BYTES: u64 = 64 << 10;
        let cache = PageCache::new(BYTES, &Registry::new()).unwrap();
        let validity = Validity { state: StateToken::new(0), from: at(0), until: u64::MAX };
        for limit in [1, 2] {
            cache.insert(&list("a"), (limit, Number), ttl(9), validity, &page(&limit.to_string()));
        }
        for limit in [1, 2] {
            assert_eq!(
                cache.get(&list("a"), (limit, Number), ttl(9), at(1), validity.state),
                Some(page(&limit.to_string()))
            );
        }
        for i in 0..1_000 {
            cache.insert(&list(&format!("u-{i}")), (1, Number), ttl(9), validity, &page(&"x".repeat(1_000)));
            assert!(cache.pages.weight() <= BYTES);
        }
        assert!(cache.pages.weight() > BYTES / 2);
        // A store without memory to spare keeps none.
        let none = PageCache::new(0, &Registry::new()).unwrap();
        none.insert(&list("a"), (1, Number), ttl(9), validity, &page("x"));
        assert_eq!(none.get(&list("a"), (1, Number), ttl(9), at(1), validity.state), None);
    }
}
