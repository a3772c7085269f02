//! A spine: the rows that a training set is made of, each an entity and a moment, with columns of its own such as a
//! label.
//!
//! The file is read twice: once for what its columns hold, since a column of a Parquet file has one type, and once
//! for its rows.

use std::fmt::Display;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use serde_json::value::RawValue;

use super::columns::Kind;
use crate::client::Failure;
use crate::domain::{EntityId, Timestamp};
use crate::import::{FileFormat, Input, TimestampUnit, entity_id};

/// Columns of a spine, at most.
const COLUMNS_MAX: usize = 1_000;
/// Whoever means a moment before 1973 gave it in another unit: so many nanoseconds are too few, and so many of what
/// is a thousand times as long are beyond all time.
const NANOS_MIN: u64 = 100_000_000_000_000_000;

/// Where it is, and which of its columns say whose list and when.
#[derive(Debug, Clone)]
pub struct SpineFile {
    pub path: PathBuf,
    pub format: FileFormat,
    pub entity_id: String,
    pub timestamp: String,
    pub unit: TimestampUnit,
}

/// A column that is carried over as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub name: String,
    pub kind: Kind,
}

/// Its cells are in the order of the columns; of a number or a boolean each is as JSON has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpineRow {
    pub line: u64,
    pub entity_id: EntityId,
    pub timestamp: Timestamp,
    pub cells: Vec<Option<String>>,
}

pub(super) struct Spine {
    file: SpineFile,
    pub columns: Vec<Column>,
    rows: Rows,
}

impl Spine {
    /// Reads it once, and begins to read it again.
    pub fn open(file: SpineFile) -> Result<Self, Failure> {
        let mut columns: Vec<(String, Option<Kind>)> = Vec::new();
        let mut rows = Rows::open(&file)?;
        while let Some((line, cells)) = rows.next(&file)? {
            for (name, cell) in cells {
                if name == file.entity_id || name == file.timestamp {
                    continue;
                }
                let place = columns.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                    columns.push((name, None));
                    columns.len() - 1
                });
                if columns.len() > COLUMNS_MAX {
                    return Err(file.failed(line, format!("has more than {COLUMNS_MAX} columns with those before it")));
                }
                let known = &mut columns[place].1;
                *known = cell.kind().map_or(*known, |kind| Some(known.map_or(kind, |known| together(known, kind))));
            }
        }
        let columns =
            columns.into_iter().map(|(name, kind)| Column { name, kind: kind.unwrap_or(Kind::Text) }).collect();
        let rows = Rows::open(&file)?;
        Ok(Self { file, columns, rows })
    }

    /// The next row; none if there are no more.
    pub fn next(&mut self) -> Result<Option<SpineRow>, Failure> {
        let Self { file, columns, rows } = self;
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
        let timestamp = take(at).ok_or_else(|| missing(at))?.timestamp(file.unit).map_err(|why| failed(at, &why))?;
        if timestamp.as_nanos() < NANOS_MIN {
            let why = format!("{timestamp} is long ago: give the unit of integers with --timestamp-unit s, ms or us");
            return Err(failed(at, &why));
        }
        let cells = columns.iter().map(|column| take(&column.name)?.text(column.kind)).collect();
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
}

/// What a column holds that holds both.
fn together(one: Kind, other: Kind) -> Kind {
    match (one, other) {
        _ if one == other => one,
        (Kind::Int64, Kind::Double) | (Kind::Double, Kind::Int64) => Kind::Double,
        _ => Kind::Text,
    }
}

/// What a file has in one place.
enum Cell {
    Text(String),
    Json(Box<RawValue>),
}

impl Cell {
    /// None if there is nothing in it.
    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Text(text) if text.is_empty() => None,
            Self::Text(text) => Some(plain_kind(text).unwrap_or(Kind::Text)),
            Self::Json(raw) => match raw.get().as_bytes().first() {
                Some(b'n') => None,
                Some(b'"') => Some(Kind::Text),
                Some(b'{' | b'[') => Some(Kind::Json),
                _ => Some(plain_kind(raw.get()).unwrap_or(Kind::Text)),
            },
        }
    }

    /// The cell of a column of a kind; none if there is nothing in it.
    fn text(self, kind: Kind) -> Option<String> {
        self.kind()?;
        match self {
            Self::Text(text) => Some(text),
            Self::Json(raw) if kind == Kind::Text => {
                Some(serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned()))
            }
            Self::Json(raw) => Some(raw.get().to_owned()),
        }
    }

    fn entity_id(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Json(raw) => {
                let mut id = String::new();
                entity_id(raw.get(), &mut id).map(|()| id)
            }
        }
    }

    fn timestamp(&self, unit: TimestampUnit) -> Result<Timestamp, String> {
        match self {
            Self::Text(text) => unit.read_text(text),
            Self::Json(raw) => unit.read_json(raw.get()),
        }
    }
}

/// What plain text is, if that is a number or a boolean as JSON writes them. `007` is neither, nor is what no
/// double holds.
fn plain_kind(text: &str) -> Option<Kind> {
    match text {
        "true" | "false" => Some(Kind::Bool),
        _ if text.contains(char::is_whitespace) => None,
        _ if serde_json::from_str::<i64>(text).is_ok() => Some(Kind::Int64),
        _ if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            serde_json::from_str::<f64>(text).is_ok().then_some(Kind::Double)
        }
        _ => None,
    }
}

