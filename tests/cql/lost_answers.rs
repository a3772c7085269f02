//! Swaps of bags that are made, or never arrive, and whose connections break before the answer, while another server
//! swaps the same bag. A repeated attempt reports the outcome of the first, or that it is unknown.

use std::time::Duration;

use liststore::domain::{ListKey, Ttl};
use liststore::items::{BagAfter, BagSwap, EntryChange, StoreError, SwapScan, Swapped};
use scylla::errors::{DbError, WriteType};
use scylla_proxy::{Condition, Reaction, RequestReaction, RequestRule, ResponseFrame, ResponseReaction, ResponseRule};
use serde_json::{Value, json};

use crate::bag_checker::call_if;
use crate::bags::{entries, fresh, item, program, put, read};
use crate::cassandra::shared_options;
use crate::forger::{Forger, Sent, of, swap_answer};
use crate::permits::feedback;
use crate::probe::{Server, bare, now, now_micros};

/// The number of replaced states in a row.
const REMEMBERED: usize = 32;

/// A third of the deadline passes before an attempt follows a delayed one. Until then some other swaps complete, or as
/// many as a row remembers.
const SHORT: Duration = Duration::from_secs(12);
const LONG: Duration = Duration::from_secs(28);

/// The fate of the first attempt of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// It is made, and its connection breaks.
    Cut,
    /// It is made, and the answer is a timeout.
    TimedOut,
    /// Its connection breaks before it arrives.
    NeverSent,
}

/// Makes a swap whose first attempt fails, after this many notes. Its other attempts wait until `in_between` is over.
async fn interrupted<T>(
    forger: &mut Forger,
    first: First,
    notes: usize,
    swap: impl Future<Output = T>,
    in_between: impl Future<Output = ()>,
) -> T {
    let (met, mut meetings) = feedback();
    let (sent, mut arrivals) = feedback();
    let writes = of(Sent::Delete);
    let before = RequestRule(writes.clone().and(Condition::TrueForLimitedTimes(notes)), RequestReaction::noop());
    let once = writes.clone().and(Condition::TrueForLimitedTimes(1));
    let passes = match first {
        First::NeverSent => RequestReaction::drop_connection().with_feedback_when_performed(sent),
        First::Cut | First::TimedOut => RequestReaction::noop(),
    };
    forger.on_requests(vec![before, RequestRule(once, passes), RequestRule(writes, RequestReaction::drop_frame())]);
    let answer = match first {
        First::TimedOut => ResponseReaction::transform_frame(std::sync::Arc::new(|frame: ResponseFrame| {
            let consistency = scylla::statement::Consistency::LocalSerial;
            let error = DbError::WriteTimeout { consistency, received: 1, required: 2, write_type: WriteType::Cas };
            ResponseFrame::forged_error(frame.params, error, None).unwrap()
        })),
        First::Cut | First::NeverSent => ResponseReaction::drop_connection(),
    };
    let once = swap_answer().and(Condition::TrueForLimitedTimes(1));
    forger.on_responses(vec![ResponseRule(once, answer.with_feedback_when_performed(met))]);
    let heals = async {
        match first {
            First::NeverSent => drop(arrivals.recv().await.unwrap()),
            First::Cut | First::TimedOut => drop(meetings.recv().await.unwrap()),
        }
        in_between.await;
        forger.heal();
    };
    tokio::join!(swap, heals).0
}

struct Servers {
    forger: Forger,
    /// Its requests can be interrupted.
    one: Server,
    two: Server,
    bag: ListKey,
}

impl Servers {
    async fn start() -> Self {
        let forger = Forger::start().await;
        let one = Server { deadline: SHORT, ..Server::open(forger.options.clone()).await };
        Self { forger, one, two: Server::open(shared_options()).await, bag: fresh("") }
    }

    /// An existing bag, and a server that has seen the answer to a put.
    async fn with_bag() -> Self {
        let servers = Self::start().await;
        assert_eq!(put(&servers.one, &servers.bag, "{}", Vec::new()).await.unwrap(), Swapped::Done);
        servers
    }

    /// One puts a bag, which goes wrong at first, while two puts others.
    async fn put_while_others_do(&mut self, first: First, others: usize) -> Result<Swapped, StoreError> {
        let Self { forger, one, two, bag } = self;
        one.deadline = if others > 3 { LONG } else { SHORT };
        let in_between = async {
            for other in 1..=others {
                assert_eq!(put(two, bag, &format!("other {other}"), Vec::new()).await.unwrap(), Swapped::Done);
            }
        };
        interrupted(forger, first, 0, put(one, bag, "own", Vec::new()), in_between).await
    }

