//! The conditional change of a bag, and its answer.

use bytes::Bytes;
use scylla::response::query_result::QueryResult;
use scylla::value::{CqlValue, Row};
use uuid::Uuid;

use crate::domain::{ListKey, NewItem};

/// A row that takes the place of the row of a bag, or of none.
#[derive(Debug)]
pub struct BagPut {
    pub list: ListKey,
    pub ttl_secs: i32,
    pub state: Uuid,
    pub states: Bytes,
    pub written: i64,
    /// `None` to remove the bag.
    pub bag: Option<NewItem>,
    /// The row that was read.
    pub before: BagStates,
}

/// The state of a row, and the states that led to it.
#[derive(Debug)]
pub struct BagStates {
    /// `None` without a row.
    pub state: Option<Uuid>,
    pub states: Option<Bytes>,
}

/// The answer to such a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapAnswer {
    pub is_applied: bool,
    /// If it was not applied: the state that the row has, and the states that led to it.
    pub state: Option<Uuid>,
    pub states: Option<Bytes>,
}

impl SwapAnswer {
    /// Reads the answer to a transaction. Its columns depend on the database, and on whether the transaction was
    /// applied.
    pub fn read(result: QueryResult) -> Option<Self> {
        let result = result.into_rows_result().ok()?;
        let column = |name| result.column_specs().get_by_name(name).map(|(place, _)| place);
        let places = [column("[applied]"), column("state"), column("states")];
        let row = result.first_row::<Row>().ok()?;
        let [applied, state, states] = places.map(|place| row.columns.get(place?)?.clone());
        let Some(CqlValue::Boolean(is_applied)) = applied else { return None };
        let state = if let Some(CqlValue::Uuid(state)) = state { Some(state) } else { None };
        let states = if let Some(CqlValue::Blob(states)) = states { Some(states.into()) } else { None };
        Some(Self { is_applied, state, states })
    }
}
