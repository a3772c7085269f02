//! `migrate`: how a database gets its schema, and which schemas a server works with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::app::Stores;
use liststore::domain::{Clock, SystemClock};
use liststore::metadata::postgres::{
    MigrateError, PostgresOptions, PostgresStore, SchemaState, inspect, migrate, read_url,
};
use liststore::metadata::{Calls, MetadataError, MetadataStore};
use prometheus::Registry;
use sqlx::Row;

use crate::postgres::{self, Database};
use crate::server::{settings, spawn_with};
use crate::servers::{context, new_feature, store};

/// The schema of this release.
const NEWEST: i64 = 1;

#[tokio::test]
async fn a_dry_run_prints_changes_without_making_them() {
    let database = Database::create().await;
    let report = migrate(&database.url, true).await.unwrap();
    assert_eq!(report.steps.iter().map(|step| step.version).collect::<Vec<_>>(), (1..=NEWEST).collect::<Vec<_>>());
    assert_eq!(inspect(&database.url).await.unwrap().schema, SchemaState::Missing { known: NEWEST });
    let tables = sqlx::query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        .fetch_one(&mut database.connect().await)
        .await
        .unwrap();
    assert_eq!(tables.get::<i64, _>(0), 0);
}

#[tokio::test]
async fn a_second_migration_changes_nothing() {
    let database = Database::create().await;
    assert_eq!(migrate(&database.url, false).await.unwrap().steps.len(), NEWEST as usize);
    let again = migrate(&database.url, false).await.unwrap();
    assert_eq!((again.steps.len(), again.before.schema), (0, SchemaState::Current { version: NEWEST }));
}

#[tokio::test]
async fn concurrent_migrations_do_everything_once() {
    let database = Database::create().await;
    let url = &database.url;
    let all = tokio::join!(migrate(url, false), migrate(url, false), migrate(url, false), migrate(url, false));
    let steps: usize = [all.0, all.1, all.2, all.3].into_iter().map(|report| report.unwrap().steps.len()).sum();
    assert_eq!(steps, NEWEST as usize);
}

