//! A Parquet file (the format's own specification: `apache/parquet-format`), written in groups of rows.
//!
//! The parts of a column of a group are adjacent in the file, so a group is held in memory until it is written. A file
//! is complete only with its footer. It is written under another name, and gets its own name once it is complete.
//! `without_parquet.rs` replaces this file in a program without the format.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::columns::{Field, Kind};
use super::state::with_ending;
use crate::client::Failure;
use crate::domain::Timestamp;

/// A group is written once it has this many bytes, or cells in a column.
const GROUP_BYTES: usize = 32 << 20;
const GROUP_CELLS: usize = 1 << 20;

impl Field {
    fn schema(&self) -> Result<Type, ParquetError> {
        match self {
            Self::One { name, kind, optional } => leaf(name, *kind, *optional),
            Self::List { name, members } => {
                let members = members.iter().map(|(name, kind)| Ok(Arc::new(leaf(name, *kind, false)?)));
                let members = members.collect::<Result<Vec<TypePtr>, ParquetError>>()?;
                let group = |name, repetition, fields| {
                    Type::group_type_builder(name).with_repetition(repetition).with_fields(fields)
                };
                let element = group("element", Repetition::REQUIRED, members).build()?;
                let list = group("list", Repetition::REPEATED, vec![Arc::new(element)]).build()?;
                let outer = group(name, Repetition::REQUIRED, vec![Arc::new(list)]);
                outer.with_logical_type(Some(LogicalType::List)).build()
            }
        }
    }

    fn leaves(&self) -> Vec<Leaf> {
        match self {
            Self::One { kind, optional, .. } => vec![Leaf::new(*kind, i16::from(*optional), 0)],
            Self::List { members, .. } => members.iter().map(|(_, kind)| Leaf::new(*kind, 1, 1)).collect(),
        }
    }
}

fn leaf(name: &str, kind: Kind, optional: bool) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        Kind::Bytes => (Physical::BYTE_ARRAY, None),
        Kind::Int64 => (Physical::INT64, None),
        Kind::UInt64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Double => (Physical::DOUBLE, None),
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Timestamp => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
    };
    let repetition = if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical).build()
}

