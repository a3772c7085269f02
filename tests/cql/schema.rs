//! The schema on a real Cassandra: made, made again, made by two at once, judged, and refused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::app::Stores;
use liststore::domain::{Clock, Identity, Keep, SystemClock};
use liststore::items::cql::{Consistency, CqlOptions, CqlStore, Dialect, MigrateError, SchemaState, inspect, migrate};
use liststore::items::{ItemStore, StoreError};
use prometheus::Registry;
use scylla::errors::DbError;
use scylla_proxy::{Condition, Reaction, RequestFrame, RequestOpcode, RequestReaction, RequestRule, ResponseFrame};

use crate::forger::Forger;
use crate::keyspace::{Keyspace, why};
use crate::probe::{Server, fresh_list, fresh_set, now};
use crate::server::{settings, spawn_with};

#[tokio::test]
async fn a_migration_creates_the_schema_once() {
    let keyspace = Keyspace::new();
    assert_eq!(keyspace.state().await, SchemaState::Missing);
    assert!(keyspace.session_error().await.contains("liststore migrate"));

    let planned = migrate(&keyspace.options, true).await.unwrap();
    assert_eq!(keyspace.state().await, SchemaState::Missing, "a dry run changes nothing");
    let done = migrate(&keyspace.options, false).await.unwrap();
    assert_eq!(done, planned, "a dry run says what is done");
    assert_eq!((done.dialect, done.datacenter.as_str()), (Dialect::Cassandra, "datacenter1"));
    assert_eq!(done.steps.len(), 1);
    assert_eq!(keyspace.state().await, SchemaState::Current);

    let again = migrate(&keyspace.options, false).await.unwrap();
    assert_eq!((again.before, again.steps), (SchemaState::Current, vec![]));
    let server = Server::open(keyspace.options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    assert_eq!(server.remove(&list, b"v").await, 1);
}

/// As the database itself describes it.
#[tokio::test]
async fn the_schema_matches_the_design() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let driver = keyspace.driver().await;
    let rows = async |what: &str, table: &str| {
        let text =
            format!("SELECT {what} FROM system_schema.{table} WHERE keyspace_name = ? AND table_name = 'list_items'");
        driver.query_unpaged(text, (&keyspace.options.keyspace,)).await.unwrap().into_rows_result().unwrap()
    };
    let columns = rows("column_name, type, kind, position, clustering_order", "columns").await;
    let columns: Vec<(String, String, String, i32, String)> =
        columns.rows().unwrap().map(|column| column.unwrap()).collect();
    let column = |name: &str, of_type: &str, kind: &str, position: i32, order: &str| {
        (name.to_owned(), of_type.to_owned(), kind.to_owned(), position, order.to_owned())
    };
    assert_eq!(
        columns,
        [
            column("entity_id", "text", "partition_key", 1, "none"),
            column("feature_key", "text", "partition_key", 0, "none"),
            column("item_key", "text", "clustering", 0, "desc"),
            column("value", "blob", "regular", -1, "none"),
        ]
    );
    let table = rows("default_time_to_live", "tables").await;
    assert_eq!(table.single_row::<(i32,)>().unwrap(), (2_592_000,));
    let index = rows("index_name, kind, options['target'], options['class_name']", "indexes").await;
    let (name, kind, target, class) = index.single_row::<(String, String, String, Option<String>)>().unwrap();
    assert_eq!((name.as_str(), kind.as_str(), target.as_str()), ("list_items_by_value", "COMPOSITES", "value"));
    assert_eq!(class, None, "a storage-attached index, or another that is not the database's own");
}

#[tokio::test]
async fn two_concurrent_migrations_create_one_schema() {
    for _ in 0..2 {
        let keyspace = Keyspace::new();
        let (one, two, three) = tokio::join!(
            migrate(&keyspace.options, false),
            migrate(&keyspace.options, false),
            migrate(&keyspace.options, false)
        );
        for done in [one, two, three] {
            done.unwrap();
        }
        assert_eq!(keyspace.state().await, SchemaState::Current);
        let server = Server::open(keyspace.options.clone()).await;
        let list = fresh_list();
        server.add(&list, &[(now(), b"v")]).await;
        assert_eq!(server.remove(&list, b"v").await, 1);
    }
}

