//! The bounds of results: their memory, and the deadline.

use serde_json::Value;
use tokio::time::Instant;

use super::AggregateFailure;

/// The memory and time that results may take. A few values of a tally can be in the results of many aggregates and
/// groups.
pub struct Room {
    bytes: usize,
    taken: usize,
    deadline: Instant,
}

impl Room {
    pub fn new(bytes: usize, deadline: Instant) -> Self {
        Self { bytes, taken: 0, deadline }
    }

    /// The bytes of all results so far.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Before each result.
    pub fn check_time(&self) -> Result<(), AggregateFailure> {
        if Instant::now() < self.deadline { Ok(()) } else { Err(AggregateFailure::Late) }
    }

    /// After each value, so that at most one is too much.
    pub fn take(&mut self, value: &Value) -> Result<(), NoValue> {
        self.taken += bytes_of(value);
        if self.taken > self.bytes { Err(NoValue::TooLarge) } else { Ok(()) }
    }

    /// Takes bytes that are no value, such as a name.
    pub fn take_bytes(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Returns the value after [`Self::take`].
    pub fn taking(&mut self, value: Value) -> Result<Value, NoValue> {
        self.take(&value)?;
        Ok(value)
    }
}

/// The memory of a value, about.
fn bytes_of(value: &Value) -> usize {
    /// Of a value in a map, with its place there.
    const VALUE: usize = 64;
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(bytes_of).sum(),
            Value::Object(members) => members.iter().map(|(name, value)| name.len() + bytes_of(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// Why an aggregate has no value.
pub enum NoValue {
    OutOfRange,
    TooLarge,
    Damaged,
}

impl NoValue {
    /// The failure of the aggregate with this index.
    pub fn of(self, aggregate: usize) -> AggregateFailure {
        match self {
            Self::OutOfRange => AggregateFailure::OutOfRange { aggregate },
            Self::TooLarge => AggregateFailure::TooLarge,
            Self::Damaged => AggregateFailure::Damaged,
        }
    }
}
