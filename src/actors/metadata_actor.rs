//! The metadata actor: the one writer of definitions in this process, and the one publisher of the
//! catalog. It lives on an arbiter of its own.
//!
//! It makes changes one after another, so that the catalog follows them in order. A change that was
//! begun is carried through, and published, even when its caller has left.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, Message, ResponseFuture};
use arc_swap::ArcSwapOption;
use futures_util::future::LocalBoxFuture;
use tokio::sync::{Mutex, OwnedSemaphorePermit};

use crate::domain::{Clock, Feature, FeatureId, Revision};
use crate::metadata::{Catalog, MetadataError, MetadataStore};

const LOAD_DELAY_MIN: Duration = Duration::from_millis(100);
const LOAD_DELAY_MAX: Duration = Duration::from_secs(2);

/// What the actor works with.
pub(super) struct Desk {
    pub store: Arc<dyn MetadataStore>,
    pub catalog: Catalog,
    pub clock: Arc<dyn Clock>,
    /// Why the store could not be used when it was last tried; none when it could.
    pub trouble: Arc<ArcSwapOption<String>>,
    /// Held from before a change until it is published.
    pub changing: Mutex<()>,
}

impl Desk {
    /// Publishes a change that the store has made.
    pub fn publish(&self, revision: Revision, id: &FeatureId, feature: Option<&Feature>) {
        self.catalog.publish_change(revision, id, feature, self.clock.now());
    }

    /// Remembers whether the store could be used.
    pub fn note<T>(&self, result: &Result<T, MetadataError>) {
        match result {
            Err(MetadataError::Unavailable { reason, .. }) => {
                let known = self.trouble.swap(Some(Arc::new(reason.clone()))).is_some();
                if !known {
                    tracing::warn!(reason, "the metadata store is away; list operations go on from the catalog");
                }
            }
            _ => {
                if self.trouble.swap(None).is_some() {
                    tracing::info!("the metadata store is back");
                }
            }
        }
    }

    /// Publishes all definitions.
    async fn load(&self) -> Result<(), MetadataError> {
        let _changing = self.changing.lock().await;
        let synced_at = self.clock.now();
        let definitions = self.store.definitions().await;
        self.note(&definitions);
        self.catalog.publish(&definitions?, synced_at);
        Ok(())
    }
}

pub(super) struct MetadataActor {
    pub desk: Rc<Desk>,
}

impl Actor for MetadataActor {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        let desk = Rc::clone(&self.desk);
        actix::spawn(async move {
            let mut delay = LOAD_DELAY_MIN;
            while let Err(error) = desk.load().await {
                tracing::warn!(%error, retry_in_ms = delay.as_millis() as u64, "cannot load the catalog");
                tokio::time::sleep(delay).await;
                delay = (delay * 2).min(LOAD_DELAY_MAX);
            }
        });
    }
}

/// A future that is made, and carried through, on the actor's arbiter.
type Work<T> = dyn FnOnce(Rc<Desk>) -> LocalBoxFuture<'static, Result<T, MetadataError>> + Send;

/// What the handle asks the actor to do.
pub(super) struct Job<T> {
    pub work: Box<Work<T>>,
    /// Given back when the work is done, not when the caller leaves.
    pub permit: OwnedSemaphorePermit,
}

impl<T: Send + 'static> Message for Job<T> {
    type Result = Result<T, MetadataError>;
}

impl<T: Send + 'static> Handler<Job<T>> for MetadataActor {
    type Result = ResponseFuture<Result<T, MetadataError>>;

    fn handle(&mut self, Job { work, permit }: Job<T>, _: &mut Self::Context) -> Self::Result {
        let desk = Rc::clone(&self.desk);
        Box::pin(async move {
            let _permit = permit;
            let result = work(Rc::clone(&desk)).await;
            desk.note(&result);
            result
        })
    }
}
