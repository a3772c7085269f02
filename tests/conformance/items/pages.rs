//! Pages: cursors, limits, the bound on value bytes, and whether more follows.

use liststore::domain::ItemKey;
use liststore::items::Range;

use super::Backend;
use super::probe::{EVERYTHING, Probe, SECOND, numbered, ttl};

pub async fn a_cursor_splits_ties_exactly(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> =
        numbered("tie", 40).into_iter().enumerate().map(|(n, value)| (-((n / 16) as i64), value)).collect();
    probe.add(&items).await;
    for limit in [1, 2, 3, 7, 16, 39, 40, 41] {
        assert_eq!(probe.walk(&probe.op(), EVERYTHING, limit).await, probe.in_order(&items), "limit {limit}");
    }
}

pub async fn a_cursor_needs_no_item_under_it(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let values = numbered("v", 20);
    let items: Vec<_> = values.iter().map(|value| (-5, value)).collect();
    probe.add(&items).await;
    let expected = probe.in_order(&items);
    // The last item of a page is removed before the next request.
    let last = expected[9].1.clone();
    let after = Some(probe.key(-5, &last));
    assert_eq!(probe.remove(&last).await, 1);
    let page = probe.page(&probe.op(), &Range { after, ..EVERYTHING }).await;
    assert_eq!(probe.offsets(&page), expected[10..]);
    // Cursors that never were an item, between and around the others.
    for (offset, rest) in [(-4, 19), (-6, 0), (0, 19)] {
        let after = Some(probe.key(offset, b"never there"));
        let page = probe.page(&probe.op(), &Range { after, ..EVERYTHING }).await;
        assert_eq!((page.items.len(), page.more), (rest, false), "after {offset}");
    }
}

pub async fn a_cursor_and_bounds_apply_together(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = numbered("v", 10).into_iter().enumerate().map(|(n, value)| (-(n as i64), value)).collect();
    probe.add(&items).await;
    let within = async |min: i64, max: i64, after: ItemKey| {
        let range =
            Range { min_timestamp: probe.at(min), max_timestamp: probe.at(max), after: Some(after), ..EVERYTHING };
        let page = probe.page(&probe.op(), &range).await;
        page.items.iter().map(|item| probe.offset_of(item)).collect::<Vec<_>>()
    };
    let key = |n: usize| probe.key(items[n].0, items[n].1.as_bytes());
    assert_eq!(within(-6, -2, key(3)).await, [-4, -5, -6]);
    assert_eq!(within(-6, -2, key(0)).await, [-2, -3, -4, -5, -6], "a cursor newer than the bounds");
    assert_eq!(within(-6, -2, key(6)).await, [0_i64; 0], "a cursor at the last item");
    assert_eq!(within(-6, -2, key(9)).await, [0_i64; 0], "a cursor older than the bounds");
}

pub async fn limit_and_more_are_exact(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> =
        numbered("v", 12).into_iter().enumerate().map(|(n, value)| (-((n / 2) as i64), value)).collect();
    probe.add(&items).await;
    let expected = probe.in_order(&items);
    for limit in 1..=13 {
        let page = probe.page(&probe.op(), &Range { limit, ..EVERYTHING }).await;
        assert_eq!(probe.offsets(&page), expected[..limit.min(12)], "limit {limit}");
        assert_eq!(page.more, limit < 12, "limit {limit}");
    }
}

pub async fn more_ignores_hidden_and_removed_items(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let newest = [(0, "a"), (-1, "b"), (-2, "c")];
    let two = Range { limit: 2, ..EVERYTHING };
    let three = Range { limit: 3, ..EVERYTHING };
    let assert_full_but_last = async |op, why: &str| {
        let page = probe.page(&op, &three).await;
        assert_eq!((page.items.len(), page.more), (3, false), "{why}");
        assert!(probe.page(&op, &two).await.more, "{why}");
    };

    probe.add(&newest).await;
    probe.add(&numbered("old", 30).into_iter().map(|value| (-10 * SECOND, value)).collect::<Vec<_>>()).await;
    assert!(probe.page(&probe.op(), &three).await.more);
    assert_full_but_last(probe.op_at(0, ttl(10)), "the rest has expired").await;

    let bounded = Range { min_timestamp: probe.at(-2), ..three };
    assert!(!probe.page(&probe.op(), &bounded).await.more, "the rest is out of bounds");

    probe.remove_all().await;
    probe.add(&newest).await;
    assert_full_but_last(probe.op(), "the rest was removed with all").await;

    probe.add(&(3..30).map(|n| (-n, "unwanted")).collect::<Vec<_>>()).await;
    assert_eq!(probe.remove("unwanted").await, 27);
    assert_full_but_last(probe.op(), "the rest was removed by value").await;
}