    async fn document(&self) -> Option<String> {
        read(&self.two, &self.bag).await.map(|(_, document)| document)
    }
}

fn is_unknown(result: &Result<Swapped, StoreError>) -> bool {
    result.as_ref().is_err_and(StoreError::outcome_unknown)
}

#[tokio::test]
async fn an_applied_swap_is_recognized_after_later_swaps() {
    let mut servers = Servers::with_bag().await;
    for (first, others) in [(First::Cut, 1), (First::TimedOut, 2), (First::Cut, REMEMBERED)] {
        let swapped = servers.put_while_others_do(first, others).await;
        assert_eq!(swapped.unwrap(), Swapped::Done, "{first:?}, {others}");
        assert_eq!(servers.document().await, Some(format!("other {others}")));
    }
}

#[tokio::test]
async fn a_swap_that_never_arrived_is_recognized_as_lost() {
    let mut servers = Servers::with_bag().await;
    for others in [1, REMEMBERED] {
        let swapped = servers.put_while_others_do(First::NeverSent, others).await;
        assert_eq!(swapped.unwrap(), Swapped::Lost, "{others}");
        assert_eq!(servers.document().await, Some(format!("other {others}")));
    }
}

#[tokio::test]
async fn a_created_bag_is_recognized_after_later_swaps() {
    for (first, expected) in [(First::Cut, Swapped::Done), (First::NeverSent, Swapped::Lost)] {
        let mut servers = Servers::start().await;
        assert_eq!(servers.put_while_others_do(first, 2).await.unwrap(), expected, "{first:?}");
        assert_eq!(servers.document().await.as_deref(), Some("other 2"));
    }
}

#[tokio::test]
async fn more_swaps_than_a_row_remembers_leave_the_outcome_unknown() {
    for first in [First::Cut, First::NeverSent] {
        let mut servers = Servers::with_bag().await;
        let swapped = servers.put_while_others_do(first, REMEMBERED + 1).await;
        assert!(is_unknown(&swapped), "{first:?}: {swapped:?}");
        assert_eq!(servers.document().await, Some(format!("other {}", REMEMBERED + 1)));
    }
}

#[tokio::test]
async fn a_put_is_recognized_after_a_deletion_by_another_server() {
    let mut servers = Servers::with_bag().await;
    let Servers { forger, one, two, bag } = &mut servers;
    let deletes = async {
        let found = two.session.bag(&two.op(), bag).await.unwrap();
        let before = found.bag.map(|bag| bag.timestamp);
        let swap = BagSwap { before, row: found.row, after: BagAfter::Gone, entries: Vec::new(), entered_in: None };
        assert_eq!(two.session.swap_bag(&two.op(), bag, swap).await.unwrap(), Swapped::Done);
    };
    let swapped = interrupted(forger, First::Cut, 0, put(one, bag, "own", Vec::new()), deletes).await;
    assert_eq!(swapped.unwrap(), Swapped::Done);
    assert_eq!(servers.document().await, None);
}

/// Such a release does not remember the states that it replaced.
#[tokio::test]
async fn a_swap_of_an_older_release_in_between_leaves_the_outcome_unknown() {
    let driver = bare(&shared_options()).await;
    for first in [First::Cut, First::NeverSent] {
        let mut servers = Servers::with_bag().await;
        let Servers { forger, one, bag, .. } = &mut servers;
        let older = async {
            let update = "UPDATE list_bags USING TTL 600 SET state = ?, written = ?, stamp = ?, expires_at = ?, document = \
                          0x6f6c64 WHERE feature_key = ? AND entity_id = ? IF EXISTS";
            let stamp = now().as_nanos() as i64;
            let key = (bag.feature_key.as_str(), bag.entity_id.as_str());
            let values = (uuid::Uuid::new_v4(), now_micros(), stamp, stamp + 600_000_000_000, key.0, key.1);
            driver.query_unpaged(update, values).await.unwrap();
        };
        let swapped = interrupted(forger, first, 0, put(one, bag, "own", Vec::new()), older).await;
        assert!(is_unknown(&swapped), "{first:?}: {swapped:?}");
        assert_eq!(servers.document().await.as_deref(), Some("old"));
        // A swap without a repetition needs none of that, and the next ones are remembered again.
        assert_eq!(put(&servers.one, &servers.bag, "{}", Vec::new()).await.unwrap(), Swapped::Done);
        assert_eq!(servers.put_while_others_do(First::Cut, 3).await.unwrap(), Swapped::Done);
    }
}

