//! Lists of items in one partition.

use super::*;
use crate::items::cql::partitions::simulated::Fault;
use crate::items::cql::statements::Name;
use crate::items::cql::statements::lists::ListStatement;

#[tokio::test(start_paused = true)]
async fn pages_have_each_item_once_at_any_cut() {
    let (server, all) = (Server::new(), items(120));
    server.add(&list(), &all).await.unwrap();
    for limits in cuts() {
        server.cluster.set_limits(limits);
        for limit in [1, 39, 40, 119, 120, 121] {
            let newest = server.walk(&list(), &Bounds::ALL, Order::Newest, limit).await;
            assert_eq!(timestamps_and_values(&newest), all, "{limits:?} {limit}");
            let mut oldest = timestamps_and_values(&server.walk(&list(), &Bounds::ALL, Order::Oldest, limit).await);
            oldest.reverse();
            assert_eq!(oldest, all, "{limits:?} {limit}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn items_of_one_moment_are_in_the_order_of_their_digests() {
    let server = Server::new();
    let all: Vec<_> = (0..40).map(|n| (ago(7), value(n))).collect();
    server.add(&list(), &all).await.unwrap();
    for limit in [1, 3, 40] {
        let newest = server.walk(&list(), &Bounds::ALL, Order::Newest, limit).await;
        assert_eq!(timestamps_and_values(&newest), sorted(&all), "{limit}");
    }
    let only = Bounds { min_timestamp: ago(7), max_timestamp: ago(7) };
    assert_eq!(server.count(&list(), &only, 100).await.unwrap(), Count { items: 40, exact: true });
    assert_eq!(server.count(&list(), &only, 39).await.unwrap(), Count { items: 39, exact: false });
}

#[tokio::test(start_paused = true)]
async fn reads_pass_the_tombstones_of_a_gap() {
    let (server, all) = (Server::new(), items(500));
    server.add(&list(), &all).await.unwrap();
    assert_eq!(server.remove(&list(), &Removal::Items(all[20..470].to_vec())).await.unwrap(), 450);
    let left = [&all[..20], &all[470..]].concat();
    for limits in cuts() {
        server.cluster.set_limits(limits);
        assert_eq!(timestamps_and_values(&server.walk(&list(), &Bounds::ALL, Order::Newest, 30).await), left);
        assert_eq!(server.count(&list(), &Bounds::ALL, 1_000).await.unwrap(), Count { items: 50, exact: true });
    }
    server.cluster.set_limits(Limits { tombstones_max: 100, ..Limits::default() });
    let refused = server.page(&list(), &range(&Bounds::ALL, Order::Newest)).await;
    assert!(matches!(refused, Err(StoreError::TooManyTombstones { .. })), "{refused:?}");
    let noted = server.core.to_sweep.next_of_refusals().await.what;
    assert_eq!((noted.list, noted.order), (list(), Some(Order::Newest)));
}

#[tokio::test(start_paused = true)]
async fn a_removal_between_two_moments_leaves_one_tombstone() {
    let (server, all) = (Server::new(), items(100));
    server.add(&list(), &all).await.unwrap();
    let within = Bounds { min_timestamp: ago(59), max_timestamp: ago(10) };
    assert_eq!(server.remove(&list(), &Removal::Between(within)).await.unwrap(), 50);
    assert_eq!(server.cluster.tombstones(&list()), (0, 1));
    let left = [&all[..10], &all[60..]].concat();
    assert_eq!(timestamps_and_values(&server.walk(&list(), &Bounds::ALL, Order::Newest, 7).await), left);
    server.add(&list(), &all[20..30]).await.unwrap();
    let left = [&all[..10], &all[20..30], &all[60..]].concat();
    assert_eq!(
        timestamps_and_values(&server.walk(&list(), &Bounds::ALL, Order::Newest, 7).await),
        left,
        "an add after it is seen"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bounded_list_shows_only_its_newest_items() {
    let (server, all) = (Server::new().showing(10), items(25));
    server.add(&list(), &all).await.unwrap();
    for limits in cuts() {
        server.cluster.set_limits(limits);
        assert_eq!(timestamps_and_values(&server.walk(&list(), &Bounds::ALL, Order::Newest, 3).await), all[..10]);
        let oldest = timestamps_and_values(&server.walk(&list(), &Bounds::ALL, Order::Oldest, 4).await);
        assert_eq!(oldest.into_iter().rev().collect::<Vec<_>>(), all[..10]);
        let before = Bounds { max_timestamp: ago(5), ..Bounds::ALL };
        assert_eq!(server.count(&list(), &before, 100).await.unwrap(), Count { items: 5, exact: true });
        let values = [value(9), value(10)];
        let found = operations::contains(&mut server.call(&list()), &Bounds::ALL, &values).await.unwrap();
        assert_eq!(found, [Some(ago(9)), None]);
    }
    assert_eq!(server.core.overlong.next().await.what, list(), "it is to be cut");
    assert_eq!(server.remove(&list(), &Removal::Between(Bounds::ALL)).await.unwrap(), 10, "hidden items go uncounted");
    assert_eq!(server.walk(&list(), &Bounds::ALL, Order::Newest, 3).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_repeated_and_stored_once() {
    let (server, all) = (Server::new(), items(3));
    server.cluster.fail(&[Fault::AnswerLost]);
    server.add(&list(), &all).await.unwrap();
    assert_eq!(server.cluster.take_attempts(), [Name::List(ListStatement::Add); 2]);
    assert_eq!(timestamps_and_values(&server.walk(&list(), &Bounds::ALL, Order::Newest, 9).await), all);
    // Its repetition has the same write timestamp, so it outranks no later removal.
    server.remove(&list(), &Removal::Value(value(1))).await.unwrap();
    assert_eq!(server.walk(&list(), &Bounds::ALL, Order::Newest, 9).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_lost_for_good_has_an_unknown_outcome() {
    let server = Server::new();
    server.cluster.fail(&[Fault::Lost; 4]);
    let lost = server.add(&list(), &items(3)).await;
    assert!(lost.as_ref().is_err_and(StoreError::outcome_unknown), "{lost:?}");
    assert_eq!(server.cluster.take_attempts().len(), 4);
    server.cluster.fail(&[Fault::Refused; 4]);
    let refused = server.add(&list(), &items(3)).await;
    assert!(refused.as_ref().is_err_and(|error| !error.outcome_unknown()), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_removal_includes_items_of_a_server_whose_clock_is_ahead() {
    let server = Server::new();
    let ahead = ManualClock::at(Timestamp::from_nanos(server.clock.now().as_nanos() + 60 * NANOS_PER_SEC).unwrap());
    let other = Server::with(&server.cluster, &Arc::new(ahead));
    other.add(&list(), &items(3)).await.unwrap();
    assert_eq!(server.remove(&list(), &Removal::Value(value(1))).await.unwrap(), 1);
    assert_eq!(server.remove(&list(), &Removal::Between(Bounds::ALL)).await.unwrap(), 2);
    assert_eq!(server.walk(&list(), &Bounds::ALL, Order::Newest, 9).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_page_requests_only_needed_rows() {
    let server = Server::new();
    server.add(&list(), &items(900)).await.unwrap();
    server.cluster.take_attempts();
    server.page(&list(), &Range { limit: 50, ..range(&Bounds::ALL, Order::Newest) }).await.unwrap();
    assert_eq!((server.cluster.take_attempts().len(), server.cluster.take_rows_sent()), (1, 51));
}
