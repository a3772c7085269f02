//! The file of bad rows, with the place and the reason of each, in the format of the input, so that it can be
//! corrected and imported again.
//!
//! CSV gets three columns in front, NDJSON three members; an import passes them over.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;

use csv::ByteRecord;
use serde_json::json;
use serde_json::value::RawValue;

use super::dialect::CsvDialect;
use super::row::RawRow;
use super::source::{FileFormat, Source};
use crate::client::Failure;

const FILE: &str = "import_file";
const LINE: &str = "import_line";
const REASON: &str = "import_reason";
const COLUMNS: [&str; 3] = [FILE, LINE, REASON];
/// Holds a line of NDJSON that is not an object, so that nothing can be put in front of it.
const ROW: &str = "import_row";

pub struct BadRows {
    name: String,
    writer: Writer,
}

enum Writer {
    Csv { csv: Box<csv::Writer<File>>, header: Option<Header> },
    Ndjson(BufWriter<File>),
}

struct Header {
    columns: ByteRecord,
    source: String,
    written: bool,
}

impl BadRows {
    /// Creates the file. A file with content is refused: it may be anything, such as earlier bad rows.
    pub fn create(path: &Path, sources: &[Source], dialect: CsvDialect) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let formats = |format| sources.iter().any(|source| source.format == format);
        if formats(FileFormat::Csv) && formats(FileFormat::Ndjson) {
            return Err(Failure::Usage(
                "--bad-rows needs files of one format: import CSV and NDJSON separately".into(),
            ));
        }
        let target = path.canonicalize();
        let is_source = |source: &Source| {
            source
                .path
                .as_ref()
                .is_some_and(|p| target.is_ok() && p.canonicalize().ok() == target.as_ref().ok().cloned())
        };
        if sources.iter().any(is_source) {
            return Err(Failure::Usage(format!("--bad-rows would overwrite the input file {name}")));
        }
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|e| Failure::failed(format!("cannot create {name}: {e}")))?;
        if file.metadata().is_ok_and(|file| file.is_file() && file.len() > 0) {
            return Err(Failure::failed(format!("{name} already exists: remove it, or write another file")));
        }
        let writer = if formats(FileFormat::Csv) {
            // Rows that have too few or too many cells are written as they are.
            let mut builder = csv::WriterBuilder::new();
            Writer::Csv {
                csv: Box::new(builder.flexible(true).delimiter(dialect.delimiter).from_writer(file)),
                header: None,
            }
        } else {
            Writer::Ndjson(BufWriter::new(file))
        };
        Ok(Self { name, writer })
    }

    /// Says which columns the next rows have. All files must have the same, since this one has
    /// only one header.
    pub fn header(&mut self, columns: &ByteRecord, source: &str) -> Result<(), String> {
        let Writer::Csv { header, .. } = &mut self.writer else {
            return Ok(());
        };
        match header {
            Some(first) if first.columns != *columns => {
                Err(format!("has other columns than {}: with --bad-rows, import it separately", first.source))
            }
            Some(_) => Ok(()),
            None => {
                *header = Some(Header { columns: columns.clone(), source: source.to_owned(), written: false });
                Ok(())
            }
        }
    }

    pub fn write(&mut self, source: &str, line: u64, reason: &str, raw: &RawRow) -> Result<(), Failure> {
        self.try_write(source, line, reason, raw)
            .map_err(|e| Failure::failed(format!("cannot write to {}: {e}", self.name)))
    }

    fn try_write(&mut self, source: &str, line: u64, reason: &str, raw: &RawRow) -> std::io::Result<()> {
        match (&mut self.writer, raw) {
            (Writer::Csv { csv, header }, RawRow::Csv(record)) => {
                let mut again = false;
                if let Some(header) = header {
                    again = is_bad_rows(&header.columns);
                    if !std::mem::replace(&mut header.written, true) {
                        let columns = header.columns.iter().skip(if again { COLUMNS.len() } else { 0 });
                        csv.write_record(COLUMNS.iter().map(|c| c.as_bytes()).chain(columns))?;
                    }
                }
                // A file of bad rows that is imported again: the old reasons make room for the new.
                let cells = record.iter().skip(if again { COLUMNS.len() } else { 0 });
                let line = line.to_string();
                let front = [source.as_bytes(), line.as_bytes(), reason.as_bytes()];
                Ok(csv.write_record(front.into_iter().chain(cells))?)
            }
            (Writer::Ndjson(out), RawRow::Ndjson(text)) => write_ndjson(out, source, line, reason, text),
            _ => Err(std::io::Error::other("a row of another format")),
        }
    }

    pub fn finish(&mut self) -> Result<(), Failure> {
        let flushed = match &mut self.writer {
            Writer::Csv { csv, .. } => csv.flush(),
            Writer::Ndjson(out) => out.flush(),
        };
        flushed.map_err(|e| Failure::failed(format!("cannot write to {}: {e}", self.name)))
    }
}

