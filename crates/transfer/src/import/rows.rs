//! Rows of a file of any format, one at a time.

use csv::ByteRecord;

use super::csv_rows::CsvRows;
use super::dialect::CsvDialect;
use super::input::Input;
use super::ndjson_rows::NdjsonRows;
use super::row::{RawRow, Row, Step, Unreadable};
use super::shape::Shape;
use super::source::FileFormat;

pub enum Rows {
    Csv(Box<CsvRows>),
    Ndjson(NdjsonRows),
}

impl Rows {
    /// Reads up to and including the header.
    pub fn open(format: FileFormat, input: Input, shape: &Shape, dialect: CsvDialect) -> Result<Self, Unreadable> {
        Ok(match format {
            FileFormat::Csv => Self::Csv(Box::new(CsvRows::open(input, shape, dialect)?)),
            FileFormat::Ndjson => Self::Ndjson(NdjsonRows::new(input, shape)),
        })
    }

    /// Reads the next row. An error means that nothing more can be read of this file.
    pub fn next(&mut self, shape: &Shape, row: &mut Row) -> Result<Step, Unreadable> {
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
    /// Reports the line of a last row that may have been cut off, where the format cannot show it.
    pub fn open_end(&self) -> Option<u64> {
        match self {
            Self::Csv(rows) => rows.open_end(),
            Self::Ndjson(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::super::coding::FileCoding;
    use super::super::csv_file::EXPORT_COLUMNS;
    use super::super::dialect::CsvEscape;
    use super::super::shape::Columns;
    use super::*;
    use crate::domain::ValueType;
    use crate::typed_times::TimeReader;

    fn shape() -> Shape {
        let [_, _, _, entity_id, timestamp, value, _] = EXPORT_COLUMNS.map(str::to_owned);
        let columns = Columns { entity_id, timestamp, key: None, values: vec![value], object: false };
        Shape::new(columns, TimeReader::default(), ValueType::String).unwrap()
    }

    /// All rows of a file, and whether its last row may have been cut off; or why it is refused.
    fn read(format: FileFormat, escape: Option<CsvEscape>, bytes: &[u8]) -> Result<(Vec<String>, bool), String> {
        let shape = shape();
        let input = Input::of_bytes(bytes).map_err(|e| e.to_string())?;
        let dialect = CsvDialect { escape, ..CsvDialect::default() };
        let mut rows = Rows::open(format, input, &shape, dialect).map_err(|e| e.why)?;
        let (mut row, mut all) = (Row::default(), Vec::new());
        loop {
            match rows.next(&shape, &mut row).map_err(|e| e.why)? {
                Step::End => return Ok((all, rows.open_end().is_some())),
                Step::Bad { reason, .. } => return Err(reason),
                Step::Row { .. } => {
                    let (id, value) = (&row.entity_id, String::from_utf8_lossy(&row.value));
                    all.push(format!("{id} {} {value}", row.timestamp.as_nanos()));
                }
            }
        }
    }

    /// A file that is cut anywhere is refused, or read as a prefix of its rows. Only the last row may be another one,
    /// and only if the file's format leaves its end open.
    fn cut_everywhere(format: FileFormat, escape: Option<CsvEscape>, file: &[u8], may_be_open: bool) {
        let (whole, _) = read(format, escape, file).unwrap();
        for at in 0..file.len() {
            let Ok((mut rows, is_open)) = read(format, escape, &file[..at]) else { continue };
            assert!(may_be_open || !is_open, "{at}");
            if is_open {
                rows.pop();
            }
            assert!(whole.starts_with(&rows), "{at}: {rows:?}");
        }
    }

    fn encoded(coding: FileCoding, parts: &[&[u8]]) -> Vec<u8> {
        let part = |part: &&[u8]| {
            let mut encoder = coding.encoder(Vec::new()).unwrap();
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap()
        };
        parts.iter().flat_map(part).collect()
    }

    fn csv(columns: &[&str], rows: &[[String; 3]], always: bool, crlf: bool) -> Vec<u8> {
        let style = if always { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
        let end = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let mut writer = csv::WriterBuilder::new().quote_style(style).terminator(end).from_writer(Vec::new());
        writer.write_record(columns).unwrap();
        for [id, at, value] in rows {
            let cell = |column: &&str| match *column {
                "entity_id" => id,
                "timestamp" => at,
                _ => value,
            };
            writer.write_record(columns.iter().map(cell)).unwrap();
        }
        writer.into_inner().unwrap()
    }

    fn escaped_csv(rows: &[[String; 3]]) -> Vec<u8> {
        let mut text = "entity_id,timestamp,value\n".to_owned();
        for row in rows {
            let cell = |cell: &String| format!("\"{}\"", cell.replace('\\', "\\\\").replace('"', "\\\""));
            text.push_str(&(row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n"));
        }
        text.into_bytes()
    }

    fn ndjson(rows: &[[String; 3]]) -> Vec<u8> {
        let line = |[id, at, value]: &[String; 3]| {
            serde_json::json!({"entity_id": id, "timestamp": at, "value": value}).to_string() + "\n"
        };
        rows.iter().map(line).collect::<String>().into_bytes()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_file_that_is_cut_anywhere_is_refused_or_read_as_a_prefix(
            rows in prop::collection::vec(
                ["[a-z\"\\\\,é]{1,4}", "[0-9]{1,4}", "[ -~é\n\r]{0,6}|[\"\\\\,\n]{0,6}"],
                1..5,
            ),
            always: bool,
            crlf: bool,
        ) {
            let expected: Vec<_> = rows
                .iter()
                .map(|[id, at, value]| format!("{id} {} {}", at.parse::<u64>().unwrap(), serde_json::json!(value)))
                .collect();
            let check = |format, escape, file: &[u8], may_be_open| {
                assert_eq!(read(format, escape, file), Ok((expected.clone(), false)));
                cut_everywhere(format, escape, file, may_be_open);
            };
            for columns in [&["value", "entity_id", "timestamp"][..], &["entity_id", "timestamp", "value"]] {
                check(FileFormat::Csv, None, &csv(columns, &rows, always, crlf), true);
            }
            check(FileFormat::Csv, Some(CsvEscape::Backslash), &escaped_csv(&rows), true);
            check(FileFormat::Csv, None, &csv(&EXPORT_COLUMNS, &rows, always, false), false);
            check(FileFormat::Csv, None, &csv(&EXPORT_COLUMNS[..6], &rows, always, false), false);
            let lines = ndjson(&rows);
            check(FileFormat::Ndjson, None, &lines, false);
            check(FileFormat::Ndjson, None, &[b"\xef\xbb\xbf", &*lines].concat(), false);
            for coding in [FileCoding::Gzip, FileCoding::Zstd] {
                let (first, second) = lines.split_at(lines.iter().position(|byte| *byte == b'\n').unwrap() + 1);
                check(FileFormat::Ndjson, None, &encoded(coding, &[first, second]), false);
                check(FileFormat::Csv, None, &encoded(coding, &[&csv(&EXPORT_COLUMNS, &rows, always, crlf)]), false);
            }
        }
    }

    #[test]
    fn a_compressed_file_with_a_truncated_end_is_refused() {
        let lines = ndjson(&[["a".into(), "1".into(), "x".into()], ["b".into(), "2".into(), "y".into()]]);
        let (first, second) = lines.split_at(lines.len() / 2);
        for coding in [FileCoding::Gzip, FileCoding::Zstd] {
            let (whole, part) = (encoded(coding, &[first, second]), encoded(coding, &[first]).len());
            for at in (1..whole.len()).filter(|at| *at != part) {
                assert!(read(FileFormat::Ndjson, None, &whole[..at]).is_err(), "{coding:?} {at}");
            }
        }
    }
}
