//! The list actor runs on a separate arbiter, owns one item-store session, and is the only writer of the lists that the
//! pool routes to it.
//!
//! Its handlers return plain futures over shared state, so that operations on different lists overlap. A handler must
//! never block: a session that waits does so off the arbiter.

use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, Context, Handler, ResponseFuture};
use tokio::time::Instant;

use super::list_error::ListError;
use super::turns::{ListTurns, TurnTaken};
use super::work::{AddOutcome, AddWork, AheadBound, WantedTurns, Work, WorkTerms};
use crate::domain::{Admission, Clock, Invalid, NewItem, Timestamp, TimestampUnit, Value};
use crate::items::{Done, ItemSession, OpContext, StoreError};

/// More than there can be permits.
const MAILBOX_CAPACITY: usize = 1 << 24;

pub(super) struct ListActor {
    /// The session, and the turns of its lists.
    lists: Rc<ListTurns>,
    clock: Arc<dyn Clock>,
}

impl ListActor {
    pub(super) fn new(session: Rc<dyn ItemSession>, clock: Arc<dyn Clock>) -> Self {
        Self { lists: ListTurns::of(session), clock }
    }
}

impl Actor for ListActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        // Permits bound the operations in flight. Callers must never wait for room in the mailbox.
        context.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl<F, T, P> Handler<Work<F, T, P>> for ListActor
where
    F: AsyncFnOnce(&dyn ItemSession, &OpContext) -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
    P: Send + 'static,
{
    type Result = ResponseFuture<Result<T, ListError>>;

    fn handle(&mut self, Work { terms, permit, run, .. }: Work<F, T, P>, _: &mut Self::Context) -> Self::Result {
        let WorkTerms { retention, deadline, turns, .. } = terms;
        let lists = Rc::clone(&self.lists);
        let op = OpContext::new(self.clock.now(), retention, deadline);
        Box::pin(async move {
            let _permit = permit;
            in_time(deadline)?;
            let _turn = match turns {
                WantedTurns::None => TurnTaken::None,
                WantedTurns::On(list, turn) => lists.take(turn, &list, deadline).await?,
                WantedTurns::AloneOnEach(all) => lists.take_each(&all, deadline).await?,
            };
            Ok(run(lists.session(), &op).await?)
        })
    }
}

impl<P: Send + 'static> Handler<AddWork<P>> for ListActor {
    type Result = ();

    fn handle(&mut self, add: AddWork<P>, _: &mut Self::Context) {
        let AddWork { list, retention, deadline, permit, items, ahead_max, reply } = add;
        let op = OpContext::new(self.clock.now(), retention, deadline);
        let sent = items.len();
        let admitted = in_time(deadline).and_then(|()| admit(&op, items, ahead_max));
        let (added, mistaken_unit) =
            admitted.as_ref().map_or((0, None), |admitted| (admitted.live.len(), admitted.mistaken_unit));
        let finish = move |result: Result<(), ListError>| {
            drop(permit);
            // No caller waits if the deadline has passed.
            let _caller_left =
                reply.send(result.map(|()| AddOutcome { added, already_expired: sent - added, mistaken_unit }));
        };
        match admitted {
            Ok(AdmittedItems { live, .. }) if live.is_empty() => finish(Ok(())),
            Ok(AdmittedItems { live, .. }) => {
                let done: Done = Box::new(|result| finish(result.map_err(ListError::from)));
                if let Some(to_await) = self.lists.start_add(op, list, live, done) {
                    actix::spawn(to_await);
                }
            }
            Err(refused) => finish(Err(refused)),
        }
    }
}

/// Refuses an operation whose deadline has passed.
fn in_time(deadline: Instant) -> Result<(), ListError> {
    if Instant::now() < deadline { Ok(()) } else { Err(ListError::DeadlineExceeded { outcome_unknown: false }) }
}

struct AdmittedItems {
    /// The items to store.
    live: Vec<NewItem>,
    /// The unit in which the caller likely meant the timestamp of an expired item.
    mistaken_unit: Option<TimestampUnit>,
}

/// Leaves out expired items. One item whose timestamp is too far ahead of our clock refuses the whole add.
fn admit(op: &OpContext, items: Vec<(Timestamp, Value)>, ahead_max: AheadBound) -> Result<AdmittedItems, ListError> {
    let (mut live, mut mistaken_unit) = (Vec::with_capacity(items.len()), None);
    for (index, (timestamp, value)) in items.into_iter().enumerate() {
        if !ahead_max.max.admits(timestamp, op.now) {
            return Err(ListError::ItemRefused { index, invalid: too_far_ahead(ahead_max) });
        }
        match op.ttl.admit(timestamp, op.now) {
            Admission::Live { expires_at } => {
                live.push(NewItem { timestamp, value: value.into_bytes(), expires_at });
            }
            Admission::AlreadyExpired => mistaken_unit = mistaken_unit.or(timestamp.mistaken_unit()),
        }
    }
    Ok(AdmittedItems { live, mistaken_unit })
}

#[cold]
fn too_far_ahead(AheadBound { max, source }: AheadBound) -> Invalid {
    Invalid::timestamp_too_far_ahead(format!(
        "the timestamp must be at most {max} ahead of the server's clock ({source}): check the unit of the timestamp and \
         the sender's clock"
    ))
}
