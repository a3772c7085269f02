//! Adding: idempotence, atomicity, sizes, and the remains of overlapping or abandoned adds.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use liststore::items::{OpContext, StoreError};
use tokio::time::Instant;

use super::Backend;
use super::probe::{EVERYTHING, Probe, SECOND, numbered};

pub async fn adding_again_changes_nothing(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> =
        numbered("v", 20).into_iter().enumerate().map(|(n, value)| (-((n / 3) as i64), value)).collect();
    probe.add(&items).await;
    let once = probe.all().await;
    probe.add(&items).await;
    probe.add(&items[5..9]).await;
    assert_eq!(probe.all().await, once);
    assert_eq!(probe.remove(&items[7].1).await, 1, "an item that was added three times counts once");
    assert_eq!(probe.all().await.len(), 19);
}

pub async fn the_same_item_twice_in_one_add_is_one_item(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(-1, "a"), (0, "a"), (-1, "a"), (-1, "b"), (0, "a")];
    probe.add(&items).await;
    assert_eq!(probe.all().await, probe.in_order(&[(0, "a"), (-1, "a"), (-1, "b")]));
    assert_eq!(probe.remove("a").await, 2);
}

pub async fn timestamp_and_value_together_identify_an_item(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(0, "a"), (0, "b"), (-1, "a"), (-1, "b")];
    for item in items {
        probe.add(&[item]).await;
    }
    assert_eq!(probe.all().await, probe.in_order(&items));
}

pub async fn any_bytes_read_back_unchanged(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let all_bytes: Vec<u8> = (0..=255).collect();
    let values: Vec<Vec<u8>> = (0..=255)
        .map(|byte| vec![byte])
        .chain([all_bytes, vec![0; 9], vec![0xff; 9], b"\r\n\0'\"\\".to_vec()])
        .collect();
    let items: Vec<_> = values.iter().enumerate().map(|(n, value)| (-(n as i64), value)).collect();
    probe.add(&items).await;
    assert_eq!(probe.all().await, probe.in_order(&items));
}

pub async fn a_value_may_be_empty(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(0, ""), (-1, ""), (-1, "a")];
    probe.add(&items).await;
    assert_eq!(probe.all().await, probe.in_order(&items));
}

pub async fn a_value_may_have_64_000_bytes(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    // Two that differ in their last byte only.
    let (mut a, b) = (vec![7; 64_000], vec![7; 64_000]);
    a[63_999] = 8;
    let items = [(0, a.clone()), (0, b), (-1, a.clone())];
    for item in &items {
        probe.add(std::slice::from_ref(item)).await;
    }
    assert_eq!(probe.all().await, probe.in_order(&items));
}

pub async fn an_add_may_have_a_thousand_items(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items: Vec<_> =
        numbered("value ", 1_000).into_iter().enumerate().map(|(n, value)| (-((n as i64 * 37) % 500), value)).collect();
    probe.add(&items).await;
    assert_eq!(probe.all().await, probe.in_order(&items));
}

pub async fn overlapping_adds_are_all_stored(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let batches: Vec<Vec<_>> =
        (0..40_i64).map(|batch| (0..25_i64).map(|n| (-((batch + n) % 60), format!("{batch}/{n}"))).collect()).collect();
    let adds = join_all(batches.iter().map(|batch| probe.add(batch)));
    let op = probe.op();
    let reads = join_all((0..10).map(|_| probe.session.get(&op, &probe.list, &EVERYTHING)));
    let (_, pages) = futures_util::future::join(adds, reads).await;
    for page in pages {
        assert!(page.unwrap().items.len() <= 1_000);
    }
    assert_eq!(probe.all().await, probe.in_order(&batches.concat()));
}

pub async fn a_dropped_add_is_never_seen_in_part(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let mut settled = Vec::new();
    for round in 0..12 {
        let dropped: Vec<_> = (0..200).map(|n| (-SECOND - n, format!("dropped{round}"))).collect();
        abandon_after(probe.try_add(&probe.op(), &dropped), round % 4).await;
        // Acknowledged after the dropped one, whose outcome is final now.
        settled.push((-(round as i64), format!("settled{round}")));
        probe.add(&settled[round..]).await;
        let count_of = |list: &[(i64, Vec<u8>)], n: usize| {
            list.iter().filter(|(_, value)| *value == format!("dropped{n}").as_bytes()).count()
        };
        let mut list = probe.all().await;
        let landing = |list: &[(i64, Vec<u8>)]| (0..=round).any(|n| !matches!(count_of(list, n), 0 | 200));
        let patience = Instant::now() + Duration::from_secs(20);
        while !backend.isolates_reads() && landing(&list) && Instant::now() < patience {
            list = probe.all().await;
        }
        for n in 0..=round {
            let count = count_of(&list, n);
            assert!(count == 0 || count == 200, "{count} of 200 items of the dropped add {n}");
        }
        assert!(list.starts_with(&probe.in_order(&settled)), "acknowledged items are missing");
    }
}

/// Polls a future a few times, with other tasks in between, and drops it.
pub async fn abandon_after<T>(future: impl Future<Output = T>, polls: usize) {
    let mut future = pin!(future);
    for _ in 0..polls {
        if poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await.is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

pub async fn nothing_begins_after_the_deadline(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    probe.add(&[(0, "a")]).await;
    let late = OpContext { deadline: Instant::now(), ..probe.op() };
    let assert_late = |outcome: Result<(), StoreError>| match outcome {
        Err(error @ StoreError::Timeout { .. }) => assert!(!error.outcome_unknown(), "nothing was begun: {error:?}"),
        other => panic!("an operation past its deadline gave {other:?}"),
    };
    assert_late(probe.try_add(&late, &[(0, "b")]).await);
    assert_late(probe.session.remove_value(&late, &probe.list, b"a").await.map(|_| ()));
    assert_late(probe.session.remove_all(&late, &probe.list).await);
    assert_late(probe.session.get(&late, &probe.list, &EVERYTHING).await.map(|_| ()));
    assert_eq!(probe.all().await, probe.in_order(&[(0, "a")]));
}
