//! Expiry: the visible items at each moment, under each TTL.

use std::time::Duration;

use liststore::domain::Ttl;
use liststore::items::Range;

use super::Backend;
use super::probe::{EVERYTHING, HOUR, Probe, SECOND, operation, ttl};

pub async fn an_item_is_hidden_from_the_nanosecond_of_its_expiry_on(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(0, "a"), (-1, "b"), (-1, "c"), (-2, "d"), (-SECOND, "e")];
    probe.add(&items).await;
    for now in [-SECOND - 1, -SECOND, -SECOND + 1, -3, -2, -1, 0, 1] {
        let op = probe.op_at(now + HOUR, probe.ttl);
        // Visible if and only if now < timestamp + TTL.
        let visible: Vec<_> = items.into_iter().filter(|(offset, _)| now < *offset).collect();
        assert_eq!(probe.all_at(&op).await, probe.in_order(&visible), "at {now} ns and an hour");
        assert_eq!(probe.walk(&op, EVERYTHING, 1).await, probe.in_order(&visible), "at {now} ns and an hour");
        // Bounds that include hidden items do not show them.
        let range = Range { min_timestamp: probe.at(-2), max_timestamp: probe.at(-1), ..EVERYTHING };
        let between: Vec<_> = visible.into_iter().filter(|(offset, _)| (-2..=-1).contains(offset)).collect();
        assert_eq!(probe.walk(&op, range, 2).await, probe.in_order(&between), "at {now} ns and an hour");
    }
}

pub async fn a_shortened_ttl_hides_at_once_and_a_lengthened_one_shows_again(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(0, "a"), (-10 * SECOND, "b"), (-10 * SECOND + 1, "c"), (-20 * SECOND, "d")];
    probe.add(&items).await;
    let visible = async |ttl: Ttl| probe.all_at(&probe.op_at(0, ttl)).await.len();
    assert_eq!(visible(ttl(3_600)).await, 4);
    assert_eq!(visible(ttl(21)).await, 4);
    assert_eq!(visible(ttl(20)).await, 3);
    assert_eq!(visible(ttl(10)).await, 2);
    assert_eq!(visible(ttl(1)).await, 1);
    assert_eq!(visible(ttl(11)).await, 3);
    assert_eq!(visible(ttl(3_600)).await, 4);
    assert_eq!(visible(Ttl::MAX).await, 4);
}

pub async fn a_clock_that_steps_back_shows_again(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(0, "a"), (-1, "b")];
    probe.add(&items).await;
    assert!(probe.all_at(&probe.op_at(HOUR, probe.ttl)).await.is_empty());
    assert_eq!(probe.all_at(&probe.op_at(HOUR - 1, probe.ttl)).await.len(), 1);
    assert_eq!(probe.all_at(&probe.op_at(-HOUR, probe.ttl)).await.len(), 2);
}

pub async fn an_item_of_the_future_is_visible(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let items = [(HOUR, "later"), (0, "now"), (24 * HOUR, "much later")];
    probe.add(&items).await;
    assert_eq!(probe.all().await, probe.in_order(&items));
    let op = probe.op_at(HOUR, probe.ttl);
    assert_eq!(probe.all_at(&op).await, probe.in_order(&[items[0], items[2]]));
}

pub async fn a_row_keeps_its_own_expiry_under_a_longer_ttl(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let longer = ttl(3_600);
    let short = probe.op_at(0, ttl(10));
    if !backend.steps_clock() {
        // The current time of the items: opening a session may take longer than such a TTL.
        let brief = probe.op_at(0, ttl(1));
        probe.add_at(&brief, &[(0, "a"), (0, "b")]).await;
        probe.add(&[(0, "stays")]).await;
        wait_until_only(backend, &probe, longer, &[(0, "stays")]).await;
        return;
    }
    probe.add_at(&short, &[(0, "a"), (0, "b"), (-1, "c")]).await;
    probe.add_at(&probe.op_at(0, longer), &[(-2, "stays"), (1, "stays too")]).await;
    let at = async |now: i64| probe.all_at(&probe.op_at(now, longer)).await;
    let stays = [(1, "stays too"), (-2, "stays")];
    assert_eq!(at(10 * SECOND - 2).await.len(), 5);
    assert_eq!(at(10 * SECOND - 1).await, probe.in_order(&[(0, "a"), (0, "b"), stays[0], stays[1]]));
    assert_eq!(at(10 * SECOND).await, probe.in_order(&stays));
    assert_eq!(at(HOUR - 3).await, probe.in_order(&stays));
    // Hidden rows between visible ones belong to no page.
    let op = probe.op_at(10 * SECOND, longer);
    assert_eq!(probe.walk(&op, EVERYTHING, 1).await, probe.in_order(&stays));
    // And the present TTL holds as well, where it is the shorter one.
    assert_eq!(probe.all_at(&probe.op_at(10 * SECOND - 2, ttl(10))).await.len(), 4);
}

pub async fn the_last_add_sets_the_expiry(backend: &dyn Backend) {
    let probe = Probe::open(backend).await;
    let longer = ttl(3_600);
    if !backend.steps_clock() {
        // The current time of the items: opening a session may take longer than such a TTL.
        let brief = probe.op_at(0, ttl(1));
        probe.add_at(&brief, &[(0, "lengthened"), (0, "witness")]).await;
        probe.add(&[(0, "lengthened"), (0, "shortened")]).await;
        probe.add_at(&brief, &[(0, "shortened")]).await;
        wait_until_only(backend, &probe, longer, &[(0, "lengthened")]).await;
        return;
    }
    let visible = async |now: i64| !probe.all_at(&probe.op_at(now * SECOND, longer)).await.is_empty();
    for (secs, last_visible) in [(10, 9), (100, 99), (20, 19), (20, 19), (3_600, 3_599)] {
        probe.add_at(&probe.op_at(0, ttl(secs)), &[(0, "a")]).await;
        assert!(visible(last_visible).await, "{secs} s");
        assert!(!visible(secs as i64).await, "{secs} s");
    }
}

/// Waits until the database has expired all rows but these, by its own clock.
async fn wait_until_only(backend: &dyn Backend, probe: &Probe, ttl: Ttl, rest: &[(i64, &str)]) {
    let expected = probe.in_order(rest);
    let gone = async {
        while probe.all_at(&operation(backend.now(), ttl)).await != expected {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), gone).await;
    assert!(waited.is_ok(), "still there: {:?}", probe.all_at(&operation(backend.now(), ttl)).await);
}
