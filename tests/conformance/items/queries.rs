//! Queries of a list other than its newest items: the oldest first, counting, finding values.

use bytes::Bytes;
use liststore::domain::Order;
use liststore::items::{Bounds, Count, Range};

use super::Backend;
use super::probe::{EVERYTHING, Probe, SECOND, numbered, ttl};

const OLDEST: Range = Range { order: Order::Oldest, ..EVERYTHING };

fn reversed<T: Clone>(items: &[T]) -> Vec<T> {
    items.iter().rev().cloned().collect()
}

pub async fn oldest_first_is_the_exact_reverse_order(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> =
        numbered("tie", 40).into_iter().enumerate().map(|(n, value)| (-((n / 16) as i64), value)).collect();
    probe.add(&items).await;
    let expected = reversed(&probe.in_order(&items));
    for limit in [1, 2, 3, 7, 16, 39, 40, 41] {
        assert_eq!(probe.walk(&probe.op(), OLDEST, limit).await, expected, "limit {limit}");
    }
    // Bounds are inclusive at both ends, and a cursor needs no item under it.
    let bounded = Range { min_timestamp: probe.at(-1), max_timestamp: probe.at(-1), ..OLDEST };
    assert_eq!(probe.walk(&probe.op(), bounded, 5).await, expected[8..24]);
    let after = Some(probe.key(-1, b"never there"));
    let page = probe.page(&probe.op(), &Range { after, ..OLDEST }).await;
    let later: Vec<_> = expected.iter().filter(|(at, value)| Some(probe.key(*at, value)) > after).cloned().collect();
    assert_eq!((probe.offsets(&page), page.more), (later, false));
}

pub async fn a_page_of_the_oldest_ends_as_any_page_does(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    // Values of 10, 20, 0, 30, 0, 5 bytes, oldest first.
    let sizes = [10, 20, 0, 30, 0, 5];
    let items: Vec<_> = sizes.iter().enumerate().map(|(n, size)| (n as i64, vec![b'a' + n as u8; *size])).collect();
    probe.add(&items).await;
    for (value_bytes_max, count) in [(1, 1), (10, 1), (29, 1), (30, 3), (59, 3), (60, 5), (64, 5), (65, 6)] {
        let page = probe.page(&probe.op(), &Range { value_bytes_max, ..OLDEST }).await;
        assert_eq!((page.items.len(), page.more), (count, count < 6), "{value_bytes_max} bytes");
        assert_eq!(probe.offsets(&page), items[..count], "{value_bytes_max} bytes");
    }
    for limit in 1..=7 {
        let page = probe.page(&probe.op(), &Range { limit, ..OLDEST }).await;
        assert_eq!((page.items.len(), page.more), (limit.min(6), limit < 6), "limit {limit}");
    }
    // An expired item is no beginning, and an item out of bounds no end.
    let later = probe.op_at(10 * SECOND, ttl(10));
    assert_eq!(probe.offsets(&probe.page(&later, &OLDEST).await), items[1..]);
    let bounded = Range { max_timestamp: probe.at(2), limit: 3, ..OLDEST };
    let page = probe.page(&probe.op(), &bounded).await;
    assert_eq!((page.items.len(), page.more), (3, false));
}

pub async fn a_long_list_is_walked_from_its_oldest_item(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    // Long runs of ties between single items, in adds that overlap each other, and a part that is removed.
    let at = |n: usize| if (n / 500).is_multiple_of(2) { -(n as i64 / 500) * 1_000 } else { -(n as i64) * 2 };
    let items: Vec<_> = (0..5_000).map(|n| (at(n), format!("v{n}"))).collect();
    for part in 0..5 {
        let part: Vec<_> = items.iter().skip(part).step_by(5).cloned().collect();
        probe.add(&part).await;
    }
    let removed: Vec<_> = items.iter().skip(100).step_by(7).cloned().collect();
    for part in removed.chunks(500) {
        assert_eq!(probe.remove_items(part).await, part.len() as u64);
    }
    let left: Vec<_> = items.iter().filter(|item| !removed.contains(item)).cloned().collect();
    let expected = reversed(&probe.in_order(&left));
    for limit in [1_000, 333, 97] {
        assert_eq!(probe.walk(&probe.op(), OLDEST, limit).await, expected, "limit {limit}");
    }
}

pub async fn a_walk_from_the_oldest_is_correct_under_writes(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = (0..1_200).map(|n| (-(n / 4) - 1_000, format!("v{n}"))).collect();
    for part in items.chunks(1_000) {
        probe.add(part).await;
    }
    let mut expected = reversed(&probe.in_order(&items));
    let (mut seen, mut range, mut pages) = (Vec::new(), Range { limit: 97, ..OLDEST }, 0);
    loop {
        let page = probe.page(&probe.op(), &range).await;
        seen.extend(probe.offsets(&page));
        let Some(last) = page.items.last().filter(|_| page.more) else { break };
        range.after = Some(last.key());
        pages += 1;
        // The walk never sees older items, and sees newer ones once. It does not see an item that is removed before.
        probe.add(&[(-5_000 - pages, format!("older{pages}"))]).await;
        let newer = (pages, format!("newer{pages}"));
        probe.add(std::slice::from_ref(&newer)).await;
        expected.push((newer.0, newer.1.into_bytes()));
        let going = expected[seen.len() + 5].clone();
        assert_eq!(probe.remove_items(&[&going].map(|(at, value)| (*at, value))).await, 1);
        expected.retain(|item| *item != going);
    }
    assert!(pages > 10, "the walk had {pages} pages");
    assert_eq!(seen, expected);
}

