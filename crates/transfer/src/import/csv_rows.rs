//! Rows of a CSV file, read by the names of their columns.

use csv::ByteRecord;

use super::csv_file::CsvFile;
use super::dialect::CsvDialect;
use super::input::Input;
use super::row::{Row, Step, Unreadable};
use super::shape::Shape;
use crate::client::printable;

pub struct CsvRows {
    file: CsvFile,
    entity_id: usize,
    timestamp: usize,
    values: Vec<usize>,
    key: Option<usize>,
}

impl CsvRows {
    pub fn open(input: Input, shape: &Shape, dialect: CsvDialect) -> Result<Self, Unreadable> {
        let file = CsvFile::open(input, dialect)?;
        if file.header().is_empty() {
            return Err("is empty: a CSV file must begin with a line of column names".to_owned().into());
        }
        let columns = &shape.columns;
        let entity_id = find(&file, &columns.entity_id, "--entity-id-column")?;
        let timestamp = find(&file, &columns.timestamp, "--timestamp-column")?;
        let option = if columns.object { "--value-columns" } else { "--value-column" };
        let values = columns.values.iter().map(|name| find(&file, name, option)).collect::<Result<_, _>>()?;
        let key = columns.key.as_ref().map(|name| find(&file, name, "--key-column")).transpose()?;
        Ok(Self { file, entity_id, timestamp, values, key })
    }

    pub fn next(&mut self, shape: &Shape, row: &mut Row) -> Result<Step, Unreadable> {
        let Some(line) = self.file.next()? else { return Ok(Step::End) };
        Ok(match self.fill(shape, row) {
            Ok(()) => Step::Row { line },
            Err(reason) => Step::Bad { line, reason },
        })
    }

    fn fill(&self, shape: &Shape, row: &mut Row) -> Result<(), String> {
        self.file.check_cells()?;
        let named =
            |column: usize, e: String| format!("{}: {e}", printable(&String::from_utf8_lossy(&self.header()[column])));
        row.entity_id.push_str(self.cell(self.entity_id)?);
        let timestamp = shape.timestamp_text(self.cell(self.timestamp)?);
        row.set_time(timestamp.map_err(|e| named(self.timestamp, e))?);
        if let Some(key) = self.key {
            shape.key_of_text(self.cell(key)?, &mut row.key).map_err(|e| named(key, e))?;
        }
        let value = shape.value_of_texts(|column| self.cell(self.values[column]), &mut row.value);
        value.map_err(|e| named(self.values[0], e))
    }

    fn cell(&self, column: usize) -> Result<&str, String> {
        std::str::from_utf8(&self.record()[column]).map_err(|_| "is not UTF-8".to_owned())
    }

    pub fn record(&self) -> &ByteRecord {
        self.file.record()
    }

    pub fn header(&self) -> &ByteRecord {
        self.file.header()
    }

    /// Reports the line of a last row that no line end follows.
    pub fn open_end(&self) -> Option<u64> {
        self.file.open_end()
    }
}

