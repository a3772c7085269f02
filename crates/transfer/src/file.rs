//! The file that an export writes: a row an item.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;

use super::ExportFormat;
use super::columns::{Field, Kind};
use super::out::{Out, csv, text_of};
use super::parquet_file::ParquetFile;
use crate::client::Failure;
use crate::domain::{FeatureId, IdentityKind, ValueType, VersionLabel};
use crate::import::{EXPORT_COLUMNS, FileCoding};
use crate::wire::Item;

pub(super) struct ExportFile {
    name: String,
    form: Form,
    out: Rows,
}

/// Rows that are being written.
enum Rows {
    /// The rows of the present part.
    Text(Out),
    Parquet(Box<ParquetFile>),
}

/// The form of rows.
struct Form {
    format: ExportFormat,
    feature: FeatureId,
    version: VersionLabel,
    value_type: ValueType,
    identity: IdentityKind,
}

impl Form {
    /// The cells of a row, without cells that these items lack.
    fn cells<'a>(&self, cells: &'a [&'a str; 7]) -> &'a [&'a str] {
        if self.identity == IdentityKind::Key { cells } else { &cells[..6] }
    }

    fn object(&self, entity_id: &str, item: &Item) -> serde_json::Result<Vec<u8>> {
        let row = Row {
            entity_type: self.feature.entity_type.as_str(),
            feature: self.feature.name.as_str(),
            version: self.version.as_str(),
            entity_id,
            timestamp: &item.timestamp,
            value: &item.value,
            key: item.key.as_deref(),
        };
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        Ok(line)
    }
}

#[derive(Serialize)]
struct Row<'a> {
    entity_type: &'a str,
    feature: &'a str,
    version: &'a str,
    entity_id: &'a str,
    timestamp: &'a str,
    value: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl ExportFile {
    /// Begins to write: behind the bytes that a file of text has, or to standard output if there is no file. A file
    /// of Parquet is created.
    pub fn open(
        path: &Path,
        part: Option<(File, u64)>,
        format: ExportFormat,
        feature: &FeatureId,
        version: &VersionLabel,
        (value_type, identity): (ValueType, IdentityKind),
    ) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let form = Form { format, feature: feature.clone(), version: version.clone(), value_type, identity };
        if format == ExportFormat::Parquet {
            let kinds = |name: &&str| match *name {
                "timestamp" => Kind::Timestamp,
                "value" => value_type.into(),
                _ => Kind::Text,
            };
            let fields = form.cells(&EXPORT_COLUMNS).iter().map(|name| Field::required(name, kinds(name))).collect();
            return Ok(Self { name, form, out: Rows::Parquet(Box::new(ParquetFile::create(path, fields)?)) });
        }
        let (out, is_begun) = match part {
            Some((file, bytes)) => (Out::to(file, FileCoding::by_name(path)), bytes > 0),
            None => (Ok(Out::standard()), false),
        };
        let mut out = out.map_err(|error| failed(&name, &error))?;
        if !is_begun && format == ExportFormat::Csv {
            csv(&mut out, form.cells(&EXPORT_COLUMNS)).map_err(|error| failed(&name, &error))?;
        }
        Ok(Self { name, form, out: Rows::Text(out) })
    }

    pub fn write(&mut self, entity_id: &str, items: &[Item]) -> Result<(), Failure> {
        items.iter().try_for_each(|item| match &mut self.out {
            Rows::Text(out) if self.form.format == ExportFormat::Ndjson => {
                let line = self.form.object(entity_id, item).map_err(|error| failed(&self.name, &error))?;
                out.write_all(&line).map_err(|error| failed(&self.name, &error))
            }
            out => {
                let Form { feature, version, .. } = &self.form;
                let value = text_of(self.form.value_type, &item.value).map_err(|error| failed(&self.name, &error))?;
                let (entity_type, name) = (feature.entity_type.as_str(), feature.name.as_str());
                let key = item.key.as_deref().unwrap_or_default();
                let cells = [entity_type, name, version.as_str(), entity_id, &item.timestamp, &value, key];
                let cells = self.form.cells(&cells);
                match out {
                    Rows::Text(out) => csv(out, cells).map_err(|error| failed(&self.name, &error)),
                    Rows::Parquet(file) => {
                        cells.iter().enumerate().try_for_each(|(field, cell)| file.put(field, Some(cell)))?;
                        file.end_row()
                    }
                }
            }
        })
    }

    /// Ends a part: the written rows are on the disk, so that another run can continue from there. Returns the length
    /// of the file in bytes. Parquet files have no parts.
    pub fn end_part(&mut self) -> Result<u64, Failure> {
        let Rows::Text(out) = &mut self.out else { return Ok(0) };
        let (open, ended) = std::mem::replace(out, Out::Closed).end_part().map_err(|e| failed(&self.name, &e))?;
        *out = open;
        Ok(ended)
    }

    /// Ends the file.
    pub fn finish(self) -> Result<(), Failure> {
        match self.out {
            Rows::Text(_) => Ok(()),
            Rows::Parquet(file) => file.finish(),
        }
    }
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::cannot_write(&name, error)
}