pub async fn contains_returns_the_newest_visible_item_of_each_value(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let within = async |op, min, max, values: &[&str]| {
        let values: Vec<_> = values.iter().map(|value| Bytes::from(value.to_string())).collect();
        let found = probe.session.contains(&op, &probe.list, &probe.bounds(min, max), &values).await.unwrap();
        found
            .into_iter()
            .map(|at| at.map(|at| at.as_nanos().wrapping_sub(probe.base.as_nanos()).cast_signed()))
            .collect::<Vec<_>>()
    };
    assert_eq!(within(probe.op(), -SECOND, 0, &["a"]).await, [None], "of a list that was never written");
    probe.add(&[(0, "a"), (-1, "b"), (-2, "a"), (-3, ""), (-20 * SECOND, "old"), (-20 * SECOND, "a")]).await;
    let all = (-60 * SECOND, 60 * SECOND);
    let asked = ["b", "a", "x", "a", "", "old"];
    let expected = [Some(-1), Some(0), None, Some(0), Some(-3), Some(-20 * SECOND)];
    assert_eq!(within(probe.op(), all.0, all.1, &asked).await, expected);
    assert_eq!(within(probe.op(), -2, -1, &asked).await, [Some(-1), Some(-2), None, Some(-2), None, None]);
    // A shorter TTL hides old items.
    let shortened = probe.op_at(0, ttl(10));
    assert_eq!(within(shortened, all.0, -3, &["old", "a", ""]).await, [None, None, Some(-3)]);
    assert_eq!(probe.remove("a").await, 3);
    assert_eq!(within(probe.op(), all.0, all.1, &["a", "b"]).await, [None, Some(-1)]);
    probe.remove_all().await;
    assert_eq!(within(probe.op(), all.0, all.1, &["a", "b"]).await, [None, None]);
}

/// Longer than the part that is read before another way is tried, in a store that has one.
pub async fn contains_finds_few_values_deep_in_a_long_list(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = (0..4_000).map(|n| (-n, format!("v{}", n % 3_000))).collect();
    for part in items.chunks(1_000) {
        probe.add(part).await;
    }
    let find = async |bounds: &Bounds, values: &[usize]| {
        let values: Vec<_> = values.iter().map(|n| Bytes::from(format!("v{n}"))).collect();
        let found = probe.session.contains(&probe.op(), &probe.list, bounds, &values).await.unwrap();
        found.into_iter().map(|at| at.map(|at| probe.base.as_nanos() - at.as_nanos())).collect::<Vec<_>>()
    };
    let values: Vec<_> = [2_999, 0, 999, 9_999, 2_998].to_vec();
    let expected = [Some(2_999), Some(0), Some(999), None, Some(2_998)];
    assert_eq!(find(&Bounds::ALL, &values).await, expected);
    let old = probe.bounds(-3_999, -1);
    assert_eq!(find(&old, &[0, 1, 999, 1_000]).await, [Some(3_000), Some(1), Some(999), Some(1_000)]);
    let many: Vec<_> = (2_200..3_200).collect();
    let found = find(&Bounds::ALL, &many).await;
    assert!(found.iter().zip(2_200..3_200).all(|(found, n)| *found == (n < 3_000).then_some(n)));
}

pub async fn counts_are_exact_up_to_their_bound(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let count = async |op, bounds: &Bounds, max| {
        let Count { items, exact } = probe.session.count(&op, &probe.list, bounds, max).await.unwrap();
        (items, exact)
    };
    assert_eq!(count(probe.op(), &Bounds::ALL, 1).await, (0, true));
    probe.add(&[(0, "a"), (-1, "b"), (-1, "c"), (-2, "a"), (-20 * SECOND, "old")]).await;
    for (max, expected) in [(1, (1, false)), (4, (4, false)), (5, (5, true)), (1_000_000, (5, true))] {
        assert_eq!(count(probe.op(), &Bounds::ALL, max).await, expected, "max {max}");
    }
    assert_eq!(count(probe.op(), &probe.bounds(-2, -1), 10).await, (3, true), "both bounds are inclusive");
    assert_eq!(count(probe.op_at(0, ttl(10)), &Bounds::ALL, 4).await, (4, true), "what is hidden does not count");
    assert_eq!(probe.remove("a").await, 2);
    assert_eq!(count(probe.op(), &Bounds::ALL, 10).await, (3, true));
    let many: Vec<_> = (0..6_000).map(|n| (-n, "many")).collect();
    for part in many.chunks(1_000) {
        probe.add(part).await;
    }
    assert_eq!(count(probe.op(), &Bounds::ALL, 10_000).await, (6_003, true));
    assert_eq!(count(probe.op(), &Bounds::ALL, 6_002).await, (6_002, false));
}