enum Values {
    Bool(Vec<bool>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

/// The cells of a column that are not written yet, with their levels (the specification's "Nested Encoding").
struct Leaf {
    kind: Kind,
    values: Values,
    definition: Vec<i16>,
    repetition: Vec<i16>,
    definition_max: i16,
    repetition_max: i16,
}

impl Leaf {
    fn new(kind: Kind, definition_max: i16, repetition_max: i16) -> Self {
        let values = match kind {
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Int64 | Kind::UInt64 | Kind::Timestamp => Values::Int64(Vec::new()),
            Kind::Double => Values::Double(Vec::new()),
            Kind::Text | Kind::Json | Kind::Bytes => Values::Bytes(Vec::new()),
        };
        Self { kind, values, definition: Vec::new(), repetition: Vec::new(), definition_max, repetition_max }
    }

    fn nothing(&mut self) {
        self.definition.push(0);
        self.repetition.push(0);
    }

    /// Adds a cell. Returns its bytes, or an error if it has another type.
    fn put(&mut self, cell: &str, is_first: bool) -> Option<usize> {
        match &mut self.values {
            Values::Bool(values) => values.push(cell.parse().ok()?),
            Values::Double(values) => values.push(cell.parse().ok()?),
            Values::Int64(values) if self.kind == Kind::Timestamp => {
                values.push(i64::try_from(Timestamp::parse(cell).ok()?.as_nanos()).ok()?);
            }
            // The format stores the bits of unsigned integers.
            Values::Int64(values) if self.kind == Kind::UInt64 => {
                values.push(cell.parse::<u64>().ok()?.cast_signed());
            }
            Values::Int64(values) => values.push(cell.parse().ok()?),
            Values::Bytes(values) => {
                let bytes = match self.kind {
                    Kind::Bytes => STANDARD.decode(cell).ok()?,
                    _ => cell.as_bytes().to_vec(),
                };
                values.push(bytes.into());
            }
        }
        self.definition.push(self.definition_max);
        self.repetition.push(if is_first { 0 } else { self.repetition_max });
        Some(cell.len() + size_of::<ByteArray>())
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<usize, ParquetError> {
        let definition = (self.definition_max > 0).then_some(&*self.definition);
        let repetition = (self.repetition_max > 0).then_some(&*self.repetition);
        match &self.values {
            Values::Bool(values) => column.typed::<BoolType>().write_batch(values, definition, repetition),
            Values::Int64(values) => column.typed::<Int64Type>().write_batch(values, definition, repetition),
            Values::Double(values) => column.typed::<DoubleType>().write_batch(values, definition, repetition),
            Values::Bytes(values) => column.typed::<ByteArrayType>().write_batch(values, definition, repetition),
        }
    }
}

pub(super) struct ParquetFile {
    name: String,
    /// The path of the file, and its name once it is complete; none for standard output.
    paths: Option<(PathBuf, PathBuf)>,
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
    fields: Vec<Field>,
    /// For each field, its leaves.
    leaves: Vec<Vec<Leaf>>,
    bytes: usize,
    cells: usize,
}

impl ParquetFile {
    /// `-` is standard output.
    pub fn create(path: &Path, fields: Vec<Field>) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let paths = (name != "-").then(|| (with_ending(path, ".part"), path.to_owned()));
        let out: Box<dyn Write + Send> = match &paths {
            Some((part, _)) => Box::new(BufWriter::new(File::create(part).map_err(|error| failed(&name, &error))?)),
            None => Box::new(io::stdout()),
        };
        let created = (|| {
            let schema = fields.iter().map(|field| field.schema().map(Arc::new)).collect::<Result<_, _>>()?;
            let schema = Arc::new(Type::group_type_builder("rows").with_fields(schema).build()?);
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_created_by(format!("liststore version {}", env!("CARGO_PKG_VERSION")));
            SerializedFileWriter::new(out, schema, Arc::new(properties.build()))
        })();
        let writer = created.map_err(|error| failed(&name, &error))?;
        let leaves = fields.iter().map(Field::leaves).collect();
        Ok(Self { name, paths, writer, fields, leaves, bytes: 0, cells: 0 })
    }

    /// Puts a cell, or nothing, into the row's field.
    pub fn put(&mut self, field: usize, cell: Option<&str>) -> Result<(), Failure> {
        let leaf = &mut self.leaves[field][0];
        match cell {
            None => leaf.nothing(),
            Some(cell) => {
                let bytes = leaf.put(cell, true).ok_or_else(|| no_cell(&self.name, &self.fields[field], cell))?;
                self.bytes += bytes;
            }
        }
        self.cells = self.cells.max(leaf.definition.len());
        Ok(())
    }

    /// Puts the elements of a list into the row's field, each a cell for each of its members.
    pub fn put_list<'c>(
        &mut self,
        field: usize,
        elements: impl Iterator<Item = impl AsRef<[&'c str]>>,
    ) -> Result<(), Failure> {
        let leaves = &mut self.leaves[field];
        let mut is_first = true;
        for element in elements {
            for (leaf, cell) in leaves.iter_mut().zip(element.as_ref()) {
                let bytes = leaf.put(cell, is_first).ok_or_else(|| no_cell(&self.name, &self.fields[field], cell))?;
                self.bytes += bytes;
            }
            is_first = false;
        }
        if is_first {
            leaves.iter_mut().for_each(Leaf::nothing);
        }
        self.cells = self.cells.max(leaves.first().map_or(0, |leaf| leaf.definition.len()));
        Ok(())
    }

    /// Ends a row, and writes the collected rows if they are many.
    pub fn end_row(&mut self) -> Result<(), Failure> {
        if self.bytes >= GROUP_BYTES || self.cells >= GROUP_CELLS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), Failure> {
        let written = (|| {
            let mut group = self.writer.next_row_group()?;
            for leaf in self.leaves.iter().flatten() {
                let Some(mut column) = group.next_column()? else { break };
                leaf.write(&mut column)?;
                column.close()?;
            }
            group.close().map(|_| ())
        })();
        written.map_err(|error| failed(&self.name, &error))?;
        self.leaves = self.fields.iter().map(Field::leaves).collect();
        (self.bytes, self.cells) = (0, 0);
        Ok(())
    }

    /// Ends the file: it is on the disk, under its name.
    pub fn finish(mut self) -> Result<(), Failure> {
        if self.cells > 0 {
            self.write_group()?;
        }
        let ended = self.writer.finish().map_err(io::Error::other).and_then(|_| self.writer.inner_mut().flush());
        ended.map_err(|error| failed(&self.name, &error))?;
        let Some((part, path)) = &self.paths else { return Ok(()) };
        let named = File::open(part).and_then(|file| file.sync_all()).and_then(|()| fs::rename(part, path));
        named.map_err(|error| failed(&self.name, &error))
    }
}

fn no_cell(file: &str, field: &Field, cell: &str) -> Failure {
    let (Field::One { name, .. } | Field::List { name, .. }) = field;
    Failure::failed(format!("cannot write {file}: {cell:?} is not a value of the column {name:?}"))
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot write {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn rows_of_several_groups_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let fields = vec![
            Field::required("id", Kind::Text),
            Field::One { name: "n".into(), kind: Kind::Int64, optional: true },
            Field::List { name: "items".into(), members: vec![("at", Kind::Timestamp), ("value", Kind::Double)] },
        ];
        let mut file = ParquetFile::create(&path, fields).unwrap();
        for (id, n, items) in [
            ("é", Some("-9223372036854775808"), vec![]),
            ("", None, vec![["1970-01-01T00:00:00.000000001Z", "1.5"], ["2024-01-01T00:00:00Z", "-0.0"]]),
        ] {
            file.put(0, Some(id)).unwrap();
            file.put(1, n).unwrap();
            file.put_list(2, items.iter()).unwrap();
            file.write_group().unwrap();
        }
        assert!(!path.exists(), "it is not whole");
        file.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows[0], "{id: \"é\", n: -9223372036854775808, items: []}");
        assert!(rows[1].starts_with("{id: \"\", n: null, items: [{at: "), "{}", rows[1]);
        assert!(rows[1].contains("value: 1.5}") && rows[1].ends_with("value: -0E0}]}"), "{}", rows[1]);
    }

    #[test]
    fn unsigned_integers_beyond_the_signed_range_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let mut file = ParquetFile::create(&path, vec![Field::required("n", Kind::UInt64)]).unwrap();
        for cell in ["0", "18446744073709551615", "9223372036854775808"] {
            file.put(0, Some(cell)).unwrap();
            file.end_row().unwrap();
        }
        assert!(file.put(0, Some("-1")).is_err());
        file.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows, ["{n: 0}", "{n: 18446744073709551615}", "{n: 9223372036854775808}"]);
        let statistics = reader.metadata().row_group(0).column(0).statistics().unwrap();
        assert_eq!(statistics.max_bytes_opt().unwrap(), u64::MAX.to_le_bytes());
    }

    #[test]
    fn values_of_another_type_are_refused_with_the_column() {
        let dir = tempfile::tempdir().unwrap();
        let fields = vec![Field::required("n", Kind::Int64)];
        let mut file = ParquetFile::create(&dir.path().join("a.parquet"), fields).unwrap();
        let refused = file.put(0, Some("1.5")).unwrap_err().to_string();
        assert!(refused.contains("\"1.5\"") && refused.contains("\"n\""), "{refused}");
    }
}
