//! Rows of any format, one at a time.

use csv::ByteRecord;

use super::arguments::FileFormat;
use super::csv_rows::CsvRows;
use super::ndjson_rows::NdjsonRows;
use super::shape::Shape;
use super::source::Input;
use crate::domain::Timestamp;

/// What a row says; used again for each row.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub entity_id: String,
    pub timestamp: Timestamp,
    /// JSON of the feature's value type.
    pub value: Vec<u8>,
}

/// A step through a file. Lines count from 1; a row that spans several has the number of the first.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Row { line: u64 },
    Bad { line: u64, reason: String },
    End,
}

/// A row as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RawRow {
    Csv(ByteRecord),
    Ndjson(Vec<u8>),
}

impl RawRow {
    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Csv(record) => record.as_slice().len() + size_of::<usize>() * record.len() + size_of::<Self>(),
            Self::Ndjson(line) => line.len() + size_of::<Self>(),
        }
    }
}

pub(super) enum Rows {
    Csv(Box<CsvRows>),
    Ndjson(NdjsonRows),
}

impl Rows {
    /// Reads as far as the header.
    pub(super) fn open(format: FileFormat, input: Input, shape: &Shape) -> Result<Self, String> {
        Ok(match format {
            FileFormat::Csv => Self::Csv(Box::new(CsvRows::open(input, shape)?)),
            FileFormat::Ndjson => Self::Ndjson(NdjsonRows::new(input, shape)),
        })
    }

    /// Reads the next row. An error means that nothing more can be read of this file.
    pub(super) fn next(&mut self, shape: &Shape, row: &mut Row) -> Result<Step, String> {
        row.entity_id.clear();
        row.value.clear();
        match self {
            Self::Csv(rows) => rows.next(shape, row),
            Self::Ndjson(rows) => rows.next(shape, row),
        }
    }

    /// The row that the last step was about.
    pub(super) fn raw(&self) -> RawRow {
        match self {
            Self::Csv(rows) => RawRow::Csv(rows.record().clone()),
            Self::Ndjson(rows) => RawRow::Ndjson(rows.line().to_vec()),
        }
    }

    /// The names of the columns, where the format has a line of them.
    pub(super) fn header(&self) -> Option<&ByteRecord> {
        match self {
            Self::Csv(rows) => Some(rows.header()),
            Self::Ndjson(_) => None,
        }
    }
}
