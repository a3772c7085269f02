//! A small cluster in memory for unit tests. It is deterministic: it answers at once, and fails where a test says so.
//!
//! It knows each statement by its name. It merges writes as the databases do: by write timestamps, TTLs and tombstones.
//! Its pages can be cut short, and it can refuse reads that pass too many tombstones. Lists of entities, and swaps that
//! are noted, are not simulated.

mod failures;
mod found;
mod rows;
mod state;
mod table;
mod values;

use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scylla::errors::DbError;
use scylla::response::PagingState;
use scylla::statement::batch::BatchType;
use uuid::Uuid;

use self::failures::{failed, write_timeout};
use self::found::Found;
pub use self::rows::SimulatedRows;
pub use self::state::Limits;
use self::state::{State, Table};
use super::{Answer, Attempt, BagPut, Page, Partitions, SwapAnswer};
use crate::domain::{Clock, ListKey, ManualClock};
use crate::items::StoreError;
use crate::items::cql::statements::bags::BagStatement;
use crate::items::cql::statements::{Name, Query, Writes};

const NANOS_PER_SEC: u64 = 1_000_000_000;

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

    fn reads_see_all_writes(&self) -> bool {
        true
    }
}
