//! The handle for the control plane: typed calls to the metadata actor, bounded and with a deadline.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Arbiter, Handler, MailboxError, Message};
use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::metadata_actor::{Apply, Close, MetadataActor, MetadataWork};
use super::metadata_state::MetadataState;
use super::refresher::{RefreshOptions, Refresher};
use super::slot::{ActorSlot, SlotState};
use super::stored_catalog::{StoredCatalog, StoredCatalogOptions};
use super::waiting_changes::WaitingChanges;
use crate::access::KeyRing;
use crate::definition::Feature;
use crate::domain::{Author, Clock, EntityType, FeatureId, JobId, Limit, Revision, Timestamp};
use crate::metadata::catalog::{CatalogVersion, Missing, Snapshot};
use crate::metadata::jobs::Job;
use crate::metadata::keys::erasures::{Erasure, ErasureEntry};
use crate::metadata::keys::server_changes::ServerChange;
use crate::metadata::{
    Applied, Catalog, Change, ChangeContext, FeatureFilter, HistoryEntry, LastGeneration, MetadataError, MetadataStore,
    Page,
};

const RESTARTING: &str = "the metadata actor died: starting a replacement";
/// How long stopping waits for the actor's supervisor.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct MetadataOptions {
    /// Calls in flight.
    pub permits: usize,
    /// How long a call may take, including its wait for a permit.
    pub timeout: Duration,
    pub refresh: RefreshOptions,
    /// How long after a reading of the store the catalog counts as complete.
    pub in_step_for: Duration,
    /// Where the catalog is stored for a start without the metadata store, if anywhere.
    pub stored: Option<StoredCatalogOptions>,
}

/// Why no feature version was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("feature not found")]
    FeatureNotFound,
    #[error("version not found")]
    VersionNotFound,
    /// The catalog does not have it, and the metadata store cannot be asked now.
    #[error("cannot query the metadata store: {reason}")]
    Unavailable { reason: String },
}

/// Whether an interrupted call may have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEffect {
    Nothing,
    Change,
}

/// The handle of the metadata actor. Cheap to clone.
#[derive(Clone)]
pub struct MetadataHandle {
    slot: Arc<ActorSlot<MetadataActor>>,
    permits: Arc<Semaphore>,
    catalog: Catalog,
    pub(super) ring: KeyRing,
    unavailable: Arc<ArcSwapOption<String>>,
    refresher: Arc<Refresher>,
    stored: Option<Arc<StoredCatalog>>,
    pub(super) options: MetadataOptions,
    supervisor: Arc<std::sync::Mutex<Option<JoinHandle<()>>>>,
    store: Arc<dyn MetadataStore>,
    clock: Arc<dyn Clock>,
}

/// The parts that each actor is started with, the first one and each replacement.
#[derive(Clone)]
struct ActorParts {
    store: Arc<dyn MetadataStore>,
    catalog: Catalog,
    ring: KeyRing,
    clock: Arc<dyn Clock>,
    unavailable: Arc<ArcSwapOption<String>>,
    refresher: Arc<Refresher>,
    stored: Option<Arc<StoredCatalog>>,
}

async fn open_actor(arbiter: &Arbiter, parts: ActorParts) -> Result<Addr<MetadataActor>, String> {
    let (ready, started) = oneshot::channel();
    arbiter.spawn(async move {
        let ActorParts { store, catalog, ring, clock, unavailable, refresher, stored } = parts;
        let (refresh_failed, changing) = (Cell::new(false), Mutex::new(()));
        let unavailable_since = Cell::new(None);
        let state = MetadataState {
            store,
            catalog,
            ring,
            clock,
            unavailable,
            unavailable_since,
            refresh_failed,
            changing,
            waiting: WaitingChanges::default(),
            refresher,
            stored,
        };
        // Fails only if the caller has left, and then the actor is not needed.
        let _ = ready.send(MetadataActor { state: Rc::new(state) }.start());
    });
    started.await.map_err(|_| "the metadata actor did not start".to_owned())
}

