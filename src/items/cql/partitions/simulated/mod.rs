//! A small cluster in memory for unit tests. It is deterministic: it answers at once, and fails where a test says so.
//!
//! It knows each statement by its name. It merges writes as the databases do: by write timestamps, TTLs and tombstones.
//! Its pages can be cut short, and it can refuse reads that pass too many tombstones. Lists of entities, and swaps that
//! are noted, are not simulated.

mod rows;
mod table;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Included};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::PagingState;
use scylla::statement::Consistency;
use scylla::statement::batch::BatchType;
use uuid::Uuid;

use self::rows::Column;
pub use self::rows::SimulatedRows;
use self::table::{Cell, Content, Partition};
use super::{Answer, Attempt, BagPut, Page, Partitions, SwapAnswer};
use crate::domain::{Clock, ListKey, ManualClock, Order};
use crate::items::StoreError;
use crate::items::cql::statements::bags::BagStatement;
use crate::items::cql::statements::buckets::BucketStatement;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::cql::statements::sets::SetStatement;
use crate::items::cql::statements::{Name, Query, Value, Writes};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The tables of lists. Bags have their own map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Table {
    Items,
    Members,
    Buckets,
}

/// How an attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and the answer says so.
    Refused,
    /// A write is done, and the answer is a timeout.
    AnswerLost,
    /// A write is not done, and the answer is a timeout.
    Lost,
}

/// How a cluster cuts its pages, and when it refuses reads.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rows and tombstones of one page.
    pub scanned_max: usize,
    /// Tombstones of one page; a page with more is refused.
    pub tombstones_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { scanned_max: usize::MAX, tombstones_max: usize::MAX }
    }
}

#[derive(Default)]
struct State {
    partitions: BTreeMap<(Table, String, String), Partition>,
    bags: HashMap<(String, String), StoredBag>,
    limits: Limits,
    faults: VecDeque<Fault>,
    /// The statement of each attempt.
    attempts: Vec<Name>,
    /// The rows of all pages.
    rows_sent: usize,
}

struct StoredBag {
    put: Arc<BagPut>,
    expires: u64,
}

/// The cluster.
pub struct Simulated {
    state: Mutex<State>,
    clock: Arc<ManualClock>,
}

impl Simulated {
    /// An empty cluster whose nodes have this clock.
    pub fn new(clock: Arc<ManualClock>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), clock })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn set_limits(&self, limits: Limits) {
        self.state().limits = limits;
    }

    /// The next attempts fail so, one after the other.
    pub fn fail(&self, faults: &[Fault]) {
        self.state().faults.extend(faults);
    }

    /// The statements of the attempts since the last call.
    pub fn take_attempts(&self) -> Vec<Name> {
        std::mem::take(&mut self.state().attempts)
    }

    /// How many rows were sent since the last call.
    pub fn take_rows_sent(&self) -> usize {
        std::mem::take(&mut self.state().rows_sent)
    }

    /// How many row tombstones and range tombstones the partition of a list of items has.
    pub fn tombstones(&self, list: &ListKey) -> (usize, usize) {
        let key = (Table::Items, list.feature_key.as_str().to_owned(), list.entity_id.as_str().to_owned());
        self.state().partitions.get(&key).map_or((0, 0), |found| (found.row_tombstones(), found.ranges()))
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos() / NANOS_PER_SEC
    }

    /// Begins an attempt. Returns how it fails, if it does.
    fn begin(&self, name: Name) -> Option<Fault> {
        let mut state = self.state();
        state.attempts.push(name);
        state.faults.pop_front()
    }

    /// Carries a write out, or loses it.
    fn write_or_fail<T: Send + 'static>(&self, name: Name, write: impl FnOnce(&mut State, u64) -> T) -> Answer<T> {
        let answer = match self.begin(name) {
            None => Ok(Some(write(&mut self.state(), self.now()))),
            Some(Fault::Refused) => Err(failed(DbError::Overloaded, "")),
            Some(Fault::Lost) => Err(write_timeout()),
            Some(Fault::AnswerLost) => {
                write(&mut self.state(), self.now());
                Err(write_timeout())
            }
        };
        async move { answer }.boxed()
    }
}

fn failed(error: DbError, text: &str) -> ExecutionError {
    ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, text.to_owned()))
}

fn write_timeout() -> ExecutionError {
    let write_type = scylla::errors::WriteType::Batch;
    failed(DbError::WriteTimeout { consistency: Consistency::LocalQuorum, received: 1, required: 2, write_type }, "")
}

