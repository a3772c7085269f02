//! Several servers on one database: each works with the changes of the others.

use std::time::Duration;

use liststore::actors::ResolveError;
use liststore::domain::Ttl;
use liststore::metadata::MetadataError;
use sqlx::Row;
use tokio::time::Instant;

use crate::insist::insist;
use crate::postgres::Database;
use crate::servers::{Node, run, until};

#[test]
fn a_change_reaches_the_other_server_at_once() {
    run(async {
        let database = Database::migrated().await;
        let (a, b) = (Node::start(&database.url).await, Node::start(&database.url).await);
        a.create("seen", 100).await.unwrap();
        until("it knows the feature", || b.known_ttl("seen") == Some(100)).await;
        let mut slowest = Duration::ZERO;
        for ttl in 101..=120 {
            let (changer, other) = if ttl % 2 == 0 { (&a, &b) } else { (&b, &a) };
            changer.set_ttl("seen", ttl).await.unwrap();
            let changed = Instant::now();
            assert_eq!(changer.known_ttl("seen"), Some(ttl));
            until("it knows the TTL", || other.known_ttl("seen") == Some(ttl)).await;
            slowest = slowest.max(changed.elapsed());
        }
        // Servers here poll once an hour.
        assert!(slowest < Duration::from_secs(30), "{slowest:?}");
        a.delete("seen").await.unwrap();
        until("it knows of the deletion", || b.known_ttl("seen").is_none()).await;
        a.stop().await;
        b.stop().await;
    });
}

#[test]
fn a_feature_is_usable_on_all_servers_the_moment_it_exists() {
    run(async {
        let database = Database::migrated().await;
        let (a, b) = (Node::start(&database.url).await, Node::start(&database.url).await);
        for number in 0..50 {
            let name = format!("f{number}");
            if number % 5 == 0 {
                assert_eq!(b.resolved(&name).await, Err(ResolveError::FeatureNotFound));
            }
            a.create(&name, 60).await.unwrap();
            assert_eq!(b.resolved(&name).await, Ok(60), "{name}");
        }
        a.create_version("f0", "v2").await.unwrap();
        assert!(b.resolved_version("f0", "v2").await.is_ok());
        assert_eq!(b.resolved_version("f0", "v3").await, Err(ResolveError::VersionNotFound));
        a.stop().await;
        b.stop().await;
    });
}

/// How many transactions the database has seen from connections that have ended since.
async fn transactions(database: &Database) -> i64 {
    let mut connection = database.connect().await;
    let row = sqlx::query("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()");
    row.fetch_one(&mut connection).await.unwrap().get(0)
}

#[test]
fn look_ups_for_unknown_features_are_shared_and_few() {
    run(async {
        let database = Database::migrated().await;
        let node = Node::start(&database.url).await;
        let before = transactions(&database).await;
        let began = Instant::now();
        let mut asked = 0;
        while began.elapsed() < Duration::from_secs(1) || asked < 3_000 {
            let all = futures_util::future::join_all((0..1_000).map(|_| node.resolved("nowhere"))).await;
            assert!(all.iter().all(|answer| *answer == Err(ResolveError::FeatureNotFound)), "{all:?}");
            asked += all.len();
        }
        node.stop().await;
        let secs = began.elapsed().as_secs_f64().ceil() as i64;
        let looked_up = transactions(&database).await - before;
        // 5 at once, then 5 a second, each with a test of the connection. In addition the start, the stop and this
        // test's own connections.
        assert!(looked_up < 50 + 10 * secs, "{looked_up} transactions for {asked} unknown features in {secs} s");
    });
}

#[test]
fn a_feature_created_again_is_new_on_every_server() {
    run(async {
        let database = Database::migrated().await;
        let (a, b) = (Node::start(&database.url).await, Node::start(&database.url).await);
        let key = |node: &Node| {
            let version = node.handle.catalog().version("user", "seen", "").ok();
            version.map(|version| version.feature_key.to_string())
        };
        for generation in 1..=5 {
            let (creator, other) = if generation % 2 == 0 { (&a, &b) } else { (&b, &a) };
            creator.create("seen", 60).await.unwrap();
            let expected = match generation {
                1 => "user#seen|".to_owned(),
                later => format!("user#seen|~{later}"),
            };
            assert_eq!(key(creator).as_ref(), Some(&expected));
            until("the other follows", || key(other).as_ref() == Some(&expected)).await;
            other.delete("seen").await.unwrap();
            until("the creator follows", || key(creator).is_none()).await;
        }
        a.stop().await;
        b.stop().await;
    });
}

#[test]
fn one_of_several_racing_creations_wins() {
    run(async {
        let database = Database::migrated().await;
        let (a, b) = (Node::start(&database.url).await, Node::start(&database.url).await);
        for round in 0..10 {
            let name = format!("f{round}");
            let racers = (0..8).map(|racer| {
                let (node, name) = (if racer % 2 == 0 { &a } else { &b }, &name);
                insist(async move || node.create(name, 60).await)
            });
            let ends = futures_util::future::join_all(racers).await;
            let won = ends.iter().filter(|end| end.is_ok()).count();
            let lost = ends.iter().filter(|end| matches!(end, Err(MetadataError::FeatureExists(_)))).count();
            assert_eq!((won, lost), (1, 7), "{ends:?}");
        }
        a.stop().await;
        b.stop().await;
    });
}

