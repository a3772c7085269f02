//! Write timestamps of servers whose clocks differ: the remaining guarantees, their limits, and warnings.
//! `docs/contributing/cql.md`, "Clocks", states the same.

use std::sync::Arc;
use std::time::Duration;

use liststore::domain::{Clock, Identity, Keep, ListKey, SystemClock, Timestamp};
use liststore::items::cql::CqlOptions;
use liststore::items::{Bounds, ItemStore, Removal};

use crate::cassandra::shared_options;
use crate::probe::{EVERYTHING, Server, bare, fresh_list, fresh_set, now, now_micros, stored, write_row};

/// A clock that is a fixed time off.
pub struct OffClock {
    pub millis: i64,
}

impl Clock for OffClock {
    fn now(&self) -> Timestamp {
        let nanos = SystemClock.now().as_nanos().checked_add_signed(self.millis * 1_000_000);
        Timestamp::from_nanos(nanos.unwrap()).unwrap()
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }
}

const SECOND: i64 = 1_000_000;

#[tokio::test]
async fn a_removal_by_value_outranks_a_faster_clock() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let (base, ahead) = (now(), now_micros() + 3_600 * SECOND);
    write_row(&bare, &list, base, b"v", 600, ahead).await;
    write_row(&bare, &list, base, b"w", 600, ahead).await;
    assert_eq!(server.remove(&list, b"v").await, 1);
    assert_eq!(server.values(&list).await, [b"w"]);
    // Remove all has one timestamp, and misses writes of a faster clock.
    server.remove_all(&list).await;
    assert_eq!(server.values(&list).await, [b"w"]);
}

/// The deletion of an item of a fast clock hid other items with that value, when they were added again.
#[tokio::test]
async fn an_item_of_a_faster_clock_does_not_affect_others() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let base = now();
    let earlier = Timestamp::from_nanos(base.as_nanos() - 1_000_000).unwrap();
    server.add(&list, &[(earlier, b"v")]).await;
    write_row(&bare, &list, base, b"v", 600, now_micros() + 3_600 * SECOND).await;
    assert_eq!(server.remove(&list, b"v").await, 2);
    assert!(server.values(&list).await.is_empty());
    server.add(&list, &[(earlier, b"v")]).await;
    assert_eq!(server.values(&list).await, [b"v"], "only what the fast clock wrote stays hidden");
}

/// The promise for clocks within `clock_skew_max` of each other: an acknowledged removal hides no later add, on any
/// server, and misses no earlier one.
#[tokio::test]
async fn removals_and_adds_on_servers_within_the_allowed_skew_keep_their_order() {
    let options = CqlOptions { clock_skew_max: Duration::from_millis(300), ..shared_options() };
    let fast = Server::open_with(options.clone(), Arc::new(OffClock { millis: 250 })).await;
    for _ in 0..3 {
        // A server that has encountered no write of the fast one, whose clock it could follow.
        let slow = Server::open_with(options.clone(), Arc::new(OffClock { millis: 0 })).await;
        let (list, base) = (fresh_list(), now());
        fast.add(&list, &[(base, b"v")]).await;
        assert_eq!(fast.remove(&list, b"v").await, 1);
        slow.add(&list, &[(base, b"v")]).await;
        assert_eq!(slow.values(&list).await, [b"v"], "after a removal by value");
        fast.remove_all(&list).await;
        let slow = Server::open_with(options.clone(), Arc::new(OffClock { millis: 0 })).await;
        slow.add(&list, &[(base, b"v")]).await;
        assert_eq!(fast.values(&list).await, [b"v"], "after the removal of all");
        // And an add of the fast one is not missed.
        let other = fresh_list();
        let slow = Server::open_with(options.clone(), Arc::new(OffClock { millis: 0 })).await;
        fast.add(&other, &[(base, b"w")]).await;
        slow.remove_all(&other).await;
        assert!(slow.values(&other).await.is_empty());
    }
}

