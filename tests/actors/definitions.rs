//! The metadata actor and its catalog on a store that other servers share, which changes, stalls and
//! fails on demand. `--test postgres` has the same on a real database.

use std::sync::Arc;
use std::time::Duration;

use liststore::actors::{MetadataHandle, MetadataOptions, RefreshOptions, ResolveError};
use liststore::definition::VersionProperties;
use liststore::domain::{Author, EntityType, FeatureId, FeatureName, Ttl, ValueType};
use liststore::metadata::{Change, MetadataError, NewFeature, News};
use tokio::time::Instant;

use crate::elsewhere::SharedStore;
use crate::faulty::Faults;
use crate::until;

/// Bounds that only tests of the bounds reach.
pub fn options() -> MetadataOptions {
    let (millis, secs) = (Duration::from_millis, Duration::from_secs);
    let refresh = RefreshOptions {
        retry_delay_max: secs(2),
        look_ups_max: 5,
        look_up_interval: millis(200),
        look_up_wait_max: secs(60),
    };
    MetadataOptions { permits: 64, timeout: secs(60), refresh, in_step_for: millis(5_000), stored: None }
}

pub fn id(name: &str) -> FeatureId {
    FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new(name).unwrap() }
}

pub fn new_feature(name: &str) -> NewFeature {
    NewFeature {
        id: id(name),
        value_type: ValueType::String,
        properties: VersionProperties { ttl: Ttl::MIN, ..VersionProperties::default() },
        description: Default::default(),
        owner: Default::default(),
        labels: Default::default(),
    }
}

/// A handle whose catalog has been read once.
async fn started(store: &Arc<SharedStore>) -> MetadataHandle {
    let clock = Arc::new(Faults::default());
    let handle = MetadataHandle::start(Arc::clone(store) as Arc<_>, clock, options()).await.unwrap();
    until("the catalog is loaded", || handle.catalog().snapshot().is_some()).await;
    handle
}

pub async fn resolve(handle: &MetadataHandle, name: &str) -> Result<(), ResolveError> {
    handle.resolve("user", name, "", Instant::now() + Duration::from_secs(60)).await.map(|_| ())
}

pub fn knows(handle: &MetadataHandle, name: &str) -> bool {
    handle.catalog().version("user", name, "").is_ok()
}

#[actix::test]
async fn a_feature_created_elsewhere_is_found_without_a_notification() {
    let store = Arc::new(SharedStore::new(true));
    let handle = started(&store).await;
    for number in 0..3 {
        let name = format!("f{number}");
        assert_eq!(resolve(&handle, &name).await, Err(ResolveError::FeatureNotFound));
        store.create_elsewhere(new_feature(&name)).await;
        assert_eq!(resolve(&handle, &name).await, Ok(()), "{name}");
    }
    handle.stop(Duration::from_secs(60)).await;
}

#[actix::test]
async fn known_features_and_local_only_features_are_not_looked_up() {
    for shared in [true, false] {
        let store = Arc::new(SharedStore::new(shared));
        let handle = started(&store).await;
        handle.apply(Change::CreateFeature(new_feature("seen")), Author::anonymous()).await.unwrap();
        for _ in 0..3 {
            assert_eq!(resolve(&handle, "seen").await, Ok(()));
            if !shared {
                assert_eq!(resolve(&handle, "nowhere").await, Err(ResolveError::FeatureNotFound));
            }
        }
        assert_eq!((store.full_readings(), store.readings_of_changes()), (1, 0), "shared: {shared}");
        handle.stop(Duration::from_secs(60)).await;
    }
}

/// Five at once and then five a second, for all callers together. Each still gets its answer.
#[actix::test]
async fn look_ups_for_unknown_features_are_spread_out() {
    let store = Arc::new(SharedStore::new(true));
    let handle = started(&store).await;
    let began = Instant::now();
    for _ in 0..8 {
        assert_eq!(resolve(&handle, "nowhere").await, Err(ResolveError::FeatureNotFound));
    }
    assert!(began.elapsed() >= Duration::from_millis(3 * 200), "{:?}", began.elapsed());
    assert_eq!(store.readings_of_changes(), 8);
    handle.stop(Duration::from_secs(60)).await;
}

