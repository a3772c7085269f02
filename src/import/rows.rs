//! Rows of a file, whatever its format, one at a time.

use csv::ByteRecord;

use super::csv_rows::CsvRows;
use super::input::Input;
use super::ndjson_rows::NdjsonRows;
use super::row::{RawRow, Row, Step};
use super::shape::Shape;
use super::source::FileFormat;

pub enum Rows {
    Csv(Box<CsvRows>),
    Ndjson(NdjsonRows),
}

impl Rows {
    /// Reads as far as the header.
    pub fn open(format: FileFormat, input: Input, shape: &Shape) -> Result<Self, String> {
        Ok(match format {
            FileFormat::Csv => Self::Csv(Box::new(CsvRows::open(input, shape)?)),
            FileFormat::Ndjson => Self::Ndjson(NdjsonRows::new(input, shape)),
        })
    }

    /// Reads the next row. An error means that nothing more can be read of this file.
    pub fn next(&mut self, shape: &Shape, row: &mut Row) -> Result<Step, String> {
        row.entity_id.clear();
        row.value.clear();
        row.key.clear();
        match self {
            Self::Csv(rows) => rows.next(shape, row),
            Self::Ndjson(rows) => rows.next(shape, row),
        }
    }

    /// The row that the last step was about.
    pub fn raw(&self) -> RawRow {
        match self {
            Self::Csv(rows) => RawRow::Csv(rows.record().clone()),
            Self::Ndjson(rows) => RawRow::Ndjson(rows.line().to_vec()),
        }
    }

    /// The names of the columns, where the format has a line of them.
    pub fn header(&self) -> Option<&ByteRecord> {
        match self {
            Self::Csv(rows) => Some(rows.header()),
            Self::Ndjson(_) => None,
        }
    }
}
