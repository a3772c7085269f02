//! Where rows of text go: standard output or a file, plain or compressed, and how cells are written.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, Write};

use serde_json::value::RawValue;

use crate::domain::ValueType;
use crate::import::{Encoder, FileCoding};

pub(super) enum Out {
    Standard(Box<dyn Write + Send>),
    File(FileCoding, Encoder<BufWriter<File>>),
    /// Behind a part, before the next one has bytes: a compressed part without any would be a part too.
    Between(FileCoding, BufWriter<File>),
    /// Only while one is replaced by the next, or after that has failed.
    Closed,
}

impl Out {
    pub fn standard() -> Self {
        let out = BufWriter::new(io::stdout());
        Self::Standard(if io::stdout().is_terminal() { Box::new(Shown { out, held: false }) } else { Box::new(out) })
    }

    /// A file, of which the present bytes stay.
    pub fn to(file: File, coding: FileCoding) -> io::Result<Self> {
        Ok(Self::File(coding, coding.encoder(BufWriter::new(file))?))
    }

    /// Ends a part: the written bytes are on the disk. Returns the length of the file in bytes.
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
                Ok((Self::Between(coding, file), bytes))
            }
            Self::Between(coding, mut file) => {
                let bytes = file.get_mut().stream_position()?;
                Ok((Self::Between(coding, file), bytes))
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
            Self::Between(..) | Self::Closed => {
                let Self::Between(coding, file) = std::mem::replace(self, Self::Closed) else {
                    return Err(io::ErrorKind::BrokenPipe.into());
                };
                *self = Self::File(coding, coding.encoder(file)?);
                self.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::File(_, encoder) => encoder.flush(),
            Self::Between(_, file) => file.flush(),
            Self::Closed => Ok(()),
        }
    }
}

/// Text on a terminal, which no character in it steers: each is written as JSON escapes it.
struct Shown<W> {
    out: W,
    /// Whether the last byte begins a character that the next one decides on.
    held: bool,
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// In UTF-8 it begins U+0080 to U+00BF, of which the first half steers.
        const LEAD: u8 = 0xc2;
        for byte in bytes {
            let is_led = std::mem::take(&mut self.held);
            match byte {
                0x80..0xa0 if is_led => write!(self.out, "\\u{byte:04x}")?,
                _ if is_led => self.out.write_all(&[LEAD, *byte])?,
                &LEAD => self.held = true,
                b'\n' | b'\t' => self.out.write_all(&[*byte])?,
                0..0x20 | 0x7f => write!(self.out, "\\u{byte:04x}")?,
                _ => self.out.write_all(&[*byte])?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(super) fn csv(out: &mut impl Write, cells: &[&str]) -> io::Result<()> {
    let mut line = csv::Writer::from_writer(out);
    line.write_record(cells)?;
    line.flush()
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
    fn a_part_without_bytes_adds_none_to_a_compressed_file() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "a.gz", "a.zst"] {
            let path = dir.path().join(name);
            let mut out = Out::to(File::create(&path).unwrap(), FileCoding::by_name(&path)).unwrap();
            let mut ends = Vec::new();
            for row in ["row 1\n", "", "row 2\n", ""] {
                out.write_all(row.as_bytes()).unwrap();
                let (next, bytes) = out.end_part().unwrap();
                (out, _) = (next, ends.push(bytes));
            }
            drop(out);
            assert_eq!((ends[1], ends[3]), (ends[0], ends[2]), "{name}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), ends[3], "{name}");
        }
    }

    #[test]
    fn texts_never_control_the_terminal() {
        let mut shown = Shown { out: Vec::new(), held: false };
        for byte in "a\u{1b}[31m\u{9b}é\u{a0}\u{7f}\t\r\n".bytes() {
            shown.write_all(&[byte]).unwrap();
        }
        assert_eq!(String::from_utf8(shown.out).unwrap(), "a\\u001b[31m\\u009bé\u{a0}\\u007f\t\\u000d\n");
    }

    #[test]
    fn texts_read_back_as_their_values() {
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
