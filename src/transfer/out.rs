//! Where rows of text go: standard output or a file, plain or compressed, and how cells are written.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::value::RawValue;

use crate::domain::ValueType;
use crate::import::{Encoder, FileCoding};

pub(super) enum Out {
    Standard(BufWriter<io::Stdout>),
    File(FileCoding, Encoder<BufWriter<File>>),
    /// Only while one is replaced by the next, or after that has failed.
    Closed,
}

impl Out {
    pub fn standard() -> Self {
        Self::Standard(BufWriter::new(io::stdout()))
    }

    /// A new file, or one of which so many bytes are to stay; compressed if its name says so.
    pub fn open(path: &Path, kept_bytes: Option<u64>) -> io::Result<Self> {
        Self::to(open(path, kept_bytes)?, FileCoding::by_name(path))
    }

    pub fn to(file: File, coding: FileCoding) -> io::Result<Self> {
        Ok(Self::File(coding, coding.encoder(BufWriter::new(file))?))
    }

    /// Ends a part: what was written is on the disk. Returns how many bytes the file has then.
    pub fn end_part(self) -> io::Result<(Self, u64)> {
        match self {
            Self::Standard(mut out) => {
                out.flush()?;
                Ok((Self::Standard(out), 0))
            }
            Self::File(coding, encoder) => {
                let mut file = encoder.finish()?;
                file.flush()?;
                file.get_ref().sync_data()?;
                let bytes = file.get_mut().stream_position()?;
                Ok((Self::File(coding, coding.encoder(file)?), bytes))
            }
            Self::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::File(_, encoder) => encoder.write(bytes),
            Self::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::File(_, encoder) => encoder.flush(),
            Self::Closed => Ok(()),
        }
    }
}

pub(super) fn csv(out: &mut impl Write, cells: &[&str]) -> io::Result<()> {
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

/// A value as plain text, which an import reads as the same value.
pub(super) fn text_of(value_type: ValueType, value: &RawValue) -> serde_json::Result<String> {
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
