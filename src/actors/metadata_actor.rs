//! The metadata actor: the one writer of definitions in this process, and the one publisher of the
//! catalog. It lives on an arbiter of its own.
//!
//! It makes changes one after another, so that the catalog follows them in order. A change that was
//! begun is carried through, and published, even when its caller has left.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use arc_swap::ArcSwapOption;
use futures_util::future::{LocalBoxFuture, select_all};
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::key_calls::{tell_last_uses, tell_uses};
use super::refresher::Refresher;
use super::stored_catalog::StoredCatalog;
use crate::access::KeyRing;
use crate::domain::{Author, Clock, Feature, FeatureId, Revision, Timestamp};
use crate::metadata::catalog::Published;
use crate::metadata::{Applied, Catalog, Change, ChangeContext, MetadataError, MetadataStore};

/// What the actor works with.
pub(super) struct Desk {
    pub store: Arc<dyn MetadataStore>,
    pub catalog: Catalog,
    /// API keys, which are published here as definitions are in the catalog.
    pub ring: KeyRing,
    pub clock: Arc<dyn Clock>,
    /// Why the store could not be used when it was last tried; none when it could.
    pub trouble: Arc<ArcSwapOption<String>>,
    /// Since when that has been so.
    pub troubled_since: Cell<Option<Instant>>,
    /// Whether the catalog could not be brought up to the store's present state last time.
    pub refresh_failed: Cell<bool>,
    /// Held from before a change until it is published.
    pub changing: Mutex<()>,
    pub refresher: Arc<Refresher>,
    /// Where the catalog is kept for a start without the store, if it is.
    pub stored: Option<Arc<StoredCatalog>>,
}

impl Desk {
    /// Makes a change, alone: from before the store is asked until the catalog shows it.
    async fn apply(&self, change: Change, by: Author, deadline: Instant) -> Result<Applied, MetadataError> {
        let _changing = self.alone(deadline).await?;
        let applied = self.store.apply(change, ChangeContext { by, at: self.clock.now() }).await?;
        self.publish(applied.revision, &applied.id, applied.after.as_ref());
        Ok(applied)
    }

    /// Waits until no other change is under way: none is while what this gives is held.
    pub async fn alone(&self, deadline: Instant) -> Result<MutexGuard<'_, ()>, MetadataError> {
        timeout_at(deadline, self.changing.lock()).await.map_err(|_| MetadataError::Unavailable {
            reason: "the changes before it took too long".to_owned(),
            outcome_unknown: false,
        })
    }

    /// Publishes a change that the store has made.
    pub fn publish(&self, revision: Revision, id: &FeatureId, feature: Option<&Feature>) {
        if self.catalog.publish_change(revision, id, feature, self.clock.now()) == Published::Withheld {
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
            Err(MetadataError::Unavailable { reason, .. }) => self.set_trouble(Some(reason.clone())),
            // What the catalog cannot be read for, a call that needs less does not make good.
            _ if self.refresh_failed.get() => {}
            _ => self.set_trouble(None),
        }
    }

    fn set_trouble(&self, reason: Option<String>) {
        let before = self.trouble.swap(reason.clone().map(Arc::new));
        match (before, reason) {
            (None, Some(reason)) => {
                self.troubled_since.set(Some(Instant::now()));
                if self.catalog.snapshot().is_some() {
                    tracing::warn!(
                        reason,
                        "the metadata store cannot be used: changes of definitions are refused, and list operations go on \
                         by the definitions that are known; it is tried all the time"
                    );
                } else {
                    tracing::warn!(
                        reason,
                        "the metadata store cannot be used, and no definitions are known yet: list operations are refused \
                         until it can; it is tried all the time"
                    );
                }
            }
            (Some(_), None) => {
                let after_secs = self.troubled_since.take().map(|since| since.elapsed().as_secs());
                tracing::info!(after_secs, "the metadata store can be used again");
            }
            _ => {}
        }
    }

    /// Brings the catalog up to what the store has now: all definitions, or those that changed.
    pub async fn refresh(&self, everything: bool) -> Result<(), MetadataError> {
        let since = self.catalog.begin_reading().filter(|_| !everything);
        let synced_at = self.clock.now();
        let known_keys = self.ring.begin_reading().filter(|_| !everything);
        let result = self.read(since, known_keys, synced_at).await;
        self.refresh_failed.set(result.is_err());
        self.set_trouble(result.as_ref().err().map(|error| error.reason()));
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
        let definitions = self.store.definitions().await?;
        self.catalog.publish(&definitions, synced_at);
        Ok(())
    }

    async fn read_keys(&self, known: Option<Revision>) -> Result<(), MetadataError> {
        if let Some(keys) = self.store.keys(known).await? {
            self.ring.publish(keys.revision, keys.keys);
        }
        Ok(())
    }
}

