//! The handle for the control plane: typed calls to the metadata actor, bounded and with a deadline.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, Arbiter, MailboxError};
use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::metadata_actor::{Close, Desk, Job, MetadataActor};
use super::refresher::Refresher;
use super::slot::{Slot, SlotState};
use super::stored_catalog::{StoredCatalog, StoredCatalogOptions};
use crate::domain::{Author, Clock, Feature, FeatureId, FeatureVersion, Limit, Revision, Timestamp, Ttl, VersionLabel};
use crate::metadata::catalog::{CatalogVersion, Missing};
use crate::metadata::{
    Catalog, ChangeContext, FeatureFilter, FeaturePatch, HistoryEntry, MetadataError, MetadataStore, NewFeature,
    NewVersion, Page, Precondition, VersionPatch,
};

const RESTARTING: &str = "the metadata actor died: a fresh one is being started";
/// How long stopping waits for the actor's keeper.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct MetadataOptions {
    /// Calls in flight.
    pub permits: usize,
    /// How long a call may take, its waiting included.
    pub timeout: Duration,
    /// Where the catalog is kept for a start without the store, if it is to be.
    pub stored: Option<StoredCatalogOptions>,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self { permits: 64, timeout: Duration::from_millis(2_800), stored: None }
    }
}

/// Why there is no feature version to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("there is no such feature")]
    FeatureNotFound,
    #[error("the feature has no such version")]
    VersionNotFound,
    /// It is not known here, and whether it exists cannot be told now.
    #[error("the metadata store cannot be asked: {reason}")]
    Unavailable { reason: String },
}

/// The handle of the metadata actor. Cheap to clone.
#[derive(Clone)]
pub struct MetadataHandle {
    slot: Arc<Slot<MetadataActor>>,
    catalog: Catalog,
    trouble: Arc<ArcSwapOption<String>>,
    refresher: Arc<Refresher>,
    stored: Option<Arc<StoredCatalog>>,
    options: MetadataOptions,
    keeper: Arc<std::sync::Mutex<Option<JoinHandle<()>>>>,
    store: Arc<dyn MetadataStore>,
    clock: Arc<dyn Clock>,
}

/// What every actor, the first and those in place of one that died, is started with.
#[derive(Clone)]
struct Parts {
    store: Arc<dyn MetadataStore>,
    catalog: Catalog,
    clock: Arc<dyn Clock>,
    trouble: Arc<ArcSwapOption<String>>,
    refresher: Arc<Refresher>,
    stored: Option<Arc<StoredCatalog>>,
}

async fn open_actor(arbiter: &Arbiter, parts: Parts) -> Result<Addr<MetadataActor>, String> {
    let (ready, started) = oneshot::channel();
    arbiter.spawn(async move {
        let Parts { store, catalog, clock, trouble, refresher, stored } = parts;
        let (refresh_failed, changing) = (Cell::new(false), Mutex::new(()));
        let troubled_since = Cell::new(None);
        let desk = Desk { store, catalog, clock, trouble, troubled_since, refresh_failed, changing, refresher, stored };
        // Fails only if the caller is gone, and then nobody needs the actor.
        let _ = ready.send(MetadataActor { desk: Rc::new(desk) }.start());
    });
    started.await.map_err(|_| "the metadata actor did not start".to_owned())
}

