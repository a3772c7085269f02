//! The copy of the catalog that a server starts with while its metadata store cannot be read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use liststore::access::token::Secret;
use liststore::actors::{MetadataHandle, MetadataOptions, ResolveError, StoredCatalogOptions};
use liststore::domain::{Author, KeyName, RateLimits, Role, Scope};
use liststore::metadata::Change;
use liststore::metadata::keys::KeyChange;
use liststore::metadata::snapshot_file::SnapshotFile;

use crate::definitions::{knows, new_feature, options, resolve};
use crate::elsewhere::SharedStore;
use crate::faulty::Faults;
use crate::until;

fn kept_in(dir: &Path, age_max: Duration) -> MetadataOptions {
    let file = SnapshotFile::new(dir, "this test".to_owned());
    MetadataOptions { stored: Some(StoredCatalogOptions { file, age_max }), ..options() }
}

async fn started_kept(store: &Arc<SharedStore>, dir: &Path, age_max: Duration) -> MetadataHandle {
    let clock = Arc::new(Faults::default());
    MetadataHandle::start(Arc::clone(store) as Arc<_>, clock, kept_in(dir, age_max)).await.unwrap()
}

fn creation(secret: &Secret) -> KeyChange {
    KeyChange::Create {
        id: secret.id,
        hash: secret.hash(),
        name: KeyName::new("feed").unwrap(),
        roles: vec![Role::Reader],
        scopes: vec![Scope::all()],
        limits: RateLimits::default(),
        expires_at: None,
    }
}

/// Its lists once answered 503 until the store was back.
#[actix::test]
async fn a_server_that_starts_without_its_store_serves_its_copy() {
    let dir = tempfile::tempdir().unwrap();
    let age_max = Duration::from_secs(60);
    let store = Arc::new(SharedStore::new(true));
    let first = started_kept(&store, dir.path(), age_max).await;
    until("the catalog is loaded", || first.catalog().snapshot().is_some()).await;
    first.apply(Change::CreateFeature(new_feature("seen")), Author::anonymous()).await.unwrap();
    let file = SnapshotFile::new(dir.path(), "this test".to_owned());
    let secret = Secret::generate().unwrap();
    first.change_key(creation(&secret), Author::anonymous()).await.unwrap();
    let is_kept = || {
        file.read().is_ok_and(|(catalog, keys)| {
            catalog.version("user", "seen", "").is_ok() && keys.keys.iter().any(|key| key.id == secret.id)
        })
    };
    until("it is kept", is_kept).await;
    first.stop(Duration::from_secs(5)).await;

    store.create_elsewhere(new_feature("later")).await;
    store.be_unreadable(true);
    let second = started_kept(&store, dir.path(), age_max).await;
    until("the stored definitions are served", || knows(&second, "seen")).await;
    assert!(second.catalog().snapshot().unwrap().is_stored());
    assert!(second.unavailable_reason().is_some() && second.stored_as_of().is_some());
    assert!(matches!(resolve(&second, "later").await, Err(ResolveError::Unavailable { .. })), "it may be there");
    store.be_unreadable(false);
    let is_read = || !second.catalog().snapshot().unwrap().is_stored() && second.unavailable_reason().is_none();
    until("the store is read", is_read).await;
    assert!(knows(&second, "later") && knows(&second, "seen"));
    second.stop(Duration::from_secs(5)).await;
}

/// Like a copy from before a deletion and a new creation of the same name: it is useless if the store can answer.
#[actix::test]
async fn a_copy_never_replaces_a_readable_store() {
    let dir = tempfile::tempdir().unwrap();
    let kept = SharedStore::new(true);
    kept.create_elsewhere(new_feature("stale")).await;
    let first = started_kept(&Arc::new(kept), dir.path(), Duration::from_secs(60)).await;
    let file = SnapshotFile::new(dir.path(), "this test".to_owned());
    until("it is kept", || file.read().is_ok()).await;
    first.stop(Duration::from_secs(5)).await;
    let store = Arc::new(SharedStore::new(true));
    let second = started_kept(&store, dir.path(), Duration::from_secs(60)).await;
    until("the catalog is loaded", || second.catalog().snapshot().is_some()).await;
    assert!(!knows(&second, "stale") && !second.catalog().snapshot().unwrap().is_stored());
    second.stop(Duration::from_secs(5)).await;
}
