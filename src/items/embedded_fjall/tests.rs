//! What the store does with directories that it cannot trust, and with the space of expired rows.

use std::fs;
use std::path::Path;
use std::sync::PoisonError;

use tokio::time::Instant;

use super::*;
use crate::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, ListKey, ManualClock, NewItem, Timestamp,
    Ttl, VersionLabel,
};
use crate::items::Operation;

const NANOS: u64 = 1_000_000_000;

fn at(secs: u64) -> Timestamp {
    Timestamp::from_nanos(secs * NANOS).unwrap()
}

fn options(dir: &Path, clock: &Arc<ManualClock>) -> Options {
    let clock: Arc<dyn Clock> = clock.clone();
    Options { dir: dir.to_owned(), fsync: Fsync::Group, cache_bytes: 32 << 20, clock }
}

fn try_open(dir: &Path) -> Result<FjallStore, OpenError> {
    open(options(dir, &Arc::default()), &Registry::new())
}

fn list() -> ListKey {
    let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("f").unwrap() };
    let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
    ListKey::new(key, EntityId::new("u").unwrap())
}

async fn add(store: &FjallStore, secs: u64, ttl_secs: u64, value: &str) {
    let ttl = Ttl::from_secs(ttl_secs).unwrap();
    let op = Operation { now: at(secs), ttl, deadline: Instant::now() + Duration::from_secs(60) };
    let item =
        NewItem { timestamp: at(secs), value: value.as_bytes().to_vec().into(), expires_at: ttl.expiry_of(at(secs)) };
    store.open_session().await.unwrap().add(&op, &list(), vec![item]).await.unwrap();
}

#[tokio::test]
async fn a_second_opener_is_told_that_the_directory_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let first = try_open(dir.path()).unwrap();
    let refusal = try_open(dir.path()).err().unwrap();
    assert!(matches!(refusal, OpenError::Locked { .. }), "{refusal}");
    first.close().await.unwrap();
    try_open(dir.path()).unwrap().close().await.unwrap();
}

#[tokio::test]
async fn foreign_and_newer_directories_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let items = dir.path().join("items");
    fs::create_dir(&items).unwrap();
    fs::write(items.join("theirs"), "precious").unwrap();
    let refusal = try_open(dir.path()).err().unwrap();
    assert!(matches!(refusal, OpenError::Foreign { .. }), "{refusal}");
    assert_eq!(fs::read(items.join("theirs")).unwrap(), b"precious");
    fs::remove_file(items.join("theirs")).unwrap();

    try_open(dir.path()).unwrap().close().await.unwrap();
    let mark = items.join("FORMAT");
    let ours = fs::read_to_string(&mark).unwrap();
    assert_eq!(ours, "liststore items, fjall, format 1\n");
    fs::write(&mark, ours.replace('1', "2")).unwrap();
    let refusal = try_open(dir.path()).err().unwrap();
    assert!(matches!(refusal, OpenError::Newer { found: 2, .. }), "{refusal}");
    for foreign in ["", "something else", "liststore items, fjall, format x", "\u{0}\u{1}"] {
        fs::write(&mark, foreign).unwrap();
        let refusal = try_open(dir.path()).err().unwrap();
        assert!(matches!(refusal, OpenError::Foreign { .. }), "{foreign:?}: {refusal}");
    }
    fs::write(&mark, [0xff, 0xfe]).unwrap();
    assert!(matches!(try_open(dir.path()), Err(OpenError::Foreign { .. })));
    // Data without a mark is not taken for a fresh start.
    fs::remove_file(&mark).unwrap();
    assert!(matches!(try_open(dir.path()), Err(OpenError::Foreign { .. })));
    fs::write(&mark, ours).unwrap();
    try_open(dir.path()).unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_first_start_that_was_cut_short_is_made_good() {
    let dir = tempfile::tempdir().unwrap();
    let items = dir.path().join("items");
    // What is left when the process dies while the engine makes its first files.
    fs::create_dir_all(items.join("fjall/keyspaces")).unwrap();
    fs::write(items.join("fjall/0.jnl"), [0; 100]).unwrap();
    fs::write(items.join("FORMAT.unfinished"), "").unwrap();
    try_open(dir.path()).unwrap().close().await.unwrap();
    assert!(items.join("FORMAT").exists() && !items.join("FORMAT.unfinished").exists());
}

#[tokio::test]
async fn compaction_reclaims_rows_and_index_rows_once_they_have_expired() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(at(1_000)));
    let store = open(options(dir.path(), &clock), &Registry::new()).unwrap();
    let rows_left = || {
        let engine = store.shared.engine.read().unwrap_or_else(PoisonError::into_inner);
        engine.as_ref().unwrap().compact().unwrap()
    };
    add(&store, 1_000, 10, "brief").await;
    add(&store, 1_000, 100_000, "long").await;
    // Overwritten by a shorter life: the longer one must not come back with the purge.
    add(&store, 1_000, 50_000, "shortened").await;
    assert_eq!(rows_left(), 6);
    add(&store, 1_000, 20, "shortened").await;
    assert_eq!(rows_left(), 6);
    clock.set(at(1_010 + 59));
    assert_eq!(rows_left(), 6, "within the slack");
    clock.set(at(1_010 + 60));
    assert_eq!(rows_left(), 4);
    clock.set(at(1_020 + 60));
    assert_eq!(rows_left(), 2);
    clock.set(at(1_000));
    assert_eq!(rows_left(), 2, "the clock stepped back, and a shortened life was lengthened");
    store.close().await.unwrap();
}

#[tokio::test]
async fn metrics_tell_of_groups_and_fsyncs() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let store = open(options(dir.path(), &Arc::default()), &registry).unwrap();
    for n in 0..3 {
        add(&store, 1_000, 10, &n.to_string()).await;
    }
    let families = registry.gather();
    let family = |name: &str| families.iter().find(|family| family.name() == name).unwrap().get_metric()[0].clone();
    assert_eq!(family("liststore_items_commit_groups_total").get_counter().get_value(), 3.0);
    let sizes = family("liststore_items_commit_group_size");
    assert_eq!((sizes.get_histogram().get_sample_count(), sizes.get_histogram().get_sample_sum()), (3, 3.0));
    assert_eq!(family("liststore_items_fsync_seconds").get_histogram().get_sample_count(), 3);
    assert!(family("liststore_items_disk_bytes").get_gauge().get_value() > 0.0);
    store.close().await.unwrap();
}
