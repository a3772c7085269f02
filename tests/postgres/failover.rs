//! Several Postgres servers in one URL: the writable one is found, and found again.

use std::time::Duration;

use liststore::actors::ResolveError;
use liststore::metadata::postgres::{inspect, migrate};
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;

use crate::postgres::{Database, Server, address_of};
use crate::servers::{Node, run, until};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The URL of one database on two servers.
fn both(first: &str, second: &str) -> String {
    first.replace(&address_of(first), &format!("{},{}", address_of(first), address_of(second)))
        + "?target_session_attrs=read-write"
}

#[test]
fn definitions_follow_a_promoted_standby() {
    run(async {
        let primary = Server::start();
        let database = Database::create_in(&primary.url, "").await;
        migrate(&database.url, false).await.unwrap();
        let standby = Server::standby_of(&primary);
        let on_standby = database.url.replace(&address_of(&database.url), &address_of(&standby.url));
        // The standby first: it is skipped while it is read-only.
        let url = both(&on_standby, &database.url);
        assert!(inspect(&url).await.unwrap().schema.is_served());
        let (node, other) =
            (Node::start_polling(&url, POLL_INTERVAL).await, Node::start_polling(&url, POLL_INTERVAL).await);
        let created = node.create("seen", 60).await.unwrap();
        until_replicated(&on_standby, created.revision.0).await;

        primary.kill();
        until("it says what is wrong with each server", || {
            let reason = node.handle.unavailable_reason();
            reason.is_some_and(|reason| reason.contains("is a standby") && reason.contains("refused"))
        })
        .await;
        assert_eq!(node.resolve("seen").await, Ok(60), "lists go on");

        standby.promote();
        let began = Instant::now();
        while let Err(error) = node.create("after", 60).await {
            assert!(error.is_retryable() && began.elapsed() < Duration::from_secs(60), "{error}");
        }
        until("no trouble is left", || node.handle.unavailable_reason().is_none()).await;
        assert_eq!(node.resolve("seen").await, Ok(60));
        assert_eq!(node.resolved("nowhere").await, Err(ResolveError::FeatureNotFound));
        until("the other is notified of changes", || other.known_ttl("after") == Some(60)).await;
        node.stop().await;
        other.stop().await;
    });
}

/// Like a primary that must refuse writes before its replacement.
#[test]
fn a_read_only_host_is_replaced_by_a_writable_one() {
    run(async {
        let (first, second) = (Server::start(), Server::start());
        let database = Database::create_in(&first.url, "").await;
        let name = database.url.rsplit_once('/').unwrap().1;
        let on_second = format!("{}/{name}", second.url.rsplit_once('/').unwrap().0);
        let mut connection = PgConnection::connect(&second.url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await.unwrap();
        migrate(&database.url, false).await.unwrap();
        migrate(&on_second, false).await.unwrap();
        let node = Node::start_polling(&both(&database.url, &on_second), POLL_INTERVAL).await;
        node.create("on_first", 60).await.unwrap();

        database.execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
        database.cut_connections().await;
        let began = Instant::now();
        while let Err(error) = node.create("on_second", 60).await {
            assert!(error.is_retryable() && began.elapsed() < Duration::from_secs(60), "{error}");
        }
        until("it knows what the second has, and that alone", || {
            node.known_ttl("on_second") == Some(60) && node.known_ttl("on_first").is_none()
        })
        .await;
        node.stop().await;
    });
}

async fn until_replicated(url: &str, revision: u64) {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let row = sqlx::query("SELECT revision FROM metadata_revision").fetch_one(&mut connection).await.unwrap();
        if sqlx::Row::get::<i64, _>(&row, 0) as u64 >= revision {
            return;
        }
        assert!(Instant::now() < patience, "the standby does not follow");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
