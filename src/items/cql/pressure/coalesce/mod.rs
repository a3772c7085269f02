//! Identical reads that overlap share their requests: while one request is under way, later reads wait together for the
//! next one.
//!
//! The next request is sent when one has ended, or after a short while, so that a late answer delays only its own
//! reads. Before it is sent it needs a permit, as every request does; reads that come while it waits for one join it as
//! well.
//!
//! A read joins only a request that has not been sent yet, so that its answer holds all that was
//! acknowledged, by any server, before the read began. It must never be given the answer of one that
//! is already on its way: that may have looked before the last write.
//!
//! Identical reads have the same parameters: list, bounds, page, limit, and the version's TTL. The lower bound that
//! follows from the TTL moves with each caller's `now`. The request is made for the earliest of them. A later read gets
//! a copy of the answer without the items that have expired for it: a list is read newest first, so these are the last
//! items.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use prometheus::IntCounter;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

mod answer;

pub use answer::{FetchedPage, Query};
use answer::{Member, deliver, joint};

use super::permits::{Permit, Permits};
use crate::items::{ItemPage, OpContext, StoreError};

/// Queries that are asked in one session, and reads that wait there. Connections bound both far lower,
/// and permits the requests.
const READS_MAX: usize = 32_768;
/// The next request of a query waits this long for each that is in progress to end. So a slow request delays no other
/// read for long, and a slow cluster gets few identical requests: some fourteen in a stall of a second.
const TURN_WAIT: Duration = Duration::from_millis(10);

/// The reads of one session.
#[derive(Debug)]
pub struct Reads {
    state: Mutex<State>,
    permits: Arc<Permits>,
    turn_wait: Duration,
    joined: IntCounter,
}

#[derive(Debug, Default)]
struct State {
    queries: HashMap<Query, Asked>,
    waiting_count: usize,
}

/// The requests of one query: at least one in progress, or the next one.
#[derive(Debug, Default)]
struct Asked {
    under_way: u32,
    next: Option<Next>,
}

/// The request that is sent next, and the reads that it is for.
#[derive(Debug)]
struct Next {
    members: Vec<Member>,
    /// Rung when a request of this query has ended.
    turn: Arc<Notify>,
}

/// How a read gets its answer.
enum Entered {
    /// By a separate request, with this permit.
    Sends(Permit, Member),
    /// By one that is sent once it is its turn: after this time at the latest.
    Leads(Arc<Notify>, Duration),
    /// By one that another leads.
    Joins,
}

impl State {
    /// Forgets reads without a waiting caller, once there are too many.
    fn sweep_if_full(&mut self) {
        if self.waiting_count >= READS_MAX {
            let waiting = self.queries.values_mut().filter_map(|asked| asked.next.as_mut());
            self.waiting_count = waiting
                .map(|next| {
                    next.members.retain(|member| !member.answer.is_closed());
                    next.members.len()
                })
                .sum();
        }
    }

    /// Takes the next request out, which from now on none joins.
    fn take_next(&mut self, query: &Query) -> Vec<Member> {
        let members = self.queries.get_mut(query).and_then(|asked| asked.next.take()).map(|next| next.members);
        let members = members.unwrap_or_default();
        self.waiting_count = self.waiting_count.saturating_sub(members.len());
        members
    }

    fn forget_if_idle(&mut self, query: &Query) {
        if self.queries.get(query).is_some_and(|asked| asked.under_way == 0 && asked.next.is_none()) {
            self.queries.remove(query);
        }
    }
}

impl Reads {
    /// `joined` counts the reads that joined the request of another read.
    pub fn new(permits: Arc<Permits>, joined: IntCounter) -> Self {
        Self { state: Mutex::default(), permits, turn_wait: TURN_WAIT, joined }
    }

