//! Checks the answers of index queries during writes of bags and indexes, with a model that scans all bags.
//!
//! Only one writer writes each entity, one call after the other. So it has the possible states of each bag: one, or,
//! after a missing answer, one of two. Each query is compared with them. Bags of other writers may match or not. No
//! returned bag may fail to match, and none may be returned twice.
//!
//! All writers share one bag: each increments the number in it, on the condition that the bag is unchanged since its
//! read. So each success, and each refusal, of a write is checked against the others.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Far beyond every deadline of a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for an index to become ready, or to have acknowledged bags, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const WRITERS: u8 = 3;
const ENTITIES: u8 = 4;
const VALUES: u8 = 3;

/// Sends one request on a separate connection. Nothing if no complete answer came back.
pub fn call(address: &str, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    call_if(address, method, path, "", body)
}

/// The same under a condition: a header, with the end of its line.
pub fn call_if(address: &str, method: &str, path: &str, condition: &str, body: &Value) -> Option<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).ok()?;
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: {content_type}\r\n{condition}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    if length.is_some_and(|length: usize| length != body.len()) {
        return None;
    }
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

/// Where a server listens at present: another address after it was started again.
pub type Address<'a> = &'a (dyn Fn() -> String + Sync);

/// A store's promise for entries of a bag whose write was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// They exist.
    AtOnce,
    /// They exist once the servers have repaired the errors.
    Soon,
}

/// Creates an entity type, and an index of it that is always there.
pub fn prepare(address: &str, entity_type: &str) {
    begin(address, entity_type);
    until_ready(address, entity_type, "always");
}

/// The same, without waiting for the index.
pub fn begin(address: &str, entity_type: &str) {
    // An answer may be lost although the write was made.
    let create = |path: &str, body: &Value| {
        let exists = || {
            let reported = call(address, "POST", path, body);
            assert!(
                reported.as_ref().is_none_or(|(status, _)| matches!(status, 201 | 409 | 503 | 504)),
                "{reported:?}"
            );
            matches!(reported, Some((201 | 409, _)))
        };
        until(exists, "it is created");
    };
    create("/v1/entity-types", &json!({"entity_type": entity_type}));
    let index = json!({"name": "always", "properties": ["/a"]});
    create(&format!("/v1/entity-types/{entity_type}/indexes"), &index);
}

/// Creates the index that comes and goes, if it does not exist, in any state.
fn create_sometimes(address: &str, entity_type: &str) -> Option<u16> {
    let index = json!({"name": "sometimes", "properties": ["/a"], "order_by": "/b"});
    call(address, "POST", &format!("/v1/entity-types/{entity_type}/indexes"), &index).map(|(status, _)| status)
}

fn until_ready(address: &str, entity_type: &str, index: &str) {
    until(|| is_ready(address, entity_type, index), "the index is ready");
}