/// The cluster's own tables name a table a moment before a node has it.
#[tokio::test]
async fn a_table_under_construction_is_awaited() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let mut forger = Forger::before(keyspace.options.clone()).await;
    for table in ["schema_migrations", "schema_compatibility"] {
        let unknown = RequestReaction::forge_response(Arc::new(move |frame: RequestFrame| {
            let words = format!("unconfigured table {table}");
            ResponseFrame::forged_error(frame.params, DbError::Invalid, Some(&words)).unwrap()
        }));
        let asked = format!("FROM \"{}\".{table}", keyspace.options.keyspace);
        let twice = Condition::RequestOpcode(RequestOpcode::Query)
            .and(Condition::BodyContainsCaseSensitive(asked.into_bytes().into()))
            .and(Condition::TrueForLimitedTimes(2));
        forger.on_requests(vec![RequestRule(twice, unknown)]);
        assert_eq!(migrate(&forger.options, false).await.unwrap().before, SchemaState::Current, "{table}");
    }
}

/// A reader during the creation of the last of several tables finds it, or finds that it is not recorded yet. It never
/// finds that the table is recorded and gone.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the proxy asks for such a queue")]
async fn a_table_created_during_a_check_does_not_count_as_dropped() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    keyspace.execute("DROP TABLE KS.list_bag_swaps").await;
    keyspace.execute("DELETE FROM KS.schema_migrations WHERE version = 1").await;
    let mut forger = Forger::before(keyspace.options.clone()).await;
    // Long enough for the other one to be through with it.
    let record = format!("SELECT version FROM \"{}\".schema_migrations", keyspace.options.keyspace);
    let looks = Condition::BodyContainsCaseSensitive(record.into_bytes().into()).and(Condition::TrueForLimitedTimes(1));
    let (reported, mut looked) = tokio::sync::mpsc::unbounded_channel();
    let late = RequestReaction::delay(Duration::from_secs(3)).with_feedback_when_performed(reported);
    forger.on_requests(vec![RequestRule(looks, late)]);
    let options = forger.options.clone();
    let slow = tokio::spawn(async move { migrate(&options, false).await });
    looked.recv().await.unwrap();
    assert_eq!(migrate(&keyspace.options, false).await.unwrap().steps.len(), 1);
    slow.await.unwrap().unwrap();
    assert_eq!(keyspace.state().await, SchemaState::Current);
}

#[tokio::test]
async fn an_interrupted_migration_can_be_repeated() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    keyspace.execute("DROP INDEX KS.list_items_by_value").await;
    keyspace.execute("DELETE FROM KS.schema_migrations WHERE version = 1").await;
    assert_eq!(keyspace.state().await, SchemaState::Older { applied: 0, wanted: 1 });
    assert!(keyspace.session_error().await.contains("liststore migrate"));
    let done = migrate(&keyspace.options, false).await.unwrap();
    assert_eq!(done.steps.len(), 1);
    assert_eq!(keyspace.state().await, SchemaState::Current);
}

