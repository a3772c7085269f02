//! What the metadata actor works with, and how it uses it: changes are published in their order, and the catalog is
//! brought up to what the store has.

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use super::refresher::{Extent, Refresher};
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
    /// API keys, which are published here as definitions are in the catalog.
    pub ring: KeyRing,
    pub clock: Arc<dyn Clock>,
    /// Why the store could not be used when it was last tried; none when it could.
    pub unavailable: Arc<ArcSwapOption<String>>,
    /// Since when that has been so.
    pub unavailable_since: Cell<Option<Instant>>,
    /// Whether the catalog could not be brought up to the store's present state last time.
    pub refresh_failed: Cell<bool>,
    /// Held from before a change until it is published.
    pub changing: Mutex<()>,
    /// Changes of definitions that have not begun.
    pub waiting: WaitingChanges,
    pub refresher: Arc<Refresher>,
    /// Where the catalog is kept for a start without the store, if it is.
    pub stored: Option<Arc<StoredCatalog>>,
}

impl MetadataState {
    /// Waits until no other change is under way: none is while what this gives is held.
    pub async fn alone(&self, deadline: Instant) -> Result<MutexGuard<'_, ()>, MetadataError> {
        timeout_at(deadline, self.changing.lock()).await.map_err(|_| MetadataError::Unavailable {
            reason: "earlier changes took too long".to_owned(),
            outcome_unknown: false,
        })
    }

    /// Publishes a change that the store has made.
    pub fn publish(&self, Applied { revision, id, after, is_change, .. }: &Applied) {
        if !is_change {
            // What it left as it was may be news here, if another server has changed it.
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
            stored.look();
        }
    }

    /// Remembers whether a call found the store there.
    pub fn note<T>(&self, result: &Result<T, MetadataError>) {
        if result.as_ref().is_err_and(MetadataError::outcome_unknown) {
            // What became of it, the store alone can tell.
            self.refresher.read_everything();
        }
        match result {
            Err(MetadataError::Unavailable { reason, .. }) => self.set_unavailable(Some(reason.clone())),
            // What the catalog cannot be read for, a call that needs less does not make good.
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

    /// Brings the catalog up to what the store has now: all definitions, or those that changed.
    pub async fn refresh(&self, extent: Extent) -> Result<(), MetadataError> {
        let since = self.catalog.begin_reading().filter(|_| extent == Extent::News);
        let synced_at = self.clock.now();
        let known_keys = self.ring.begin_reading().filter(|_| extent == Extent::News);
        let result = self.read(since, known_keys, synced_at).await;
        self.refresh_failed.set(result.is_err());
        self.set_unavailable(result.as_ref().err().map(|error| error.reason()));
        if let Some(stored) = &self.stored {
            match &result {
                Ok(()) => stored.look(),
                // A server that has run before the store went away would go on from its catalog too.
                Err(_) => stored.stand_in(&self.catalog, &self.ring, self.clock.now()).await,
            }
        }
        result
    }

    /// Keys are published first: a server that knows a definition must know who may use it.
    async fn read(
        &self,
        since: Option<Revision>,
        known_keys: Option<Revision>,
        synced_at: Timestamp,
    ) -> Result<(), MetadataError> {
        if let Some(since) = since
            && let Some(changes) = self.store.changes(since).await?
        {
            // Both have one count: where it has not gone on, there is no news of keys.
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