impl MetadataHandle {
    /// Starts the metadata actor on a separate arbiter. Must be called on an actix system. The catalog is loaded in the
    /// background.
    pub async fn start(
        store: Arc<dyn MetadataStore>,
        clock: Arc<dyn Clock>,
        options: MetadataOptions,
    ) -> Result<Self, MetadataError> {
        let (catalog, ring, unavailable) = (Catalog::default(), KeyRing::default(), Arc::new(ArcSwapOption::empty()));
        let (refresher, stored) = (Refresher::new(options.refresh), options.stored.clone().map(StoredCatalog::new));
        let parts = ActorParts {
            store: Arc::clone(&store),
            catalog: catalog.clone(),
            ring: ring.clone(),
            clock: Arc::clone(&clock),
            unavailable: Arc::clone(&unavailable),
            refresher: Arc::clone(&refresher),
            stored: stored.clone(),
        };
        let slot = Arc::new(ActorSlot::new("metadata actor"));
        let (ready, started) = oneshot::channel();
        let ready = Cell::new(Some(ready));
        let open = async move |arbiter: &Arbiter| {
            let opened = open_actor(arbiter, parts.clone()).await;
            if let Some(ready) = ready.take() {
                // Only the first start has a waiting caller.
                let _ = ready.send(());
            }
            opened
        };
        let supervisor = actix::spawn(Arc::clone(&slot).supervise(open, Arc::default()));
        started.await.map_err(|_| broken("the metadata actor did not start"))?;
        let supervisor = Arc::new(std::sync::Mutex::new(Some(supervisor)));
        let permits = Arc::new(Semaphore::new(options.permits));
        Ok(Self { slot, permits, catalog, ring, unavailable, refresher, stored, options, supervisor, store, clock })
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Why the last call could not use the metadata store, if it could not.
    pub fn unavailable_reason(&self) -> Option<Arc<String>> {
        match self.slot.state() {
            SlotState::Replacing | SlotState::Failed { .. } => Some(Arc::new(RESTARTING.to_owned())),
            SlotState::Starting | SlotState::Live | SlotState::Stopped => self.unavailable.load_full(),
        }
    }

    /// How long ago a moment was.
    pub fn age_of(&self, moment: Timestamp) -> Duration {
        Duration::from_nanos(self.clock.now().as_nanos().saturating_sub(moment.as_nanos()))
    }

    /// How long ago the catalog was last known to match the store. If no other process changes the store, the catalog
    /// always matches it.
    pub fn age_of_catalog(&self, snapshot: &Snapshot) -> Duration {
        if self.store.is_shared() { self.age_of(snapshot.synced_at()) } else { Duration::ZERO }
    }

    /// Whether the catalog was read recently enough. A server that makes a change waits until every other server has
    /// read it, or knows by this function that it may not have, before it relies on the change.
    pub fn is_in_step(&self) -> bool {
        let in_step_for = self.options.in_step_for;
        !self.store.is_shared() || self.refresher.succeeded().is_some_and(|began| began.elapsed() <= in_step_for)
    }

    /// The time of the definitions in the file on disk, if there is one.
    pub fn stored_as_of(&self) -> Option<Timestamp> {
        self.stored.as_ref().and_then(|stored| stored.synced_at())
    }

    /// How many actors were started to replace a dead one.
    pub fn restarts(&self) -> usize {
        self.slot.restarts()
    }

    /// The definition of a feature version for a list operation: from the catalog, if it is there.
    ///
    /// If it is not, and other servers change definitions too, one reading of the store serves all waiting operations,
    /// at most a few times a second, and until `deadline`. A definition counts as missing only by an answer of the
    /// store that it gave after this call or, if there are too many lookups, up to 200 ms before.
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
            Missing::NotLoaded => {
                ResolveError::Unavailable { reason: "no definitions have been loaded yet".to_owned() }
            }
        })
    }

    /// Makes a change, and answers once the catalog shows it. A change that cannot begin within its time is not made.
    pub async fn apply(&self, change: Change, by: Author) -> Result<Applied, MetadataError> {
        let deadline = Instant::now() + self.options.timeout;
        self.send(CallEffect::Change, |permit| Apply { change, by, deadline, permit }).await
    }

    pub async fn feature(&self, id: FeatureId) -> Result<Option<Feature>, MetadataError> {
        self.read(async move |store| store.feature(&id).await).await
    }

    pub async fn features(
        &self,
        filter: FeatureFilter,
        after: Option<FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        self.read(async move |store| store.features(&filter, after.as_ref(), page_size).await).await
    }

    pub async fn history(
        &self,
        id: FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        self.read(async move |store| store.history(&id, before, page_size).await).await
    }

    /// Every version that a feature of an entity type has or ever had, read from the store.
    pub async fn generations(&self, entity_type: EntityType) -> Result<Vec<LastGeneration>, MetadataError> {
        self.read(async move |store| store.generations(&entity_type).await).await
    }

    /// Writes an erasure into the audit trail.
    pub async fn note_erasure(&self, erasure: Erasure, by: Author) -> Result<ErasureEntry, MetadataError> {
        let context = ChangeContext { by, at: self.clock.now() };
        let entry =
            self.work(CallEffect::Change, async move |store| store.note_erasure(erasure, context).await).await?;
        // The revision has advanced, and the catalog follows by reading.
        self.refresher.read_news();
        Ok(entry)
    }

    /// Notes a change of a server in the audit trail.
    pub async fn note_server_change(&self, change: ServerChange, by: Author) -> Result<(), MetadataError> {
        let context = ChangeContext { by, at: self.clock.now() };
        self.work(CallEffect::Change, async move |store| store.note_server_change(change, context).await).await?;
        // The revision has advanced, and the catalog follows by reading.
        self.refresher.read_news();
        Ok(())
    }

    /// Reads the changes of other servers into the catalog, soon.
    pub fn read_news(&self) {
        self.refresher.read_news();
    }

    /// Whether other servers have the same definitions, and the same jobs.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    pub async fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        self.read(async move |store| store.jobs().await).await
    }

    /// Replaces the state of a job by the next one. Returns whether it did.
    pub async fn put_job(&self, job: Job) -> Result<bool, MetadataError> {
        self.work(CallEffect::Change, async move |store| store.put_job(&job).await).await
    }

    /// Stores the first state of a job, with an entry of the audit trail about it.
    pub async fn begin_job(&self, job: Job, note: Erasure) -> Result<(), MetadataError> {
        let context = ChangeContext { by: job.created_by.clone(), at: job.created_at };
        self.work(CallEffect::Change, async move |store| store.begin_job(&job, note, context).await).await?;
        self.refresher.read_news();
        Ok(())
    }

    pub async fn forget_job(&self, id: JobId) -> Result<(), MetadataError> {
        self.work(CallEffect::Change, async move |store| store.forget_job(id).await).await
    }

    /// Reads from the store, on the actor's arbiter.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&dyn MetadataStore) -> Result<T, MetadataError> + Send + 'static,
    ) -> Result<T, MetadataError> {
        self.work(CallEffect::Nothing, work).await
    }

    /// Does work with the store, on the actor's arbiter, that publishes nothing.
    async fn work<T: Send + 'static>(
        &self,
        effect: CallEffect,
        work: impl AsyncFnOnce(&dyn MetadataStore) -> Result<T, MetadataError> + Send + 'static,
    ) -> Result<T, MetadataError> {
        let message = |permit| MetadataWork { run: work, permit, answer: PhantomData };
        self.send(effect, message).await
    }

    pub(super) async fn send<M, T>(
        &self,
        effect: CallEffect,
        message: impl FnOnce(OwnedSemaphorePermit) -> M,
    ) -> Result<T, MetadataError>
    where
        M: Message<Result = Result<T, MetadataError>> + Send + 'static,
        T: Send + 'static,
        MetadataActor: Handler<M>,
        <MetadataActor as Actor>::Context: ToEnvelope<MetadataActor, M>,
    {
        let outcome_unknown = effect == CallEffect::Change;
        let asked = async {
            let permits = Arc::clone(&self.permits);
            let permit = permits.acquire_owned().await.map_err(|_| away("the server is stopping"))?;
            let Some(address) = self.slot.address() else {
                self.slot.notify_supervisor();
                return Err(away(RESTARTING));
            };
            match address.send(message(permit)).await {
                Ok(result) => result,
                Err(MailboxError::Closed | MailboxError::Timeout) => {
                    self.slot.notify_supervisor();
                    if outcome_unknown {
                        // The change may have been made, and was not published.
                        self.refresher.read_everything();
                    }
                    Err(MetadataError::Internal { reason: "the metadata actor failed".to_owned(), outcome_unknown })
                }
            }
        };
        timeout(self.options.timeout, asked)
            .await
            .unwrap_or_else(|_| Err(MetadataError::Unavailable { reason: "it timed out".to_owned(), outcome_unknown }))
    }

    /// Takes no more calls, waits at most `grace` for those in flight, stops the actor, and closes
    /// the store.
    pub async fn stop(&self, grace: Duration) {
        let all = u32::try_from(self.options.permits).unwrap_or(u32::MAX);
        if timeout(grace, self.permits.acquire_many(all)).await.is_err() {
            tracing::warn!("server stopped with control-plane calls in flight");
        }
        self.permits.close();
        let supervisor = self.supervisor.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let Some(supervisor) = supervisor else { return };
        match self.slot.address() {
            Some(address) => {
                if address.send(Close).await.is_err() {
                    tracing::error!("the metadata store did not close cleanly");
                }
            }
            None => self.store.close().await,
        }
        self.slot.stop();
        // The supervisor also waits for its arbiter, within a bound.
        if timeout(STOP_TIMEOUT, supervisor).await.is_err() {
            tracing::error!("the metadata actor did not stop in time and was abandoned");
        }
    }
}

fn away(reason: &str) -> MetadataError {
    MetadataError::Unavailable { reason: reason.to_owned(), outcome_unknown: false }
}

fn broken(reason: &str) -> MetadataError {
    MetadataError::Internal { reason: reason.to_owned(), outcome_unknown: false }
}
