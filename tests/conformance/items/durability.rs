//! The contents of a durable store after it was closed and opened again.

use super::Backend;
use super::adds::abandon_after;
use super::probe::{EVERYTHING, HOUR, Probe, SECOND, fresh_feature_key, list_key, numbered, ttl};
use super::property;

pub async fn all_items_survive_a_reopening(backend: &dyn Backend) {
    let mut probe = Probe::open(backend).await;
    let feature_key = fresh_feature_key();
    let lists: Vec<_> = (0..20).map(|n| list_key(&feature_key, &format!("u-{n}"))).collect();
    let items_of = |n: usize| -> Vec<_> {
        numbered(&format!("{n}/"), 50 * (n + 1))
            .into_iter()
            .map(|v| (-((v.len() * n) as i64), v.into_bytes()))
            .collect()
    };
    let large = [(0, vec![b'x'; 64_000]), (-1, Vec::new())];
    for round in 0..2 {
        for (n, list) in lists.iter().enumerate() {
            let probe = probe.with_list(list.clone());
            if round == 0 {
                probe.add(&items_of(n)).await;
                probe.add(&large).await;
            }
            let expected = [items_of(n), large.to_vec()].concat();
            assert_eq!(probe.all().await, probe.in_order(&expected), "round {round}, {list:?}");
            assert_eq!(probe.walk(&probe.op(), EVERYTHING, 33).await, probe.in_order(&expected));
        }
        probe = probe.reopen(backend).await;
    }
}

pub async fn removed_items_stay_removed(backend: &dyn Backend) {
    let mut probe = Probe::open(backend).await;
    let emptied = probe.list.clone();
    let other = list_key(&fresh_feature_key(), "u-2");
    probe.add(&[(0, "a"), (-1, "b")]).await;
    let on_other = probe.with_list(other.clone());
    on_other.add(&[(0, "a"), (-1, "b"), (-2, "a")]).await;
    drop(on_other);
    // Items from before one reopening are removed, and the removal outlives the next.
    probe = probe.reopen(backend).await;
    probe.remove_all().await;
    let on_other = probe.with_list(other.clone());
    assert_eq!(on_other.remove("a").await, 2);
    drop(on_other);
    for _ in 0..2 {
        probe = probe.reopen(backend).await;
        assert!(probe.with_list(emptied.clone()).all().await.is_empty());
        let on_other = probe.with_list(other.clone());
        assert_eq!(on_other.all().await, on_other.in_order(&[(-1, "b")]));
        assert_eq!(on_other.remove("a").await, 0);
    }
    // And an add after a reopening outranks a removal before it.
    probe.add(&[(0, "a"), (-1, "b")]).await;
    assert_eq!(probe.all().await.len(), 2);
}

pub async fn expiries_are_kept(backend: &dyn Backend) {
    let mut probe = Probe::open(backend).await;
    probe.add(&[(0, "a"), (-1, "b")]).await;
    if backend.steps_clock() {
        probe.add_at(&probe.op_at(0, ttl(10)), &[(-1, "brief")]).await;
    }
    probe = probe.reopen(backend).await;
    assert_eq!(probe.all_at(&probe.op_at(HOUR - 1, probe.ttl)).await, probe.in_order(&[(0, "a")]));
    assert!(probe.all_at(&probe.op_at(HOUR, probe.ttl)).await.is_empty());
    let brief = usize::from(backend.steps_clock());
    assert_eq!(probe.all_at(&probe.op_at(10 * SECOND - 2, probe.ttl)).await.len(), 2 + brief);
    assert_eq!(probe.all_at(&probe.op_at(10 * SECOND - 1, probe.ttl)).await.len(), 2);
}

pub async fn the_fate_of_a_dropped_add_is_settled_by_a_reopening(backend: &dyn Backend) {
    let mut probe = Probe::open(backend).await;
    let values = numbered("v", 300);
    let items: Vec<_> = values.iter().map(|value| (0, value)).collect();
    for polls in 0..4 {
        abandon_after(probe.try_add(&probe.op(), &items), polls).await;
        probe = probe.reopen(backend).await;
        let count = probe.all().await.len();
        assert!(count == 0 || count == 300, "{count} of 300 items of a dropped add");
        probe.remove_all().await;
    }
}

pub async fn random_operations_and_reopenings_agree_with_the_model(backend: &dyn Backend) {
    property::check(backend, 6, 40, true).await;
}