fn too_many_tombstones() -> ExecutionError {
    let (consistency, received, required) = (Consistency::LocalQuorum, 0, 2);
    let error = DbError::ReadFailure { consistency, received, required, numfailures: 2, data_present: false };
    failed(error, "READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000")
}

impl Partitions for Simulated {
    fn page(
        self: Arc<Self>,
        query: &Query<'_>,
        from: PagingState,
        rows_max: i32,
        _: Attempt,
    ) -> Answer<(Page, Option<PagingState>)> {
        let fault = self.begin(query.name);
        let answer = match fault {
            Some(_) => Err(failed(DbError::Overloaded, "")),
            None => {
                let now = self.now();
                let mut state = self.state();
                let found = Found::of(&state, query, now);
                found.page(&mut state, &from, usize::try_from(rows_max).unwrap()).map(Some)
            }
        };
        async move { answer }.boxed()
    }

    fn write(self: Arc<Self>, query: &Query<'_>, _: Attempt) -> Answer<()> {
        self.write_or_fail(query.name, |state, now| state.write(query, now))
    }

    fn batch(self: Arc<Self>, _: BatchType, writes: Arc<dyn Writes>, _: Attempt) -> Answer<()> {
        let queries = writes.queries();
        self.write_or_fail(queries[0].name, |state, now| queries.iter().for_each(|query| state.write(query, now)))
    }

    fn swap(self: Arc<Self>, put: Arc<BagPut>, _: Attempt) -> Answer<SwapAnswer> {
        self.write_or_fail(BagStatement::Put.into(), |state, now| state.swap(put, now))
    }

    fn prepare_search(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        async { Ok(None) }.boxed()
    }

    fn reaches_a_node(&self, _: &dyn Fn(Uuid) -> bool) -> bool {
        true
    }

    fn reads_meet_all_writes(&self) -> bool {
        true
    }
}

/// The values of a statement, by their types.
fn text<'a>(values: &[Value<'a>], place: usize) -> &'a str {
    let Value::Text(text) = values[place] else { panic!("{values:?}") };
    text
}

fn texts<'a>(values: &[Value<'a>], place: usize) -> &'a [String] {
    let Value::Texts(texts) = values[place] else { panic!("{values:?}") };
    texts
}

fn int(values: &[Value<'_>], place: usize) -> i32 {
    let Value::Int(int) = values[place] else { panic!("{values:?}") };
    int
}

fn long(values: &[Value<'_>], place: usize) -> i64 {
    let Value::Long(long) = values[place] else { panic!("{values:?}") };
    long
}

fn blob<'a>(values: &[Value<'a>], place: usize) -> &'a [u8] {
    let Value::Bytes(bytes) = values[place] else { panic!("{values:?}") };
    bytes
}

impl State {
    fn of(&mut self, table: Table, query: &Query<'_>) -> &mut Partition {
        let [feature_key, entity_id] = query.partition.unwrap();
        self.partitions.entry((table, feature_key.to_owned(), entity_id.to_owned())).or_default()
    }

