//! A spine: the rows of a training set, each an entity and a moment, with further columns such as a label.
//!
//! The file is read twice: once for the types of its columns, because a column of a Parquet file has one type, and
//! once for its rows.

use std::fmt::Display;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::cells::{Cell, Kinds, RawCell};
use super::columns::Kind;
use crate::client::{Failure, printable};
use crate::domain::{EntityId, Timestamp};
use crate::import::{CsvDialect, CsvFile, FileFormat, Input, Unreadable};
use crate::typed_times::{TimeReader, TypedTime};

/// Columns of a spine, at most.
const COLUMNS_MAX: usize = 1_000;
/// A moment before 1973 was given in another unit: as nanoseconds the number is too small, and as a unit a thousand
/// times as long it is out of range.
const NANOS_MIN: u64 = 100_000_000_000_000_000;

/// The place of the file, and its columns for the entity and the moment.
#[derive(Debug, Clone)]
pub struct SpineFile {
    pub path: PathBuf,
    pub format: FileFormat,
    pub entity_id: String,
    pub timestamp: String,
    pub times: TimeReader,
    pub dialect: CsvDialect,
}

/// A column that is carried over as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub name: String,
    pub kind: Kind,
}

/// Its cells are in the order of the columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpineRow {
    pub line: u64,
    pub entity_id: EntityId,
    pub timestamp: Timestamp,
    pub cells: Vec<Option<Cell>>,
}

pub(super) struct Spine {
    file: SpineFile,
    pub columns: Vec<Column>,
    /// The line of a last row that no line end follows, so that it may have been cut off.
    pub open_end: Option<u64>,
    /// Whether a timestamp so far had no time zone and was read as UTC.
    pub is_utc_assumed: bool,
    rows: Rows,
}

impl Spine {
    /// Reads it once, and begins to read it again.
    pub fn open(file: SpineFile) -> Result<Self, Failure> {
        let mut columns: Vec<(String, Kinds)> = Vec::new();
        let mut rows = Rows::open(&file)?;
        while let Some((line, cells)) = rows.next(&file)? {
            for (name, cell) in cells {
                if name == file.entity_id || name == file.timestamp {
                    continue;
                }
                let place = columns.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                    columns.push((name, Kinds::default()));
                    columns.len() - 1
                });
                if columns.len() > COLUMNS_MAX {
                    return Err(file.failed(line, format!("exceeds the limit of {COLUMNS_MAX} columns in total")));
                }
                columns[place].1.narrow(&cell);
            }
        }
        let columns = columns.into_iter().map(|(name, kinds)| Column { name, kind: kinds.narrowest() }).collect();
        let open_end = rows.open_end();
        let rows = Rows::open(&file)?;
        Ok(Self { file, columns, open_end, is_utc_assumed: false, rows })
    }

    /// The next row; `None` at the end.
    pub fn next(&mut self) -> Result<Option<SpineRow>, Failure> {
        let Self { file, columns, is_utc_assumed, rows, .. } = self;
        let Some((line, mut cells)) = rows.next(file)? else { return Ok(None) };
        let mut take = |name: &str| {
            let place = cells.iter().position(|(known, _)| known == name)?;
            Some(cells.swap_remove(place).1)
        };
        let failed = |name: &str, why: &dyn Display| file.failed(line, format!("{name}: {why}"));
        let missing = |name: &str| file.failed(line, format!("has no column {name:?}"));
        let (id, at) = (&file.entity_id, &file.timestamp);
        let entity = take(id).ok_or_else(|| missing(id))?.entity_id().map_err(|why| failed(id, &why))?;
        let entity_id = EntityId::new(&entity).map_err(|why| failed(id, &why))?;
        let read = take(at).ok_or_else(|| missing(at))?.timestamp(&file.times).map_err(|why| failed(at, &why))?;
        let TypedTime { at: timestamp, is_utc_assumed: is_utc } = read;
        *is_utc_assumed |= is_utc;
        if timestamp.as_nanos() < NANOS_MIN {
            let why = match file.times.unit.likely(timestamp) {
                Some(likely) => file.times.unit.doubt(likely),
                None => "name the unit of integers with --timestamp-unit s, ms or us".to_owned(),
            };
            return Err(failed(at, &format!("{timestamp} is implausibly early: {why}")));
        }
        let cells = columns.iter().map(|column| take(&column.name)?.of_kind(column.kind)).collect();
        Ok(Some(SpineRow { line, entity_id, timestamp, cells }))
    }

    pub fn failed(&self, line: u64, why: &str) -> Failure {
        self.file.failed(line, why)
    }
}

impl SpineFile {
    fn failed(&self, line: u64, why: impl Display) -> Failure {
        Failure::failed(format!("{}:{line}: {why}", self.path.display()))
    }

    fn unreadable(&self, Unreadable { line, why }: Unreadable) -> Failure {
        match line {
            Some(line) => self.failed(line, why),
            None => Failure::failed(format!("{}: {why}", self.path.display())),
        }
    }
}

