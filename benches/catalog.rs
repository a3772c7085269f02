//! The catalog on the list path: a look-up, and a reload during which reads continue.
//!
//! `cargo bench --bench catalog`. The reload reads from a real Postgres, and is skipped if
//! `LISTSTORE_TEST_POSTGRES_URL` (a superuser's URL) is not set.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints what it measures, and fails by panicking"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use liststore::definition::VersionProperties;
use liststore::definition::{Feature, FeatureVersion};
use liststore::domain::{
    EntityType, FeatureId, FeatureName, Generation, Revision, Timestamp, Ttl, ValueType, VersionLabel,
};
use liststore::metadata::postgres::{PostgresOptions, PostgresStore, migrate};
use liststore::metadata::{Catalog, Definitions, MetadataStore};
use prometheus::Registry;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

const FEATURES: usize = 10_000;
const LABELS: [&str; 5] = ["", "v2", "v3", "2024-08", "experiment/b"];
const LOOK_UPS: usize = 2_000_000;
/// Of the reload: 10,000 features with 6 versions each.
const RELOADED_VERSIONS: usize = 6;

fn name(number: usize) -> String {
    format!("feature_number_{number}")
}

fn feature(number: usize) -> Feature {
    let (ttl, at) = (Ttl::MAX, Timestamp::MIN);
    let version = |label| FeatureVersion {
        version: VersionLabel::new(label).unwrap(),
        properties: VersionProperties { ttl, ..VersionProperties::default() },
        index: None,
        description: Default::default(),
        created_at: at,
        generation: Generation::FIRST,
        ttl_max: ttl,
        revision: Revision(1),
    };
    Feature {
        id: FeatureId {
            entity_type: EntityType::new(["user", "story", "session"][number % 3]).unwrap(),
            name: FeatureName::new(&name(number)).unwrap(),
        },
        value_type: ValueType::String,
        description: Default::default(),
        owner: Default::default(),
        labels: Default::default(),
        versions: LABELS.iter().map(|label| version(label)).collect(),
        created_at: at,
        updated_at: at,
        ttl_max: ttl,
        revision: Revision(1),
    }
}

fn main() {
    let features: Vec<_> = (0..FEATURES).map(feature).collect();
    let catalog = Catalog::default();
    let began = Instant::now();
    catalog.publish(&Definitions { revision: Revision(1), features: features.clone() }, Timestamp::MIN);
    println!("publish {FEATURES} features x {} versions   {:?}", LABELS.len(), began.elapsed());
    look_ups(&catalog);
    let began = Instant::now();
    for (number, feature) in features.iter().enumerate().take(1_000) {
        let _ = catalog.publish_change(Revision(2 + number as u64), &feature.id, Some(feature), Timestamp::MIN);
    }
    println!("publish one change                       {:?}", began.elapsed() / 1_000);
    match std::env::var("LISTSTORE_TEST_POSTGRES_URL") {
        Ok(url) => tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(reload(&url)),
        Err(_) => println!("reload: left out, since LISTSTORE_TEST_POSTGRES_URL is not set"),
    }
}

/// Look-ups of versions in no order: of all alike, so that caches help little, and of some more often
/// than of others (Zipf's law, exponent 1), as callers do.
fn look_ups(catalog: &Catalog) {
    let versions = (FEATURES * LABELS.len()) as f64;
    time_look_ups("look-up, all versions alike", catalog, |random| random.random_range(0.0..versions));
    let popular = Zipf::new(versions, 1.0).unwrap();
    time_look_ups("look-up, some more popular", catalog, |random| popular.sample(random) - 1.0);
    let began = Instant::now();
    for _ in 0..LOOK_UPS {
        black_box(catalog.version("user", "no_such_feature", "").unwrap_err());
    }
    println!("look-up of what is not there             {:?}", began.elapsed() / LOOK_UPS as u32);
}