#[actix::test]
async fn a_crowd_is_answered_by_few_look_ups() {
    let store = Arc::new(SharedStore::new(true));
    let handle = started(&store).await;
    let began = Instant::now();
    for _ in 0..3 {
        let answers = futures_util::future::join_all((0..1_000).map(|_| resolve(&handle, "nowhere"))).await;
        assert!(answers.iter().all(|answer| *answer == Err(ResolveError::FeatureNotFound)));
    }
    let looked_up = store.readings_of_changes();
    assert!(looked_up as u128 <= 5 + began.elapsed().as_millis() / 200, "{looked_up} in {:?}", began.elapsed());
    handle.stop(Duration::from_secs(60)).await;
}

#[actix::test]
async fn a_failed_look_up_is_not_reported_as_missing() {
    let store = Arc::new(SharedStore::new(true));
    let handle = started(&store).await;
    store.be_unreadable(true);
    let answer = resolve(&handle, "nowhere").await;
    assert_eq!(answer, Err(ResolveError::Unavailable { reason: "unreadable".into() }));
    store.be_unreadable(false);
    assert_eq!(resolve(&handle, "nowhere").await, Err(ResolveError::FeatureNotFound));
    handle.stop(Duration::from_secs(60)).await;
}

#[actix::test]
async fn notifications_lead_to_reading_changes_and_missed_ones_to_a_full_read() {
    let store = Arc::new(SharedStore::new(true));
    let handle = started(&store).await;
    store.create_elsewhere(new_feature("reported")).await;
    store.notify(News::Changed).await;
    until("the change is known", || knows(&handle, "reported")).await;
    assert_eq!((store.full_readings(), store.readings_of_changes()), (1, 1));
    store.create_elsewhere(new_feature("missed")).await;
    store.notify(News::Missed).await;
    until("everything is known", || knows(&handle, "missed")).await;
    assert_eq!((store.full_readings(), store.readings_of_changes()), (2, 1));
    handle.stop(Duration::from_secs(60)).await;
}

/// Otherwise a missed change would stay missed.
#[actix::test]
async fn a_failed_full_read_is_repeated_as_a_full_read() {
    let store = Arc::new(SharedStore::new(true));
    let handle = started(&store).await;
    store.be_unreadable(true);
    store.notify(News::Missed).await;
    until("it was tried again and again", || store.full_readings() >= 3).await;
    assert_eq!(handle.unavailable_reason().as_deref().map(String::as_str), Some("unreadable"));
    store.be_unreadable(false);
    until("it can be read again", || handle.unavailable_reason().is_none()).await;
    assert_eq!(store.readings_of_changes(), 0);
    handle.stop(Duration::from_secs(60)).await;
}

#[actix::test]
async fn a_successful_call_does_not_hide_a_stale_catalog() {
    let store = Arc::new(SharedStore::new(true));
    let handle = started(&store).await;
    store.be_unreadable(true);
    store.notify(News::Changed).await;
    until("the trouble shows", || handle.unavailable_reason().is_some()).await;
    assert_eq!(handle.feature(id("seen")).await.unwrap(), None);
    assert!(handle.unavailable_reason().is_some());
    handle.stop(Duration::from_secs(60)).await;
}

#[actix::test]
async fn a_change_waits_for_earlier_changes() {
    let store = Arc::new(SharedStore::new(false));
    let handle = started(&store).await;
    store.stall(true);
    let first = handle.apply(Change::CreateFeature(new_feature("first")), Author::anonymous());
    let second = async {
        until("the first is being made", || store.creations_begun() == 1).await;
        let second = handle.apply(Change::CreateFeature(new_feature("second")), Author::anonymous());
        let release = async {
            // Long enough for the second to have come to the first's lock; it only must not be refused.
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(store.creations_begun(), 1, "changes are made one after another");
            store.stall(false);
        };
        tokio::join!(second, release).0
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_ok() && second.is_ok(), "{first:?}, {second:?}");
    assert!(knows(&handle, "first") && knows(&handle, "second"));
    handle.stop(Duration::from_secs(60)).await;
}

