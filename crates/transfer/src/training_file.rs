//! The file of a training set: a row for each of the spine, with a column for each feature.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::ExportFormat;
use super::cells::Cell;
use super::columns::{Field, Kind};
use super::lists::Page;
use super::out::{Out, csv, text_of};
use super::parquet_file::ParquetFile;
use super::spine::{Column, SpineRow};
use super::state::with_ending;
use crate::client::Failure;
use crate::domain::{FeatureId, IdentityKind, ValueType};
use crate::import::FileCoding;

/// A feature, whose name is the name of a column.
pub(super) struct FeatureColumn {
    pub id: FeatureId,
    pub value_type: ValueType,
    pub identity: IdentityKind,
}

/// The file, by its form.
pub(super) enum TrainingFile {
    Text(Box<TextFile>),
    Parquet { file: Box<ParquetFile>, value_types: Vec<ValueType> },
}

impl TrainingFile {
    pub fn create(
        path: &Path,
        format: ExportFormat,
        (entity_id, timestamp): &(String, String),
        columns: &[Column],
        joining: &[FeatureColumn],
    ) -> Result<Self, Failure> {
        if format != ExportFormat::Parquet {
            let own = columns.iter().map(|column| column.name.as_str());
            let names = [&**entity_id, &**timestamp].into_iter().chain(own);
            let names = names.chain(joining.iter().map(|feature| feature.id.name.as_str()));
            let names = names.map(str::to_owned).collect();
            return TextFile::create(path, format == ExportFormat::Csv, names).map(|file| Self::Text(Box::new(file)));
        }
        let mut fields = vec![Field::required(entity_id, Kind::Text), Field::required(timestamp, Kind::Timestamp)];
        let own = |column: &Column| Field::One { name: column.name.clone(), kind: column.kind, optional: true };
        fields.extend(columns.iter().map(own));
        fields.extend(joining.iter().map(|feature| {
            let mut members = vec![("timestamp", Kind::Timestamp), ("value", feature.value_type.into())];
            members.extend((feature.identity == IdentityKind::Key).then_some(("key", Kind::Text)));
            Field::List { name: feature.id.name.to_string(), members }
        }));
        let value_types = joining.iter().map(|feature| feature.value_type).collect();
        Ok(Self::Parquet { file: Box::new(ParquetFile::create(path, fields)?), value_types })
    }

    pub fn write(&mut self, row: &SpineRow, pages: &[Page]) -> Result<(), Failure> {
        let timestamp = row.timestamp.to_string();
        match self {
            Self::Text(file) => file.write(row, &timestamp, pages),
            Self::Parquet { file, value_types } => {
                file.put(0, Some(row.entity_id.as_str()))?;
                file.put(1, Some(&timestamp))?;
                for (place, cell) in row.cells.iter().enumerate() {
                    file.put(2 + place, cell.as_ref().map(|cell| &*cell.text))?;
                }
                for (place, (page, value_type)) in pages.iter().zip(value_types).enumerate() {
                    let values = page.items.iter().map(|item| text_of(*value_type, &item.value));
                    let values = values.collect::<Result<Vec<_>, _>>();
                    let values = values.map_err(|e| Failure::failed(format!("the server returned no value: {e}")))?;
                    let keys = page.items.iter().map(|item| item.key.as_deref().unwrap_or_default());
                    let elements = page.items.iter().zip(&values).zip(keys);
                    let elements = elements.map(|((item, value), key)| [&*item.timestamp, value, key]);
                    file.put_list(2 + row.cells.len() + place, elements)?;
                }
                file.end_row()
            }
        }
    }

    pub fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Text(file) => file.finish(),
            Self::Parquet { file, .. } => file.finish(),
        }
    }
}

/// A file of CSV or NDJSON. It gets its name once it is complete.
pub(super) struct TextFile {
    name: String,
    /// The path of the file, and its final name; none for standard output.
    paths: Option<(PathBuf, PathBuf)>,
    is_csv: bool,
    names: Vec<String>,
    out: Out,
}

impl TextFile {
    fn create(path: &Path, is_csv: bool, names: Vec<String>) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let paths = (name != "-").then(|| (with_ending(path, ".part"), path.to_owned()));
        let out = match &paths {
            Some((part, path)) => File::create(part).and_then(|file| Out::to(file, FileCoding::by_name(path))),
            None => Ok(Out::standard()),
        };
        let mut out = out.map_err(|error| failed(&name, &error))?;
        if is_csv {
            let header: Vec<_> = names.iter().map(String::as_str).collect();
            csv(&mut out, &header).map_err(|error| failed(&name, &error))?;
        }
        Ok(Self { name, paths, is_csv, names, out })
    }

    fn write(&mut self, row: &SpineRow, timestamp: &str, pages: &[Page]) -> Result<(), Failure> {
        let written = if self.is_csv { self.cells(row, timestamp, pages) } else { self.object(row, timestamp, pages) };
        written.map_err(|error| failed(&self.name, &error))
    }

    fn cells(&mut self, row: &SpineRow, timestamp: &str, pages: &[Page]) -> io::Result<()> {
        let lists = pages.iter().map(|page| serde_json::to_string(&page.items)).collect::<Result<Vec<_>, _>>()?;
        let own = row.cells.iter().map(|cell| cell.as_ref().map_or("", |cell| &*cell.text));
        let cells = [row.entity_id.as_str(), timestamp].into_iter().chain(own);
        csv(&mut self.out, &cells.chain(lists.iter().map(String::as_str)).collect::<Vec<_>>())
    }

    fn object(&mut self, row: &SpineRow, timestamp: &str, pages: &[Page]) -> io::Result<()> {
        let mut line = Vec::new();
        let mut names = self.names.iter();
        let mut member = |value: &dyn Fn(&mut Vec<u8>) -> serde_json::Result<()>| {
            let Some(name) = names.next() else { return Ok(()) };
            line.push(if line.is_empty() { b'{' } else { b',' });
            serde_json::to_writer(&mut line, name)?;
            line.push(b':');
            value(&mut line)
        };
        member(&|line| serde_json::to_writer(line, row.entity_id.as_str()))?;
        member(&|line| serde_json::to_writer(line, timestamp))?;
        for cell in &row.cells {
            member(&|line| match cell {
                Some(Cell { text, is_json: true }) => {
                    line.extend_from_slice(text.as_bytes());
                    Ok(())
                }
                cell => serde_json::to_writer(line, &cell.as_ref().map(|cell| &*cell.text)),
            })?;
        }
        for page in pages {
            member(&|line| serde_json::to_writer(line, &page.items))?;
        }
        line.extend_from_slice(b"}\n");
        self.out.write_all(&line)
    }

    fn finish(self) -> Result<(), Failure> {
        let Self { name, paths, out, .. } = self;
        let ended = out.end_part().and_then(|(out, _)| {
            drop(out);
            paths.map_or(Ok(()), |(part, path)| fs::rename(part, path))
        });
        ended.map_err(|error| failed(&name, &error))
    }
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::cannot_write(&name, error)
}
