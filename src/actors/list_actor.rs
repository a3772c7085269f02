//! The list actor: it lives on an arbiter of its own, owns one item-store session, and is the one
//! writer of the lists that are routed to it.
//!
//! Its handlers return plain futures over shared state, so that operations on different lists
//! overlap. They must never block: a session that has to wait does so off the arbiter.

use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, Context, Handler, ResponseFuture};
use tokio::time::Instant;

use super::list_error::ListError;
use super::messages::{
    Add, AddOutcome, AheadBound, BagEntities, Bags, Contains, Count, EnterBags, Entities, Envelope, FinishSwap, Get,
    GetBag, Lookup, Remove, RemoveAll, SwapBag, UnfinishedSwaps,
};
use super::turns::TurnTaking;
use crate::domain::{Admission, Clock, Invalid, Item, ListKey, NewItem, Timestamp, TimestampUnit, Ttl, Value};
use crate::items::{self, BagPage, Done, EntityPage, ItemPage, ItemSession, Operation, ReadBag, SwapPage, Swapped};

/// More than there can be permits.
const MAILBOX_CAPACITY: usize = 1 << 24;

pub(super) struct ListActor {
    session: Rc<dyn ItemSession>,
    clock: Arc<dyn Clock>,
}

impl ListActor {
    pub(super) fn new(session: Rc<dyn ItemSession>, clock: Arc<dyn Clock>) -> Self {
        Self { session: TurnTaking::around(session), clock }
    }

    /// Carries out one operation, and gives its permit back when the store has finished.
    fn run<T: 'static>(
        &self,
        envelope: Envelope,
        body: impl AsyncFnOnce(Rc<dyn ItemSession>, Operation, &ListKey) -> Result<T, ListError> + 'static,
    ) -> ResponseFuture<Result<T, ListError>> {
        let session = Rc::clone(&self.session);
        let Envelope { list, retention, deadline, permit } = envelope;
        let op = Operation::new(self.clock.now(), retention, deadline);
        Box::pin(async move {
            let _permit = permit;
            in_time(deadline)?;
            body(session, op, &list).await
        })
    }
}

impl Actor for ListActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        // Permits bound what is in flight; the mailbox must only never be what callers wait for.
        context.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Handler<Get> for ListActor {
    type Result = ResponseFuture<Result<ItemPage, ListError>>;

    fn handle(&mut self, Get { envelope, range }: Get, _: &mut Self::Context) -> Self::Result {
        self.run(envelope, async move |session, op, list| Ok(session.get(&op, list, &range).await?))
    }
}

impl Handler<Add> for ListActor {
    type Result = ();

    fn handle(&mut self, Add { envelope, items, ahead_max, reply }: Add, _: &mut Self::Context) {
        let Envelope { list, retention, deadline, permit } = envelope;
        let op = Operation::new(self.clock.now(), retention, deadline);
        let sent = items.len();
        let admitted = in_time(deadline).and_then(|()| admit(&op, items, ahead_max));
        let (added, mistaken_unit) =
            admitted.as_ref().map_or((0, None), |admitted| (admitted.live.len(), admitted.mistaken_unit));
        let finish = move |result: Result<(), ListError>| {
            drop(permit);
            // Nobody waits any more if the deadline has passed.
            let _caller_left =
                reply.send(result.map(|()| AddOutcome { added, already_expired: sent - added, mistaken_unit }));
        };
        match admitted {
            Ok(Admitted { live, .. }) if live.is_empty() => finish(Ok(())),
            Ok(Admitted { live, .. }) => {
                let done: Done = Box::new(|result| finish(result.map_err(ListError::from)));
                if let Some(to_await) = Rc::clone(&self.session).start_add(op, list, live, done) {
                    actix::spawn(to_await);
                }
            }
            Err(refused) => finish(Err(refused)),
        }
    }
}

/// Refuses what has waited beyond its deadline.
fn in_time(deadline: Instant) -> Result<(), ListError> {
    if Instant::now() < deadline { Ok(()) } else { Err(ListError::DeadlineExceeded { outcome_unknown: false }) }
}

struct Admitted {
    /// The items that are to be stored.
    live: Vec<NewItem>,
    /// The unit that the timestamp of one of the others was likely meant in.
    mistaken_unit: Option<TimestampUnit>,
}

/// Leaves out expired items. One item whose timestamp is too far ahead of our clock refuses the whole add.
fn admit(op: &Operation, items: Vec<(Timestamp, Value)>, ahead_max: AheadBound) -> Result<Admitted, ListError> {
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
    Ok(Admitted { live, mistaken_unit })
}

#[cold]
fn too_far_ahead(AheadBound { max, source }: AheadBound) -> Invalid {
    Invalid::timestamp_too_far_ahead(format!(
        "the timestamp must be at most {max} ahead of the server's clock ({source}): check the unit of the timestamp and \
         the sender's clock"
    ))
}

impl Handler<Contains> for ListActor {
    type Result = ResponseFuture<Result<Vec<Option<Timestamp>>, ListError>>;

    fn handle(&mut self, message: Contains, _: &mut Self::Context) -> Self::Result {
        let Contains { envelope, within, values } = message;
        self.run(envelope, async move |session, op, list| Ok(session.contains(&op, list, &within, &values).await?))
    }
}

impl Handler<Lookup> for ListActor {
    type Result = ResponseFuture<Result<Vec<Option<Item>>, ListError>>;