#[test]
fn changes_on_all_servers_leave_the_same_catalog_everywhere() {
    run(async {
        let database = Database::migrated().await;
        let nodes = [Node::start(&database.url).await, Node::start(&database.url).await];
        for name in ["f0", "f1", "f2"] {
            nodes[0].create(name, 1).await.unwrap();
        }
        let changer = |node: usize| {
            let node = &nodes[node];
            let offset = if std::ptr::eq(node, &nodes[0]) { 1_000 } else { 2_000 };
            async move {
                for step in 0..60 {
                    let (name, ttl) = (["f0", "f1", "f2"][step % 3], offset + step as u64);
                    insist(async || node.set_ttl(name, ttl).await).await.unwrap();
                }
            }
        };
        tokio::join!(changer(0), changer(1));
        let mut rows = database.connect().await;
        for name in ["f0", "f1", "f2"] {
            let row = sqlx::query("SELECT definition->'versions'->0->>'ttl' FROM list_feature WHERE name = $1");
            let ttl: String = row.bind(name).fetch_one(&mut rows).await.unwrap().get(0);
            let ttl = Ttl::parse(&ttl).unwrap().as_secs();
            for node in &nodes {
                until("the catalog shows the last change", || node.known_ttl(name) == Some(ttl)).await;
            }
        }
        let revisions = sqlx::query("SELECT count(*), max(revision) FROM list_feature_history");
        let row = revisions.fetch_one(&mut rows).await.unwrap();
        assert_eq!((row.get::<i64, _>(0), row.get::<i64, _>(1)), (123, 123));
        for node in nodes {
            node.stop().await;
        }
    });
}

/// A change without its notification, as if that had been lost on the way.
async fn change_in_silence(database: &Database, name: &str, ttl_secs: u64) {
    database
        .execute(&format!(
            "WITH next AS (UPDATE metadata_revision SET revision = revision + 1 RETURNING revision), \
                  reported AS (INSERT INTO list_feature_history \
                      (revision, changed_at_ns, changed_by, action, entity_type, name) \
                      SELECT revision, 0, 'somebody', 'update_feature', 'user', '{name}' FROM next) \
             UPDATE list_feature SET definition = \
                 jsonb_set(definition, '{{versions,0,ttl}}', to_jsonb('{ttl_secs}s'::text)) \
                 || jsonb_build_object('ttl_max', '7300d', 'revision', next.revision) \
             FROM next WHERE name = '{name}'"
        ))
        .await;
}

#[test]
fn polling_makes_up_for_a_lost_notification() {
    run(async {
        let database = Database::migrated().await;
        let node = Node::start_polling(&database.url, Duration::from_millis(500)).await;
        node.create("seen", 100).await.unwrap();
        change_in_silence(&database, "seen", 200).await;
        until("the poll finds it", || node.known_ttl("seen") == Some(200)).await;
        node.stop().await;
    });
}

#[test]
fn a_full_read_makes_up_for_a_lost_connection() {
    run(async {
        let database = Database::migrated().await;
        let node = Node::start(&database.url).await;
        node.create("seen", 100).await.unwrap();
        for ttl in [200, 300, 400] {
            change_in_silence(&database, "seen", ttl).await;
            database.cut_connections().await;
            until("it has reconnected and read", || node.known_ttl("seen") == Some(ttl)).await;
        }
        node.stop().await;
    });
}

#[test]
fn a_history_with_gaps_leads_to_a_full_read() {
    run(async {
        let database = Database::migrated().await;
        let node = Node::start_polling(&database.url, Duration::from_millis(200)).await;
        node.create("seen", 100).await.unwrap();
        change_in_silence(&database, "seen", 200).await;
        database.execute("DELETE FROM list_feature_history WHERE revision > 1").await;
        until("it has read everything", || node.known_ttl("seen") == Some(200)).await;
        node.stop().await;
    });
}

/// As after a backup was restored.
#[test]
fn a_revision_that_went_back_leads_to_a_full_read() {
    run(async {
        let database = Database::migrated().await;
        let node = Node::start_polling(&database.url, Duration::from_millis(200)).await;
        node.create("old", 100).await.unwrap();
        node.create("new", 100).await.unwrap();
        database
            .execute(
                "WITH gone AS (DELETE FROM list_feature WHERE name = 'new'), \
                      forgotten AS (DELETE FROM list_feature_history WHERE revision > 1) \
                 UPDATE metadata_revision SET revision = 1",
            )
            .await;
        until("it has read everything", || node.known_ttl("new").is_none()).await;
        assert_eq!(node.known_ttl("old"), Some(100));
        node.stop().await;
    });
}