    fn write(&mut self, query: &Query<'_>, now: u64) {
        let (values, timestamp) = (query.values(), query.timestamp().unwrap_or_default());
        let cell = |content, ttl: i32, written| Cell { content, written, expires: now + u64::try_from(ttl).unwrap() };
        let at = |kind, key: &str| (kind, key.to_owned());
        match query.name {
            Name::List(name) => {
                let partition = self.of(Table::Items, query);
                match name {
                    ListStatement::Add => {
                        let content = Content::Bytes(Bytes::copy_from_slice(blob(values, 1)));
                        partition.put(at("", text(values, 0)), 0, cell(content, int(values, 2), long(values, 3)));
                    }
                    ListStatement::Delete => {
                        let keys = texts(values, 0).iter();
                        keys.for_each(|key| partition.delete_row(at("", key), timestamp));
                    }
                    ListStatement::DeleteBetween => {
                        let (lower, upper) = (at("", text(values, 0)), at("", text(values, 1)));
                        partition.delete_range(Included(lower), Excluded(upper), timestamp);
                    }
                    ListStatement::DeleteGap => {
                        let (lower, upper) = (at("", text(values, 0)), at("", text(values, 1)));
                        partition.delete_range(Excluded(lower), Excluded(upper), timestamp);
                    }
                    ListStatement::Clear => partition.delete(timestamp),
                    other => panic!("{other:?} is no write"),
                }
            }
            Name::Set(name) => {
                let partition = self.of(Table::Members, query);
                match name {
                    SetStatement::AddRow => {
                        let content = Content::Text(text(values, 1).to_owned());
                        partition.put(at("item", text(values, 0)), 0, cell(content, int(values, 2), long(values, 3)));
                    }
                    SetStatement::AddEntry => {
                        let Value::Item(item) = values[3] else { panic!("{values:?}") };
                        let cell = cell(Content::Item(item.clone()), int(values, 0), long(values, 1));
                        partition.put(at("member", text(values, 6)), int(values, 2), cell);
                    }
                    SetStatement::DeleteRow => partition.delete_row(at("item", text(values, 0)), timestamp),
                    SetStatement::DeleteEntry => {
                        partition.delete_cell(at("member", text(values, 4)), int(values, 0), long(values, 1));
                    }
                    SetStatement::DeleteEntries => {
                        let members = texts(values, 0).iter();
                        members.for_each(|member| partition.delete_row(at("member", member), timestamp));
                    }
                    SetStatement::DeleteGap => {
                        let (lower, upper) = (at("item", text(values, 0)), at("item", text(values, 1)));
                        partition.delete_range(Excluded(lower), Excluded(upper), timestamp);
                    }
                    SetStatement::Clear => partition.delete(timestamp),
                    other => panic!("{other:?} is no write"),
                }
            }
            Name::Bucket(BucketStatement::Note) => {
                let content = Content::Text(text(values, 0).to_owned());
                let place = (("", format!("{}\0{:019}", text(values, 0), long(values, 1))), 0);
                let cell = cell(content, int(values, 2), long(values, 3));
                self.of(Table::Buckets, query).put(place.0, place.1, cell);
            }
            Name::Bucket(BucketStatement::Forget) => {
                let (lower, upper) = (Included(at("", "")), Excluded(at("", text(values, 0))));
                self.of(Table::Buckets, query).delete_range(lower, upper, timestamp);
            }
            other => panic!("{other:?} is not simulated"),
        }
    }

    fn swap(&mut self, put: Arc<BagPut>, now: u64) -> SwapAnswer {
        let place = (put.list.feature_key.as_str().to_owned(), put.list.entity_id.as_str().to_owned());
        let present = self.bags.get(&place).filter(|row| row.expires > now).map(|row| &row.put);
        let (state, states) = (present.map(|put| put.state), present.map(|put| put.states.clone()));
        let is_applied = state == put.before.state && states == put.before.states;
        if is_applied {
            let expires = now + u64::try_from(put.ttl_secs).unwrap();
            self.bags.insert(place, StoredBag { put, expires });
        }
        SwapAnswer { is_applied, state, states }
    }
}

/// The partition, in the order of the read, and the row in it.
type Spot = (usize, String);

/// All rows that a read finds, in its order. A row without columns is a tombstone.
struct Found {
    rows: Vec<(Spot, Option<Vec<Column>>)>,
    order: Order,
    limit: usize,
    limit_of_each: usize,
}

