//! Lists that show their newest items only.

use std::sync::{Arc, Mutex};

use liststore::domain::{MaxItems, Order, Retention};
use liststore::items::{Bounds, Count, OpContext, Range};

use super::Backend;
use super::probe::{EVERYTHING, Probe, SECOND, fresh_feature_key, list_key, ttl};
use crate::bounded_list::BoundedList;

type Items = Vec<(i64, Vec<u8>)>;

impl Probe {
    /// An operation on a list with this bound.
    fn showing(&self, max_items: u64) -> OpContext {
        let retention = Retention { ttl: self.ttl, max_items: Some(MaxItems::new(max_items).unwrap()) };
        OpContext::new(self.base, retention, self.op().deadline)
    }
}

/// Items of which several share a timestamp, newest first.
async fn filled(probe: &Probe) -> Items {
    let items: Vec<_> = (0..12).map(|n: i64| (-(n / 3) * SECOND, format!("v{n}").into_bytes())).collect();
    probe.add(&items).await;
    probe.in_order(&items)
}

pub async fn only_the_newest_items_are_shown_ties_included(backend: &dyn Backend) {
    let feature_key = fresh_feature_key();
    let probe = Probe::open(backend).await;
    // Items beyond the bound may be reclaimed: each bound has a separate list.
    for max_items in 1..=13 {
        let probe = probe.with_list(list_key(&feature_key, &format!("u-{max_items}")));
        let all = filled(&probe).await;
        let op = probe.showing(max_items);
        let shown = &all[..all.len().min(max_items as usize)];
        let reversed: Items = shown.iter().rev().cloned().collect();
        assert_eq!(probe.all_at(&op).await, shown);
        for limit in 1..=4 {
            assert_eq!(probe.walk(&op, EVERYTHING, limit).await, shown, "{limit} of {max_items}");
            let oldest = Range { order: Order::Oldest, ..EVERYTHING };
            assert_eq!(probe.walk(&op, oldest, limit).await, reversed, "{limit} of {max_items}, oldest first");
        }
        let values: Vec<_> = all.iter().map(|(_, value)| value.clone().into()).collect();
        let found = probe.session.contains(&op, &probe.list, &Bounds::ALL, &values).await.unwrap();
        let expected: Vec<_> =
            all.iter().enumerate().map(|(n, (offset, _))| (n < shown.len()).then(|| probe.at(*offset))).collect();
        assert_eq!(found, expected);
        for max in 1..=14 {
            let items = shown.len() as u64;
            let expected = Count { items: items.min(max), exact: items <= max };
            assert_eq!(probe.session.count(&op, &probe.list, &Bounds::ALL, max).await.unwrap(), expected);
        }
    }
}

pub async fn bounds_select_among_visible_items(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let all = filled(&probe).await;
    let op = probe.showing(8);
    let shown = &all[..8];
    for (min, max) in [(-4, 0), (-1, -1), (-2, -1), (-3, -2), (-3, -3), (-1, 1)] {
        let within = probe.bounds(min * SECOND, max * SECOND);
        let expected: Items =
            shown.iter().filter(|(offset, _)| (min * SECOND..=max * SECOND).contains(offset)).cloned().collect();
        for order in [Order::Newest, Order::Oldest] {
            let Bounds { min_timestamp, max_timestamp } = within;
            let range = Range { min_timestamp, max_timestamp, order, ..EVERYTHING };
            let mut walked = probe.walk(&op, range, 2).await;
            if order == Order::Oldest {
                walked.reverse();
            }
            assert_eq!(walked, expected, "{min} to {max}, {order:?}");
        }
        let count = probe.session.count(&op, &probe.list, &within, 100).await.unwrap();
        assert_eq!(count, Count { items: expected.len() as u64, exact: true });
    }
}

