//! One row of a file, and the result of reading it.

use csv::ByteRecord;

use crate::client::Failure;
use crate::domain::Timestamp;
use crate::typed_times::TypedTime;

/// The content of a row; reused for each row.
#[derive(Debug, Default)]
pub struct Row {
    pub entity_id: String,
    pub timestamp: Timestamp,
    /// Whether the timestamp has no time zone and was read as UTC.
    pub is_utc_assumed: bool,
    /// JSON of the item's key; empty where items have none.
    pub key: Vec<u8>,
    /// JSON of the feature's value type.
    pub value: Vec<u8>,
}

impl Row {
    pub fn set_time(&mut self, TypedTime { at, is_utc_assumed }: TypedTime) {
        (self.timestamp, self.is_utc_assumed) = (at, is_utc_assumed);
    }
}

/// A step through a file. Lines count from 1; a row that spans several has the number of the first.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Row { line: u64 },
    Bad { line: u64, reason: String },
    End,
}

/// A row as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawRow {
    Csv(ByteRecord),
    Ndjson(Vec<u8>),
}

impl RawRow {
    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Csv(record) => record.as_slice().len() + size_of::<usize>() * record.len() + size_of::<Self>(),
            Self::Ndjson(line) => line.len() + size_of::<Self>(),
        }
    }
}

/// Why nothing more can be read of a file, and on which line, if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub line: Option<u64>,
    pub why: String,
}

impl Unreadable {
    pub fn at(line: u64, why: impl Into<String>) -> Self {
        Self { line: Some(line), why: why.into() }
    }

    /// The error of the file with this name.
    pub fn of(&self, name: &str) -> Failure {
        let place = self.line.map(|line| format!(", line {line}")).unwrap_or_default();
        Failure::failed(format!("{name}{place}: {}", self.why))
    }
}

impl From<String> for Unreadable {
    fn from(why: String) -> Self {
        Self { line: None, why }
    }
}