impl Found {
    fn of(state: &State, query: &Query<'_>, now: u64) -> Self {
        let values = query.values();
        let mut found = Self { rows: Vec::new(), order: Order::Newest, limit: usize::MAX, limit_of_each: usize::MAX };
        let limit = |place| usize::try_from(int(values, place)).unwrap();
        match query.name {
            Name::List(ListStatement::Now) => {
                found.rows.push(((0, String::new()), Some(vec![Column::Long(Some((now * 1_000).cast_signed()))])));
            }
            Name::List(name) => {
                let is_named = |key: &str, cells: &[(i32, &Cell)]| match name {
                    ListStatement::Find => {
                        // The index has the rows with this value alone, and their tombstones.
                        cells.first().is_none_or(|(_, cell)| cell.content == bytes(blob(values, 0)))
                    }
                    ListStatement::FindKeys => texts(values, 0).iter().any(|wanted| wanted == key),
                    _ => (text(values, 0)..text(values, 1)).contains(&key),
                };
                if matches!(name, ListStatement::GetOldest | ListStatement::KeysOldest) {
                    found.order = Order::Oldest;
                }
                if !matches!(name, ListStatement::Find | ListStatement::FindKeys | ListStatement::FindBetween) {
                    found.limit = limit(2);
                }
                let columns = |key: &str, cells: &[(i32, &Cell)]| {
                    let (_, Cell { content, written, .. }) = cells.first()?;
                    let (key, written) = (Column::Text(key.to_owned()), Column::Long(Some(*written)));
                    let value = Column::Blob(Some(bytes_of(content)));
                    Some(match name {
                        ListStatement::Get | ListStatement::GetOldest => vec![key, value],
                        ListStatement::GetWithWritetime => vec![key, value, written],
                        ListStatement::Keys | ListStatement::KeysOldest => vec![key],
                        ListStatement::Find | ListStatement::FindKeys | ListStatement::FindBetween => {
                            vec![key, written]
                        }
                        other => panic!("{other:?} is not simulated"),
                    })
                };
                found.read(state, (Table::Items, "", query.partition.unwrap(), 0), now, is_named, columns);
            }
            Name::Set(name) => found.read_set(state, query, name, now),
            Name::Bucket(name @ (BucketStatement::Names | BucketStatement::NamesOldest)) => {
                if name == BucketStatement::NamesOldest {
                    found.order = Order::Oldest;
                }
                let named = |key: &str, _: &[(i32, &Cell)]| {
                    let name = key.split('\0').next().unwrap();
                    (text(values, 0)..text(values, 1)).contains(&name)
                };
                let columns = |key: &str, cells: &[(i32, &Cell)]| {
                    cells.first()?;
                    Some(vec![Column::Text(key.split('\0').next().unwrap().to_owned())])
                };
                found.read(state, (Table::Buckets, "", query.partition.unwrap(), 0), now, named, columns);
            }
            Name::Bucket(name @ (BucketStatement::Several | BucketStatement::SeveralKeys)) => {
                found.limit_of_each = limit(4);
                let is_named = |key: &str, _: &[(i32, &Cell)]| (text(values, 2)..text(values, 3)).contains(&key);
                for (place, feature_key) in texts(values, 0).iter().enumerate() {
                    let columns = |key: &str, cells: &[(i32, &Cell)]| {
                        let (_, cell) = cells.first()?;
                        let mut row = vec![Column::Text(feature_key.clone()), Column::Text(key.to_owned())];
                        if name == BucketStatement::Several {
                            row.push(Column::Blob(Some(bytes_of(&cell.content))));
                        }
                        Some(row)
                    };
                    let partition = [feature_key.as_str(), text(values, 1)];
                    found.read(state, (Table::Items, "", partition, place), now, is_named, columns);
                }
            }
            Name::Bag(BagStatement::Read) => {
                let [feature_key, entity_id] = query.partition.unwrap();
                let row = state.bags.get(&(feature_key.to_owned(), entity_id.to_owned()));
                if let Some(StoredBag { put, .. }) = row.filter(|row| row.expires > now) {
                    let bag = put.bag.as_ref();
                    let long = |of: Option<u64>| Column::Long(of.map(u64::cast_signed));
                    found.rows.push((
                        (0, String::new()),
                        Some(vec![
                            Column::Id(Some(put.state)),
                            Column::Blob(Some(put.states.clone())),
                            Column::Long(Some(put.written)),
                            long(bag.map(|bag| bag.timestamp.as_nanos())),
                            long(bag.map(|bag| bag.expires_at)),
                            Column::Blob(bag.map(|bag| bag.value.clone())),
                            Column::Long(Some((now * 1_000).cast_signed())),
                        ]),
                    ));
                }
            }
            other => panic!("{other:?} is not simulated"),
        }
        found
    }

    fn read_set(&mut self, state: &State, query: &Query<'_>, name: SetStatement, now: u64) {
        let values = query.values();
        let kind = match name {
            SetStatement::Entries | SetStatement::AllEntries => "member",
            _ => "item",
        };
        if matches!(name, SetStatement::RowsOldest | SetStatement::RowKeysOldest) {
            self.order = Order::Oldest;
        }
        if matches!(name, SetStatement::RowKeys | SetStatement::RowKeysOldest) {
            self.limit = usize::try_from(int(values, 2)).unwrap();
        }
        let is_named = |key: &str, _: &[(i32, &Cell)]| match name {
            SetStatement::AllEntries => true,
            SetStatement::Entries | SetStatement::FindRows => texts(values, 0).iter().any(|wanted| wanted == key),
            _ => (text(values, 0)..text(values, 1)).contains(&key),
        };
        let columns = |key: &str, cells: &[(i32, &Cell)]| {
            let (_, first) = cells.first()?;
            let sort = Column::Text(key.to_owned());
            let member = |content: &Content| match content {
                Content::Text(member) => Column::Text(member.clone()),
                other => panic!("{other:?}"),
            };
            Some(match name {
                SetStatement::Rows | SetStatement::RowsOldest => vec![sort, member(&first.content)],
                SetStatement::RowKeys | SetStatement::RowKeysOldest => vec![sort],
                SetStatement::FindRows => vec![sort, member(&first.content), Column::Long(Some(first.written))],
                SetStatement::Entries | SetStatement::AllEntries => {
                    let items = cells.iter().map(|(writer, cell)| match &cell.content {
                        Content::Item(item) => (*writer, item.clone()),
                        other => panic!("{other:?}"),
                    });
                    vec![sort, Column::Items(items.collect())]
                }
                other => panic!("{other:?} is not simulated"),
            })
        };
        self.read(state, (Table::Members, kind, query.partition.unwrap(), 0), now, is_named, columns);
    }