fn is_bad_rows(columns: &ByteRecord) -> bool {
    columns.iter().take(COLUMNS.len()).eq(COLUMNS.iter().map(|column| column.as_bytes()))
}

fn write_ndjson(out: &mut impl Write, source: &str, line: u64, reason: &str, text: &[u8]) -> std::io::Result<()> {
    write!(out, "{{{}:{},{}:{line},{}:{}", json!(FILE), json!(source), json!(LINE), json!(REASON), json!(reason))?;
    match serde_json::from_slice::<Members<'_>>(text) {
        Ok(Members(members)) => {
            for (key, value) in members.iter().filter(|(key, _)| !COLUMNS.contains(&key.as_str())) {
                write!(out, ",{}:{}", json!(key), value.get())?;
            }
        }
        Err(_) => write!(out, ",{}:{}", json!(ROW), json!(String::from_utf8_lossy(text)))?,
    }
    writeln!(out, "}}")
}

/// The raw members of an object, in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(format: FileFormat) -> Source {
        Source { name: "a".into(), format, path: None }
    }

    fn record(cells: &[&str]) -> ByteRecord {
        ByteRecord::from(cells.to_vec())
    }

    #[test]
    fn bad_csv_rows_get_three_leading_columns_that_a_retry_replaces() {
        let dir = tempfile::tempdir().unwrap();
        for (header, cells) in [
            (vec!["user", "v"], vec!["u", "a,\"b"]),
            (vec![FILE, LINE, REASON, "user", "v"], vec!["old.csv", "9", "old reason", "u", "a,\"b"]),
        ] {
            let path = dir.path().join(format!("bad-{}.csv", header.len()));
            let mut bad = BadRows::create(&path, &[source(FileFormat::Csv)], CsvDialect::default()).unwrap();
            bad.header(&record(&header), "in.csv").unwrap();
            bad.write("in.csv", 2, "no, it is \"bad\"", &RawRow::Csv(record(&cells))).unwrap();
            bad.finish().unwrap();
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                "import_file,import_line,import_reason,user,v\n\
                 in.csv,2,\"no, it is \"\"bad\"\"\",u,\"a,\"\"b\"\n"
            );
        }
    }

    #[test]
    fn one_file_of_bad_rows_has_one_header() {
        let dir = tempfile::tempdir().unwrap();
        let mut bad =
            BadRows::create(&dir.path().join("bad.csv"), &[source(FileFormat::Csv)], CsvDialect::default()).unwrap();
        bad.header(&record(&["a", "b"]), "1.csv").unwrap();
        bad.header(&record(&["a", "b"]), "2.csv").unwrap();
        assert!(bad.header(&record(&["ab", ""]), "3.csv").unwrap_err().contains("1.csv"));
    }

    #[test]
    fn bad_ndjson_rows_get_three_leading_members() {
        let written = |text: &str| {
            let mut out = Vec::new();
            write_ndjson(&mut out, "in", 3, "why", text.as_bytes()).unwrap();
            String::from_utf8(out).unwrap()
        };
        let front = r#"{"import_file":"in","import_line":3,"import_reason":"why""#;
        assert_eq!(
            written(r#"{"u": 1.50, "import_line": 7, "v":[1, 2]}"#),
            format!("{front},\"u\":1.50,\"v\":[1, 2]}}\n")
        );
        assert_eq!(written("{}"), format!("{front}}}\n"));
        assert_eq!(written("{\"u\": "), format!("{front},\"import_row\":\"{{\\\"u\\\": \"}}\n"));
    }

    #[test]
    fn an_input_file_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.csv");
        std::fs::write(&path, "a").unwrap();
        let sources = [Source { name: "in".into(), format: FileFormat::Csv, path: Some(path.clone()) }];
        assert!(matches!(BadRows::create(&path, &sources, CsvDialect::default()), Err(Failure::Usage(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a");
        // Another file, or another link to the input.
        let notes = dir.path().join("notes.txt");
        std::fs::hard_link(&path, &notes).unwrap();
        assert!(matches!(BadRows::create(&notes, &sources, CsvDialect::default()), Err(Failure::Failed(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a");
        assert!(BadRows::create(Path::new("/dev/null"), &sources, CsvDialect::default()).is_ok());
        let both = [source(FileFormat::Csv), source(FileFormat::Ndjson)];
        assert!(matches!(
            BadRows::create(&dir.path().join("bad"), &both, CsvDialect::default()),
            Err(Failure::Usage(_))
        ));
    }
}