/// They arrive during another change. A refused one has no effect on the others.
#[actix::test]
async fn waiting_changes_are_made_together_and_answered_separately() {
    let store = Arc::new(SharedStore::new(false));
    let handle = started(&store).await;
    store.stall(true);
    let create = |name| handle.apply(Change::CreateFeature(new_feature(name)), Author::anonymous());
    let waiting = async {
        until("the first is being made", || store.creations_begun() == 1).await;
        let release = async { store.stall(false) };
        let changes = futures_util::future::join_all(["a", "b", "a", "first", "c"].map(create));
        tokio::join!(changes, release).0
    };
    let (first, others) = tokio::join!(create("first"), waiting);
    assert!(first.is_ok(), "{first:?}");
    let made: Vec<_> = others.iter().map(|made| made.as_ref().map(|made| made.revision.0).ok()).collect();
    assert_eq!(made, [Some(2), Some(3), None, None, Some(4)]);
    for refused in [&others[2], &others[3]] {
        assert!(matches!(refused, Err(MetadataError::FeatureExists(_))), "{refused:?}");
    }
    assert_eq!(store.together(), [1, 5]);
    assert!(["first", "a", "b", "c"].iter().all(|name| knows(&handle, name)));
    handle.stop(Duration::from_secs(60)).await;
}

#[actix::test]
async fn stopping_closes_the_store_and_refuses_later_calls() {
    let store = Arc::new(SharedStore::new(false));
    let handle = started(&store).await;
    handle.stop(Duration::from_secs(60)).await;
    assert!(store.is_closed());
    let refused = handle.apply(Change::CreateFeature(new_feature("late")), Author::anonymous()).await;
    assert!(matches!(refused, Err(MetadataError::Unavailable { outcome_unknown: false, .. })), "{refused:?}");
    assert_eq!(store.creations_begun(), 0);
}

/// A server that cannot read its definitions is not ready, and its own change does not create a catalog.
#[actix::test]
async fn a_local_change_creates_no_catalog_without_a_read() {
    let store = Arc::new(SharedStore::new(true));
    store.be_unreadable(true);
    let clock = Arc::new(Faults::default());
    let handle = MetadataHandle::start(Arc::clone(&store) as Arc<_>, clock, options()).await.unwrap();
    until("it was tried", || store.full_readings() >= 1).await;
    handle.apply(Change::CreateFeature(new_feature("seen")), Author::anonymous()).await.unwrap();
    assert!(handle.catalog().snapshot().is_none());
    assert!(matches!(resolve(&handle, "seen").await, Err(ResolveError::Unavailable { .. })));
    store.be_unreadable(false);
    until("the catalog is loaded", || knows(&handle, "seen")).await;
    handle.stop(Duration::from_secs(60)).await;
}

/// Either once ended all reading: the server continued permanently with its old definitions.
#[actix::test]
async fn the_actor_restarts_when_the_task_of_the_catalog_has_died() {
    let store = Arc::new(SharedStore::new(true));
    let handle = started(&store).await;
    store.panic_in_news();
    until("a fresh actor was started", || handle.restarts() == 1).await;
    store.create_elsewhere(new_feature("first")).await;
    until("it can be reported again", || handle.unavailable_reason().is_none()).await;
    store.notify(News::Changed).await;
    until("the change is known", || knows(&handle, "first")).await;

    store.panic_in_reading();
    store.create_elsewhere(new_feature("second")).await;
    store.notify(News::Missed).await;
    until("a fresh actor was started again", || handle.restarts() == 2).await;
    until("what was about to be read is read", || knows(&handle, "second")).await;
    until("no trouble is left", || handle.unavailable_reason().is_none()).await;
    handle.apply(Change::CreateFeature(new_feature("third")), Author::anonymous()).await.unwrap();
    assert!(knows(&handle, "third"));
    handle.stop(Duration::from_secs(5)).await;
    assert!(store.is_closed());
}