#[tokio::test]
async fn an_add_after_a_removal_wins_over_a_clock_up_to_five_seconds_ahead() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    let base = now();
    let ahead = now_micros() + 3 * SECOND;
    write_row(&bare, &list, base, b"v", 600, ahead).await;
    assert_eq!(server.remove(&list, b"v").await, 1);
    server.add(&list, &[(base, b"v")]).await;
    assert_eq!(server.values(&list).await, [b"v"]);
    let raised = stored(&bare, &list).await[0].writetime;
    assert!(raised > ahead, "the write clock was raised to what it met");

    // Further ahead than that, the removal's tombstone hides later adds until then.
    let far = fresh_list();
    write_row(&bare, &far, base, b"v", 600, now_micros() + 3_600 * SECOND).await;
    assert_eq!(server.remove(&far, b"v").await, 1);
    server.add(&far, &[(base, b"v")]).await;
    assert!(server.values(&far).await.is_empty());
    // Other items of the list are not concerned.
    server.add(&far, &[(base, b"w")]).await;
    assert_eq!(server.values(&far).await, [b"w"]);
    assert!(
        stored(&bare, &far).await[0].writetime <= now_micros() + 6 * SECOND,
        "one clock does not drag the others along"
    );
}

#[tokio::test]
async fn two_servers_with_skewed_clocks_agree_once_they_have_met() {
    let options = shared_options();
    let fast = Server::open_with(options.clone(), Arc::new(OffClock { millis: 3_000 })).await;
    let slow = Server::open_with(options.clone(), Arc::new(OffClock { millis: 0 })).await;
    let (list, base) = (fresh_list(), now());
    fast.add(&list, &[(base, b"v")]).await;
    assert_eq!(slow.remove(&list, b"v").await, 1);
    assert!(fast.values(&list).await.is_empty());
    slow.add(&list, &[(base, b"v")]).await;
    assert_eq!(fast.values(&list).await, [b"v"]);

    // A server that has encountered no write of a faster one misses its items in a Remove All.
    let faster = Server::open_with(options.clone(), Arc::new(OffClock { millis: 60_000 })).await;
    let strange = Server::open_with(options, Arc::new(OffClock { millis: 0 })).await;
    let other = fresh_list();
    faster.add(&other, &[(base, b"v")]).await;
    strange.remove_all(&other).await;
    assert_eq!(faster.values(&other).await, [b"v"]);
    // One read sees writes that are up to five seconds ahead, and the next removal outranks them.
    let near = fresh_list();
    fast.add(&near, &[(base, b"v")]).await;
    assert_eq!(strange.values(&near).await, [b"v"]);
    strange.remove_all(&near).await;
    assert!(fast.values(&near).await.is_empty());
}

