//! Postgres unavailable, hanging and back. List operations continue, calls get an answer in time, and everything
//! recovers automatically.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use liststore::actors::ResolveError;
use liststore::metadata::{AccessStore, MetadataError, MetadataStore, News};
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use crate::insist::insist;
use crate::postgres::{Database, Server, address_of};
use crate::proxy::Proxy;
use crate::servers::{Node, id, run, store, until};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The longest wait without an answer. A few seconds by design; a busy machine is slow.
const GIVEN_UP: Duration = Duration::from_secs(15);

/// A database, a proxy for faults before it, and its URL through the proxy.
async fn behind_proxy() -> (Database, Proxy, String) {
    let database = Database::migrated().await;
    let address = address_of(&database.url);
    let proxy = Proxy::start(address.clone()).await;
    let url = database.url.replace(&address, &proxy.address.to_string());
    (database, proxy, url)
}

/// All control-plane calls get in time the answer that the store is unavailable, and list operations find known
/// features.
async fn assert_unavailable(node: &Node, known: &str) {
    for round in 0..3 {
        let began = Instant::now();
        let read = node.handle.feature(crate::servers::id(known)).await.unwrap_err();
        assert!(matches!(read, MetadataError::Unavailable { outcome_unknown: false, .. }), "{read:?}");
        assert!(began.elapsed() < GIVEN_UP, "round {round}: {:?}", began.elapsed());
        let began = Instant::now();
        let change = node.create(&format!("late{round}"), 60).await.unwrap_err();
        assert!(change.is_retryable(), "{change:?}");
        assert!(began.elapsed() < GIVEN_UP, "round {round}: {:?}", began.elapsed());
        let began = Instant::now();
        let unknown = node.resolve("unknown").await;
        assert!(matches!(unknown, Err(ResolveError::Unavailable { .. })), "{unknown:?}");
        assert!(began.elapsed() < GIVEN_UP, "round {round}: {:?}", began.elapsed());
        // Without the store, and so without waiting for anything.
        let reported = node.resolve(known).now_or_never();
        assert!(matches!(reported, Some(Ok(_))), "{reported:?}");
    }
    assert!(node.handle.unavailable_reason().is_some());
}