#[tokio::test]
async fn a_failed_migration_leaves_nothing_behind() {
    let database = Database::create().await;
    database.execute("CREATE TABLE list_feature (other text)").await;
    let error = migrate(&database.url, false).await.unwrap_err();
    assert!(matches!(&error, MigrateError::Failed { version: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("already exists"), "{error}");
    assert_eq!(inspect(&database.url).await.unwrap().schema, SchemaState::Missing { known: NEWEST });
    database.execute("DROP TABLE list_feature").await;
    assert_eq!(migrate(&database.url, false).await.unwrap().steps.len(), NEWEST as usize);
}

#[tokio::test]
async fn a_server_refuses_a_missing_schema_until_it_exists() {
    let database = Database::create().await;
    let store = store(&database.url);
    let error = store.definitions().await.unwrap_err();
    assert!(error.to_string().contains("the schema is missing: run `liststore migrate`"), "{error}");
    migrate(&database.url, false).await.unwrap();
    assert_eq!(store.definitions().await.unwrap().features.len(), 0);
}

/// A pod that comes before the job that migrates.
#[tokio::test]
async fn a_server_without_its_schema_waits_and_reports_it() {
    let database = Database::create().await;
    let settings = settings(&[("metadata.store", "postgres"), ("metadata.postgres.url", &database.url)]);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let stores = Stores::open(&settings, &clock).await.unwrap();
    let mut server = spawn_with(settings, clock, stores).await;
    assert_eq!(server.health("/livez").await.0, 200);
    until("it says why it is not ready", async || {
        let (status, health) = server.health("/readyz").await;
        assert_eq!(status, 503, "{health}");
        let reason = health["reasons"]["metadata_store"].to_string();
        reason.contains("the schema is missing: run `liststore migrate`")
    })
    .await;
    migrate(&database.url, false).await.unwrap();
    server.ready().await;
    assert_eq!(server.health("/readyz").await.0, 200);
}

/// As when a Secret is changed in Kubernetes: the role's password, and then the file.
#[tokio::test]
async fn a_password_is_changed_under_a_server_that_reads_its_url_from_a_file() {
    let postgres = postgres::Server::start();
    let database = Database::create_in(&postgres.url, "").await;
    migrate(&database.url, false).await.unwrap();
    database.execute("CREATE ROLE app LOGIN SUPERUSER PASSWORD 'first'").await;
    database
        .execute(
            "DO $$ BEGIN EXECUTE format('COPY (VALUES (''host all app all scram-sha-256''), (''local all all trust''), \
             (''host all all all trust'')) TO %L', current_setting('hba_file')); END $$",
        )
        .await;
    database.execute("SELECT pg_reload_conf()").await;
    let (_, address) = database.url.split_once('@').unwrap();
    let url = |password: &str| format!("postgres://app:{password}@{address}\n");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("url");
    let write = |password: &str| {
        // In one step, as the kubelet does.
        let next = dir.path().join("next");
        std::fs::write(&next, url(password)).unwrap();
        std::fs::rename(next, &file).unwrap();
    };
    write("first");
    let options = PostgresOptions {
        url: read_url(&file).unwrap(),
        url_file: Some(file.clone()),
        connections_max: 5,
        poll_interval: Duration::from_secs(3_600),
    };
    let store = PostgresStore::open(&options, &Registry::new()).unwrap();
    until("it connects", async || store.definitions().await.is_ok()).await;
    database.execute("ALTER ROLE app PASSWORD 'second'").await;
    database.cut_connections().await;
    until("it is refused", async || {
        store.definitions().await.is_err_and(|error| error.to_string().contains("password"))
    })
    .await;
    // Unusable URLs are ignored.
    std::fs::write(&file, "postgres://app:second@elsewhere/other").unwrap();
    assert!(store.definitions().await.is_err());
    write("second");
    until("it connects again", async || store.definitions().await.is_ok()).await;
    store.create_feature(new_feature("seen", 60), context()).await.unwrap();
}

pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(Instant::now() < patience, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_never_downgraded() {
    let database = of_the_future(NEWEST + 1).await;
    let newer = SchemaState::Newer { found: NEWEST + 1, known: NEWEST, served_from: Some(NEWEST + 1) };
    assert_eq!(inspect(&database.url).await.unwrap().schema, newer);
    let error = migrate(&database.url, false).await.unwrap_err();
    assert!(matches!(error, MigrateError::Refused(state) if state == newer));
    let error = store(&database.url).definitions().await.unwrap_err();
    assert!(error.to_string().contains(&format!("newer than this server's {NEWEST}")), "{error}");
    let reported = format!("run a newer liststore that supports version {}", NEWEST + 1);
    assert!(error.to_string().contains(&reported), "{error}");
}

/// A newer release migrated the database, and was then rolled back.
#[tokio::test]
async fn a_newer_compatible_schema_is_served() {
    let database = of_the_future(NEWEST).await;
    let found = inspect(&database.url).await.unwrap().schema;
    assert_eq!(found, SchemaState::NewerServed { found: NEWEST + 1, known: NEWEST });
    assert!(found.is_served());
    let store = store(&database.url);
    let created = store.create_feature(new_feature("seen", 60), context()).await.unwrap();
    assert_eq!(store.definitions().await.unwrap().features, [created]);
    assert_eq!(migrate(&database.url, false).await.unwrap().steps, []);
}

/// A database with the migration of a later release, with which servers of the schema `served_from` can
/// work.
async fn of_the_future(served_from: i64) -> Database {
    let database = Database::migrated().await;
    database
        .execute(&format!(
            "INSERT INTO liststore_schema_migration VALUES ({}, 'of the future', now(), true, '\\x00', 1)",
            NEWEST + 1
        ))
        .await;
    database.execute(&format!("UPDATE liststore_schema_compatibility SET served_from = {served_from}")).await;
    database
}

#[tokio::test]
async fn a_schema_of_other_migrations_is_refused() {
    let database = Database::migrated().await;
    database.execute("UPDATE liststore_schema_migration SET checksum = '\\x00'").await;
    let error = migrate(&database.url, false).await.unwrap_err();
    assert!(matches!(error, MigrateError::Refused(SchemaState::Foreign { version: 1 })), "{error:?}");
}

#[tokio::test]
async fn a_database_that_cannot_hold_all_texts_is_refused() {
    let database = Database::create_with("ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0").await;
    let error = migrate(&database.url, false).await.unwrap_err();
    assert!(error.to_string().contains("LATIN1"), "{error}");
}

#[tokio::test]
async fn a_malformed_url_is_refused_without_being_shown() {
    let error = migrate("postgres://me:hunter2@[::bad/x", true).await.unwrap_err();
    assert!(matches!(error, MigrateError::Store(MetadataError::Unavailable { .. })));
    assert!(!error.to_string().contains("hunter2"));
}

#[tokio::test]
async fn every_table_and_column_is_explained() {
    let database = Database::migrated().await;
    let silent: Vec<String> = sqlx::query(
        "SELECT table_name || '.' || column_name FROM information_schema.columns \
         WHERE table_schema = 'public' AND col_description((table_schema || '.' || table_name)::regclass, ordinal_position) IS NULL \
         UNION ALL SELECT tablename FROM pg_tables \
         WHERE schemaname = 'public' AND obj_description(tablename::regclass) IS NULL",
    )
    .fetch_all(&mut database.connect().await)
    .await
    .unwrap()
    .iter()
    .map(|row| row.get(0))
    .collect();
    assert_eq!(silent, Vec::<String>::new());
    let tables = sqlx::query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        .fetch_one(&mut database.connect().await)
        .await
        .unwrap();
    assert_eq!(tables.get::<i64, _>(0), 11);
}