pub async fn a_page_ends_before_its_values_exceed_the_bound(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    // Values of 10, 20, 0, 30, 0, 5 bytes, newest first.
    let sizes = [10, 20, 0, 30, 0, 5];
    let items: Vec<_> = sizes.iter().enumerate().map(|(n, size)| (-(n as i64), vec![b'a' + n as u8; *size])).collect();
    probe.add(&items).await;
    for (value_bytes_max, count) in
        [(10, 1), (29, 1), (30, 3), (31, 3), (59, 3), (60, 5), (64, 5), (65, 6), (66, 6), (usize::MAX, 6)]
    {
        let page = probe.page(&probe.op(), &Range { value_bytes_max, ..EVERYTHING }).await;
        assert_eq!((page.items.len(), page.more), (count, count < 6), "{value_bytes_max} bytes");
    }
    // One item reaches both the limit and the bound.
    let page = probe.page(&probe.op(), &Range { value_bytes_max: 30, limit: 2, ..EVERYTHING }).await;
    assert_eq!((page.items.len(), page.more), (2, true));
    // The bound applies to each page separately.
    let after = Some(probe.key(-2, b""));
    let page = probe.page(&probe.op(), &Range { value_bytes_max: 30, after, ..EVERYTHING }).await;
    assert_eq!((probe.offsets(&page), page.more), (items[3..5].to_vec(), true));
}

pub async fn a_page_has_an_item_despite_the_bound_on_values(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(0, vec![1; 100]), (-1, vec![]), (-2, vec![2; 100])];
    probe.add(&items).await;
    for value_bytes_max in [1, 99, 100] {
        let range = Range { value_bytes_max, ..EVERYTHING };
        let page = probe.page(&probe.op(), &range).await;
        let count = if value_bytes_max < 100 { 1 } else { 2 };
        assert_eq!((page.items.len(), page.more), (count, true), "{value_bytes_max} bytes");
        let after = Some(probe.key(-1, b""));
        let page = probe.page(&probe.op(), &Range { after, ..range }).await;
        assert_eq!((page.items.len(), page.more), (1, false), "{value_bytes_max} bytes, last page");
    }
}

pub async fn a_long_walk_is_correct_under_writes(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let count = 4_000;
    // Four items share each timestamp; every fifth has one of the values that go during the walk.
    let value = |n: usize| if n.is_multiple_of(5) { format!("going{}", n % 3) } else { format!("v{n}") };
    let items: Vec<_> = (0..count).map(|n| (-SECOND - (n / 4) as i64, value(n))).collect();
    for part in items.chunks(1_000) {
        probe.add(part).await;
    }
    let mut expected = probe.in_order(&items);
    assert_eq!(expected.len(), probe.all().await.len(), "the list is what the walk assumes");

    let (mut seen, mut range, mut pages) = (Vec::new(), Range { limit: 137, ..EVERYTHING }, 0);
    loop {
        let page = probe.page(&probe.op(), &range).await;
        seen.extend(probe.offsets(&page));
        let Some(last) = page.items.last().filter(|_| page.more) else { break };
        range.after = Some(last.key());
        pages += 1;
        // Newer than the walk: never seen by it. Older: seen, each exactly once.
        probe.add(&[(-(pages as i64), format!("newer{pages}"))]).await;
        let older = (-SECOND - 2_000 - pages as i64, format!("older{pages}"));
        probe.add(std::slice::from_ref(&older)).await;
        expected.push((older.0, older.1.into_bytes()));
        if pages % 9 == 4 && pages < 28 {
            let going = format!("going{}", pages / 9);
            let removed = probe.remove(&going).await;
            assert!(removed > 0, "{going}");
            expected.retain(|item| item.1 != going.as_bytes() || seen.contains(item));
        }
    }
    assert!(pages > 20, "the walk had {pages} pages");
    assert_eq!(seen, expected);
}