fn is_ready(address: &str, entity_type: &str, index: &str) -> bool {
    let shown = call(address, "GET", &format!("/v1/entity-types/{entity_type}/indexes/{index}"), &Value::Null);
    shown.is_some_and(|(status, body)| status == 200 && body["state"] == "ready")
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own waits, and no arbiter")]
fn until(mut holds: impl FnMut() -> bool, what: &str) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Has writers write at once, the first of them with an index that comes and goes, while something happens.
pub fn write_during<'a>(
    address: Address<'a>,
    entity_type: &str,
    (promise, seed): (Promise, u64),
    write: impl Fn(&mut Writer<'a>) + Sync,
    happens: impl FnOnce(),
) -> Vec<Writer<'a>> {
    let write = &write;
    std::thread::scope(|threads| {
        let running: Vec<_> = (0..WRITERS)
            .map(|name| {
                threads.spawn(move || {
                    let mut writer = Writer::new(address, entity_type, name, promise, seed);
                    write(&mut writer);
                    writer
                })
            })
            .collect();
        happens();
        running.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

/// After the last write: queries soon find all matching bags, by the permanent index and by the temporary one, which is
/// created if it does not exist.
pub fn settle_soon(address: &str, entity_type: &str, writers: &[Writer<'_>]) {
    // An answer may have been lost although the write was made.
    until(|| matches!(create_sometimes(address, entity_type), Some(201 | 409)), "the index is made");
    for index in ["always", "sometimes"] {
        until_ready(address, entity_type, index);
        writers.iter().for_each(|writer| writer.settle_in(index));
    }
    settle_count(address, entity_type, writers);
}

/// Once all writers are done: each acknowledged count is in the bag that all share, and of the others only counts of
/// unknown outcome.
pub fn settle_count(address: &str, entity_type: &str, writers: &[Writer<'_>]) {
    let mut counted = None;
    until(
        || {
            counted = shared(address, entity_type).map(|(_, count)| count);
            counted.is_some()
        },
        "the count is read",
    );
    let counted = counted.unwrap();
    let made: u64 = writers.iter().map(|writer| writer.counted).sum();
    let most = made + writers.iter().map(|writer| writer.counted_perhaps).sum::<u64>();
    let did = || writers.iter().map(|writer| writer.did.join("\n")).collect::<Vec<_>>().join("\n\n");
    assert!((made..=most).contains(&counted), "{counted} of {made} to {most}:\n{}", did());
}

fn shared_path(entity_type: &str) -> String {
    format!("/v1/entities/{entity_type}/shared")
}

/// The condition that the shared bag is unchanged since this read, and the number in it.
fn shared(address: &str, entity_type: &str) -> Option<(String, u64)> {
    match call(address, "GET", &shared_path(entity_type), &Value::Null)? {
        (200, bag) => {
            let condition = format!("If-Match: {}\r\n", bag["etag"].as_str().unwrap());
            Some((condition, bag["properties"]["count"].as_u64().unwrap()))
        }
        (404, problem) if problem["code"] == "bag_not_found" => Some(("If-None-Match: *\r\n".to_owned(), 0)),
        _ => None,
    }
}

/// A writer of some bags, which also queries them.
pub struct Writer<'a> {
    pub address: Address<'a>,
    pub entity_type: String,
    pub name: u8,
    pub promise: Promise,
    pub random: fastrand::Rng,
    /// The possible states of its bags.
    bags: Vec<Vec<Option<Value>>>,
    /// The actions, for a report.
    did: Vec<String>,
    pub unknown: usize,
    /// Acknowledged increments, and increments of unknown outcome.
    counted: u64,
    counted_perhaps: u64,
}

impl<'a> Writer<'a> {
    pub fn new(address: Address<'a>, entity_type: &str, name: u8, promise: Promise, seed: u64) -> Self {
        let bags = (0..ENTITIES).map(|_| vec![None]).collect();
        let random = fastrand::Rng::with_seed(seed << 8 | u64::from(name));
        let entity_type = entity_type.to_owned();
        let (did, unknown, counted, counted_perhaps) = (Vec::new(), 0, 0, 0);
        Self { address, entity_type, name, promise, random, bags, did, unknown, counted, counted_perhaps }
    }

    /// Writes and queries at random.
    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.random.u8(..12) {
                0..4 => self.put(),
                4..6 => self.patch(),
                6 => self.delete(),
                7..9 => self.count(),
                _ => self.find_value("always", self.promise == Promise::AtOnce),
            }
        }
    }

    /// Creates and drops another index, and queries it once it is ready.
    pub fn run_with_indexes(&mut self, steps: usize) {
        let path = format!("/v1/entity-types/{}/indexes", self.entity_type);
        for _ in 0..steps {
            let created = create_sometimes(&(self.address)(), &self.entity_type);
            self.run(4);
            if matches!(created, Some(201 | 409)) {
                let is_ready = is_ready(&(self.address)(), &self.entity_type, "sometimes");
                self.find_value("sometimes", is_ready && self.promise == Promise::AtOnce);
            }
            call(&(self.address)(), "DELETE", &format!("{path}/sometimes"), &Value::Null);
        }
    }

    fn path(&self, entity: u8) -> String {
        format!("/v1/entities/{}/{}-{entity}", self.entity_type, self.name)
    }

    fn values(&mut self) -> Value {
        let count = self.random.usize(..3);
        (0..count).map(|_| json!(self.random.u8(..VALUES))).collect()
    }

    fn put(&mut self) {
        let (entity, a) = (self.random.u8(..ENTITIES), self.values());
        let bag = json!({"a": a, "b": self.random.u8(..9)});
        let answer = call(&(self.address)(), "PUT", &self.path(entity), &bag);
        self.wrote(entity, "put", answer, |_| Some(bag.clone()));
    }

    fn patch(&mut self) {
        let (entity, a) = (self.random.u8(..ENTITIES), self.values());
        let answer = call(&(self.address)(), "PATCH", &self.path(entity), &json!({"a": a}));
        self.wrote(entity, "patch", answer, |before| {
            let mut bag = before.clone()?;
            bag["a"] = a.clone();
            Some(bag)
        });
    }

    fn delete(&mut self) {
        let entity = self.random.u8(..ENTITIES);
        let answer = call(&(self.address)(), "DELETE", &format!("{}/bag", self.path(entity)), &Value::Null);
        self.wrote(entity, "delete", answer, |_| None);
    }

    /// Increments the number in the shared bag, if the bag is unchanged since its read.
    fn count(&mut self) {
        let Some((condition, count)) = shared(&(self.address)(), &self.entity_type) else { return };
        let (path, a) = (shared_path(&self.entity_type), [self.random.u8(..VALUES)]);
        let bag = json!({"count": count + 1, "a": a});
        let answer = call_if(&(self.address)(), "PUT", &path, &condition, &bag);
        self.did.push(format!("count {} -> {answer:?}", count + 1));
        match answer {
            Some((status, _)) if status < 300 => self.counted += 1,
            Some((_, body)) if body.get("outcome_unknown") != Some(&json!(true)) => {
                assert!(body["code"].is_string(), "{body}: {:#?}", self.did);
            }
            _ => self.counted_perhaps += 1,
        }
    }

    /// Notes the outcome of a write.
    fn wrote(
        &mut self,
        entity: u8,
        what: &str,
        answer: Option<(u16, Value)>,
        change: impl Fn(&Option<Value>) -> Option<Value>,
    ) {
        let may = &mut self.bags[usize::from(entity)];
        let after: Vec<_> = may.iter().map(change).collect();
        self.did.push(format!("{what} {entity} -> {:?}: {after:?}", answer.as_ref().map(|(status, _)| *status)));
        match answer {
            Some((status, body)) if status < 300 => {
                // A missing bag was not changed.
                let was_there = may.iter().zip(after).filter(|(before, _)| what == "put" || before.is_some());
                *may = was_there.map(|(_, after)| after).collect();
                assert!(!may.is_empty(), "{body}: {:#?}", self.did);
            }
            Some((404, body)) => {
                assert!(body["code"] == "bag_not_found" && may.contains(&None), "{body}: {:#?}", self.did);
                // If several servers write, the requests of a dead one may still be in progress.
                if self.promise == Promise::AtOnce {
                    *may = vec![None];
                }
            }
            Some((_, body)) if body.get("outcome_unknown") != Some(&json!(true)) => {
                assert!(body["code"].is_string(), "{body}: {:#?}", self.did);
            }
            _ => {
                self.unknown += 1;
                may.extend(after);
            }
        }
        may.dedup();
    }

    /// Requests all bags of a value, page by page, and judges the answer. Missing bags are errors only if the index is
    /// `complete`.
    fn find_value(&mut self, index: &str, complete: bool) {
        let value = self.random.u8(..VALUES);
        let Some(found) = self.walk(index, value) else { return };
        if let Some(missing) = self.missing(value, &found).filter(|_| complete) {
            panic!("{missing} is not found by {value} in {index}: {found:?}\n{:#?}", self.did);
        }
    }

    fn walk(&self, index: &str, value: u8) -> Option<BTreeSet<String>> {
        let (mut found, mut token) = (BTreeSet::new(), String::new());
        loop {
            let path = format!("/v1/entity-types/{}/indexes/{index}/entities", self.entity_type);
            let path = format!("{path}?value={value}&limit=3{token}");
            let (200, page) = call(&(self.address)(), "GET", &path, &Value::Null)? else { return None };
            for bag in page["entities"].as_array().unwrap() {
                let a = bag["properties"]["a"].as_array().unwrap();
                assert!(a.contains(&json!(value)), "{bag} is found by {value}");
                let id = bag["entity_id"].as_str().unwrap();
                // A walk in the order of a property may return a bag again after a change of the property.
                let is_new = found.insert(id.to_owned());
                assert!(is_new || index != "always", "{id} is found twice by {value}");
                if let Some(entity) = id.strip_prefix(&format!("{}-", self.name)) {
                    let may = &self.bags[entity.parse::<usize>().unwrap()];
                    let properties = Some(bag["properties"].clone());
                    assert!(may.contains(&properties), "{bag} is none of {may:?}: {:#?}", self.did);
                }
            }
            match page["next_page_token"].as_str() {
                Some(next) => token = format!("&page_token={next}"),
                None => return Some(found),
            }
        }
    }

    /// A bag of this writer that certainly matches and was not found.
    fn missing(&self, value: u8, found: &BTreeSet<String>) -> Option<String> {
        let holds =
            |bag: &Option<Value>| bag.as_ref().is_some_and(|bag| bag["a"].as_array().unwrap().contains(&json!(value)));
        let matching = (0..ENTITIES).filter(|entity| self.bags[usize::from(*entity)].iter().all(holds));
        matching.map(|entity| format!("{}-{entity}", self.name)).find(|id| !found.contains(id))
    }

    /// Once there are no writes: all matching bags are found, at once or soon.
    pub fn settle(&self) {
        self.settle_in("always");
    }

    /// The same by another index.
    pub fn settle_in(&self, index: &str) {
        for value in 0..VALUES {
            let is_whole = || self.walk(index, value).is_some_and(|found| self.missing(value, &found).is_none());
            match self.promise {
                Promise::AtOnce => assert!(is_whole(), "not all are found by {value}: {:#?}", self.did),
                Promise::Soon => until(is_whole, &format!("all are found by {value} in {index}: {:#?}", self.did)),
            }
        }
    }
}