/// The column with this name, which this option names.
fn find(file: &CsvFile, name: &str, option: &str) -> Result<usize, String> {
    let header = file.header();
    let mut found = header.iter().enumerate().filter(|(_, column)| *column == name.as_bytes());
    match (found.next(), found.next()) {
        (Some((column, _)), None) => Ok(column),
        (Some(_), Some(_)) => Err(format!("has two columns {name:?}")),
        (None, _) => {
            let names: Vec<_> = header.iter().map(|name| printable(&String::from_utf8_lossy(name))).collect();
            let hint = match file.delimiter_hint() {
                "" => format!(": name the column with {option}"),
                hint => hint.to_owned(),
            };
            Err(format!("has no column {name:?}; its columns are {}{hint}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::dialect::CsvEscape;
    use super::super::shape::tests::shape;
    use super::*;
    use crate::domain::ValueType;

    /// Each row as `line entity timestamp value`, a bad one as `line ! reason`.
    fn rows(shape: &Shape, text: &[u8]) -> Result<Vec<String>, String> {
        rows_with(shape, text, None)
    }

    fn rows_with(shape: &Shape, text: &[u8], escape: Option<CsvEscape>) -> Result<Vec<String>, String> {
        let input = Input::of_bytes(text).map_err(|e| e.to_string())?;
        let dialect = CsvDialect { escape, ..CsvDialect::default() };
        let mut rows = CsvRows::open(input, shape, dialect).map_err(|e| e.why)?;
        let (mut row, mut all) = (Row::default(), Vec::new());
        loop {
            (row.entity_id, row.value) = (String::new(), Vec::new());
            all.push(match rows.next(shape, &mut row).map_err(|e| format!("{:?} {}", e.line, e.why))? {
                Step::End => return Ok(all),
                Step::Bad { line, reason } => format!("{line} ! {reason}"),
                Step::Row { line } => {
                    let (nanos, value) = (row.timestamp.as_nanos(), String::from_utf8_lossy(&row.value));
                    format!("{line} {} {nanos} {value}", row.entity_id)
                }
            });
        }
    }

    #[test]
    fn rows_are_read_by_the_names_of_their_columns() {
        let text = b"\xef\xbb\xbfv,x,user,at\r\n\"a,\"\"b\",,u 1,5\r\n\r\n\"two\nlines\",,\xc3\xa9,6\nlast,,u,7";
        assert_eq!(
            rows(&shape(&["v"], false, ValueType::String), text).unwrap(),
            [r#"2 u 1 5 "a,\"b""#, r#"4 é 6 "two\nlines""#, r#"6 u 7 "last""#]
        );
        assert_eq!(
            rows(&shape(&["v", "x"], true, ValueType::Json), b"v,x,user,at\n1,,u,5\n").unwrap(),
            [r#"2 u 5 {"v":"1","x":""}"#]
        );
    }

    #[test]
    fn bad_rows_are_reported_and_the_rest_is_read() {
        let text = b"user,at,v\nu,1\nu,1,2,3\nu,x,1\nu,1,x\n\xff,1,1\nu,1,7\n";
        let all = rows(&shape(&["v"], false, ValueType::Int64), text).unwrap();
        assert_eq!(all[0], "2 ! has 2 cells, where the header has 3");
        assert_eq!(all[1], "3 ! has 4 cells, where the header has 3");
        assert!(all[2].starts_with("4 ! at: not a timestamp"), "{}", all[2]);
        assert!(all[3].starts_with("5 ! v: must be an integer"), "{}", all[3]);
        assert_eq!(all[4], "6 ! is not UTF-8");
        assert_eq!(all[5], "7 u 1 7");
    }

    #[test]
    fn quotes_after_a_backslash_are_read_with_the_option_that_the_error_names() {
        let shape = shape(&["v"], false, ValueType::String);
        let text = b"user,at,v\nu,5,\"say \\\"hi\\\", C:\\\\\"\n\"u\",6,\"a\"\"b\"\nu,7,C:\\d\n";
        let expected = [r#"2 u 5 "say \"hi\", C:\\""#, r#"3 u 6 "a\"b""#, r#"4 u 7 "C:\\d""#];
        assert_eq!(rows_with(&shape, text, Some(CsvEscape::Backslash)).unwrap(), expected);
        let refused = rows(&shape, text).unwrap_err();
        assert!(refused.starts_with("Some(2) text after") && refused.contains("--csv-escape backslash"), "{refused}");
        let refused = rows(&shape, b"user,at,v\nu,5,\"a\\\",b\"\n").unwrap();
        assert_eq!(refused, [r#"2 ! has 4 cells, where the header has 3; --csv-escape backslash reads \" as a quote"#]);
    }

    #[test]
    fn cells_are_separated_by_the_given_delimiter() {
        let shape = shape(&["v"], false, ValueType::String);
        for (delimiter, text) in [(b';', "v;user;at\n\"a;b\";u,1;5\n"), (b'\t', "v\tuser\tat\na;b\tu,1\t5\n")] {
            let input = Input::of_bytes(text.as_bytes()).unwrap();
            let dialect = CsvDialect { delimiter, escape: None };
            let (mut rows, mut row) = (CsvRows::open(input, &shape, dialect).unwrap(), Row::default());
            assert_eq!(rows.next(&shape, &mut row), Ok(Step::Row { line: 2 }));
            assert_eq!((row.entity_id.as_str(), &*row.value), ("u,1", br#""a;b""#.as_slice()));
        }
        let hint = rows(&shape, b"v;user;at\n").unwrap_err();
        assert!(hint.ends_with("its columns are v;user;at: pass --delimiter ';'"), "{hint}");
    }

    #[test]
    fn rows_before_a_fault_are_read() {
        let shape = shape(&["v"], false, ValueType::String);
        let input = Input::of_bytes(b"user,at,v\nu,x,a\nu,5,\"a\nu,6,b\n").unwrap();
        let (mut rows, mut row) = (CsvRows::open(input, &shape, CsvDialect::default()).unwrap(), Row::default());
        assert!(matches!(rows.next(&shape, &mut row), Ok(Step::Bad { line: 2, .. })));
        assert_eq!(rows.next(&shape, &mut row).unwrap_err().line, Some(3));
    }

    #[test]
    fn a_false_gzip_header_is_refused() {
        let shape = shape(&["v"], false, ValueType::String);
        assert_eq!(rows(&shape, b"\x1f\x8b,at,v,and more\n"), Err("invalid gzip header".into()));
    }

    #[test]
    fn columns_must_occur_once() {
        let shape = shape(&["v"], false, ValueType::String);
        let error = rows(&shape, b"user,at,w\n").unwrap_err();
        assert_eq!(error, "has no column \"v\"; its columns are user, at, w: name the column with --value-column");
        assert_eq!(rows(&shape, b"user,at,v,v\n"), Err("has two columns \"v\"".into()));
        assert!(rows(&shape, b"").unwrap_err().contains("is empty"));
        assert_eq!(rows(&shape, b"user,at,v\n"), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn any_csv_file_yields_rows_or_is_refused_with_a_line(
            body in r#"([ -~"\r\n,]{0,12}|u,5,|"a""b",6,x\n|é){0,12}"#,
            bytes: Vec<u8>,
        ) {
            let shape = shape(&["v"], false, ValueType::String);
            for rest in [body.as_bytes(), &bytes] {
                let text = [b"user,at,v\n", rest].concat();
                let lines = rest.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
                match rows(&shape, &text) {
                    Ok(read) => prop_assert!(read.len() <= lines, "{read:?}"),
                    Err(error) => prop_assert!(error.starts_with("Some("), "{error}"),
                }
                // A file without our header is refused completely, or read nevertheless.
                let _ = rows(&shape, rest);
            }
        }
    }
}