/// They are written although the bag has changed by then, and a later swap that removes them outranks that.
#[tokio::test]
async fn the_entries_of_an_applied_swap_are_written_afterwards() {
    let mut servers = Servers::with_bag().await;
    let Servers { forger, one, two, bag } = &mut servers;
    for is_removed in [false, true] {
        let list = fresh("by_city");
        let entry = item(one, now(), "e-1");
        let change = |removed: bool| {
            let of_entry = (entry.timestamp, entry.value.clone());
            let (removed, added) = if removed { (vec![of_entry], vec![]) } else { (vec![], vec![entry.clone()]) };
            EntryChange { list: list.clone(), removed, added }
        };
        let follows = async {
            let changes = if is_removed { vec![change(true)] } else { Vec::new() };
            assert_eq!(put(two, bag, "other", changes).await.unwrap(), Swapped::Done);
        };
        // The note of the swap comes first.
        let swapped = interrupted(forger, First::Cut, 1, put(one, bag, "own", vec![change(false)]), follows).await;
        assert_eq!(swapped.unwrap(), Swapped::Done);
        assert_eq!(entries(two, &list).await, usize::from(!is_removed), "removed: {is_removed}");
    }
}

/// The Cleaner finds it there, and repairs the entries of the bag.
#[tokio::test]
async fn a_swap_of_unknown_outcome_stays_noted() {
    let mut servers = Servers::with_bag().await;
    let Servers { forger, one, two, bag } = &mut servers;
    one.deadline = LONG;
    let entry = EntryChange { list: fresh("by_city"), removed: Vec::new(), added: vec![item(one, now(), "e-1")] };
    let follow = async {
        for _ in 0..=REMEMBERED {
            assert_eq!(put(two, bag, "other", Vec::new()).await.unwrap(), Swapped::Done);
        }
    };
    let swapped = interrupted(forger, First::Cut, 1, put(one, bag, "own", vec![entry]), follow).await;
    assert!(is_unknown(&swapped), "{swapped:?}");
    let (mut scan, mut noted) = (SwapScan::default(), 0);
    loop {
        let page =
            two.session.swap_journal().unwrap().unfinished_swaps(&two.op_with(Ttl::ENDLESS), scan).await.unwrap();
        noted += page.swaps.iter().filter(|swap| swap.bag == *bag).count();
        scan = page.scan;
        if scan.is_over() {
            break;
        }
    }
    assert_eq!(noted, 1);
}

/// Without a condition a change is not made again on top of later ones, and under one it is not refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_with_a_lost_answer_is_made_once_and_never_refused() {
    let mut forger = Forger::start().await;
    let entity_type = format!("t{}", uuid::Uuid::new_v4().simple());
    let one = program(&forger.options.contact_points, &entity_type);
    let two = program(&shared_options().contact_points, &entity_type);
    let path = format!("/v1/entities/{entity_type}/e-1");
    let [cut_off, direct] = [&one, &two].map(|server| server.address().to_owned());
    let send = |address: &str, method: &'static str, condition: String, body: Value| {
        let (address, path) = (address.to_owned(), path.clone());
        tokio::task::spawn_blocking(move || call_if(&address, method, &path, &condition, &body).unwrap())
    };
    assert_eq!(send(&cut_off, "PUT", String::new(), json!({"a": 0, "b": 0})).await.unwrap().0, 201);
    for (method, is_conditional) in [("PATCH", false), ("PATCH", true), ("PUT", true)] {
        let (_, bag) = send(&direct, "GET", String::new(), Value::Null).await.unwrap();
        let condition = format!("If-Match: {}\r\n", bag["etag"].as_str().unwrap());
        let condition = if is_conditional { condition } else { String::new() };
        let own = async { send(&cut_off, method, condition, json!({"a": 1})).await };
        let other = async {
            let (status, answer) = send(&direct, "PATCH", String::new(), json!({"a": 2})).await.unwrap();
            assert_eq!(status, 200, "{answer}");
        };
        let (status, answer) = interrupted(&mut forger, First::Cut, 0, own, other).await.unwrap();
        assert!(status < 300, "{method}, under a condition: {is_conditional}: {status} {answer}");
        let (_, bag) = send(&direct, "GET", String::new(), Value::Null).await.unwrap();
        assert_eq!(bag["properties"]["a"], 2, "{method}, under a condition: {is_conditional}");
    }
}
