//! Identical reads that overlap share their requests: while one is under way, those that come wait for
//! the next together.
//!
//! The next is sent when one has ended, or by itself after a short while, so that a request that is
//! answered late delays nobody but those it is for. Before it is sent it needs a permit, as every
//! request does; reads that come while it waits for one join it as well.
//!
//! A read joins only a request that has not been sent yet, so that its answer holds all that was
//! acknowledged, by any server, before the read began. It must never be given the answer of one that
//! is already on its way: that may have looked before the last write.
//!
//! Identical means what the callers ask for: list, bounds, page, limit, and the version's TTL. The
//! lower bound that follows from the TTL moves with each caller's `now`. The request is made for the
//! earliest of them, and what has expired for a later one is taken out of its copy of the answer: a
//! list is read newest first, so those are the last items.

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

use super::permits::{Permit, Permits};
use crate::domain::{ListKey, Timestamp, Ttl};
use crate::items::{ItemPage, Operation, Range, StoreError};

/// Queries that are asked in one session, and reads that wait there. Connections bound both far lower,
/// and permits the requests.
const READS_MAX: usize = 32_768;
/// The next request of a query waits this long for each that is under way to end. So one that is slow
/// makes nobody wait for long; and a cluster that is slow altogether is not sent ever more of the same:
/// in a stall of a second, some fourteen requests.
const TURN_WAIT: Duration = Duration::from_millis(10);

/// What identical reads have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query {
    pub list: ListKey,
    pub ttl: Ttl,
    pub range: Range,
}

/// What a request found.
#[derive(Debug, Clone)]
pub struct Answer {
    pub page: ItemPage,
    /// The timestamp of the item because of which `page.more` is set.
    pub next: Option<Timestamp>,
}

impl Answer {
    /// The answer for a caller to whom older items are not visible.
    fn visible_from(mut self, oldest: Timestamp) -> ItemPage {
        let items = &mut self.page.items;
        if items.last().is_some_and(|last| last.timestamp < oldest) {
            items.truncate(items.partition_point(|item| item.timestamp >= oldest));
        }
        self.page.more &= self.next.is_some_and(|next| next >= oldest);
        self.page
    }
}

/// A read that waits for its answer.
#[derive(Debug)]
struct Member {
    now: Timestamp,
    deadline: Instant,
    answer: oneshot::Sender<Result<ItemPage, StoreError>>,
}

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

/// What there is of one query: at least one request under way, or the next.
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
    /// By a request of its own, with this permit.
    Sends(Permit, Member),
    /// By one that is sent once it is its turn: after this time at the latest.
    Leads(Arc<Notify>, Duration),
    /// By one that another leads.
    Joins,
}

impl State {
    /// Forgets those that have given up, once there are too many.
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
    /// `joined` counts the reads that needed no request of their own.
    pub fn new(permits: Arc<Permits>, joined: IntCounter) -> Self {
        Self { state: Mutex::default(), permits, turn_wait: TURN_WAIT, joined }
    }

