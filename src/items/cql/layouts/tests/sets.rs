//! Sets.

use super::*;

#[tokio::test(start_paused = true)]
async fn pages_have_each_member_once_at_any_cut() {
    let (server, all) = (Server::new(), items(60));
    server.add(&set(Keep::Newest), &all).await.unwrap();
    for limits in cuts() {
        server.cluster.set_limits(limits);
        for limit in [1, 29, 30, 59, 60, 61] {
            let newest = server.walk(&set(Keep::Newest), &Bounds::ALL, Order::Newest, limit).await;
            assert_eq!(timestamps_and_values(&newest), all, "{limits:?} {limit}");
            let mut oldest =
                timestamps_and_values(&server.walk(&set(Keep::Newest), &Bounds::ALL, Order::Oldest, limit).await);
            oldest.reverse();
            assert_eq!(oldest, all, "{limits:?} {limit}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_is_stored_once_by_its_rule() {
    for (keep, stays) in [(Keep::Newest, ago(1)), (Keep::Oldest, ago(9))] {
        let (server, set) = (Server::new(), set(keep));
        for secs in [5, 9, 1, 3] {
            server.add(&set, &[(ago(secs), value("a"))]).await.unwrap();
        }
        assert_eq!(
            timestamps_and_values(&server.walk(&set, &Bounds::ALL, Order::Newest, 9).await),
            [(stays, value("a"))]
        );
        let count = server.count(&set, &Bounds::ALL, 9).await.unwrap();
        assert_eq!(count, Count { items: 1, exact: true });
        let found = operations::lookup(&mut server.call(&set), &[value("a"), value("b")]).await.unwrap();
        assert_eq!(found, [Some(Item { timestamp: stays, value: value("a") }), None]);
    }
}

#[tokio::test(start_paused = true)]
async fn two_servers_replace_each_others_items() {
    let server = Server::new();
    let (other, set) = (Server::with(&server.cluster, &server.clock), set(Keep::Newest));
    server.add(&set, &[(ago(9), value("a"))]).await.unwrap();
    other.add(&set, &[(ago(5), value("a"))]).await.unwrap();
    server.add(&set, &[(ago(7), value("a"))]).await.unwrap();
    assert_eq!(timestamps_and_values(&other.walk(&set, &Bounds::ALL, Order::Newest, 9).await), [(ago(5), value("a"))]);
    assert_eq!(server.remove(&set, &Removal::Members(vec![value("a")])).await.unwrap(), 1);
    assert_eq!(other.walk(&set, &Bounds::ALL, Order::Newest, 9).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_set_with_too_many_tombstones_of_entries_is_counted_by_its_rows() {
    let (server, set, all) = (Server::new(), set(Keep::Newest), items(60));
    server.add(&set, &all).await.unwrap();
    server.remove(&set, &Removal::Members(all[..30].iter().map(|(_, value)| value.clone()).collect())).await.unwrap();
    server.core.dense.note(&set);
    let count = Count { items: 30, exact: true };
    assert_eq!(server.count(&set, &Bounds::ALL, 100).await.unwrap(), count);
    assert_eq!(timestamps_and_values(&server.walk(&set, &Bounds::ALL, Order::Newest, 8).await), all[30..]);
}

#[tokio::test(start_paused = true)]
async fn a_bounded_set_shows_only_its_newest_members() {
    let (server, set, all) = (Server::new().showing(10), set(Keep::Newest), items(25));
    server.add(&set, &all).await.unwrap();
    for limits in cuts() {
        server.cluster.set_limits(limits);
        assert_eq!(timestamps_and_values(&server.walk(&set, &Bounds::ALL, Order::Newest, 3).await), all[..10]);
        assert_eq!(server.count(&set, &Bounds::ALL, 100).await.unwrap(), Count { items: 10, exact: true });
        let found = operations::lookup(&mut server.call(&set), &[value(9), value(10)]).await.unwrap();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    }
}

#[tokio::test(start_paused = true)]
async fn settled_members_between_two_moments_are_removed_by_one_range() {
    let (server, set, all) = (Server::new(), set(Keep::Newest), items(40));
    server.add(&set, &all).await.unwrap();
    server.pass(Duration::from_secs(20));
    let within = Bounds { min_timestamp: ago(29), max_timestamp: ago(10) };
    assert_eq!(server.remove(&set, &Removal::Between(within)).await.unwrap(), 20);
    let left = [&all[..10], &all[30..]].concat();
    assert_eq!(timestamps_and_values(&server.walk(&set, &Bounds::ALL, Order::Newest, 7).await), left);
    server.add(&set, &all[15..16]).await.unwrap();
    assert_eq!(server.count(&set, &Bounds::ALL, 100).await.unwrap(), Count { items: 21, exact: true });
}