/// A pod that comes before the job that migrates.
#[tokio::test]
async fn a_server_without_its_schema_waits_and_reports_it() {
    let (missing, older) = (Keyspace::new(), Keyspace::new());
    migrate(&older.options, false).await.unwrap();
    older.execute("DROP INDEX KS.list_items_by_value").await;
    older.execute("DELETE FROM KS.schema_migrations WHERE version = 1").await;
    for (keyspace, reported) in [(missing, "the schema is missing"), (older, "version 0, wanted 1")] {
        let settings = settings(&[
            ("items.store", "cql"),
            ("items.cql.contact_points", &keyspace.options.contact_points.join(",")),
            ("items.cql.keyspace", &keyspace.options.keyspace),
            ("items.cql.replication_factor", "1"),
        ]);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let stores = Stores::open(&settings, &clock).await.unwrap();
        let mut server = spawn_with(settings, clock, stores).await;
        assert_eq!(server.health("/livez").await.0, 200, "{reported}");
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let (status, health) = server.health("/readyz").await;
            assert_eq!(status, 503, "{health}");
            let reason = health["reasons"]["item_store"].to_string();
            if reason.contains(reported) && reason.contains("run `liststore migrate`") {
                break;
            }
            assert!(Instant::now() < patience, "{health}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        migrate(&keyspace.options, false).await.unwrap();
        server.ready().await;
        assert_eq!(server.health("/readyz").await.0, 200, "{reported}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_left_unchanged() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    keyspace.execute("INSERT INTO KS.schema_migrations (version, name) VALUES (2, '0002_later')").await;
    assert_eq!(keyspace.state().await, SchemaState::Newer { applied: 2, known: 1 });
    assert!(keyspace.session_error().await.contains("newer than this program"));
    let refused = migrate(&keyspace.options, false).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Unfit(SchemaState::Newer { .. })), "{refused}");

    // With a number that lets this program serve, it does: a release can be rolled back.
    keyspace.execute("INSERT INTO KS.schema_compatibility (version, served_from) VALUES (2, 1)").await;
    keyspace.execute("ALTER TABLE KS.list_items ADD weight INT").await;
    assert_eq!(keyspace.state().await, SchemaState::NewerServed { applied: 2, known: 1 });
    let server = Server::open(keyspace.options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    assert_eq!(server.values(&list).await, [b"v"]);
    assert_eq!(migrate(&keyspace.options, false).await.unwrap().steps, []);
}

/// Reads and adds do not need the index of values, and continue without it.
#[tokio::test]
async fn without_the_index_only_removals_by_value_are_refused_and_migrate_builds_it_again() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let before = Server::open(keyspace.options.clone()).await;
    let list = fresh_list();
    before.add(&list, &[(now(), b"v"), (now(), b"w")]).await;
    for make in ["DROP INDEX KS.list_items_by_value", "CREATE INDEX list_items_by_value ON KS.list_items (item_key)"] {
        keyspace.execute(make).await;
        let state = keyspace.state().await;
        assert!(matches!(state, SchemaState::NoIndex(_)) && state.is_served(), "{state}");
        let after = Server::open(keyspace.options.clone()).await;
        for server in [&before, &after] {
            let refused = server.session.remove_value(&server.op(), &list, b"v").await;
            let reason = why(refused.map(|_| ()));
            assert!(reason.contains("liststore migrate"), "{reason}");
            let warning = server.store.warning().unwrap();
            assert!(warning.contains("removed by value"), "{warning}");
            assert_eq!(server.values(&list).await.len(), 2);
            server.add(&fresh_list(), &[(now(), b"x")]).await;
            server.remove_all(&fresh_list()).await;
        }
        assert!(inspect(&keyspace.options).await.unwrap().problems.is_empty(), "serve would start");
        before.remove_all(&list).await;
        before.add(&list, &[(now(), b"v"), (now(), b"w")]).await;
    }
    let done = migrate(&keyspace.options, false).await.unwrap();
    assert_eq!(done.steps.len(), 1, "{done:?}");
    assert_eq!(keyspace.state().await, SchemaState::Current);
    let patience = Instant::now() + Duration::from_secs(30);
    let removed = loop {
        // It is built in the background.
        match before.session.remove_value(&before.op(), &list, b"v").await {
            Ok(removed) => break removed,
            Err(error) => assert!(Instant::now() < patience, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(removed, 1);
    assert_eq!(before.store.warning(), None);
}

/// A check needs no permit, so it must not run for each refused removal.
#[tokio::test]
async fn many_removals_without_the_index_check_for_it_rarely() {
    use scylla_proxy::{Condition, Reaction, RequestOpcode, RequestReaction, RequestRule};
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let mut forger = crate::forger::Forger::before(keyspace.options.clone()).await;
    let server = Server::open(forger.options.clone()).await;
    keyspace.execute("DROP INDEX KS.list_items_by_value").await;
    let refused = server.session.remove_value(&server.op(), &fresh_list(), b"v").await;
    assert!(why(refused.map(|_| ())).contains("liststore migrate"));
    let (looked, mut looks) = crate::permits::feedback();
    let text = Condition::BodyContainsCaseSensitive(b"system_schema.indexes".to_vec().into_boxed_slice());
    let look = Condition::RequestOpcode(RequestOpcode::Prepare).and(text);
    forger.on_requests(vec![RequestRule(look, RequestReaction::noop().with_feedback_when_performed(looked))]);
    let began = Instant::now();
    let removals = (0..100).map(|_| async {
        let refused = server.session.remove_value(&server.op(), &fresh_list(), b"v").await;
        assert!(why(refused.map(|_| ())).contains("removed by value"));
    });
    futures_util::future::join_all(removals).await;
    let count = std::iter::from_fn(|| looks.try_recv().ok()).count();
    // One in half a second, on each connection.
    let allowed = 2 * (2 + began.elapsed().as_millis() as usize / 500);
    assert!(count <= allowed, "{count} looks");
}

#[tokio::test]
async fn a_dropped_table_is_not_replaced_by_an_empty_one() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    keyspace.execute("DROP TABLE KS.list_items").await;
    assert_eq!(keyspace.state().await, SchemaState::TableDropped("list_items"));
    let refused = migrate(&keyspace.options, false).await.unwrap_err().to_string();
    assert!(refused.contains("restore it from a snapshot"), "{refused}");
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    keyspace.execute("DROP TABLE KS.list_members").await;
    assert_eq!(keyspace.state().await, SchemaState::TableDropped("list_members"));
}

/// A migration that broke off.
#[tokio::test]
async fn sets_are_stored_once_their_table_exists() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    keyspace.execute("DROP TABLE KS.list_members").await;
    keyspace.execute("DELETE FROM KS.schema_migrations WHERE version = 1").await;
    let why = keyspace.session_error().await;
    assert!(why.contains("version 0, wanted 1") && why.contains("run `liststore migrate`"), "{why}");
    assert_eq!(migrate(&keyspace.options, false).await.unwrap().steps.len(), 1);
    let (server, list) = (Server::open(keyspace.options.clone()).await, fresh_set(Identity::Value(Keep::Newest)));
    server.add(&list, &[(now(), b"v")]).await;
    server.add(&list, &[(now(), b"v")]).await;
    assert_eq!(server.values(&list).await, [b"v"]);
}

#[tokio::test]
async fn a_keyspace_of_several_datacenters_is_created_by_name() {
    let cluster = crate::forged_cluster::ForgedCluster::start(&["datacenter1", "datacenter2"], 2).await;
    let options = CqlOptions {
        keyspace: format!("Several_{}", std::process::id()),
        datacenter: Some("datacenter1".into()),
        replication: vec![("datacenter1".into(), 1), ("datacenter2".into(), 1)],
        ..cluster.options.clone()
    };
    let planned = migrate(&options, true).await.unwrap();
    let keyspace = &planned.steps[0].statements[0];
    assert!(keyspace.contains("'datacenter1': 1, 'datacenter2': 1"), "{keyspace}");
    let unknown = CqlOptions { replication: vec![("datacenter1".into(), 1), ("dc9".into(), 1)], ..options };
    let refused = migrate(&unknown, true).await.unwrap_err().to_string();
    assert!(refused.contains("dc9") && refused.contains("datacenter2"), "{refused}");
}

#[tokio::test]
async fn a_table_with_other_columns_is_refused() {
    let keyspace = Keyspace::new();
    keyspace
        .execute("CREATE KEYSPACE KS WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}")
        .await;
    keyspace.execute("CREATE TABLE KS.list_items (feature_key TEXT PRIMARY KEY, value BLOB)").await;
    let refused = migrate(&keyspace.options, false).await.unwrap_err().to_string();
    assert!(refused.contains("unexpected columns") && refused.contains("items.cql.keyspace"), "{refused}");
    assert!(keyspace.session_error().await.contains("unexpected columns"));
}

#[tokio::test]
async fn a_table_made_by_hand_is_adopted() {
    let keyspace = Keyspace::new();
    keyspace
        .execute("CREATE KEYSPACE KS WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}")
        .await;
    keyspace
        .execute(
            "CREATE TABLE KS.list_items (feature_key TEXT, entity_id TEXT, item_key TEXT, value BLOB, PRIMARY KEY \
             ((feature_key, entity_id), item_key)) WITH CLUSTERING ORDER BY (item_key DESC)",
        )
        .await;
    assert_eq!(keyspace.state().await, SchemaState::Older { applied: 0, wanted: 1 });
    let done = migrate(&keyspace.options, false).await.unwrap();
    assert_eq!(done.steps.len(), 2, "the table's default TTL is set too");
    assert_eq!(keyspace.state().await, SchemaState::Current);
    assert_eq!(inspect(&keyspace.options).await.unwrap().default_ttl_secs, Some(2_592_000));
}

#[tokio::test]
async fn the_default_ttl_follows_the_setting() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let options = CqlOptions { default_ttl_secs: 77, ..keyspace.options.clone() };
    let done = migrate(&options, false).await.unwrap();
    assert_eq!(done.steps.len(), 1);
    let altered = &done.steps[0].statements;
    assert!(
        altered.len() == 4 && altered.iter().all(|text| text.ends_with("default_time_to_live = 77")),
        "{altered:?}"
    );
    assert_eq!(inspect(&options).await.unwrap().default_ttl_secs, Some(77));
}

#[tokio::test]
async fn an_inspection_reports_the_schema() {
    let keyspace = Keyspace::new();
    let before = inspect(&keyspace.options).await.unwrap();
    assert_eq!((before.schema, before.replicas), (SchemaState::Missing, None));
    assert!(before.problems[0].contains("liststore migrate"));
    migrate(&keyspace.options, false).await.unwrap();
    let found = inspect(&keyspace.options).await.unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    assert_eq!((found.dialect, found.schema), (Dialect::Cassandra, SchemaState::Current));
    assert_eq!((found.replicas, found.default_ttl_secs, found.tablets), (Some(1), Some(2_592_000), false));
    assert_eq!(found.nodes.len(), 1);
    let node = &found.nodes[0];
    assert!(keyspace.options.contact_points.contains(&node.address), "{node:?}");
    assert!(node.release.as_ref().unwrap().starts_with("5."), "{node:?}");
    assert_eq!((node.shards, node.datacenter.as_str()), (1, "datacenter1"));
    // One to the node, and the control connection.
    assert_eq!(found.connections, 2);
}

#[tokio::test]
async fn a_missing_datacenter_is_named() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let options = CqlOptions { datacenter: Some("nowhere".into()), ..keyspace.options.clone() };
    let refused = migrate(&options, false).await.unwrap_err().to_string();
    assert!(refused.contains("nowhere") && refused.contains("datacenter1"), "{refused}");
    let store = CqlStore::open(options, Arc::new(SystemClock), &Registry::new()).unwrap();
    assert!(why(store.open_session().await.map(|_| ())).contains("items.cql.datacenter"));
}

