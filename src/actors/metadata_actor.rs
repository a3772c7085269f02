//! The metadata actor: the only writer of definitions in this process, and the only publisher of the catalog. It lives
//! on a separate arbiter.
//!
//! It makes changes in the order of their arrival, waiting changes together, so that the catalog follows them in order.
//! A change that has begun is completed and published, even if its caller has left.

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use futures_util::future::select_all;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::key_uses::{record_last_uses, record_uses};
use super::metadata_state::MetadataState;
use crate::domain::Author;
use crate::metadata::{Applied, Change, MetadataError, MetadataStore};

pub(super) struct MetadataActor {
    pub state: Rc<MetadataState>,
}

impl Actor for MetadataActor {
    type Context = Context<Self>;

    /// Its tasks never end, except by a panic. Then the actor ends, and its supervisor starts all of them again.
    fn started(&mut self, context: &mut Self::Context) {
        let MetadataState { store, catalog, ring, refresher, stored, .. } = &*self.state;
        let state = Rc::clone(&self.state);
        let refresh = async move |extent| state.refresh(extent).await;
        let mut tasks = vec![
            actix::spawn(Arc::clone(refresher).run(refresh)),
            actix::spawn(Arc::clone(refresher).follow_news(Arc::clone(store))),
            actix::spawn(record_uses(ring.clone(), Arc::clone(store))),
            actix::spawn(Rc::clone(&self.state).make_changes()),
        ];
        if let Some(stored) = stored {
            tasks.push(actix::spawn(Arc::clone(stored).save_changes(catalog.clone(), ring.clone())));
        }
        let ended = select_all(tasks).into_actor(self);
        context.spawn(ended.map(|_, _, context| context.terminate()));
    }
}

/// Asks the actor to close the store on the actor's arbiter, where its connections were opened.
pub(super) struct Close;

impl Message for Close {
    type Result = ();
}

impl Handler<Close> for MetadataActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Close, _: &mut Self::Context) -> Self::Result {
        let state = Rc::clone(&self.state);
        Box::pin(async move {
            record_last_uses(&state.ring, &*state.store).await;
            state.store.close().await;
        })
    }
}

/// Asks the actor to make a change.
pub(super) struct Apply {
    pub change: Change,
    pub by: Author,
    /// A change that cannot begin by then is not made.
    pub deadline: Instant,
    /// Released when the change is made, not when the caller leaves.
    pub permit: OwnedSemaphorePermit,
}

impl Message for Apply {
    type Result = Result<Applied, MetadataError>;
}

impl Handler<Apply> for MetadataActor {
    type Result = ResponseFuture<Result<Applied, MetadataError>>;

    fn handle(&mut self, Apply { change, by, deadline, permit }: Apply, _: &mut Self::Context) -> Self::Result {
        let state = Rc::clone(&self.state);
        // Queued at once, in the order of the mailbox.
        let asked = state.waiting.push(change, by, deadline);
        Box::pin(async move {
            let _permit = permit;
            let result = state.answer(asked).await;
            state.note(&result);
            result
        })
    }
}

/// Runs work with the store, on the actor's arbiter.
pub(super) struct MetadataWork<F, T> {
    /// An async function of the store.
    pub run: F,
    /// Released when the work is done, not when the caller leaves.
    pub permit: OwnedSemaphorePermit,
    pub answer: PhantomData<fn() -> T>,
}

impl<F, T: 'static> Message for MetadataWork<F, T> {
    type Result = Result<T, MetadataError>;
}

impl<F, T> Handler<MetadataWork<F, T>> for MetadataActor
where
    F: AsyncFnOnce(&dyn MetadataStore) -> Result<T, MetadataError> + Send + 'static,
    T: Send + 'static,
{
    type Result = ResponseFuture<Result<T, MetadataError>>;

    fn handle(&mut self, MetadataWork { run, permit, .. }: MetadataWork<F, T>, _: &mut Self::Context) -> Self::Result {
        let state = Rc::clone(&self.state);
        Box::pin(async move {
            let _permit = permit;
            let result = run(&*state.store).await;
            state.note(&result);
            result
        })
    }
}
