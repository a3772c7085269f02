//! A PgBouncer, as Debian packages it, between the server and Postgres.

use std::str::FromStr;
use std::time::Duration;

use liststore::metadata::MetadataError;
use liststore::metadata::postgres::{inspect, migrate};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Row};

use crate::insist::insist;
use crate::pgbouncer::PgBouncer;
use crate::postgres::Database;
use crate::servers::{Node, id, run, until};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The operations of a server on definitions, by more callers than the pooler has sessions of Postgres for long.
async fn works(node: &Node) {
    for round in 0..3 {
        let name = format!("f{round}");
        node.create(&name, 60).await.unwrap();
        node.set_ttl(&name, 61).await.unwrap();
        node.create_version(&name, "v1").await.unwrap();
        let mixed = futures_util::future::join_all((0..20).map(|at| {
            let name = &name;
            async move {
                insist(async || {
                    if at % 2 == 0 {
                        node.set_ttl(name, 100 + at).await
                    } else {
                        node.handle.feature(id(name)).await.map(Option::unwrap)
                    }
                })
                .await
            }
        }));
        assert!(mixed.await.into_iter().all(|end| end.is_ok()));
        if round < 2 {
            node.delete(&name).await.unwrap();
        }
    }
    let history = node.handle.history(id("f0"), None, liststore::domain::Limit::DEFAULT).await.unwrap().unwrap();
    assert_eq!(history.entries.len(), 14);
}

#[test]
fn a_pooler_in_session_mode_works_with_notifications() {
    run(async {
        let database = Database::create().await;
        let pooler = PgBouncer::start(&database.url, "session").await;
        assert_eq!(migrate(&pooler.url, false).await.unwrap().steps.len(), 1);
        let node = Node::start(&pooler.url).await;
        works(&node).await;
        let direct = Node::start(&database.url).await;
        direct.create("news", 60).await.unwrap();
        until("it was notified of the change", || node.known_ttl("news") == Some(60)).await;
        node.stop().await;
        direct.stop().await;
    });
}

/// There a session of Postgres lasts a transaction. The server was once refused when it connected, and
/// would have left its settings and statements behind in sessions of others.
#[test]
fn a_pooler_in_transaction_mode_works_with_polling() {
    run(async {
        let database = Database::create().await;
        let pooler = PgBouncer::start(&database.url, "transaction").await;
        assert_eq!(migrate(&pooler.url, false).await.unwrap().steps.len(), 1);
        assert!(inspect(&pooler.url).await.unwrap().schema.is_served());
        let node = Node::start_without_database(&pooler.url, POLL_INTERVAL).await;
        until("its catalog is loaded", || node.handle.catalog().snapshot().is_some()).await;
        works(&node).await;
        until("it detects that no notification arrives", || {
            node.metric("liststore_metadata_postgres_listens_total") >= 1.0
        })
        .await;
        assert_eq!(node.metric("liststore_metadata_postgres_listening"), 0.0);
        let direct = Node::start(&database.url).await;
        direct.create("polled", 60).await.unwrap();
        until("it has polled", || node.known_ttl("polled") == Some(60)).await;
        assert!(node.handle.unavailable_reason().is_none());

        // The sessions for other clients retain nothing of ours.
        let options = PgConnectOptions::from_str(&pooler.url).unwrap().extra_float_digits(None);
        let mut next = PgConnection::connect_with(&options).await.unwrap();
        let left = sqlx::raw_sql(
            "SELECT (SELECT count(*) FROM pg_prepared_statements) + (SELECT count(*) FROM pg_listening_channels()) \
             + (current_setting('statement_timeout') <> '0')::int AS left",
        );
        let left = left.fetch_one(&mut next).await.unwrap();
        assert_eq!(left.get::<i64, _>(0), 0);
        node.stop().await;
        direct.stop().await;
    });
}

#[test]
fn a_pooler_in_statement_mode_is_refused_with_the_reason() {
    run(async {
        let database = Database::migrated().await;
        let pooler = PgBouncer::start(&database.url, "statement").await;
        let error = inspect(&pooler.url).await.unwrap_err();
        assert!(matches!(&error, MetadataError::Unavailable { reason, .. } if reason.contains("pool_mode")), "{error}");
    });
}

#[test]
fn options_that_a_pooler_refuses_are_named() {
    run(async {
        let database = Database::migrated().await;
        let pooler = PgBouncer::start(&database.url, "session").await;
        let error = inspect(&format!("{}?options=-c%20geqo%3Doff", pooler.url)).await.unwrap_err();
        assert!(error.to_string().contains("remove `options`"), "{error}");
    });
}
