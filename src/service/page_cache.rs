//! Rendered pages of items, for equal gets.
//!
//! A page is the answer as long as its list is in the state in which it was read, which the store returns as a token,
//! and until one of its items expires ([`Validity`]). A hit costs one lookup and one comparison of tokens, and copies
//! nothing. Memory is bounded by a part of the store's cache setting.

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

/// A rendered page of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPage {
    pub text: Bytes,
    /// An entity tag: pages with the same tag have the same text, on every server.
    pub tag: Bytes,
    /// The number of its items.
    pub items: usize,
}

/// An estimate of the memory of a page, without its text and its list's name.
const OVERHEAD: usize = 320;
/// The mean share by which the allocator rounds bytes up.
const ROUNDED_UP: usize = 8;
/// The mean length of a page, which only affects the cache's first allocation.
const PAGE_BYTES: u64 = 4 << 10;

/// A get without bounds from the newest item: its list, its limit and the form of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PageKey {
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

impl Hash for PageKey {
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

impl Equivalent<PageKey> for BorrowedKey<'_> {
    fn equivalent(&self, key: &PageKey) -> bool {
        self.limit == key.limit && self.int64_as == key.int64_as && *self.list == key.list
    }
}

#[derive(Debug, Clone)]
struct CachedPage {
    retention: Retention,
    validity: Validity,
    page: RenderedPage,
}

#[derive(Debug, Clone)]
struct PageWeight;

impl Weighter<PageKey, CachedPage> for PageWeight {
    fn weight(&self, key: &PageKey, entry: &CachedPage) -> u64 {
        let bytes = key.list.bytes().len() + entry.page.text.len();
        (bytes + bytes / ROUNDED_UP + OVERHEAD) as u64
    }
}

/// Shared by all threads.
#[derive(Debug)]
pub(crate) struct PageCache {
    pages: Arc<Cache<PageKey, CachedPage, PageWeight>>,
    hits: IntCounter,
}

impl PageCache {
    pub(super) fn new(bytes: u64, registry: &Registry) -> prometheus::Result<Self> {
        let pages = usize::try_from(bytes / PAGE_BYTES).unwrap_or(usize::MAX).max(16);
        let pages = Arc::new(Cache::with_weighter(pages, bytes, PageWeight));
        let hits = IntCounter::new("liststore_page_cache_hits_total", "Gets answered from the page cache.")?;
        let gauge = IntGauge::new("liststore_page_cache_bytes", "Memory of the page cache.")?;
        registry.register(Box::new(hits.clone()))?;
        registry.register(Box::new(MemoryGauge { gauge, pages: Arc::clone(&pages) }))?;
        Ok(Self { pages, hits })
    }

    /// The cached page of a list that is in `state`.
    pub(super) fn get(
        &self,
        list: &ListKey,
        (limit, int64_as): (usize, Int64As),
        retention: Retention,
        now: Timestamp,
        state: StateToken,
    ) -> Option<RenderedPage> {
        let CachedPage { retention: kept, validity, page } = self.pages.get(&BorrowedKey { list, limit, int64_as })?;
        let in_time = validity.from <= now && now.as_nanos() < validity.until;
        if validity.state != state || kept != retention || !in_time {
            return None;
        }
        self.hits.inc();
        Some(page)
    }

    /// Stores a page, in place of an older one.
    pub(super) fn insert(
        &self,
        list: &ListKey,
        (limit, int64_as): (usize, Int64As),
        retention: Retention,
        validity: Validity,
        page: &RenderedPage,
    ) {
        self.pages.insert(
            PageKey { list: list.clone(), limit, int64_as },
            CachedPage { retention, validity, page: page.clone() },
        );
    }
}

/// A gauge that is updated when metrics are collected.
struct MemoryGauge {
    gauge: IntGauge,
    pages: Arc<Cache<PageKey, CachedPage, PageWeight>>,
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
    fn a_cached_page_answers_equal_gets_only() {
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
    fn memory_is_bounded_and_pages_of_several_limits_are_kept() {
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
        // Without memory, the cache stores no pages.
        let none = PageCache::new(0, &Registry::new()).unwrap();
        none.insert(&list("a"), (1, Number), ttl(9), validity, &page("x"));
        assert_eq!(none.get(&list("a"), (1, Number), ttl(9), at(1), validity.state), None);
    }
}
