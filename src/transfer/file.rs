//! The file that an export writes: rows of CSV or NDJSON, plain or compressed with gzip.
//!
//! A compressed file is a member of gzip for each part, which all readers take for one file: so also that
//! can be cut off at the end of any part.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::client::Failure;
use crate::domain::{FeatureId, IdentityKind, ValueType, VersionLabel};
use crate::import::FileFormat;
use crate::wire::Item;

const COLUMNS: [&str; 7] = ["entity_type", "feature", "version", "entity_id", "timestamp", "value", KEY];
/// The last column, where items have keys.
const KEY: &str = "key";

pub(super) struct ExportFile {
    name: String,
    form: Form,
    /// Rows of the present part.
    out: Out,
}

/// What rows are made of.
struct Form {
    format: FileFormat,
    feature: FeatureId,
    version: VersionLabel,
    value_type: ValueType,
    identity: IdentityKind,
}

impl Form {
    /// The cells of a row without those that these items do not have.
    fn cells<'a>(&self, cells: &'a [&'a str; 7]) -> &'a [&'a str] {
        if self.identity == IdentityKind::Key { cells } else { &cells[..6] }
    }
}

enum Out {
    Standard(BufWriter<io::Stdout>),
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
    /// Only while one is replaced by the next, or after that has failed.
    Closed,
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
    /// Opens a file: a new one, or one of which so many bytes are to stay. `-` is standard output.
    pub fn open(
        path: &Path,
        kept_bytes: Option<u64>,
        format: FileFormat,
        feature: &FeatureId,
        version: &VersionLabel,
        (value_type, identity): (ValueType, IdentityKind),
    ) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let form = Form { format, feature: feature.clone(), version: version.clone(), value_type, identity };
        let out = if name == "-" {
            Out::Standard(BufWriter::new(io::stdout()))
        } else {
            let opened = open(path, kept_bytes).map_err(|error| failed(&name, &error))?;
            let file = BufWriter::new(opened);
            if name.to_ascii_lowercase().ends_with(".gz") {
                Out::Compressed(GzEncoder::new(file, Compression::fast()))
            } else {
                Out::Plain(file)
            }
        };
        let mut file = Self { name, form, out };
        if kept_bytes.is_none() && file.form.format == FileFormat::Csv {
            csv(&mut file.out, file.form.cells(&COLUMNS)).map_err(|error| failed(&file.name, &error))?;
        }
        Ok(file)
    }

    pub fn write(&mut self, entity_id: &str, items: &[Item]) -> Result<(), Failure> {
        for item in items {
            match self.form.format {
                FileFormat::Ndjson => {
                    let row = Row {
                        entity_type: self.form.feature.entity_type.as_str(),
                        feature: self.form.feature.name.as_str(),
                        version: self.form.version.as_str(),
                        entity_id,
                        timestamp: &item.timestamp,
                        value: &item.value,
                        key: item.key.as_deref(),
                    };
                    let mut line = serde_json::to_vec(&row).map_err(|error| failed(&self.name, &error))?;
                    line.push(b'\n');
                    self.out.write_all(&line).map_err(|error| failed(&self.name, &error))?;
                }
                FileFormat::Csv => {
                    let value =
                        text_of(self.form.value_type, &item.value).map_err(|error| failed(&self.name, &error))?;
                    let Form { feature, version, .. } = &self.form;
                    let (entity_type, name) = (feature.entity_type.as_str(), feature.name.as_str());
                    let key = item.key.as_deref().unwrap_or_default();
                    let cells = [entity_type, name, version.as_str(), entity_id, &item.timestamp, &value, key];
                    csv(&mut self.out, self.form.cells(&cells)).map_err(|error| failed(&self.name, &error))?;
                }
            }
        }
        Ok(())
    }

    /// Ends a part: what was written is on the disk. Returns how many bytes the file has then.
    pub fn end_part(&mut self) -> Result<u64, Failure> {
        let (out, ended) =
            std::mem::replace(&mut self.out, Out::Closed).end_part().map_err(|e| failed(&self.name, &e))?;
        self.out = out;
        Ok(ended)
    }
}

impl Out {
    fn end_part(self) -> io::Result<(Self, u64)> {
        let synced = |file: &mut BufWriter<File>| {
            file.flush()?;
            file.get_ref().sync_data()?;
            file.get_mut().stream_position()
        };
        match self {
            Self::Standard(mut out) => {
                out.flush()?;
                Ok((Self::Standard(out), 0))
            }
            Self::Plain(mut file) => {
                let bytes = synced(&mut file)?;
                Ok((Self::Plain(file), bytes))
            }
            Self::Compressed(encoder) => {
                let mut file = encoder.finish()?;
                let bytes = synced(&mut file)?;
                Ok((Self::Compressed(GzEncoder::new(file, Compression::fast())), bytes))
            }
            Self::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::Plain(file) => file.write(bytes),
            Self::Compressed(encoder) => encoder.write(bytes),
            Self::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::Plain(file) => file.flush(),
            Self::Compressed(encoder) => encoder.flush(),
            Self::Closed => Ok(()),
        }
    }
}

fn csv(out: &mut impl Write, cells: &[&str]) -> io::Result<()> {
    let mut line = csv::Writer::from_writer(out);
    line.write_record(cells)?;
    line.flush()
}

fn open(path: &Path, kept_bytes: Option<u64>) -> io::Result<File> {
    match kept_bytes {
        None => OpenOptions::new().write(true).create_new(true).open(path),
        Some(bytes) => {
            let changed = "it is not as the earlier run left it: remove it and its .state file, and export again";
            let mut file = match OpenOptions::new().write(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(io::Error::other(changed)),
                opened => opened?,
            };
            if file.metadata()?.len() < bytes {
                return Err(io::Error::other(changed));
            }
            file.set_len(bytes)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        }
    }
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot write {name}: {error}"))
}

/// A value as plain text, which an import reads as the same value.
fn text_of(value_type: ValueType, value: &RawValue) -> serde_json::Result<String> {
    match value_type {
        ValueType::String | ValueType::Bytes => serde_json::from_str(value.get()),
        ValueType::Int64 | ValueType::Double | ValueType::Bool | ValueType::Json => Ok(value.get().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::write_json;

    #[test]
    fn texts_are_read_as_the_values_that_they_were() {
        for (value_type, json) in [
            (ValueType::String, r#""a\"b,\n""#),
            (ValueType::String, r#""""#),
            (ValueType::Int64, "-9223372036854775808"),
            (ValueType::Double, "1e300"),
            (ValueType::Double, "-0.0"),
            (ValueType::Bool, "false"),
            (ValueType::Bytes, r#""AP8=""#),
            (ValueType::Json, r#"{"a":[1,"x"]}"#),
            (ValueType::Json, r#""text""#),
        ] {
            let value: Box<RawValue> = serde_json::from_str(json).unwrap();
            let mut read = Vec::new();
            write_json(value_type, &text_of(value_type, &value).unwrap(), &mut read).unwrap();
            let encoded = |json: &str| value_type.encode(json).unwrap().into_bytes();
            assert_eq!(encoded(std::str::from_utf8(&read).unwrap()), encoded(json), "{json}");
        }
    }
}