    /// Finds the rows of one partition, the `place`-th of the read.
    fn read(
        &mut self,
        state: &State,
        (table, kind, [feature_key, entity_id], place): (Table, &'static str, [&str; 2], usize),
        now: u64,
        is_named: impl Fn(&str, &[(i32, &Cell)]) -> bool,
        columns: impl Fn(&str, &[(i32, &Cell)]) -> Option<Vec<Column>>,
    ) {
        let Some(partition) = state.partitions.get(&(table, feature_key.to_owned(), entity_id.to_owned())) else {
            return;
        };
        let rows = partition.rows(kind, now).filter(|(key, cells)| is_named(key, cells));
        let rows = rows.map(|(key, cells)| ((place, key.to_owned()), columns(key, &cells)));
        match self.order {
            Order::Newest => self.rows.extend(rows.rev()),
            Order::Oldest => self.rows.extend(rows),
        }
    }

    /// A page from a place on, and the next place.
    #[expect(clippy::result_large_err, reason = "it is the driver's error")]
    fn page(
        self,
        state: &mut State,
        from: &PagingState,
        rows_max: usize,
    ) -> Result<(Page, Option<PagingState>), ExecutionError> {
        let Limits { scanned_max, tombstones_max } = state.limits;
        let mut at = Position::of(from);
        let (mut rows, mut scanned, mut tombstones, mut is_over) = (Vec::new(), 0, 0, true);
        for (place, columns) in self.rows {
            if !at.is_before(&place, self.order) {
                continue;
            }
            if at.rows >= self.limit {
                break;
            }
            if scanned >= scanned_max || rows.len() >= rows_max {
                is_over = false;
                break;
            }
            scanned += 1;
            if at.last.as_ref().is_none_or(|last| last.0 != place.0) {
                at.rows_of_partition = 0;
            }
            at.last = Some(place);
            match columns {
                Some(columns) if at.rows_of_partition < self.limit_of_each => {
                    rows.push(columns);
                    (at.rows, at.rows_of_partition) = (at.rows + 1, at.rows_of_partition + 1);
                }
                Some(_) => {}
                None => tombstones += 1,
            }
        }
        if tombstones > tombstones_max {
            return Err(too_many_tombstones());
        }
        state.rows_sent += rows.len();
        // A page that is full is followed by another, which may be empty: so it is with the databases.
        let is_over = is_over && rows.len() < rows_max;
        Ok((Page::simulated(SimulatedRows::new(&rows)), (!is_over).then(|| at.paging_state())))
    }
}

/// How far a read has come.
#[derive(Default)]
struct Position {
    rows: usize,
    rows_of_partition: usize,
    last: Option<(usize, String)>,
}

impl Position {
    fn of(state: &PagingState) -> Self {
        let Some(bytes) = state.as_bytes_slice() else { return Self::default() };
        let text = std::str::from_utf8(bytes).unwrap();
        let mut parts = text.splitn(4, ' ');
        let mut number = || parts.next().unwrap().parse().unwrap();
        let (rows, rows_of_partition, place) = (number(), number(), number());
        Self { rows, rows_of_partition, last: parts.next().map(|key| (place, key.to_owned())) }
    }

    fn paging_state(&self) -> PagingState {
        let (place, key) = self.last.clone().unwrap_or_default();
        PagingState::new_from_raw_bytes(format!("{} {} {place} {key}", self.rows, self.rows_of_partition).as_bytes())
    }

    fn is_before(&self, place: &(usize, String), order: Order) -> bool {
        self.last.as_ref().is_none_or(|last| {
            let is_after = match order {
                Order::Newest => place.1 < last.1,
                Order::Oldest => place.1 > last.1,
            };
            place.0 > last.0 || (place.0 == last.0 && is_after)
        })
    }
}

fn bytes(value: &[u8]) -> Content {
    Content::Bytes(Bytes::copy_from_slice(value))
}

fn bytes_of(content: &Content) -> Bytes {
    match content {
        Content::Bytes(bytes) => bytes.clone(),
        other => panic!("{other:?}"),
    }
}