/// The cells of a row, each with the name of its column.
type Cells = Vec<(String, RawCell)>;

enum Rows {
    Csv { rows: Box<CsvFile>, header: Vec<String> },
    Ndjson { input: Input, line: u64 },
}

impl Rows {
    fn open(file: &SpineFile) -> Result<Self, Failure> {
        let failed = |why: String| file.unreadable(why.into());
        let input = Input::open_file(&file.path).map_err(|e| failed(e.to_string()))?;
        if file.format == FileFormat::Ndjson {
            return Ok(Self::Ndjson { input, line: 0 });
        }
        let rows = Box::new(CsvFile::open(input, file.dialect).map_err(|e| file.unreadable(e))?);
        let header: Vec<String> = rows.header().iter().map(text).collect::<Result<_, _>>().map_err(failed)?;
        for name in [&file.entity_id, &file.timestamp] {
            if !header.contains(name) {
                let (names, hint) = (printable(&header.join(", ")), rows.delimiter_hint());
                return Err(failed(format!("has no column {name:?}; its columns are {names}{hint}")));
            }
        }
        let twice = header.iter().enumerate().find(|(place, name)| header[place + 1..].contains(name));
        twice.map_or(Ok(()), |(_, name)| Err(failed(format!("has two columns {name:?}"))))?;
        Ok(Self::Csv { rows, header })
    }

    fn open_end(&self) -> Option<u64> {
        match self {
            Self::Csv { rows, .. } => rows.open_end(),
            Self::Ndjson { .. } => None,
        }
    }

    /// The next row with its line.
    fn next(&mut self, file: &SpineFile) -> Result<Option<(u64, Cells)>, Failure> {
        let failed = |line, why: &dyn Display| file.failed(line, why);
        match self {
            Self::Csv { rows, header } => {
                let Some(line) = rows.next().map_err(|e| file.unreadable(e))? else { return Ok(None) };
                rows.check_cells().map_err(|why| failed(line, &why))?;
                let cells = header.iter().zip(rows.record());
                let cells = cells.map(|(name, cell)| Ok((name.clone(), RawCell::Text(text(cell)?))));
                let cells: Result<Cells, String> = cells.collect();
                cells.map(|cells| Some((line, cells))).map_err(|why| failed(line, &why))
            }
            Self::Ndjson { input, line } => loop {
                let mut text = Vec::new();
                input.row_ended();
                if input.read_until(b'\n', &mut text).map_err(|error| failed(*line + 1, &error))? == 0 {
                    return Ok(None);
                }
                *line += 1;
                if text.trim_ascii().is_empty() {
                    continue;
                }
                let members = members(&text).map_err(|error| failed(*line, &error))?;
                return Ok(Some((*line, members)));
            },
        }
    }
}

fn text(cell: &[u8]) -> Result<String, String> {
    std::str::from_utf8(cell).map(str::to_owned).map_err(|_| "is not UTF-8".to_owned())
}

/// The members of an object, in their order.
fn members(line: &[u8]) -> Result<Cells, serde_json::Error> {
    struct Members;

    impl<'de> serde::de::Visitor<'de> for Members {
        type Value = Cells;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Cells::new();
            while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                if members.iter().any(|(known, _)| *known == name) {
                    return Err(serde::de::Error::custom(format!("duplicate member {name:?}")));
                }
                if members.len() > COLUMNS_MAX + 2 {
                    return Err(serde::de::Error::custom(format!("more than {COLUMNS_MAX} members")));
                }
                members.push((name, RawCell::Json(value)));
            }
            Ok(members)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let members = serde::Deserializer::deserialize_map(&mut deserializer, Members)?;
    deserializer.end()?;
    Ok(members)
}