    fn handle(&mut self, Lookup { envelope, members }: Lookup, _: &mut Self::Context) -> Self::Result {
        self.run(envelope, async move |session, op, list| Ok(session.lookup(&op, list, &members).await?))
    }
}

impl Handler<Count> for ListActor {
    type Result = ResponseFuture<Result<items::Count, ListError>>;

    fn handle(&mut self, Count { envelope, within, max }: Count, _: &mut Self::Context) -> Self::Result {
        self.run(envelope, async move |session, op, list| Ok(session.count(&op, list, &within, max).await?))
    }
}

impl Handler<Remove> for ListActor {
    type Result = ResponseFuture<Result<u64, ListError>>;

    fn handle(&mut self, Remove { envelope, removal }: Remove, _: &mut Self::Context) -> Self::Result {
        self.run(envelope, async move |session, op, list| Ok(session.remove(&op, list, &removal).await?))
    }
}

impl Handler<RemoveAll> for ListActor {
    type Result = ResponseFuture<Result<(), ListError>>;

    fn handle(&mut self, RemoveAll { envelope }: RemoveAll, _: &mut Self::Context) -> Self::Result {
        self.run(envelope, async move |session, op, list| Ok(session.remove_all(&op, list).await?))
    }
}

impl Handler<GetBag> for ListActor {
    type Result = ResponseFuture<Result<ReadBag, ListError>>;

    fn handle(&mut self, GetBag { envelope }: GetBag, _: &mut Self::Context) -> Self::Result {
        self.run(envelope, async move |session, op, list| Ok(session.bag(&op, list).await?))
    }
}

impl Handler<SwapBag> for ListActor {
    type Result = ResponseFuture<Result<Swapped, ListError>>;

    fn handle(&mut self, SwapBag { envelope, swap }: SwapBag, _: &mut Self::Context) -> Self::Result {
        self.run(envelope, async move |session, op, list| Ok(session.swap_bag(&op, list, swap).await?))
    }
}

impl Handler<UnfinishedSwaps> for ListActor {
    type Result = ResponseFuture<Result<SwapPage, ListError>>;

    fn handle(&mut self, message: UnfinishedSwaps, _: &mut Self::Context) -> Self::Result {
        let UnfinishedSwaps { look, deadline, permit } = message;
        let session = Rc::clone(&self.session);
        let op = Operation::new(self.clock.now(), Ttl::ENDLESS, deadline);
        Box::pin(async move {
            let _permit = permit;
            in_time(deadline)?;
            Ok(session.unfinished_swaps(&op, look).await?)
        })
    }
}

impl Handler<FinishSwap> for ListActor {
    type Result = ResponseFuture<Result<(), ListError>>;

    fn handle(&mut self, FinishSwap { swap, deadline, permit }: FinishSwap, _: &mut Self::Context) -> Self::Result {
        let session = Rc::clone(&self.session);
        let op = Operation::new(self.clock.now(), Ttl::ENDLESS, deadline);
        Box::pin(async move {
            let _permit = permit;
            in_time(deadline)?;
            Ok(session.finish_swap(&op, swap).await?)
        })
    }
}

impl Handler<Entities> for ListActor {
    type Result = ResponseFuture<Result<EntityPage, ListError>>;

    fn handle(&mut self, message: Entities, _: &mut Self::Context) -> Self::Result {
        let Entities { feature_key, retention, from, limit, deadline, permit } = message;
        let session = Rc::clone(&self.session);
        let op = Operation::new(self.clock.now(), retention, deadline);
        Box::pin(async move {
            let _permit = permit;
            in_time(deadline)?;
            Ok(session.entities(&op, &feature_key, from.as_ref(), limit).await?)
        })
    }
}

impl Handler<BagEntities> for ListActor {
    type Result = ResponseFuture<Result<EntityPage, ListError>>;

    fn handle(&mut self, message: BagEntities, _: &mut Self::Context) -> Self::Result {
        let BagEntities { feature_key, ttl, from, limit, deadline, permit } = message;
        let session = Rc::clone(&self.session);
        let op = Operation::new(self.clock.now(), ttl, deadline);
        Box::pin(async move {
            let _permit = permit;
            in_time(deadline)?;
            Ok(session.bag_entities(&op, &feature_key, from.as_ref(), limit).await?)
        })
    }
}

impl Handler<Bags> for ListActor {
    type Result = ResponseFuture<Result<BagPage, ListError>>;

    fn handle(&mut self, message: Bags, _: &mut Self::Context) -> Self::Result {
        let Bags { feature_key, ttl, from, limit, deadline, permit } = message;
        let session = Rc::clone(&self.session);
        let op = Operation::new(self.clock.now(), ttl, deadline);
        Box::pin(async move {
            let _permit = permit;
            in_time(deadline)?;
            Ok(session.bags(&op, &feature_key, from.as_ref(), limit).await?)
        })
    }
}

impl Handler<EnterBags> for ListActor {
    type Result = ResponseFuture<Result<Vec<Swapped>, ListError>>;

    fn handle(&mut self, message: EnterBags, _: &mut Self::Context) -> Self::Result {
        let EnterBags { bags, ttl, deadline, permit } = message;
        let session = Rc::clone(&self.session);
        let op = Operation::new(self.clock.now(), ttl, deadline);
        Box::pin(async move {
            let _permit = permit;
            in_time(deadline)?;
            Ok(session.enter_bags(&op, bags).await?)
        })
    }
}
