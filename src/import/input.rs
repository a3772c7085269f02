//! The bytes of a file, decompressed where needed, and bounded by row.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use super::coding::{FileCoding, decoded};
use super::source::Source;
use super::tally::Tally;

/// A row may have this many bytes, about: what never ends is no row, such as one whose quote is
/// not closed.
pub const ROW_BYTES_MAX: usize = 16 << 20;
const BUFFER_BYTES: usize = 64 << 10;
/// The byte order mark that some programs put in front of UTF-8.
const UTF8_BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The data without the mark that it may begin with.
fn unmarked<R: Read>(mut data: R) -> io::Result<impl Read + use<R>> {
    let mut head = Vec::with_capacity(UTF8_BOM.len());
    data.by_ref().take(UTF8_BOM.len() as u64).read_to_end(&mut head)?;
    if head == UTF8_BOM {
        head.clear();
    }
    Ok(Cursor::new(head).chain(data))
}

/// The text of a file, decompressed and without a mark; `-` is standard input.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let data = if path == Path::new("-") {
        decoded(io::stdin(), FileCoding::Plain)?
    } else {
        decoded(File::open(path)?, FileCoding::by_name(path))?
    };
    Ok(Box::new(unmarked(data)?))
}

/// A file's bytes, decompressed, that are counted and bounded by row.
pub struct Input {
    inner: BufReader<Box<dyn Read + Send>>,
    since_row: Cell<usize>,
}

impl Input {
    pub fn open(source: &Source, tally: Arc<Tally>) -> io::Result<Self> {
        let (raw, named): (Box<dyn Read + Send>, _) = match &source.path {
            Some(path) => (Box::new(File::open(path)?), FileCoding::by_name(path)),
            None => (Box::new(io::stdin()), FileCoding::Plain),
        };
        Self::of(Counted { inner: raw, tally }, named)
    }

    /// A file whose bytes are not counted.
    pub fn open_file(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?, FileCoding::by_name(path))
    }

    fn of(raw: impl Read + Send + 'static, named: FileCoding) -> io::Result<Self> {
        let text = unmarked(decoded(raw, named)?)?;
        Ok(Self { inner: BufReader::with_capacity(BUFFER_BYTES, Box::new(text)), since_row: Cell::new(0) })
    }

    #[cfg(test)]
    pub fn of_bytes(bytes: &[u8]) -> io::Result<Self> {
        Self::of(Cursor::new(bytes.to_vec()), FileCoding::Plain)
    }

    /// Says that a row has ended: the next one has the whole bound for itself.
    pub fn row_ended(&self) {
        self.since_row.set(0);
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        self.since_row.set(self.since_row.get() + bytes);
        // What the parser has buffered may belong to the row before.
        if self.since_row.get() > ROW_BYTES_MAX + BUFFER_BYTES {
            let mib = ROW_BYTES_MAX >> 20;
            return Err(io::Error::other(format!("a row is longer than {mib} MiB: check for an unclosed quote")));
        }
        Ok(())
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.count(bytes)?;
        Ok(bytes)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.count(0)?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.since_row.set(self.since_row.get() + bytes);
        self.inner.consume(bytes);
    }
}

struct Counted<R> {
    inner: R,
    tally: Arc<Tally>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.tally.count_bytes(bytes as u64);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::coding::FileCoding;
    use super::*;

    fn text(bytes: &[u8]) -> String {
        io::read_to_string(Input::of_bytes(bytes).unwrap()).unwrap()
    }

    #[test]
    fn a_mark_is_no_data_compressed_or_not() {
        assert_eq!(text(b"\xef\xbb\xbfmarked"), "marked");
        for coding in [FileCoding::Gzip, FileCoding::Zstd] {
            let mut encoder = coding.encoder(Vec::new()).unwrap();
            encoder.write_all(b"\xef\xbb\xbfmarked").unwrap();
            assert_eq!(text(&encoder.finish().unwrap()), "marked", "{coding:?}");
        }
    }

    #[test]
    fn a_row_that_never_ends_is_no_row() {
        let mut input = Input::of_bytes(&vec![b'x'; ROW_BYTES_MAX + 3 * BUFFER_BYTES]).unwrap();
        assert!(io::copy(&mut input, &mut io::sink()).unwrap_err().to_string().contains("longer than 16 MiB"));
    }
}