/// Otherwise sweeps, which treat writes of ten seconds ago as settled, would hide its adds.
#[tokio::test]
async fn a_server_whose_clock_is_far_behind_writes_as_of_the_present() {
    let options = shared_options();
    let behind = Arc::new(OffClock { millis: -60_000 });
    let (server, bare) = (Server::open_with(options.clone(), behind).await, bare(&options).await);
    let is_present = async {
        loop {
            let list = fresh_list();
            server.add(&list, &[(now(), b"v")]).await;
            let before = now_micros() - 8 * SECOND;
            if stored(&bare, &list).await[0].writetime > before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_present).await.expect("its write timestamps stay behind");
}

#[tokio::test]
async fn a_clock_that_is_ahead_causes_a_warning() {
    let options = shared_options();
    let (server, bare, list) = (Server::open(options.clone()).await, bare(&options).await, fresh_list());
    assert_eq!(server.store.warning(), None);
    write_row(&bare, &list, now(), b"v", 600, now_micros() + 500_000).await;
    server.values(&list).await;
    assert_eq!(server.store.warning(), None, "half a second is within the setting");
    write_row(&bare, &list, now(), b"w", 600, now_micros() + 600 * SECOND).await;
    assert_eq!(server.remove(&list, b"w").await, 1);
    assert!(server.store.skew() > Duration::from_secs(550));
    assert!(server.store.warning().unwrap().contains("clock"));
    assert!(server.metric("liststore_cql_clock_skew_seconds", "") > 550.0);
}

/// One member as a lookup, a count and a page show it.
async fn shown(server: &Server, set: &ListKey, member: &str) -> (bool, u64, usize) {
    let found = server.session.lookup(&server.op(), set, &[member.to_owned().into()]).await.unwrap();
    let count = server.session.count(&server.op(), set, &Bounds::ALL, 10).await.unwrap().items;
    let page = server.session.get(&server.op(), set, &EVERYTHING).await.unwrap();
    (found[0].is_some(), count, page.items.len())
}

/// Waits until lookups, counts and pages show the one member of a set.
async fn until_whole(server: &Server, set: &ListKey) {
    let whole = async {
        while shown(server, set, "v").await != (true, 1, 1) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(20), whole).await.is_err() {
        panic!("{:?}", shown(server, set, "v").await);
    }
}

/// The deletion of an item has the timestamp of that item, a minute ahead here. It hides the row of the same item when
/// a slower clock adds it again, and not its place in the entry.
#[tokio::test]
async fn a_member_hidden_by_a_tombstone_of_a_faster_clock_is_repaired() {
    let options = shared_options();
    let fast = Server::open_with(options.clone(), Arc::new(OffClock { millis: 60_000 })).await;
    let slow = Server::open(options.clone()).await;
    let bare = bare(&options).await;
    let text =
        "SELECT sort, WRITETIME(member) FROM list_members WHERE feature_key = ? AND entity_id = ? AND kind = 'item'";
    for adder in ["has met the faster clock", "has not met it"] {
        let set = fresh_set(Identity::Value(Keep::Newest));
        let base = now();
        fast.add(&set, &[(base, b"v")]).await;
        let removal = Removal::Members(vec!["v".into()]);
        assert_eq!(slow.session.remove(&slow.op(), &set, &removal).await.unwrap(), 1);
        let stranger = Server::open(options.clone()).await;
        let server = if adder == "has not met it" { &stranger } else { &slow };
        server.add(&set, &[(base, b"v")]).await;
        until_whole(server, &set).await;
        let rows = bare.query_unpaged(text, (set.feature_key.as_str(), set.entity_id.as_str())).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        let (_, written) = rows.first_row::<(String, i64)>().unwrap();
        assert!(written < now_micros() + 200 * SECOND, "{adder}: no further ahead than twice what hides it");
        // A removal between two moments finds it by its row, and all agree that it is gone.
        let between = Removal::Between(Bounds { min_timestamp: base, max_timestamp: base });
        assert_eq!(server.session.remove(&server.op(), &set, &between).await.unwrap(), 1, "{adder}");
        assert_eq!(shown(server, &set, "v").await, (false, 0, 0), "{adder}");
        // It can be added again, by a server that has encountered nothing.
        let other = Server::open(options.clone()).await;
        other.add(&set, &[(base, b"v")]).await;
        until_whole(&other, &set).await;
    }
}

/// An item that moves away and is added again meets the tombstone of its old row.
#[tokio::test]
async fn a_member_that_moves_back_to_a_row_of_a_faster_clock_is_repaired() {
    let options = shared_options();
    let fast = Server::open_with(options.clone(), Arc::new(OffClock { millis: 60_000 })).await;
    let (slow, base) = (Server::open(options.clone()).await, now());
    let set = fresh_set(Identity::Value(Keep::Oldest));
    let earlier = Timestamp::from_nanos(base.as_nanos() - 1_000_000).unwrap();
    fast.add(&set, &[(base, b"v")]).await;
    slow.add(&set, &[(earlier, b"v")]).await;
    assert_eq!(slow.session.remove(&slow.op(), &set, &Removal::Members(vec!["v".into()])).await.unwrap(), 1);
    slow.add(&set, &[(base, b"v")]).await;
    until_whole(&slow, &set).await;
    assert_eq!(slow.session.remove(&slow.op(), &set, &Removal::Members(vec!["v".into()])).await.unwrap(), 1);
    assert_eq!(shown(&slow, &set, "v").await, (false, 0, 0));
}
