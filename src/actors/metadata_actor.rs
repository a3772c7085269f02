//! The metadata actor: the one writer of definitions in this process, and the one publisher of the
//! catalog. It lives on an arbiter of its own.
//!
//! It makes changes in the order in which they come, those that wait together, so that the catalog follows them in
//! order. A change that was begun is carried through, and published, even when its caller has left.

use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use futures_util::future::{LocalBoxFuture, select_all};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::key_uses::{tell_last_uses, tell_uses};
use super::metadata_state::MetadataState;
use crate::domain::Author;
use crate::metadata::{Applied, Change, MetadataError, MetadataStore};

pub(super) struct MetadataActor {
    pub state: Rc<MetadataState>,
}

impl Actor for MetadataActor {
    type Context = Context<Self>;

    /// None of its tasks ends by itself: with one that has, by a panic, the actor ends, and its supervisor
    /// starts all of them anew.
    fn started(&mut self, context: &mut Self::Context) {
        let MetadataState { store, catalog, ring, refresher, stored, .. } = &*self.state;
        let state = Rc::clone(&self.state);
        let refresh = async move |extent| state.refresh(extent).await;
        let mut tasks = vec![
            actix::spawn(Arc::clone(refresher).run(refresh)),
            actix::spawn(Arc::clone(refresher).follow_news(Arc::clone(store))),
            actix::spawn(tell_uses(ring.clone(), Arc::clone(store))),
            actix::spawn(Rc::clone(&self.state).make_changes()),
        ];
        if let Some(stored) = stored {
            tasks.push(actix::spawn(Arc::clone(stored).save_changes(catalog.clone(), ring.clone())));
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
        let state = Rc::clone(&self.state);
        Box::pin(async move {
            tell_last_uses(&state.ring, &*state.store).await;
            state.store.close().await;
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

/// Work with the store that is begun, and carried through, on the actor's arbiter.
type Working<T> = dyn FnOnce(Arc<dyn MetadataStore>) -> LocalBoxFuture<'static, Result<T, MetadataError>> + Send;

/// Asks the actor to do something with the store.
pub(super) struct Work<T> {
    pub work: Box<Working<T>>,
    /// Given back when the work is done, not when the caller leaves.
    pub permit: OwnedSemaphorePermit,
}

impl<T: Send + 'static> Message for Work<T> {
    type Result = Result<T, MetadataError>;
}

impl<T: Send + 'static> Handler<Work<T>> for MetadataActor {
    type Result = ResponseFuture<Result<T, MetadataError>>;

    fn handle(&mut self, Work { work, permit }: Work<T>, _: &mut Self::Context) -> Self::Result {
        let state = Rc::clone(&self.state);
        Box::pin(async move {
            let _permit = permit;
            let result = work(Arc::clone(&state.store)).await;
            state.note(&result);
            result
        })
    }
}
