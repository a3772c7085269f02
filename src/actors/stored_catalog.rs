//! Stores the catalog on disk, and serves it if the metadata store cannot be read at the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::access::KeyRing;
use crate::domain::{Revision, Timestamp};
use crate::metadata::Catalog;
use crate::metadata::keys::Keys;
use crate::metadata::snapshot_file::{AGE_INTERVAL, SnapshotError, SnapshotFile};

/// The minimum time between two writes of the file.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Where the catalog is stored, and its maximum age at a start.
#[derive(Debug, Clone)]
pub struct StoredCatalogOptions {
    pub file: SnapshotFile,
    pub age_max: Duration,
}

pub(super) struct StoredCatalog {
    options: StoredCatalogOptions,
    /// Whether this process has already tried to read the file.
    tried: AtomicBool,
    /// Wakes the task that writes.
    wake: Notify,
    /// When the definitions in the file last matched the store. `None` before a file was written or read.
    synced_at: ArcSwapOption<Timestamp>,
}

impl StoredCatalog {
    pub fn new(options: StoredCatalogOptions) -> Arc<Self> {
        let (tried, wake, synced_at) = (AtomicBool::new(false), Notify::new(), ArcSwapOption::empty());
        Arc::new(Self { options, tried, wake, synced_at })
    }

    /// The time of the definitions in the file, if there is one.
    pub fn synced_at(&self) -> Option<Timestamp> {
        self.synced_at.load().as_deref().copied()
    }

    /// Schedules a write of the file.
    pub fn schedule_write(&self) {
        self.wake.notify_one();
    }

    /// Publishes the catalog of an earlier process, if none was read yet. Tried once in a process, because a refused
    /// file stays refused.
    pub async fn publish_stored(&self, catalog: &Catalog, ring: &KeyRing, now: Timestamp) {
        if catalog.snapshot().is_some() || self.tried.swap(true, Ordering::Relaxed) {
            return;
        }
        let file = self.options.file.clone();
        let path = file.path().display().to_string();
        let read = match tokio::task::spawn_blocking(move || file.read()).await {
            Ok(read) => read,
            Err(_) => Err(SnapshotError::Damaged("cannot read it")),
        };
        let (snapshot, keys) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(path, reason = %error, "cannot use the definitions snapshot on disk in place of the \
                                                       metadata store");
                return;
            }
        };
        let age_secs = age_of(snapshot.synced_at(), now).as_secs();
        if age_secs > self.options.age_max.as_secs() {
            let age_secs_max = self.options.age_max.as_secs();
            tracing::warn!(path, age_secs, age_secs_max, "the definitions snapshot on disk is too old to use");
            return;
        }
        self.synced_at.store(Some(Arc::new(snapshot.synced_at())));
        ring.publish_stored(keys.revision, keys.keys);
        if catalog.publish_stored(snapshot) {
            tracing::warn!(
                path,
                age_secs,
                "serving lists from the definitions snapshot on disk until the metadata store is available"
            );
        }
    }

    /// Writes the catalog after each change, as long as the actor lives.
    pub async fn save_changes(self: Arc<Self>, catalog: Catalog, ring: KeyRing) {
        // The state that the file has, and when it last matched the store.
        let mut written: Option<([Revision; 3], Timestamp)> = None;
        let mut fails = false;
        loop {
            self.wake.notified().await;
            let Some(snapshot) = catalog.snapshot().filter(|snapshot| !snapshot.is_stored()) else { continue };
            // Keys are read before definitions, so a catalog always comes with keys.
            let Some((key_revision, keys)) = ring.keys() else { continue };
            // This server's own change of a key may be later than the keys that it has read.
            let last_change = keys.iter().map(|key| key.revision).fold(key_revision, Revision::max);
            let revisions = [snapshot.revision(), key_revision, last_change];
            let is_known = written.is_some_and(|(known, synced_at)| {
                known == revisions && age_of(synced_at, snapshot.synced_at()) < AGE_INTERVAL
            });
            if is_known {
                continue;
            }
            let keys = keys.iter().map(|key| (**key).clone()).collect();
            let keys = Keys { revision: key_revision, keys };
            let file = self.options.file.clone();
            let write = tokio::task::spawn_blocking(move || file.write(&snapshot, &keys)).await;
            match write.map_err(std::io::Error::other).and_then(|written| written) {
                // Another server writes now. The next reading of the store looks again.
                Ok(None) => {}
                Ok(Some(synced_at)) => {
                    written = Some((revisions, synced_at));
                    self.synced_at.store(Some(Arc::new(synced_at)));
                    if std::mem::take(&mut fails) {
                        let path = self.options.file.path().display();
                        tracing::info!(%path, "definitions snapshot on disk is written again");
                    }
                }
                Err(error) if !fails => {
                    fails = true;
                    let path = self.options.file.path().display();
                    tracing::warn!(
                        %path,
                        %error,
                        "cannot write the definitions snapshot to disk: a start without the metadata store would use \
                         older definitions or none"
                    );
                }
                Err(_) => {}
            }
            sleep(WRITE_INTERVAL).await;
        }
    }
}

fn age_of(then: Timestamp, now: Timestamp) -> Duration {
    Duration::from_nanos(now.as_nanos().saturating_sub(then.as_nanos()))
}