async fn assert_available(node: &Node, name: &str) {
    let began = Instant::now();
    until("no trouble is left", || node.handle.unavailable_reason().is_none()).await;
    while let Err(error) = node.create(name, 60).await {
        assert!(error.is_retryable() && began.elapsed() < Duration::from_secs(60), "{error}");
    }
    assert_eq!(node.resolved("nowhere").await, Err(ResolveError::FeatureNotFound));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

async fn migrated(server: &Server) -> Database {
    let database = Database::create_in(&server.url, "").await;
    liststore::metadata::postgres::migrate(&database.url, false).await.unwrap();
    database
}

#[test]
fn a_restarted_postgres_is_reconnected() {
    run(async {
        let server = Server::start();
        let database = migrated(&server).await;
        let node = Node::start_polling(&database.url, POLL_INTERVAL).await;
        let other = Node::start_polling(&database.url, POLL_INTERVAL).await;
        node.create("seen", 60).await.unwrap();
        for (round, end) in [Server::stop, Server::kill].into_iter().enumerate() {
            end(&server);
            assert_unavailable(&node, "seen").await;
            server.start_again();
            assert_available(&node, &format!("back{round}")).await;
            assert_eq!(other.resolved(&format!("back{round}")).await, Ok(60));
            until("the other is notified of changes again", || {
                other.metric("liststore_metadata_postgres_listening") == 1.0
            })
            .await;
        }
        node.stop().await;
        other.stop().await;
    });
}

#[test]
fn a_server_that_starts_without_postgres_is_ready_once_it_appears() {
    run(async {
        let server = Server::start();
        let database = migrated(&server).await;
        let first = Node::start(&database.url).await;
        first.create("seen", 60).await.unwrap();
        first.stop().await;
        server.stop();
        let node = Node::start_without_database(&database.url, POLL_INTERVAL).await;
        until("it says why it is not ready", || {
            node.handle.unavailable_reason().is_some_and(|reason| reason.contains("connection refused"))
        })
        .await;
        assert!(node.handle.catalog().snapshot().is_none());
        assert!(matches!(node.resolve("seen").await, Err(ResolveError::Unavailable { .. })));
        server.start_again();
        until("its catalog is loaded", || node.known_ttl("seen") == Some(60)).await;
        assert_available(&node, "back").await;
        node.stop().await;
    });
}

#[test]
fn broken_connections_fail_at_most_one_call() {
    run(async {
        let database = Database::migrated().await;
        let node = Node::start_polling(&database.url, POLL_INTERVAL).await;
        node.create("seen", 60).await.unwrap();
        for round in 0..5 {
            database.cut_connections().await;
            assert_eq!(node.resolve("seen").await, Ok(60));
            assert_available(&node, &format!("f{round}")).await;
        }
        node.stop().await;
    });
}

#[test]
fn a_hanging_postgres_times_out_and_is_reconnected() {
    run(async {
        let (database, proxy, url) = behind_proxy().await;
        let node = Node::start_polling(&url, POLL_INTERVAL).await;
        let direct = Node::start_polling(&database.url, POLL_INTERVAL).await;
        node.create("seen", 60).await.unwrap();
        proxy.hang();
        assert_unavailable(&node, "seen").await;
        proxy.go_on();
        assert_available(&node, "back").await;

        proxy.hang();
        until("it notices by itself", || node.handle.unavailable_reason().is_some()).await;
        direct.set_ttl("seen", 61).await.unwrap();
        // The old connections never answer again.
        proxy.go_on_with_new();
        assert_available(&node, "back_again").await;
        until("it has read what it missed", || node.known_ttl("seen") == Some(61)).await;
        node.stop().await;
        direct.stop().await;
    });
}

/// A server with little CPU time, or far from Postgres, needs long for each connection. It would never have one if it
/// gave up every attempt after the same time.
#[test]
fn a_postgres_that_is_slow_to_connect_is_reached() {
    run(async {
        let (database, proxy, url) = behind_proxy().await;
        let direct = Node::start(&database.url).await;
        direct.create("seen", 60).await.unwrap();
        proxy.delay_new(Duration::from_secs(2));
        let node = Node::start_without_database(&url, POLL_INTERVAL).await;
        until("its catalog is loaded", || node.known_ttl("seen") == Some(60)).await;
        insist(async || node.create("later", 60).await).await.unwrap();
        // All of it again, after the connections were lost.
        database.cut_connections().await;
        insist(async || direct.set_ttl("seen", 61).await).await.unwrap();
        until("it has followed", || node.known_ttl("seen") == Some(61)).await;
        insist(async || node.create("last", 60).await).await.unwrap();
        node.stop().await;
        direct.stop().await;
    });
}

/// Only readings in the background wait as long as connections took before. A caller has given up by then, and would
/// leave its connection in use.
#[test]
fn a_caller_waits_less_for_keys_than_the_background() {
    run(async {
        let (database, proxy, url) = behind_proxy().await;
        proxy.delay_new(Duration::from_secs(4));
        let node = Node::start_without_database(&url, POLL_INTERVAL).await;
        until("its keys are loaded", || node.handle.key_ring().is_configured() == Some(false)).await;
        proxy.hang();
        let refused = tokio::select! {
            biased;
            _ = node.store.keys(None) => panic!("the caller waits longer"),
            refused = node.store.all_keys() => refused,
        };
        assert!(matches!(refused, Err(MetadataError::Unavailable { .. })), "{refused:?}");
        proxy.delay_new(Duration::ZERO);
        proxy.go_on_with_new();
        assert_eq!(insist(async || node.store.all_keys().await).await.unwrap(), []);
        node.stop().await;
        drop(database);
    });
}

/// A server with little CPU time decodes all definitions in the transaction. The view has rows only under these limits.
#[test]
fn postgres_waits_longer_for_a_server_that_reads_all_definitions() {
    run(async {
        let database = Database::migrated().await;
        let node = Node::start(&database.url).await;
        node.create("seen", 60).await.unwrap();
        database.execute("ALTER TABLE list_feature RENAME TO all_features").await;
        let view = "CREATE VIEW list_feature AS SELECT * FROM all_features \
                    WHERE current_setting('idle_in_transaction_session_timeout') = '30s' \
                    AND current_setting('statement_timeout') = '30s'";
        database.execute(view).await;
        let mut names = Vec::new();
        node.store.each_definition(&mut |feature, _| names.push(feature.id.name.clone())).await.unwrap();
        assert_eq!(names, [id("seen").name]);
        assert_eq!(node.store.feature(&id("seen")).await.unwrap(), None, "the limits of other calls are shorter");
        node.stop().await;
    });
}

/// A change whose COMMIT was sent and never answered may have been made.
#[test]
fn a_commit_without_an_answer_has_an_unknown_outcome() {
    run(async {
        let (database, proxy, url) = behind_proxy().await;
        let node = Node::start_polling(&url, POLL_INTERVAL).await;
        // A trigger that runs at the end of the transaction makes its COMMIT slow.
        database
            .execute(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
            'BEGIN PERFORM pg_sleep(10); RETURN NULL; END'",
            )
            .await;
        database
            .execute(
                "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON list_feature DEFERRABLE INITIALLY DEFERRED \
                FOR EACH ROW EXECUTE FUNCTION slow()",
            )
            .await;
        let creation = node.create("seen", 60);
        let cut = async {
            until_committing(&database).await;
            proxy.hang();
        };
        let (created, ()) = tokio::join!(creation, cut);
        let error = created.unwrap_err();
        assert!(error.outcome_unknown(), "{error:?}");
        proxy.go_on_with_new();
        until("it has found out what came of it", || node.known_ttl("seen") == Some(60)).await;
        node.stop().await;
    });
}

/// One server's change is made. Before it is notified, another server deletes the feature, which it then learns.
///
/// The first answer once restored the definition, and the server served the deleted feature permanently: adds to it
/// were acknowledged.
#[test]
fn a_late_answer_to_a_commit_does_not_restore_a_deleted_feature() {
    run(async {
        let (database, proxy, url) = behind_proxy().await;
        let (late, other) = (Node::start(&url).await, Node::start(&database.url).await);
        late.create("seen", 60).await.unwrap();
        proxy.hold_next_commit();
        let (change, began) = (late.set_ttl("seen", 61), Instant::now());
        let in_between = async {
            proxy.until_commit_is_held().await;
            other.delete("seen").await.unwrap();
            until("the deletion is known", || late.known_ttl("seen").is_none()).await;
            proxy.release_commit();
            began.elapsed()
        };
        let (changed, held_for) = tokio::join!(change, in_between);
        match changed {
            Ok(feature) => assert_eq!(feature.properties().ttl.as_secs(), 61),
            Err(error) => assert!(is_given_up(&error, held_for), "{error}, after {held_for:?}"),
        }
        assert_eq!(late.known_ttl("seen"), None);
        assert_eq!(late.resolved("seen").await, Err(ResolveError::FeatureNotFound));
        insist(async || late.create("later", 60).await).await.unwrap();
        until("the other follows", || other.known_ttl("later").is_some()).await;
        assert_eq!(late.known_ttl("seen"), None);
        late.stop().await;
        other.stop().await;
    });
}

/// A change may give up its answer only on a machine so slow that the answer was held for long.
fn is_given_up(error: &MetadataError, held_for: Duration) -> bool {
    error.outcome_unknown() && held_for > Duration::from_secs(1)
}

/// The reverse: a server's deletion is made, and before it is notified another server has created the feature again.
#[test]
fn a_late_answer_to_a_deletion_does_not_hide_a_later_feature() {
    run(async {
        let (database, proxy, url) = behind_proxy().await;
        let (late, other) = (Node::start(&url).await, Node::start(&database.url).await);
        late.create("seen", 60).await.unwrap();
        until("the other knows it", || other.known_ttl("seen").is_some()).await;
        proxy.hold_next_commit();
        let (deletion, began) = (late.delete("seen"), Instant::now());
        let in_between = async {
            proxy.until_commit_is_held().await;
            other.create("seen", 70).await.unwrap();
            until("the new one is known", || late.known_ttl("seen") == Some(70)).await;
            proxy.release_commit();
            began.elapsed()
        };
        let (deleted, held_for) = tokio::join!(deletion, in_between);
        let is_right = deleted.as_ref().map_or_else(|error| is_given_up(error, held_for), |()| true);
        assert!(is_right, "{deleted:?}, after {held_for:?}");
        assert_eq!(late.known_ttl("seen"), Some(70));
        insist(async || late.create("later", 60).await).await.unwrap();
        until("the other follows", || other.known_ttl("later").is_some()).await;
        assert_eq!((late.known_ttl("seen"), other.known_ttl("seen")), (Some(70), Some(70)));
        late.stop().await;
        other.stop().await;
    });
}

/// If a connection ends between the COMMIT of a change and its answer, a server follows the outcome, without a poll
/// and without notifications of others.
#[test]
fn a_connection_broken_at_its_commit_leaves_nothing_behind() {
    run(async {
        let (_database, proxy, url) = behind_proxy().await;
        let node = Node::start(&url).await;
        node.create("seen", 60).await.unwrap();
        for ttl in [61, 62] {
            proxy.hold_next_commit();
            let cut = async {
                proxy.until_commit_is_held().await;
                proxy.cut_commit();
            };
            let (changed, ()) = tokio::join!(insist(async || node.set_ttl("seen", ttl).await), cut);
            let error = changed.unwrap_err();
            assert!(error.outcome_unknown(), "{error:?}");
            until("it has found out", || node.known_ttl("seen") == Some(ttl)).await;
        }
        proxy.hold_next_commit();
        let cut = async {
            proxy.until_commit_is_held().await;
            proxy.cut_commit();
        };
        let (deleted, ()) = tokio::join!(insist(async || node.delete("seen").await), cut);
        assert!(deleted.unwrap_err().outcome_unknown());
        until("it is gone from lists too", || node.known_ttl("seen").is_none()).await;
        node.stop().await;
    });
}

/// The tasks of an arbiter that ends are dropped outside of its runtime, wherever they are.
#[test]
fn connections_may_be_dropped_outside_of_their_runtime() {
    run(async {
        let database = Database::migrated().await;
        let store = Arc::new(store(&database.url));
        assert_eq!(store.news().await, News::Missed, "it listens now");

        let mut locker = database.connect().await;
        let mut lock = locker.begin().await.unwrap();
        sqlx::query("LOCK TABLE list_feature").execute(&mut *lock).await.unwrap();
        let mut observer = database.connect().await;
        let reader = Arc::clone(&store);
        let mut read = Box::pin(async move { reader.feature(&id("locked")).await });
        tokio::select! {
            _ = &mut read => panic!("the table is locked"),
            () = until_active(&mut observer, "wait_event_type = 'Lock'") => {}
        }
        thread::spawn(move || drop(read)).join().unwrap();
        lock.rollback().await.unwrap();
        assert!(store.feature(&id("locked")).await.unwrap().is_none());

        let store = Arc::into_inner(store).unwrap();
        thread::spawn(move || drop(store)).join().unwrap();
    });
}

async fn until_committing(database: &Database) {
    until_active(&mut database.connect().await, "query = 'COMMIT'").await;
}

/// Waits until such a statement is in progress in this database.
async fn until_active(observer: &mut PgConnection, which: &'static str) {
    let patience = Instant::now() + Duration::from_secs(60);
    let active = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND ";
    loop {
        let statement = sqlx::AssertSqlSafe(format!("{active}{which}"));
        if sqlx::query(statement).fetch_optional(&mut *observer).await.unwrap().is_some() {
            return;
        }
        assert!(Instant::now() < patience, "no statement has {which}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