fn time_look_ups(what: &str, catalog: &Catalog, pick: impl Fn(&mut SmallRng) -> f64) {
    let features: Vec<_> = (0..FEATURES).map(feature).collect();
    let mut random = SmallRng::seed_from_u64(1);
    // In memory in the order of the requests, as in a server.
    let asked: Vec<_> = (0..LOOK_UPS)
        .map(|_| {
            // Scattered, so that popular versions are not neighbours.
            let number = pick(&mut random) as usize * 7_919 % (FEATURES * LABELS.len());
            let FeatureId { entity_type, name } = &features[number / LABELS.len()].id;
            (entity_type.to_string(), name.to_string(), LABELS[number % LABELS.len()])
        })
        .collect();
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        for (entity_type, name, label) in &asked {
            black_box(catalog.version(entity_type, name, label).unwrap());
        }
        rounds.push(began.elapsed() / LOOK_UPS as u32);
    }
    rounds.sort();
    println!("{what:<40} {:?} median of 5 rounds (goal: 200 ns)", rounds[2]);
}

/// Reads 60,000 versions from Postgres into the catalog, while a reader counts how it fares.
async fn reload(server: &str) {
    let database = format!("bench_{}", std::process::id());
    let url = format!("{}/{database}", server.rsplit_once('/').unwrap().0);
    let mut admin = PgConnection::connect(server).await.unwrap();
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {database}"))).await.unwrap();
    migrate(&url, false).await.unwrap();
    fill(&url).await;
    let options = PostgresOptions { url, url_file: None, connections_max: 2, poll_interval: Duration::from_secs(5) };
    let store = PostgresStore::open(&options, &Registry::new()).unwrap();
    let catalog = Catalog::default();
    catalog.publish(&store.definitions().await.unwrap(), Timestamp::MIN);
    for _ in 0..3 {
        let stop = Arc::new(AtomicBool::new(false));
        let reader = std::thread::spawn({
            let (catalog, stop) = (catalog.clone(), Arc::clone(&stop));
            move || watch(&catalog, &stop)
        });
        let began = Instant::now();
        let definitions = store.definitions().await.unwrap();
        let read = began.elapsed();
        catalog.publish(&definitions, Timestamp::MIN);
        let all = began.elapsed();
        stop.store(true, Ordering::Relaxed);
        let lookups = reader.join().unwrap();
        println!(
            "reload of {} versions                {all:?} (goal: 1 s): reading {read:?}, publishing {:?}",
            definitions.features.iter().map(|feature| feature.versions.len()).sum::<usize>(),
            all - read,
        );
        println!("    look-ups during the reload: {lookups}");
    }
    store.close().await;
    admin.execute(AssertSqlSafe(format!("DROP DATABASE {database} WITH (FORCE)"))).await.unwrap();
}

async fn fill(url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let versions = (0..RELOADED_VERSIONS).map(|v| if v == 0 { String::new() } else { format!("v{v}") });
    let versions = versions.map(|version| {
        format!(
            r#"{{"version": "{version}", "ttl": "1m", "description": "a version", "generation": 1, "revision": 1,
                "created_at": "1970-01-01T00:00:00Z", "ttl_max": "1m"}}"#
        )
    });
    let versions = versions.collect::<Vec<_>>().join(",");
    let sql = format!(
        "INSERT INTO list_feature (entity_type, name, definition) \
         SELECT 'user', name, jsonb_build_object('format', 1, 'entity_type', 'user', 'name', name, \
             'value_type', 'string', 'description', repeat('what it is for ', 5), 'owner', 'team', \
             'labels', '{{\"tier\": \"gold\"}}'::jsonb, 'versions', '[{versions}]'::jsonb, \
             'created_at', '1970-01-01T00:00:00Z', 'updated_at', '1970-01-01T00:00:00Z', 'ttl_max', '1m', 'revision', 1) \
         FROM (SELECT 'feature_number_' || i AS name FROM generate_series(1, {FEATURES}) i) AS names; \
         UPDATE metadata_revision SET revision = 1; ANALYZE"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
}

/// Looks up without a pause until it is stopped.
fn watch(catalog: &Catalog, stop: &AtomicBool) -> String {
    let (mut count, mut above_10_us, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
    let names: Vec<_> = (1..=FEATURES).map(name).collect();
    for name in names.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        black_box(catalog.version("user", name, "v1").unwrap());
        let taken = began.elapsed();
        count += 1;
        above_10_us += u64::from(taken > Duration::from_micros(10));
        slowest = slowest.max(taken);
    }
    format!("{count}, of them {above_10_us} slower than 10 us, the slowest {slowest:?}")
}