#[tokio::test]
async fn insufficient_replicas_are_refused() {
    let keyspace = Keyspace::new();
    let three = CqlOptions { replication_factor: 3, ..keyspace.options.clone() };
    let refused = migrate(&three, false).await.unwrap_err().to_string();
    assert!(refused.contains("needs 2 of 3 replicas") && refused.contains("replication_factor = 1"), "{refused}");
    assert_eq!(keyspace.state().await, SchemaState::Missing);
    // One replica's answer is enough at consistency ONE. At the default level the store then refuses.
    let relaxed =
        CqlOptions { read_consistency: Consistency::One, write_consistency: Consistency::LocalOne, ..three.clone() };
    migrate(&relaxed, false).await.unwrap();
    let store = CqlStore::open(three, Arc::new(SystemClock), &Registry::new()).unwrap();
    assert!(why(store.open_session().await.map(|_| ())).contains("items.cql.read_consistency LOCAL_QUORUM"));
    let note = &migrate(&CqlOptions { replication_factor: 1, ..relaxed }, true).await.unwrap().notes;
    assert!(note[0].contains("has 3 replicas"), "{note:?}");
}

#[tokio::test]
async fn a_vanished_table_is_reported_with_the_remedy() {
    let keyspace = Keyspace::new();
    migrate(&keyspace.options, false).await.unwrap();
    let server = Server::open(keyspace.options.clone()).await;
    let list = fresh_list();
    server.add(&list, &[(now(), b"v")]).await;
    keyspace.execute("DROP KEYSPACE KS").await;
    let failed = server.try_add(&list, &server.op(), &[(now(), b"w")]).await.unwrap_err();
    assert!(matches!(&failed, StoreError::Unavailable { reason, .. } if reason.contains("migrate")), "{failed:?}");
}