pub async fn added_items_shorten_the_end_of_a_walk(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = (0..10).map(|n: i64| (-n * SECOND, format!("v{n}"))).collect();
    probe.add(&items).await;
    let op = probe.showing(6);
    let first = probe.page(&op, &Range { limit: 3, ..EVERYTHING }).await;
    assert!(first.more);
    probe.add(&[(SECOND, "new-1"), (2 * SECOND, "new-2")]).await;
    let rest = Range { after: first.items.last().map(|last| last.key()), ..EVERYTHING };
    let rest = probe.page(&op, &rest).await;
    assert_eq!(probe.offsets(&rest), [(-3 * SECOND, b"v3".to_vec())]);
    assert!(!rest.more);
    // From the other end, the walk begins with it.
    let oldest = probe.page(&op, &Range { order: Order::Oldest, limit: 1, ..EVERYTHING }).await;
    assert_eq!(probe.offsets(&oldest), [(-3 * SECOND, b"v3".to_vec())]);
}

pub async fn removals_include_hidden_items_without_counting_them(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let op = probe.showing(4);
    let fill = async || {
        probe.remove_all().await;
        let items: Vec<_> = (0..8).map(|n: i64| (-n * SECOND, format!("v{}", n % 4))).collect();
        probe.add(&items).await;
    };
    let remove = async |removal| probe.session.remove(&op, &probe.list, &removal).await.unwrap();
    use liststore::items::Removal;
    fill().await;
    assert_eq!(remove(Removal::Value("v1".into())).await, 1, "one of two is shown");
    let left = probe.all().await;
    assert!(left.iter().all(|(_, value)| value != b"v1"), "and both are gone");
    fill().await;
    assert_eq!(remove(Removal::Between(probe.bounds(-5 * SECOND, -2 * SECOND))).await, 2);
    assert!(probe.all().await.iter().all(|(offset, _)| !(-5 * SECOND..=-2 * SECOND).contains(offset)));
    fill().await;
    let named = [(0, "v0"), (-5 * SECOND, "v1")].map(|(offset, value)| (probe.at(offset), value.into())).to_vec();
    assert_eq!(remove(Removal::Items(named)).await, 1);
    assert!(probe.all().await.iter().all(|(offset, _)| ![0, -5 * SECOND].contains(offset)));
}

pub async fn expired_items_do_not_count_among_the_newest(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> = (0..10).map(|n: i64| (-n * SECOND, format!("v{n}"))).collect();
    probe.add(&items).await;
    let times = |shown: &Items| shown.iter().map(|(offset, _)| -offset / SECOND).collect::<Vec<_>>();
    let shown = async |max_items, ttl_secs| {
        let op = OpContext { ttl: ttl(ttl_secs), ..probe.showing(max_items) };
        times(&probe.all_at(&op).await)
    };
    assert_eq!(shown(6, 4).await, [0, 1, 2, 3], "fewer have not expired");
    assert_eq!(shown(4, 3_600).await, [0, 1, 2, 3]);
    assert_eq!(shown(3, 4).await, [0, 1, 2]);
    assert_eq!(shown(3, 2).await, [0, 1]);
}

/// Adds, removals, reads and changes of the bound, in any order.
pub async fn random_operations_show_items_that_were_never_beyond_the_bound(backend: &dyn Backend) {
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    eprintln!("random operations on bounded lists: seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let feature_key = fresh_feature_key();
    let probe = Probe::open(backend).await;
    let bound = Arc::new(Mutex::new(Retention::from(probe.ttl)));
    let reported = Arc::clone(&bound);
    if let Some(reclaim) = Arc::clone(&probe.store).abilities().reclaim {
        reclaim.bound(Arc::new(move |_| {
            let Retention { ttl, max_items } = *reported.lock().unwrap();
            Some((ttl, max_items?))
        }));
    }
    for run in 0..12 {
        let list = list_key(&feature_key, &format!("u-{run}"));
        let mut model = BoundedList::new(&[3_600, 5, 12, 18], &[3_600]);
        *bound.lock().unwrap() = model.retention;
        for _ in 0..40 {
            model.step(&probe.session, &list, probe.base, &mut |below| rng.u64(..below)).await;
            *bound.lock().unwrap() = model.retention;
        }
    }
}
