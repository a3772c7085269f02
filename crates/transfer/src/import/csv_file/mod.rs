//! A CSV file (RFC 4180) that begins with a line of column names: its rows, with the lines on which they begin.
//!
//! A file that ends too early must not pass for a whole one. An open quote and a last row with too few cells are
//! errors. RFC 4180 makes the line end of the last row optional, so a whole last row passes without one. A cut
//! within its last cell cannot be detected: [`CsvFile::open_end`] reports such a row. Every export ends with a line
//! end, so a file with the columns of an export must have it.

mod line_starts;
mod quotes;

use csv::{ByteRecord, ReaderBuilder};

use super::dialect::{CsvDialect, CsvEscape};
use super::input::Input;
use super::row::Unreadable;
use line_starts::LineStarts;
use quotes::{QuoteError, Quotes};

/// The columns of an export; the last one only where items have keys.
pub const EXPORT_COLUMNS: [&str; 7] = ["entity_type", "feature", "version", "entity_id", "timestamp", "value", "key"];

/// The warning about an open end.
pub(crate) const OPEN_END: &str = "the last row has no line end: the file and this row may be truncated";

const CUT_OFF: &str = "the file ends within this row: it may be truncated";

pub(crate) struct CsvFile {
    reader: csv::Reader<LineStarts<Quotes<Input>>>,
    header: ByteRecord,
    record: ByteRecord,
    open_end: Option<u64>,
}

impl CsvFile {
    /// Reads the header, which is empty if the file is.
    pub fn open(input: Input, dialect: CsvDialect) -> Result<Self, Unreadable> {
        let mut builder = ReaderBuilder::new();
        // Rows with too few or too many cells are the caller's to refuse.
        let CsvDialect { delimiter, escape } = dialect;
        builder.flexible(true).delimiter(delimiter).escape(escape.map(|CsvEscape::Backslash| b'\\'));
        let mut reader = builder.from_reader(LineStarts::new(Quotes::new(input, dialect)));
        let header = reader.byte_headers().map_err(unreadable)?.clone();
        // No row follows, and the last column may lack a part of its name.
        if reader.get_ref().get_ref().ends_in_row() {
            return Err(Unreadable::at(1, CUT_OFF));
        }
        Ok(Self { reader, header, record: ByteRecord::new(), open_end: None })
    }

    pub fn header(&self) -> &ByteRecord {
        &self.header
    }

    /// The row that was read last.
    pub fn record(&self) -> &ByteRecord {
        &self.record
    }

    /// Reads the next row. Returns its line, or none at the end of the file.
    pub fn next(&mut self) -> Result<Option<u64>, Unreadable> {
        self.reader.get_ref().get_ref().get_ref().row_ended();
        if !self.reader.read_byte_record(&mut self.record).map_err(unreadable)? {
            return Ok(None);
        }
        let offset = self.record.position().map_or(0, csv::Position::byte);
        let line = self.reader.get_mut().line_at(offset);
        if self.reader.get_ref().get_ref().ends_in_row() && self.record.len() < self.header.len() {
            return Err(Unreadable::at(line, CUT_OFF));
        }
        self.check_end(line)?;
        Ok(Some(line))
    }

    /// Reports the line of a last row that no line end follows.
    pub fn open_end(&self) -> Option<u64> {
        self.open_end
    }

    fn check_end(&mut self, line: u64) -> Result<(), Unreadable> {
        if !self.reader.get_ref().get_ref().ends_in_row() {
            return Ok(());
        }
        let is_export = |columns: &[&str]| self.header.iter().eq(columns.iter().map(|column| column.as_bytes()));
        if is_export(&EXPORT_COLUMNS) || is_export(&EXPORT_COLUMNS[..6]) {
            let why = "the last line has no line end: the file is truncated (append a line end if it is complete)";
            return Err(Unreadable::at(line, why));
        }
        self.open_end = Some(line);
        Ok(())
    }

    /// The hint for a missing column: another delimiter, if the header has one cell that contains it.
    pub fn delimiter_hint(&self) -> &'static str {
        if self.header.len() != 1 {
            return "";
        }
        match self.header.iter().flatten().find(|byte| b";\t|,".contains(byte)) {
            Some(b';') => ": pass --delimiter ';'",
            Some(b'\t') => ": pass --delimiter tab",
            Some(b'|') => ": pass --delimiter '|'",
            Some(b',') => ": pass --delimiter ,",
            _ => "",
        }
    }

    /// Reports the last row if it has fewer or more cells than the header.
    pub fn check_cells(&self) -> Result<(), String> {
        let (cells, expected) = (self.record.len(), self.header.len());
        if cells == expected {
            return Ok(());
        }
        // `"a\",b"` is one cell with the escape, and two without.
        let escaped = self.record.iter().any(|cell| cell.ends_with(b"\\"));
        let hint = if escaped { "; --csv-escape backslash reads \\\" as a quote" } else { "" };
        Err(format!("has {cells} cells, where the header has {expected}{hint}"))
    }
}

fn unreadable(error: csv::Error) -> Unreadable {
    let cause = match error.kind() {
        csv::ErrorKind::Io(error) => error.get_ref(),
        _ => None,
    };
    let line = cause.and_then(|cause| cause.downcast_ref()).map(|quotes: &QuoteError| quotes.line);
    Unreadable { line, why: error.to_string() }
}