impl MetadataHandle {
    /// Starts the metadata actor on an arbiter of its own. Must be called on an actix system. The
    /// catalog is loaded in the background.
    pub async fn start(
        store: Arc<dyn MetadataStore>,
        clock: Arc<dyn Clock>,
        options: MetadataOptions,
    ) -> Result<Self, MetadataError> {
        let (catalog, trouble) = (Catalog::default(), Arc::new(ArcSwapOption::empty()));
        let (refresher, stored) = (Refresher::new(), options.stored.clone().map(StoredCatalog::new));
        let parts = Parts {
            store: Arc::clone(&store),
            catalog: catalog.clone(),
            clock: Arc::clone(&clock),
            trouble: Arc::clone(&trouble),
            refresher: Arc::clone(&refresher),
            stored: stored.clone(),
        };
        let slot = Arc::new(Slot::new("metadata actor", options.permits));
        let (ready, started) = oneshot::channel();
        let ready = Cell::new(Some(ready));
        let open = async move |arbiter: &Arbiter| {
            let opened = open_actor(arbiter, parts.clone()).await;
            if let Some(ready) = ready.take() {
                // Nobody waits for any but the first.
                let _ = ready.send(());
            }
            opened
        };
        let keeper = actix::spawn(Arc::clone(&slot).keep(open, Arc::default()));
        started.await.map_err(|_| broken("the metadata actor did not start"))?;
        let keeper = Arc::new(std::sync::Mutex::new(Some(keeper)));
        Ok(Self { slot, catalog, trouble, refresher, stored, options, keeper, store, clock })
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Why the metadata store could not be used when it was last tried, if it could not.
    pub fn trouble(&self) -> Option<Arc<String>> {
        match **self.slot.state.load() {
            SlotState::Replacing | SlotState::Failed(_) => Some(Arc::new(RESTARTING.to_owned())),
            SlotState::Starting | SlotState::Live | SlotState::Stopped => self.trouble.load_full(),
        }
    }

    /// How long ago a moment was.
    pub fn age_of(&self, moment: Timestamp) -> Duration {
        Duration::from_nanos(self.clock.now().as_nanos().saturating_sub(moment.as_nanos()))
    }

    /// As of when the file on disk tells the definitions, if they are kept there.
    pub fn stored_as_of(&self) -> Option<Timestamp> {
        self.stored.as_ref().and_then(|stored| stored.synced_at())
    }

    /// How many actors were started in place of one that died.
    pub fn restarts(&self) -> usize {
        self.slot.restarts()
    }

    /// What a list operation needs to know of a feature version: from the catalog, if it is there.
    ///
    /// If it is not, and other servers change definitions too, the store is asked once for all
    /// operations that wait, at most a few times a second, and no longer than until `deadline`. A
    /// definition is said not to exist only on the store's word, given after this was called, or,
    /// when there are more look-ups than may be made, up to 200 ms before.
    pub async fn resolve(
        &self,
        entity_type: &str,
        name: &str,
        version: &str,
        deadline: Instant,
    ) -> Result<CatalogVersion, ResolveError> {
        let mut found = self.catalog.version(entity_type, name, version);
        if found == Err(Missing::NotLoaded) || found.is_err() && self.store.is_shared() {
            let answered = self.refresher.look_up(deadline).await;
            found = self.catalog.version(entity_type, name, version);
            if let (Err(_), Err(reason)) = (&found, answered) {
                return Err(ResolveError::Unavailable { reason });
            }
        }
        found.map_err(|missing| match missing {
            Missing::Feature => ResolveError::FeatureNotFound,
            Missing::Version => ResolveError::VersionNotFound,
            Missing::NotLoaded => ResolveError::Unavailable { reason: "no definition has been read yet".to_owned() },
        })
    }

    pub async fn create_feature(&self, new: NewFeature, by: Author) -> Result<Feature, MetadataError> {
        self.change(by, async move |desk, context| {
            let feature = desk.store.create_feature(new, context).await?;
            desk.publish(feature.revision, &feature.id, Some(&feature));
            Ok(feature)
        })
        .await
    }

    pub async fn update_feature(
        &self,
        id: FeatureId,
        patch: FeaturePatch,
        condition: Precondition,
        by: Author,
    ) -> Result<Feature, MetadataError> {
        self.change(by, async move |desk, context| {
            let feature = desk.store.update_feature(&id, patch, condition, context).await?;
            desk.publish(feature.revision, &id, Some(&feature));
            Ok(feature)
        })
        .await
    }

    /// Returns the longest TTL that the feature ever had.
    pub async fn delete_feature(
        &self,
        id: FeatureId,
        condition: Precondition,
        by: Author,
    ) -> Result<Ttl, MetadataError> {
        self.change(by, async move |desk, context| {
            let deleted = desk.store.delete_feature(&id, condition, context).await?;
            desk.publish(deleted.revision, &id, None);
            Ok(deleted.ttl_max)
        })
        .await
    }

    pub async fn create_version(
        &self,
        id: FeatureId,
        new: NewVersion,
        by: Author,
    ) -> Result<FeatureVersion, MetadataError> {
        self.change(by, async move |desk, context| {
            let changed = desk.store.create_version(&id, new, context).await?;
            desk.publish(changed.feature.revision, &id, Some(&changed.feature));
            Ok(changed.version)
        })
        .await
    }

    pub async fn update_version(
        &self,
        id: FeatureId,
        version: VersionLabel,
        patch: VersionPatch,
        condition: Precondition,
        by: Author,
    ) -> Result<FeatureVersion, MetadataError> {
        self.change(by, async move |desk, context| {
            let changed = desk.store.update_version(&id, &version, patch, condition, context).await?;
            desk.publish(changed.feature.revision, &id, Some(&changed.feature));
            Ok(changed.version)
        })
        .await
    }

    /// Returns the longest TTL that the version ever had.
    pub async fn delete_version(
        &self,
        id: FeatureId,
        version: VersionLabel,
        condition: Precondition,
        by: Author,
    ) -> Result<Ttl, MetadataError> {
        self.change(by, async move |desk, context| {
            let deleted = desk.store.delete_version(&id, &version, condition, context).await?;
            desk.publish(deleted.revision, &id, deleted.remaining.as_ref());
            Ok(deleted.ttl_max)
        })
        .await
    }

    pub async fn feature(&self, id: FeatureId) -> Result<Option<Feature>, MetadataError> {
        self.call(false, async move |desk| desk.store.feature(&id).await).await
    }

    pub async fn features(
        &self,
        filter: FeatureFilter,
        after: Option<FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        self.call(false, async move |desk| desk.store.features(&filter, after.as_ref(), page_size).await).await
    }

    pub async fn history(
        &self,
        id: FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        self.call(false, async move |desk| desk.store.history(&id, before, page_size).await).await
    }

    /// A call that changes definitions: alone, from before the store is asked until the catalog
    /// shows the change.
    async fn change<T: Send + 'static>(
        &self,
        by: Author,
        work: impl AsyncFnOnce(&Desk, ChangeContext) -> Result<T, MetadataError> + Send + 'static,
    ) -> Result<T, MetadataError> {
        let deadline = Instant::now() + self.options.timeout;
        self.call(true, async move |desk| {
            // A change that could not begin before its caller had to leave is not made at all.
            let _changing = timeout_at(deadline, desk.changing.lock())
                .await
                .map_err(|_| away("the changes before it took too long"))?;
            let context = ChangeContext { by, at: desk.clock.now() };
            work(desk, context).await
        })
        .await
    }