/// The cells of a row, each with the name of its column.
type Cells = Vec<(String, Cell)>;

enum Rows {
    Csv { reader: Box<csv::Reader<Input>>, header: StringRecord },
    Ndjson { input: Input, line: u64 },
}

impl Rows {
    fn open(file: &SpineFile) -> Result<Self, Failure> {
        let failed = |why: &dyn Display| Failure::failed(format!("{}: {why}", file.path.display()));
        let input = Input::open_file(&file.path).map_err(|e| failed(&e))?;
        if file.format == FileFormat::Ndjson {
            return Ok(Self::Ndjson { input, line: 0 });
        }
        let mut reader = Box::new(csv::Reader::from_reader(input));
        let header = reader.headers().map_err(|e| failed(&e))?.clone();
        for name in [&file.entity_id, &file.timestamp] {
            if !header.iter().any(|known| known == name) {
                let names: Vec<_> = header.iter().collect();
                return Err(failed(&format!("has no column {name:?}; its columns are {}", names.join(", "))));
            }
        }
        let twice = header.iter().enumerate().find(|(place, name)| header.iter().skip(place + 1).any(|n| n == *name));
        twice.map_or(Ok(()), |(_, name)| Err(failed(&format!("has two columns {name:?}"))))?;
        Ok(Self::Csv { reader, header })
    }

    /// The next row with its line.
    fn next(&mut self, file: &SpineFile) -> Result<Option<(u64, Cells)>, Failure> {
        let failed = |line, why: &dyn Display| file.failed(line, why);
        match self {
            Self::Csv { reader, header } => {
                reader.get_ref().row_ended();
                let mut record = StringRecord::new();
                let line = reader.position().line();
                if !reader.read_record(&mut record).map_err(|error| failed(line, &error))? {
                    return Ok(None);
                }
                let line = record.position().map_or(line, csv::Position::line);
                let cells = header.iter().zip(&record).map(|(name, text)| (name.into(), Cell::Text(text.into())));
                Ok(Some((line, cells.collect())))
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
                    return Err(serde::de::Error::custom(format!("the member {name:?} stands twice in it")));
                }
                if members.len() > COLUMNS_MAX + 2 {
                    return Err(serde::de::Error::custom(format!("it has more than {COLUMNS_MAX} members")));
                }
                members.push((name, Cell::Json(value)));
            }
            Ok(members)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let members = serde::Deserializer::deserialize_map(&mut deserializer, Members)?;
    deserializer.end()?;
    Ok(members)
}

/// The format that a spine's name tells.
pub fn spine_format(path: &Path) -> Result<FileFormat, Failure> {
    let untold =
        "cannot tell the format from the spine's name: it is to end with .csv or .ndjson, and maybe .gz or .zst";
    FileFormat::by_name(path).ok_or_else(|| Failure::Usage(format!("{}: {untold}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2024-01-01T00:00:00Z";

    fn spine(name: &str, text: &str) -> Result<(Vec<Column>, Vec<SpineRow>), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let format = spine_format(&path).unwrap();
        let (entity_id, timestamp, unit) = ("entity_id".into(), "timestamp".into(), TimestampUnit::Ns);
        let read = || {
            let mut spine = Spine::open(SpineFile { path, format, entity_id, timestamp, unit })?;
            let mut rows = Vec::new();
            while let Some(row) = spine.next()? {
                rows.push(row);
            }
            Ok::<_, Failure>((spine.columns, rows))
        };
        read().map_err(|failure| failure.to_string())
    }

    #[test]
    fn columns_have_the_narrowest_type_that_holds_all_their_cells() {
        let text = format!(
            "label,entity_id,n,x,code,none,timestamp,note\n1,u,1,1,007,,{AT},true\n,v,-2,0.5,8,,{AT},\"a,\"\"b\"\n"
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
        let cells: Vec<_> = rows[1].cells.iter().map(Option::as_deref).collect();
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
        assert_eq!(rows[0].cells, [Some("1".to_owned()), Some("[1]".to_owned()), None]);
        assert_eq!((rows[1].line, &rows[1].cells[2]), (3, &Some("true".to_owned())));
    }

    #[test]
    fn what_is_no_spine_is_refused_with_its_line() {
        let refused = |name, text: &str| spine(name, text).unwrap_err();
        assert!(refused("s.csv", "user,timestamp\n").contains("has no column \"entity_id\"; its columns are user"));
        assert!(refused("s.csv", "entity_id,timestamp,a,a\n").contains("two columns \"a\""));
        assert!(refused("s.csv", "entity_id,timestamp\nu,tomorrow\n").contains("s.csv:2: timestamp: "));
        assert!(refused("s.csv", "entity_id,timestamp\nu,1704067200\n").contains("--timestamp-unit s"));
        assert!(refused("s.csv", &format!("entity_id,timestamp\nu,{AT}\nu\n")).contains("s.csv:3"));
        assert!(refused("s.ndjson", "{\"entity_id\":\"u\"}").contains("s.ndjson:1: has no column \"timestamp\""));
        assert!(refused("s.ndjson", "[1]").contains("s.ndjson:1"));
        assert!(refused("s.ndjson", "{\"a\":1,\"a\":2}").contains("stands twice"));
    }
}