pub(super) struct MetadataActor {
    pub desk: Rc<Desk>,
}

impl Actor for MetadataActor {
    type Context = Context<Self>;

    /// None of its tasks ends by itself: with one that has, by a panic, the actor ends, and its keeper
    /// starts all of them anew.
    fn started(&mut self, context: &mut Self::Context) {
        let refresher = &self.desk.refresher;
        let mut tasks = vec![
            actix::spawn(Arc::clone(refresher).run(Rc::clone(&self.desk))),
            actix::spawn(Arc::clone(refresher).follow_news(Rc::clone(&self.desk))),
            actix::spawn(tell_uses(Rc::clone(&self.desk))),
        ];
        if let Some(stored) = &self.desk.stored {
            tasks.push(actix::spawn(Arc::clone(stored).keep(self.desk.catalog.clone(), self.desk.ring.clone())));
        }
        let ended = select_all(tasks).into_actor(self);
        context.spawn(ended.map(|_, _, context| context.terminate()));
    }
}

/// Asks the actor to close the store, on its arbiter: connections that were made there end with it.
pub(super) struct Close;

impl Message for Close {
    type Result = ();
}

impl Handler<Close> for MetadataActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Close, _: &mut Self::Context) -> Self::Result {
        let desk = Rc::clone(&self.desk);
        Box::pin(async move {
            tell_last_uses(&desk).await;
            desk.store.close().await;
        })
    }
}

/// Asks the actor to make a change.
pub(super) struct Apply {
    pub change: Change,
    pub by: Author,
    /// A change that could not begin by then is not made.
    pub deadline: Instant,
    /// Given back when the change is made, not when the caller leaves.
    pub permit: OwnedSemaphorePermit,
}

impl Message for Apply {
    type Result = Result<Applied, MetadataError>;
}

impl Handler<Apply> for MetadataActor {
    type Result = ResponseFuture<Result<Applied, MetadataError>>;

    fn handle(&mut self, Apply { change, by, deadline, permit }: Apply, _: &mut Self::Context) -> Self::Result {
        let desk = Rc::clone(&self.desk);
        Box::pin(async move {
            let _permit = permit;
            let result = desk.apply(change, by, deadline).await;
            desk.note(&result);
            result
        })
    }
}

/// A reading that is begun, and carried through, on the actor's arbiter.
type Reading<T> = dyn FnOnce(Arc<dyn MetadataStore>) -> LocalBoxFuture<'static, Result<T, MetadataError>> + Send;

/// Asks the actor to read from the store.
pub(super) struct Read<T> {
    pub work: Box<Reading<T>>,
    /// Given back when the work is done, not when the caller leaves.
    pub permit: OwnedSemaphorePermit,
}

impl<T: Send + 'static> Message for Read<T> {
    type Result = Result<T, MetadataError>;
}

impl<T: Send + 'static> Handler<Read<T>> for MetadataActor {
    type Result = ResponseFuture<Result<T, MetadataError>>;

    fn handle(&mut self, Read { work, permit }: Read<T>, _: &mut Self::Context) -> Self::Result {
        let desk = Rc::clone(&self.desk);
        Box::pin(async move {
            let _permit = permit;
            let result = work(Arc::clone(&desk.store)).await;
            desk.note(&result);
            result
        })
    }
}
