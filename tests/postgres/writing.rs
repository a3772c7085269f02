//! The writes of a change, beyond the checks of the conformance suite.

use std::time::Duration;

use liststore::definition::GivenProperties;
use liststore::domain::{Limit, Timestamp};
use liststore::metadata::{Calls, ChangeContext, FeatureFilter, MetadataStore, Precondition};
use sqlx::Row;
use sqlx::postgres::PgListener;

use crate::insist::insist;
use crate::postgres::Database;
use crate::servers::{context, id, new_feature, store, ttl};

#[tokio::test]
async fn a_change_is_notified_once_it_is_committed() {
    let database = Database::migrated().await;
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen("liststore_metadata").await.unwrap();
    let store = store(&database.url);
    store.create_feature(new_feature("seen", 60), context()).await.unwrap();
    assert_eq!(listener.recv().await.unwrap().payload(), "1");
    // A change without effect, and a refused one, cause no news.
    let nothing = GivenProperties { ttl: Some(ttl(60)), ..GivenProperties::default() }.into();
    store.update_feature(&id("seen"), nothing, Precondition::None, context()).await.unwrap();
    store.create_feature(new_feature("seen", 60), context()).await.unwrap_err();
    store.delete_feature(&id("seen"), Precondition::None, context()).await.unwrap();
    assert_eq!(listener.recv().await.unwrap().payload(), "2");
    store.close().await;
}

#[tokio::test]
async fn times_are_readable_for_people_too() {
    let database = Database::migrated().await;
    let store = store(&database.url);
    store.create_feature(new_feature("seen", 60), context()).await.unwrap();
    let row = sqlx::query(
        "SELECT to_char(changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') FROM list_feature_history",
    )
    .fetch_one(&mut database.connect().await)
    .await
    .unwrap();
    assert_eq!(row.get::<String, _>(0), "2024-08-29 16:44:05.430000");
    let kept = store.feature(&id("seen")).await.unwrap().unwrap();
    assert_eq!(kept.created_at, context().at);
}

#[tokio::test]
async fn a_clock_past_the_tables_range_changes_nothing() {
    let database = Database::migrated().await;
    let store = store(&database.url);
    let context = ChangeContext { at: Timestamp::MAX, ..context() };
    let error = store.create_feature(new_feature("seen", 60), context).await.unwrap_err();
    assert!(error.to_string().contains("2262") && !error.outcome_unknown(), "{error}");
    assert_eq!(store.definitions().await.unwrap().revision.0, 0);
}

/// Postgres has no text with NUL, so the name appears without it.
#[tokio::test]
async fn a_search_for_nul_finds_nothing() {
    let database = Database::migrated().await;
    let store = store(&database.url);
    store.create_feature(new_feature("seen", 60), context()).await.unwrap();
    let filter = FeatureFilter { text: Some("s\0".to_owned()), ..Default::default() };
    let page = store.features(&filter, None, Limit::DEFAULT).await.unwrap();
    assert_eq!((page.entries.len(), page.more), (0, false));
}

/// The store has at most the permitted number of connections, and Postgres shows their names.
#[tokio::test]
async fn connections_are_bounded_and_named() {
    let database = Database::migrated().await;
    let store = store(&database.url);
    let mut observer = database.connect().await;
    // Connections that were closed on a busy machine are counted for a moment longer.
    let mut counted = Vec::new();
    while counted.last().is_none_or(|count| !(1..=4).contains(count)) {
        assert!(counted.len() < 10, "{counted:?}");
        let reads = (0..16).map(|_| insist(async || store.definitions().await));
        for read in futures_util::future::join_all(reads).await {
            read.unwrap();
        }
        let row = sqlx::query(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'liststore'",
        )
        .fetch_one(&mut observer)
        .await
        .unwrap();
        counted.push(row.get::<i64, _>(0));
    }
    store.close().await;
    let error = store.definitions().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

/// A lock that is never released delays a change for a moment only, and reads not at all.
#[tokio::test]
async fn a_held_lock_is_awaited_for_a_short_time() {
    let database = Database::migrated().await;
    let store = store(&database.url);
    let mut holder = database.connect().await;
    sqlx::raw_sql("BEGIN; UPDATE metadata_revision SET revision = revision").execute(&mut holder).await.unwrap();
    let began = tokio::time::Instant::now();
    let error = store.create_feature(new_feature("seen", 60), context()).await.unwrap_err();
    assert!(error.is_retryable() && !error.outcome_unknown(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(store.definitions().await.unwrap().revision.0, 0);
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    store.create_feature(new_feature("seen", 60), context()).await.unwrap();
}
