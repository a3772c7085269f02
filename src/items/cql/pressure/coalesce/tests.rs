//! Reads whose requests a test answers by hand.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::domain::{
    EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Item, ListKey, Order, Timestamp, Ttl,
    VersionLabel,
};
use crate::items::Range;

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
        order: Order::Newest,
    };
    Query { list, ttl: Ttl::from_secs(1).unwrap(), range }
}

fn answer(nanos: &[u64], next: Option<u64>) -> FetchedPage {
    let items = nanos.iter().map(|n| Item { timestamp: at(*n), value: Bytes::from(n.to_string()) }).collect();
    FetchedPage { page: ItemPage { items, more: next.is_some() }, next: next.map(at), expiries: Vec::new() }
}

fn nanos_of(page: &ItemPage) -> Vec<u64> {
    page.items.iter().map(|item| item.timestamp.as_nanos()).collect()
}

/// A request that was sent, to be answered or to panic.
type Sent = (OpContext, oneshot::Sender<Option<Result<FetchedPage, StoreError>>>);

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
        let op = OpContext::new(at(now), query.ttl, Instant::now() + Duration::from_millis(millis));
        let caller = tokio::spawn(async move {
            let send = move |op, _, permit| {
                let requests = requests.clone();
                async move {
                    let (give, take) = oneshot::channel();
                    requests.send((op, give)).await.unwrap();
                    let answer = take.await.unwrap().expect("asked to panic");
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
async fn overlapping_reads_make_two_requests_and_join_unsent_ones() {
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
async fn the_next_read_does_not_wait_for_a_slow_one() {
    let mut session = Session::with(Duration::from_millis(20), Permits::new(8, NEVER, Arc::default()));
    let slow = session.read(query("u-1"), NOW, 60_000).await;
    let (_, answer_slow) = session.sent.recv().await.unwrap();
    let began = Instant::now();
    let one = session.read(query("u-1"), NOW, 60_000).await;
    let two = session.read(query("u-1"), NOW, 60_000).await;
    let (_, answer_next) = session.sent.recv().await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(20));
    // Later reads wait longer for their turn, as two are in progress, or until one has ended.
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
async fn reads_without_a_permit_are_refused_together() {
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
async fn each_read_sees_the_items_of_its_own_moment() {
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
async fn a_panic_or_a_lost_caller_blocks_no_other() {
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

    // The read that leads the request leaves, and the reads behind it get their answers.
    let leaves = session.read(query("u-1"), NOW, 5_000).await;
    let (_, answer_third) = session.sent.recv().await.unwrap();
    let stays = session.read(query("u-1"), NOW, 5_000).await;
    leaves.abort();
    answer_third.send(Some(Ok(answer(&[], None)))).unwrap();
    let (_, answer_fourth) = session.sent.recv().await.unwrap();
    answer_fourth.send(Some(Ok(answer(&[NOW], None)))).unwrap();
    assert_eq!(stays.await.unwrap().unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_read_ends_at_its_deadline_and_abandoned_ones_are_not_sent() {
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
    assert!(session.sent.try_recv().is_err() && session.is_idle(), "no caller waits");
}
