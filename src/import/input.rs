//! The bytes of a file, decompressed where needed, and bounded by row.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::source::Source;
use super::tally::Tally;

/// A row may have this many bytes, about: what never ends is no row, such as one whose quote is
/// not closed.
pub const ROW_BYTES_MAX: usize = 16 << 20;
const BUFFER_BYTES: usize = 64 << 10;
/// RFC 1952, section 2.3.1.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The byte order mark that some programs put in front of UTF-8.
const UTF8_BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Whether a mark that was found stays in the data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Kept,
    Dropped,
}

/// Whether the data begins with a mark, and the data.
fn begins_with<const N: usize, R: Read>(
    mark: [u8; N],
    mut data: R,
    found: Mark,
) -> io::Result<(bool, impl Read + use<N, R>)> {
    let mut head = Vec::with_capacity(N);
    data.by_ref().take(N as u64).read_to_end(&mut head)?;
    let marked = head == mark;
    if marked && found == Mark::Dropped {
        head.clear();
    }
    Ok((marked, Cursor::new(head).chain(data)))
}

/// A file's bytes, decompressed, that are counted and bounded by row.
pub struct Input {
    inner: BufReader<Box<dyn Read + Send>>,
    since_row: Cell<usize>,
}

impl Input {
    pub fn open(source: &Source, tally: Arc<Tally>) -> io::Result<Self> {
        let raw: Box<dyn Read + Send> = match &source.path {
            Some(path) => Box::new(File::open(path)?),
            None => Box::new(io::stdin()),
        };
        Self::of(Counted { inner: raw, tally })
    }

    /// A file that nobody counts the bytes of.
    pub fn open_file(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?)
    }

    /// Compressed data is told by its first bytes, whatever the file is called.
    fn of(raw: impl Read + Send + 'static) -> io::Result<Self> {
        let (compressed, raw) = begins_with(GZIP_MAGIC, raw, Mark::Kept)?;
        let plain: Box<dyn Read + Send> = if compressed {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, raw)))
        } else {
            Box::new(raw)
        };
        let (_, text) = begins_with(UTF8_BOM, plain, Mark::Dropped)?;
        Ok(Self { inner: BufReader::with_capacity(BUFFER_BYTES, Box::new(text)), since_row: Cell::new(0) })
    }

    #[cfg(test)]
    pub fn of_bytes(bytes: &[u8]) -> io::Result<Self> {
        Self::of(Cursor::new(bytes.to_vec()))
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
            return Err(io::Error::other(format!("a row is longer than {mib} MiB: is a quote not closed?")));
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

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn text(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        Input::of_bytes(bytes)?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn compressed_data_is_told_by_its_first_bytes() {
        assert_eq!(text(b"").unwrap(), "");
        assert_eq!(text(b"a").unwrap(), "a");
        assert_eq!(text(b"plain").unwrap(), "plain");
        assert_eq!(text(b"\xef\xbb\xbfmarked").unwrap(), "marked");
        assert_eq!(text(&gzip(b"\xef\xbb\xbfmarked")).unwrap(), "marked");
        let two_members = [gzip(b"first "), gzip(b"second")].concat();
        assert_eq!(text(&two_members).unwrap(), "first second");
        assert!(text(&two_members[..two_members.len() - 3]).is_err(), "a file that was cut off");
    }

    #[test]
    fn a_row_that_never_ends_is_no_row() {
        let mut input = Input::of_bytes(&vec![b'x'; ROW_BYTES_MAX + 3 * BUFFER_BYTES]).unwrap();
        assert!(io::copy(&mut input, &mut io::sink()).unwrap_err().to_string().contains("longer than 16 MiB"));
    }
}
