//! Lists in buckets.

use super::*;
use crate::items::cql::partitions::simulated::Fault;
use crate::items::cql::statements::Name;
use crate::items::cql::statements::buckets::BucketStatement;
use crate::items::cql::statements::lists::ListStatement;

/// Some items of each of some days, newest first.
fn items_of_days(days: u64, each: u64) -> Vec<(Timestamp, Bytes)> {
    let of_day = |day| (0..each).map(move |n| (ago(day * DAY + n), value(day * each + n)));
    (0..days).flat_map(of_day).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_cross_borders_of_buckets() {
    for (days, each) in [(5, 20), (40, 2), (1, 50)] {
        let (server, list, all) = (Server::new(), bucketed(Bucket::Day), items_of_days(days, each));
        server.add(&list, &all).await.unwrap();
        for limits in cuts() {
            server.cluster.set_limits(limits);
            for limit in [1, 19, 20, 21, 60, 500] {
                let newest = server.walk(&list, &Bounds::ALL, Order::Newest, limit).await;
                assert_eq!(timestamps_and_values(&newest), all, "{days} {limits:?} {limit}");
                let mut oldest = timestamps_and_values(&server.walk(&list, &Bounds::ALL, Order::Oldest, limit).await);
                oldest.reverse();
                assert_eq!(oldest, all, "{days} {limits:?} {limit}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn buckets_without_items_are_skipped() {
    let (server, list, all) = (Server::new(), bucketed(Bucket::Day), items_of_days(30, 3));
    server.add(&list, &all).await.unwrap();
    let emptied = Bounds { min_timestamp: ago(25 * DAY), max_timestamp: ago(5 * DAY) };
    let left: Vec<_> = all.iter().filter(|(at, _)| !emptied.contain(*at)).cloned().collect();
    let removed = server.remove(&list, &Removal::Between(emptied)).await.unwrap();
    assert_eq!(removed as usize, all.len() - left.len());
    for limits in cuts() {
        server.cluster.set_limits(limits);
        assert_eq!(timestamps_and_values(&server.walk(&list, &Bounds::ALL, Order::Newest, 4).await), left);
        let count = server.count(&list, &Bounds::ALL, 1_000).await.unwrap();
        assert_eq!(count, Count { items: left.len() as u64, exact: true });
    }
}

#[tokio::test(start_paused = true)]
async fn a_bounded_list_ends_in_any_of_its_buckets() {
    let (list, all) = (bucketed(Bucket::Day), items_of_days(12, 3));
    for shown in [1, 3, 4, 17, 35, 36, 100] {
        let server = Server::new().showing(shown);
        server.add(&list, &all).await.unwrap();
        let visible = &all[..shown.min(all.len())];
        assert_eq!(timestamps_and_values(&server.walk(&list, &Bounds::ALL, Order::Newest, 5).await), visible);
        let oldest = timestamps_and_values(&server.walk(&list, &Bounds::ALL, Order::Oldest, 5).await);
        assert_eq!(oldest.into_iter().rev().collect::<Vec<_>>(), visible);
        let older = Bounds { max_timestamp: ago(2 * DAY), ..Bounds::ALL };
        let count = visible.iter().filter(|(at, _)| older.contain(*at)).count() as u64;
        assert_eq!(server.count(&list, &older, 1_000).await.unwrap(), Count { items: count, exact: true }, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_directory_is_written_before_the_items() {
    let (server, list, all) = (Server::new(), bucketed(Bucket::Day), items_of_days(2, 1));
    server.cluster.fail(&[Fault::Lost; 4]);
    let lost = server.add(&list, &all).await;
    assert!(lost.as_ref().is_err_and(|error| !error.outcome_unknown()), "no item was written: {lost:?}");
    assert_eq!(server.cluster.take_attempts(), [Name::Bucket(BucketStatement::Note); 4]);
    server.add(&list, &all).await.unwrap();
    let (note, add) = (Name::Bucket(BucketStatement::Note), Name::List(ListStatement::Add));
    assert_eq!(server.cluster.take_attempts(), [note, add]);
    server.add(&list, &all).await.unwrap();
    assert_eq!(server.cluster.take_attempts(), [add], "the directory has its rows for a while");
    server.pass(Duration::from_secs(601));
    server.add(&list, &all).await.unwrap();
    assert_eq!(server.cluster.take_attempts(), [note, add]);
}

#[tokio::test(start_paused = true)]
async fn an_item_added_after_a_removal_of_all_is_found() {
    let (server, list, all) = (Server::new(), bucketed(Bucket::Day), items_of_days(3, 2));
    server.add(&list, &all).await.unwrap();
    operations::remove_all(&mut server.call(&list)).await.unwrap();
    assert_eq!(server.walk(&list, &Bounds::ALL, Order::Newest, 9).await, []);
    server.pass(Duration::from_millis(30));
    server.add(&list, &all[3..4]).await.unwrap();
    assert_eq!(timestamps_and_values(&server.walk(&list, &Bounds::ALL, Order::Newest, 9).await), all[3..4]);
}