    /// Answers a read. `send` makes the request, in a separate task on this thread, which runs to its end even without
    /// a waiting caller.
    pub async fn read<F>(
        self: &Arc<Self>,
        op: &OpContext,
        query: Query,
        send: impl Fn(OpContext, Query, Permit) -> F + Send + 'static,
    ) -> Result<ItemPage, StoreError>
    where
        F: Future<Output = Result<FetchedPage, StoreError>> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        let member = Member { now: op.now, deadline: op.deadline, answer: sender };
        let answered = match self.enter(&query, member)? {
            Entered::Sends(permit, member) => {
                tokio::spawn(Arc::clone(self).carry_out(query, vec![member], permit, send));
                // The request's deadline is this read's.
                answer.await
            }
            Entered::Leads(turn, wait) => {
                tokio::spawn(Arc::clone(self).lead(query, turn, wait, send));
                by(op.deadline, answer).await?
            }
            Entered::Joins => by(op.deadline, answer).await?,
        };
        answered.unwrap_or_else(|_| Err(broken("the session was closed")))
    }

    /// Finds the request that answers this read.
    fn enter(&self, query: &Query, member: Member) -> Result<Entered, StoreError> {
        let mut state = self.state();
        state.sweep_if_full();
        let State { queries, waiting_count } = &mut *state;
        let count = queries.len();
        let asked = match queries.entry(query.clone()) {
            Entry::Occupied(asked) => asked.into_mut(),
            Entry::Vacant(_) if count >= READS_MAX => return Err(too_many()),
            Entry::Vacant(free) => free.insert(Asked::default()),
        };
        let joins = asked.next.is_some();
        if !joins && asked.under_way == 0 {
            if let Some(permit) = self.permits.try_take() {
                asked.under_way = 1;
                return Ok(Entered::Sends(permit, member));
            }
        } else if *waiting_count >= READS_MAX {
            return Err(too_many());
        }
        *waiting_count += 1;
        let next = asked.next.get_or_insert_with(|| Next { members: Vec::new(), turn: Arc::default() });
        next.members.push(member);
        if joins {
            self.joined.inc();
            return Ok(Entered::Joins);
        }
        Ok(Entered::Leads(Arc::clone(&next.turn), self.turn_wait * asked.under_way))
    }

    /// Sends the next request of a query when it is its turn and there is a permit for it.
    async fn lead<F>(
        self: Arc<Self>,
        query: Query,
        turn: Arc<Notify>,
        wait: Duration,
        send: impl Fn(OpContext, Query, Permit) -> F,
    ) where
        F: Future<Output = Result<FetchedPage, StoreError>> + Send + 'static,
    {
        if !wait.is_zero() {
            // The first of both counts.
            let _ = timeout(wait, turn.notified()).await;
        }
        // Each member leaves at its own deadline.
        match self.permits.take(None).await {
            Ok(permit) => {
                let members = {
                    let mut state = self.state();
                    let members = state.take_next(&query);
                    if let Some(asked) = state.queries.get_mut(&query) {
                        asked.under_way += 1;
                    }
                    members
                };
                self.carry_out(query, members, permit, send).await;
            }
            Err(refused) => {
                let members = {
                    let mut state = self.state();
                    let members = state.take_next(&query);
                    state.forget_if_idle(&query);
                    members
                };
                deliver(members, query.ttl, Err(refused));
            }
        }
    }

    /// Makes a request that is counted as in progress, for the reads that still wait.
    async fn carry_out<F>(
        self: Arc<Self>,
        query: Query,
        mut members: Vec<Member>,
        permit: Permit,
        send: impl Fn(OpContext, Query, Permit) -> F,
    ) where
        F: Future<Output = Result<FetchedPage, StoreError>> + Send + 'static,
    {
        members.retain(|member| !member.answer.is_closed());
        if let Some(op) = joint(&members, query.ttl) {
            let request = AssertUnwindSafe(send(op, query.clone(), permit)).catch_unwind();
            let outcome = request.await.unwrap_or_else(|_| Err(broken("an operation panicked")));
            deliver(members, query.ttl, outcome);
        }
        let mut state = self.state();
        if let Some(asked) = state.queries.get_mut(&query) {
            asked.under_way = asked.under_way.saturating_sub(1);
            if let Some(next) = &asked.next {
                next.turn.notify_one();
            }
        }
        state.forget_if_idle(&query);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Answered = Result<Result<ItemPage, StoreError>, oneshot::error::RecvError>;

async fn by(
    deadline: Instant,
    answer: oneshot::Receiver<Result<ItemPage, StoreError>>,
) -> Result<Answered, StoreError> {
    timeout_at(deadline, answer).await.map_err(|_| StoreError::Timeout { outcome_unknown: false })
}

fn broken(reason: &str) -> StoreError {
    StoreError::Internal { reason: reason.to_owned(), outcome_unknown: false }
}

fn too_many() -> StoreError {
    StoreError::Overloaded { reason: "too many reads at once in one session".to_owned() }
}

#[cfg(test)]
mod tests;