    async fn call<T: Send + 'static>(
        &self,
        changes: bool,
        work: impl AsyncFnOnce(&Desk) -> Result<T, MetadataError> + Send + 'static,
    ) -> Result<T, MetadataError> {
        let asked = async {
            let permits = Arc::clone(&self.slot.permits);
            let permit = permits.acquire_owned().await.map_err(|_| away("the server is stopping"))?;
            let Some(address) = self.slot.address() else {
                self.slot.look();
                return Err(away(RESTARTING));
            };
            let job = Job { work: Box::new(|desk: Rc<Desk>| Box::pin(async move { work(&desk).await })), permit };
            match address.send(job).await {
                Ok(result) => result,
                Err(MailboxError::Closed | MailboxError::Timeout) => {
                    self.slot.look();
                    if changes {
                        // It may have been made, and was not published.
                        self.refresher.read_everything();
                    }
                    let reason = "the metadata actor failed".to_owned();
                    Err(MetadataError::Internal { reason, outcome_unknown: changes })
                }
            }
        };
        timeout(self.options.timeout, asked).await.unwrap_or_else(|_| {
            Err(MetadataError::Unavailable { reason: "it did not answer in time".to_owned(), outcome_unknown: changes })
        })
    }

    /// Takes no more calls, waits at most `grace` for those in flight, stops the actor, and closes
    /// the store.
    pub async fn stop(&self, grace: Duration) {
        let all = u32::try_from(self.options.permits).unwrap_or(u32::MAX);
        if timeout(grace, self.slot.permits.acquire_many(all)).await.is_err() {
            tracing::warn!("control-plane calls were still in flight when the server stopped");
        }
        self.slot.permits.close();
        let keeper = self.keeper.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let Some(keeper) = keeper else { return };
        match self.slot.address() {
            Some(address) => {
                if address.send(Close).await.is_err() {
                    tracing::error!("the metadata store did not close cleanly");
                }
            }
            None => self.store.close().await,
        }
        self.slot.stop();
        // A keeper waits for its arbiter by itself, bounded.
        if timeout(STOP_TIMEOUT, keeper).await.is_err() {
            tracing::error!("the metadata actor does not end: left behind");
        }
    }
}

fn away(reason: &str) -> MetadataError {
    MetadataError::Unavailable { reason: reason.to_owned(), outcome_unknown: false }
}

fn broken(reason: &str) -> MetadataError {
    MetadataError::Internal { reason: reason.to_owned(), outcome_unknown: false }
}
