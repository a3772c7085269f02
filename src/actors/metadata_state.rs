//! The state of the metadata actor: it publishes changes in their order, and reads the catalog from the store.

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use super::refresher::{RefreshExtent, Refresher};
use super::stored_catalog::StoredCatalog;
use super::waiting_changes::WaitingChanges;
use crate::access::KeyRing;
use crate::definition::Feature;
use crate::domain::{Clock, Revision, Timestamp};
use crate::metadata::catalog::{Collected, Published};
use crate::metadata::{Applied, Catalog, MetadataError, MetadataStore};

pub(super) struct MetadataState {
    pub store: Arc<dyn MetadataStore>,
    pub catalog: Catalog,
    /// The API keys in memory.
    pub ring: KeyRing,
    pub clock: Arc<dyn Clock>,
    /// Why the last call could not use the store, if it could not.
    pub unavailable: Arc<ArcSwapOption<String>>,
    /// The time since which the store is unavailable.
    pub unavailable_since: Cell<Option<Instant>>,
    /// Whether the last reading of the catalog failed.
    pub refresh_failed: Cell<bool>,
    /// Held from before a change until it is published.
    pub changing: Mutex<()>,
    /// Changes of definitions that have not begun.
    pub waiting: WaitingChanges,
    pub refresher: Arc<Refresher>,
    /// The catalog on disk for a start without the store, if there is one.
    pub stored: Option<Arc<StoredCatalog>>,
}

impl MetadataState {
    /// Waits until no other change is in progress, and keeps others out while the guard is held.
    pub async fn alone(&self, deadline: Instant) -> Result<MutexGuard<'_, ()>, MetadataError> {
        timeout_at(deadline, self.changing.lock()).await.map_err(|_| MetadataError::Unavailable {
            reason: "earlier changes took too long".to_owned(),
            outcome_unknown: false,
        })
    }

    /// Publishes a change that the store has made.
    pub fn publish(&self, Applied { revision, id, after, is_change, .. }: &Applied) {
        if !is_change {
            // The definition is unchanged, but another server may have changed it before.
            if self.store.is_shared() {
                self.refresher.read_news();
            }
            return;
        }
        let published = self.catalog.publish_change(*revision, id, after.as_ref(), self.clock.now());
        if published == Published::Withheld {
            self.refresher.read_everything();
        }
        if let Some(stored) = &self.stored {
            stored.schedule_write();
        }
    }

    /// Records whether a call could use the store.
    pub fn note<T>(&self, result: &Result<T, MetadataError>) {
        if result.as_ref().is_err_and(MetadataError::outcome_unknown) {
            // Only the store has the outcome.
            self.refresher.read_everything();
        }
        match result {
            Err(MetadataError::Unavailable { reason, .. }) => self.set_unavailable(Some(reason.clone())),
            // After a failed reading, only a reading shows that the store is available again.
            _ if self.refresh_failed.get() => {}
            _ => self.set_unavailable(None),
        }
    }

    fn set_unavailable(&self, reason: Option<String>) {
        let before = self.unavailable.swap(reason.clone().map(Arc::new));
        match (before, reason) {
            (None, Some(reason)) => {
                self.unavailable_since.set(Some(Instant::now()));
                if self.catalog.snapshot().is_some() {
                    tracing::warn!(
                        reason,
                        "metadata store unavailable: definition changes are refused, list operations continue with the \
                         cached definitions; retrying"
                    );
                } else {
                    tracing::warn!(
                        reason,
                        "metadata store unavailable and no definitions loaded yet: list operations are refused until \
                         it recovers; retrying"
                    );
                }
            }
            (Some(_), None) => {
                let after_secs = self.unavailable_since.take().map(|since| since.elapsed().as_secs());
                tracing::info!(after_secs, "metadata store available again");
            }
            _ => {}
        }
    }

    /// Reads the catalog from the store: all definitions, or the changed ones.
    pub async fn refresh(&self, extent: RefreshExtent) -> Result<(), MetadataError> {
        let since = self.catalog.begin_reading().filter(|_| extent == RefreshExtent::News);
        let synced_at = self.clock.now();
        let known_keys = self.ring.begin_reading().filter(|_| extent == RefreshExtent::News);
        let result = self.read(since, known_keys, synced_at).await;
        self.refresh_failed.set(result.is_err());
        self.set_unavailable(result.as_ref().err().map(|error| error.reason()));
        if let Some(stored) = &self.stored {
            match &result {
                Ok(()) => stored.schedule_write(),
                // A server that has run before the outage would also continue with its catalog.
                Err(_) => stored.publish_stored(&self.catalog, &self.ring, self.clock.now()).await,
            }
        }
        result
    }

    /// Keys are published first: a server that has a definition must know the keys that may use it.
    async fn read(
        &self,
        since: Option<Revision>,
        known_keys: Option<Revision>,
        synced_at: Timestamp,
    ) -> Result<(), MetadataError> {
        if let Some(since) = since
            && let Some(changes) = self.store.changes(since).await?
        {
            // Both share one revision: if it has not advanced, no key has changed.
            if known_keys != Some(changes.revision) {
                self.read_keys(known_keys).await?;
            }
            if self.catalog.publish_changes(&changes, synced_at) {
                return Ok(());
            }
        }
        self.read_keys(known_keys).await?;
        let mut collected = Collected::default();
        let mut collect = |feature: &Feature, count: usize| collected.add(feature, count);
        let revision = self.store.each_definition(&mut collect).await?;
        self.catalog.publish_collected(revision, collected, synced_at);
        Ok(())
    }

    async fn read_keys(&self, known: Option<Revision>) -> Result<(), MetadataError> {
        if let Some(keys) = self.store.keys(known).await? {
            self.ring.publish(keys.revision, keys.keys);
        }
        Ok(())
    }
}
