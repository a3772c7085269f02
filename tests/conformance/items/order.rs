//! In which order items come, and which of them a range holds.

use liststore::domain::Timestamp;
use liststore::items::{ItemPage, Range};

use super::Backend;
use super::probe::{EVERYTHING, Probe, SECOND, numbered, ttl};

pub async fn a_list_without_writes_is_empty(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    assert_eq!(probe.page(&probe.op(), &EVERYTHING).await, ItemPage::default());
    let one = Range { limit: 1, ..EVERYTHING };
    assert_eq!(probe.page(&probe.op(), &one).await, ItemPage::default());
}

pub async fn items_come_newest_first(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    // Neither the order of adds, nor the order within an add, nor the order of values matters.
    probe.add(&[(-3 * SECOND, "c"), (-5 * SECOND, "z"), (-4 * SECOND, "a")]).await;
    probe.add(&[(-1, "m"), (-6 * SECOND, "b")]).await;
    probe.add(&[(0, "k")]).await;
    let expected =
        [(0, "k"), (-1, "m"), (-3 * SECOND, "c"), (-4 * SECOND, "a"), (-5 * SECOND, "z"), (-6 * SECOND, "b")];
    assert_eq!(probe.all().await, expected.map(|(offset, value)| (offset, value.as_bytes().to_vec())));
}

pub async fn equal_timestamps_are_ordered_by_the_text_of_the_item_key(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    // 300 digests start with every character of Base64, whose alphabet is not in byte order.
    let items: Vec<_> =
        numbered("v", 300).into_iter().enumerate().map(|(n, value)| (-((n % 3) as i64), value)).collect();
    for part in items.chunks(70) {
        probe.add(part).await;
    }
    assert_eq!(probe.all().await, probe.in_order(&items));
}

pub async fn both_bounds_are_inclusive(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(-4, "a"), (-3, "b"), (-3, "c"), (-2, "d"), (-1, "e"), (-1, "f"), (0, "g")];
    probe.add(&items).await;
    for min in -5..=1 {
        for max in min..=1 {
            let range = Range { min_timestamp: probe.at(min), max_timestamp: probe.at(max), ..EVERYTHING };
            let expected: Vec<_> = items.into_iter().filter(|(offset, _)| (min..=max).contains(offset)).collect();
            let page = probe.page(&probe.op(), &range).await;
            assert_eq!((probe.offsets(&page), page.more), (probe.in_order(&expected), false), "{min}..={max}");
        }
    }
}

pub async fn bounds_may_be_the_first_and_the_last_timestamp(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    probe.add(&[(-1, "a"), (0, "b")]).await;
    let count = async |min_timestamp, max_timestamp| {
        let range = Range { min_timestamp, max_timestamp, ..EVERYTHING };
        probe.page(&probe.op(), &range).await.items.len()
    };
    assert_eq!(count(Timestamp::MIN, Timestamp::MAX).await, 2);
    assert_eq!(count(Timestamp::MIN, Timestamp::MIN).await, 0);
    assert_eq!(count(Timestamp::MAX, Timestamp::MAX).await, 0);
    assert_eq!(count(Timestamp::MIN, probe.at(-1)).await, 1);
    assert_eq!(count(probe.at(0), Timestamp::MAX).await, 1);
}

pub async fn items_may_have_the_first_and_the_last_timestamp(backend: &dyn Backend) {
    if !backend.steps_clock() {
        // Such items have long expired, or expire in centuries: no real row can be either.
        return;
    }
    for base in [Timestamp::MIN, Timestamp::MAX] {
        let probe = Probe::open_at(backend, base, ttl(10)).await;
        let values = numbered("v", 5);
        let items: Vec<_> = values.iter().map(|value| (0, value)).collect();
        probe.add(&items).await;
        let only = Range { min_timestamp: base, max_timestamp: base, ..EVERYTHING };
        for range in [EVERYTHING, only] {
            assert_eq!(probe.walk(&probe.op(), range, 2).await, probe.in_order(&items), "at {base:?}");
        }
        assert_eq!(probe.remove(&values[0]).await, 1);
        assert_eq!(probe.all().await, probe.in_order(&items[1..]));
        probe.store.close().await.unwrap();
    }
}