    /// Answers a read. `send` makes the request, in a task of its own on this thread, which runs to its
    /// end whoever still waits for it.
    pub async fn read<F>(
        self: &Arc<Self>,
        op: &Operation,
        query: Query,
        send: impl Fn(Operation, Query, Permit) -> F + Send + 'static,
    ) -> Result<ItemPage, StoreError>
    where
        F: Future<Output = Result<Answer, StoreError>> + Send + 'static,
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
        send: impl Fn(Operation, Query, Permit) -> F,
    ) where
        F: Future<Output = Result<Answer, StoreError>> + Send + 'static,
    {
        if !wait.is_zero() {
            // Whichever comes first.
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

    /// Makes a request that is under way already, for those who still wait.
    async fn carry_out<F>(
        self: Arc<Self>,
        query: Query,
        mut members: Vec<Member>,
        permit: Permit,
        send: impl Fn(Operation, Query, Permit) -> F,
    ) where
        F: Future<Output = Result<Answer, StoreError>> + Send + 'static,
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

/// The operation that serves all of these: as early as the earliest, and until the last deadline.
fn joint(members: &[Member], ttl: Ttl) -> Option<Operation> {
    let now = members.iter().map(|member| member.now).min()?;
    let deadline = members.iter().map(|member| member.deadline).max()?;
    Some(Operation { now, ttl, deadline })
}

/// Gives each what it may see; the last one without a copy.
fn deliver(mut members: Vec<Member>, ttl: Ttl, outcome: Result<Answer, StoreError>) {
    let Some(last) = members.pop() else {
        return;
    };
    let give = |member: Member, outcome: Result<Answer, StoreError>| {
        let oldest = ttl.visible_from(member.now);
        // One that has given up needs no answer.
        let _ = member.answer.send(outcome.map(|answer| answer.visible_from(oldest)));
    };
    members.into_iter().for_each(|member| give(member, outcome.clone()));
    give(last, outcome);
}

fn broken(reason: &str) -> StoreError {
    StoreError::Internal { reason: reason.to_owned(), outcome_unknown: false }
}

fn too_many() -> StoreError {
    StoreError::Overloaded { reason: "too many reads at once in one session".to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Item, VersionLabel};

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn query(entity_id: &str) -> Query {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::new("").unwrap(), Generation::FIRST);
        let list = ListKey::new(key, EntityId::new(entity_id).unwrap());
        let range = Range {
            min_timestamp: Timestamp::MIN,
            max_timestamp: Timestamp::MAX,
            after: None,
            limit: 3,
            value_bytes_max: usize::MAX,
        };
        Query { list, ttl: Ttl::from_secs(1).unwrap(), range }
    }

    fn answer(nanos: &[u64], next: Option<u64>) -> Answer {
        let items = nanos.iter().map(|n| Item { timestamp: at(*n), value: Bytes::from(n.to_string()) }).collect();
        Answer { page: ItemPage { items, more: next.is_some() }, next: next.map(at) }
    }

    fn nanos_of(page: &ItemPage) -> Vec<u64> {
        page.items.iter().map(|item| item.timestamp.as_nanos()).collect()
    }

    /// A request that was sent, to be answered or to panic.
    type Sent = (Operation, oneshot::Sender<Option<Result<Answer, StoreError>>>);

    struct Session {
        reads: Arc<Reads>,
        permits: Arc<Permits>,
        requests: mpsc::Sender<Sent>,
        sent: mpsc::Receiver<Sent>,
    }

    /// Longer than any test takes.
    const NEVER: Duration = Duration::from_secs(600);

    impl Session {
        fn new() -> Self {
            Self::with(NEVER, Permits::new(8, NEVER, Arc::default()))
        }

        fn with(turn_wait: Duration, permits: Arc<Permits>) -> Self {
            let (requests, sent) = mpsc::channel(8);
            let reads = Reads::new(Arc::clone(&permits), IntCounter::new("joined", "joined").unwrap());
            Self { reads: Arc::new(Reads { turn_wait, ..reads }), permits, requests, sent }
        }

        /// A caller who reads at `now`, in nanoseconds, and has `millis`. Has joined when this returns.
        async fn read(&self, query: Query, now: u64, millis: u64) -> JoinHandle<Result<ItemPage, StoreError>> {
            let (reads, requests) = (Arc::clone(&self.reads), self.requests.clone());
            let op =
                Operation { now: at(now), ttl: query.ttl, deadline: Instant::now() + Duration::from_millis(millis) };
            let caller = tokio::spawn(async move {
                let send = move |op, _, permit| {
                    let requests = requests.clone();
                    async move {
                        let (give, take) = oneshot::channel();
                        requests.send((op, give)).await.unwrap();
                        let answer = take.await.unwrap().expect("told to panic");
                        drop(permit);
                        answer
                    }
                };
                reads.read(&op, query, send).await
            });
            tokio::task::yield_now().await;
            caller
        }

        fn is_idle(&self) -> bool {
            let state = self.reads.state();
            state.queries.is_empty() && state.waiting_count == 0
        }
    }

    const NOW: u64 = 10_000_000_000;

    #[tokio::test]
    async fn what_overlaps_makes_two_requests_and_each_joins_one_not_yet_sent() {
        let mut session = Session::new();
        let first = session.read(query("u-1"), NOW, 5_000).await;
        let (_, answer_first) = session.sent.recv().await.unwrap();
        let mut joiners = Vec::new();
        for _ in 0..50 {
            joiners.push(session.read(query("u-1"), NOW, 5_000).await);
        }
        assert!(session.sent.try_recv().is_err(), "the first is under way");
        answer_first.send(Some(Ok(answer(&[NOW], None)))).unwrap();
        assert_eq!(nanos_of(&first.await.unwrap().unwrap()), [NOW]);
        let (_, answer_second) = session.sent.recv().await.unwrap();
        answer_second.send(Some(Ok(answer(&[NOW + 1, NOW], None)))).unwrap();
        for joiner in joiners {
            assert_eq!(nanos_of(&joiner.await.unwrap().unwrap()), [NOW + 1, NOW], "it began after the first was sent");
        }
        assert_eq!(session.reads.joined.get(), 49);
        tokio::task::yield_now().await;
        assert!(session.is_idle() && session.sent.try_recv().is_err());
    }

    /// Twelve gets once waited up to 600 ms for the one before them, which alone was slow.
    #[tokio::test]
    async fn the_next_does_not_wait_for_one_that_is_slow() {
        let mut session = Session::with(Duration::from_millis(20), Permits::new(8, NEVER, Arc::default()));
        let slow = session.read(query("u-1"), NOW, 60_000).await;
        let (_, answer_slow) = session.sent.recv().await.unwrap();
        let began = Instant::now();
        let one = session.read(query("u-1"), NOW, 60_000).await;
        let two = session.read(query("u-1"), NOW, 60_000).await;
        let (_, answer_next) = session.sent.recv().await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));
        // Those that come now wait longer for their turn, as two are under way, or until one has ended.
        let late = session.read(query("u-1"), NOW, 60_000).await;
        answer_next.send(Some(Ok(answer(&[NOW], None)))).unwrap();
        assert_eq!((one.await.unwrap().unwrap().items.len(), two.await.unwrap().unwrap().items.len()), (1, 1));
        let (_, answer_late) = session.sent.recv().await.unwrap();
        answer_late.send(Some(Ok(answer(&[NOW, NOW - 1], None)))).unwrap();
        assert_eq!(late.await.unwrap().unwrap().items.len(), 2);
        answer_slow.send(Some(Ok(answer(&[], None)))).unwrap();
        assert!(slow.await.unwrap().unwrap().items.is_empty());
        tokio::task::yield_now().await;
        assert!(session.is_idle() && session.reads.joined.get() == 1);
    }

    #[tokio::test]
    async fn reads_that_wait_for_a_permit_share_one() {
        let mut session = Session::with(NEVER, Permits::new(1, NEVER, Arc::default()));
        let permit = session.permits.try_take().unwrap();
        let mut readers = Vec::new();
        for _ in 0..20 {
            readers.push(session.read(query("u-1"), NOW, 60_000).await);
        }
        assert_eq!(session.permits.counts().waiting, 1);
        drop(permit);
        let (_, give) = session.sent.recv().await.unwrap();
        give.send(Some(Ok(answer(&[NOW], None)))).unwrap();
        for reader in readers {
            assert_eq!(reader.await.unwrap().unwrap().items.len(), 1);
        }
        tokio::task::yield_now().await;
        assert!(session.is_idle() && session.reads.joined.get() == 19 && session.permits.counts().in_use == 0);
    }

    #[tokio::test]
    async fn reads_for_which_there_is_no_permit_are_refused_together() {
        let session = Session::with(NEVER, Permits::new(1, Duration::from_millis(30), Arc::default()));
        let _permit = session.permits.try_take().unwrap();
        let (one, two) = (session.read(query("u-1"), NOW, 60_000).await, session.read(query("u-1"), NOW, 60_000).await);
        for refused in [one, two] {
            assert!(matches!(refused.await.unwrap(), Err(StoreError::Overloaded { .. })));
        }
        assert!(session.is_idle());
    }

    #[tokio::test]
    async fn other_queries_do_not_wait() {
        let mut session = Session::new();
        let other_limit = Query { range: Range { limit: 2, ..query("u-1").range }, ..query("u-1") };
        let other_ttl = Query { ttl: Ttl::from_secs(2).unwrap(), ..query("u-1") };
        for query in [query("u-1"), query("u-2"), other_limit, other_ttl] {
            session.read(query, NOW, 5_000).await;
            session.sent.recv().await.unwrap();
        }
        assert_eq!(session.reads.joined.get(), 0);
    }

    #[tokio::test]
    async fn each_sees_what_is_visible_at_its_own_moment() {
        let mut session = Session::new();
        session.read(query("u-1"), NOW, 5_000).await;
        let (_, answer_first) = session.sent.recv().await.unwrap();
        let mut callers = Vec::new();
        for now in [NOW + 7, NOW + 5, NOW + 6, NOW + 8] {
            callers.push(session.read(query("u-1"), now, 5_000).await);
        }
        answer_first.send(Some(Ok(answer(&[], None)))).unwrap();
        let (op, answer_second) = session.sent.recv().await.unwrap();
        assert_eq!(op.now, at(NOW + 5), "the earliest sees most");
        // With a TTL of a second, an item is visible from now - 1 s + 1 ns on.
        let oldest = NOW - 1_000_000_000;
        answer_second.send(Some(Ok(answer(&[NOW, oldest + 8, oldest + 7], Some(oldest + 6))))).unwrap();
        let mut seen = Vec::new();
        for caller in callers {
            let page = caller.await.unwrap().unwrap();
            seen.push((page.items.len(), page.more));
        }
        assert_eq!(seen, [(2, false), (3, true), (3, false), (1, false)]);
    }

    #[tokio::test]
    async fn a_failure_reaches_all_and_no_later_read() {
        let mut session = Session::new();
        session.read(query("u-1"), NOW, 5_000).await;
        let (_, answer_first) = session.sent.recv().await.unwrap();
        let (one, two) = (session.read(query("u-1"), NOW, 5_000).await, session.read(query("u-1"), NOW, 5_000).await);
        answer_first.send(Some(Ok(answer(&[], None)))).unwrap();
        let (_, answer_second) = session.sent.recv().await.unwrap();
        let later = session.read(query("u-1"), NOW, 5_000).await;
        answer_second.send(Some(Err(StoreError::Overloaded { reason: "busy".into() }))).unwrap();
        for joined in [one, two] {
            assert!(matches!(joined.await.unwrap(), Err(StoreError::Overloaded { .. })));
        }
        let (_, answer_third) = session.sent.recv().await.unwrap();
        answer_third.send(Some(Ok(answer(&[NOW], None)))).unwrap();
        assert_eq!(later.await.unwrap().unwrap().items.len(), 1);
    }

    #[tokio::test]
    async fn a_panic_or_a_caller_who_leaves_strands_nobody() {
        let mut session = Session::new();
        let panics = session.read(query("u-1"), NOW, 5_000).await;
        let (_, answer_first) = session.sent.recv().await.unwrap();
        let leaves = session.read(query("u-1"), NOW, 5_000).await;
        let stays = session.read(query("u-1"), NOW, 5_000).await;
        leaves.abort();
        assert!(leaves.await.unwrap_err().is_cancelled());
        answer_first.send(None).unwrap();
        assert!(matches!(panics.await.unwrap(), Err(StoreError::Internal { .. })));
        let (_, answer_second) = session.sent.recv().await.unwrap();
        answer_second.send(Some(Ok(answer(&[NOW], None)))).unwrap();
        assert_eq!(stays.await.unwrap().unwrap().items.len(), 1);

        // The one whose request it is leaves, and those that wait behind it get theirs.
        let leaves = session.read(query("u-1"), NOW, 5_000).await;
        let (_, answer_third) = session.sent.recv().await.unwrap();
        let stays = session.read(query("u-1"), NOW, 5_000).await;
        leaves.abort();
        answer_third.send(Some(Ok(answer(&[], None)))).unwrap();
        let (_, answer_fourth) = session.sent.recv().await.unwrap();
        answer_fourth.send(Some(Ok(answer(&[NOW], None)))).unwrap();
        assert_eq!(stays.await.unwrap().unwrap().items.len(), 1);
    }

    #[tokio::test]
    async fn each_leaves_at_its_own_deadline_and_nothing_is_sent_for_those_that_left() {
        let mut session = Session::new();
        let began = Instant::now();
        let first = session.read(query("u-1"), NOW, 5_000).await;
        let (_, answer_first) = session.sent.recv().await.unwrap();
        let (short, long) = (session.read(query("u-1"), NOW, 100).await, session.read(query("u-1"), NOW, 900).await);
        assert!(matches!(short.await.unwrap(), Err(StoreError::Timeout { outcome_unknown: false })));
        assert!(began.elapsed() >= Duration::from_millis(100));
        answer_first.send(Some(Ok(answer(&[], None)))).unwrap();
        first.await.unwrap().unwrap();
        let (op, answer_second) = session.sent.recv().await.unwrap();
        let left = op.deadline.duration_since(began);
        assert!((900..5_000).contains(&left.as_millis()), "{left:?} is not the deadline of the one that is left");

        let gone = session.read(query("u-1"), NOW, 50).await;
        assert!(gone.await.unwrap().is_err());
        answer_second.send(Some(Ok(answer(&[], None)))).unwrap();
        long.await.unwrap().unwrap();
        tokio::task::yield_now().await;
        assert!(session.sent.try_recv().is_err() && session.is_idle(), "nobody waits any more");
    }
}