/// The format by a spine's name.
pub fn spine_format(path: &Path) -> Result<FileFormat, Failure> {
    let unreported = "cannot derive the format from the spine's name: it must end with .csv or .ndjson, optionally \
                  followed by .gz or .zst";
    FileFormat::by_name(path).ok_or_else(|| Failure::Usage(format!("{}: {unreported}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2024-01-01T00:00:00Z";

    fn spine(name: &str, text: impl AsRef<[u8]>) -> Result<(Vec<Column>, Vec<SpineRow>), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let format = spine_format(&path).unwrap();
        let (entity_id, timestamp, times) = ("entity_id".into(), "timestamp".into(), TimeReader::default());
        let dialect = CsvDialect::default();
        let read = || {
            let mut spine = Spine::open(SpineFile { path, format, entity_id, timestamp, times, dialect })?;
            let mut rows = Vec::new();
            while let Some(row) = spine.next()? {
                rows.push(row);
            }
            Ok::<_, Failure>((spine.columns, rows))
        };
        read().map_err(|failure| failure.to_string())
    }

    #[test]
    fn columns_have_the_narrowest_type_that_fits_all_cells() {
        let text = format!(
            "label,entity_id,n,x,code,none,timestamp,note\n1,u,1,1.0,007,,{AT},true\n,v,-2,0.5,8,,{AT},\"a,\"\"b\"\n"
        );
        let (columns, rows) = spine("s.csv", &text).unwrap();
        let kinds: Vec<_> = columns.iter().map(|column| (&*column.name, column.kind)).collect();
        let expected = [
            ("label", Kind::Int64),
            ("n", Kind::Int64),
            ("x", Kind::Double),
            ("code", Kind::Text),
            ("none", Kind::Text),
            ("note", Kind::Text),
        ];
        assert_eq!(kinds, expected);
        assert_eq!((rows[1].line, rows[1].entity_id.as_str()), (3, "v"));
        let cells: Vec<_> = rows[1].cells.iter().map(|cell| Some(&*cell.as_ref()?.text)).collect();
        assert_eq!(cells, [None, Some("-2"), Some("0.5"), Some("8"), None, Some("a,\"b")]);
    }

    #[test]
    fn members_of_objects_are_columns_also_where_some_lack_them() {
        let text = format!(
            "{{\"entity_id\":7,\"timestamp\":\"{AT}\",\"a\":\"1\",\"b\":[1]}}\n\n\
             {{\"entity_id\":\"u\",\"timestamp\":1704067200000000000,\"c\":true,\"b\":{{}}}}"
        );
        let (columns, rows) = spine("s.ndjson", &text).unwrap();
        let kinds: Vec<_> = columns.iter().map(|column| (&*column.name, column.kind)).collect();
        assert_eq!(kinds, [("a", Kind::Text), ("b", Kind::Json), ("c", Kind::Bool)]);
        assert_eq!((rows[0].entity_id.as_str(), rows[0].timestamp), ("7", rows[1].timestamp));
        let cell = |text: &str, is_json| Some(Cell { text: text.to_owned(), is_json });
        assert_eq!(rows[0].cells, [cell("1", false), cell("[1]", true), None]);
        assert_eq!((rows[1].line, &rows[1].cells[2]), (3, &cell("true", true)));
    }

    #[test]
    fn a_spine_that_is_cut_anywhere_is_refused_or_read_as_a_prefix() {
        let csv = format!("\u{feff}entity_id,timestamp,label\n\"u\",{AT},\"a\"\"b\nc\"\n\"v\",{AT},\"1,5\"\n");
        let line = |id: &str| format!("{{\"entity_id\":\"{id}\",\"timestamp\":\"{AT}\",\"label\":\"é\\n\"}}\n");
        let ndjson = format!("\u{feff}{}{}", line("u"), line("v"));
        for (name, text) in [("s.csv", csv), ("s.ndjson", ndjson)] {
            let rows = |bytes: &[u8]| {
                let cells =
                    |row: SpineRow| (row.entity_id, row.cells.into_iter().map(|cell| Some(cell?.text)).collect());
                let rows = |rows: Vec<SpineRow>| rows.into_iter().map(cells).collect::<Vec<(_, Vec<_>)>>();
                spine(name, bytes).map(|(_, found)| rows(found))
            };
            let whole = rows(text.as_bytes()).unwrap();
            assert_eq!(whole.len(), 2);
            for at in 0..text.len() {
                let Ok(mut rows) = rows(&text.as_bytes()[..at]) else { continue };
                // A CSV file may end without a line end, as one does here that is cut within the last cell's quotes.
                if name == "s.csv" && !text.as_bytes()[..at].ends_with(b"\n") {
                    rows.pop();
                }
                assert!(whole.starts_with(&rows), "{name} {at}: {rows:?}");
            }
        }
        for cut in ["u,", "u", "\"u"] {
            let refused = spine("s.csv", format!("entity_id,timestamp\nu,{AT}\n{cut}")).unwrap_err();
            assert!(refused.contains("s.csv:3: "), "{refused}");
        }
        assert!(spine("s.ndjson.gz", b"\x1f\x8b\x08").unwrap_err().contains("s.ndjson.gz"));
        assert!(spine("s.ndjson.gz", b"").unwrap_err().contains("is empty"));
    }

    #[test]
    fn a_malformed_spine_is_refused_with_the_line() {
        let refused = |name, text: &str| spine(name, text).unwrap_err();
        assert!(refused("s.csv", "user,timestamp\n").contains("has no column \"entity_id\"; its columns are user"));
        assert!(refused("s.csv", "entity_id,timestamp,a,a\n").contains("two columns \"a\""));
        assert!(refused("s.csv", "entity_id,timestamp\nu,tomorrow\n").contains("s.csv:2: timestamp: "));
        assert!(refused("s.csv", "entity_id,timestamp\nu,1704067200\n").contains("--timestamp-unit s"));
        assert!(refused("s.csv", &format!("entity_id,timestamp\nu,{AT}\nu\n")).contains("s.csv:3"));
        assert!(refused("s.ndjson", "{\"entity_id\":\"u\"}").contains("s.ndjson:1: has no column \"timestamp\""));
        assert!(refused("s.ndjson", "[1]").contains("s.ndjson:1"));
        assert!(refused("s.ndjson", "{\"a\":1,\"a\":2}").contains("duplicate"));
    }
}
