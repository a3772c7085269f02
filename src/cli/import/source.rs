//! The files that rows come from: their names, formats and bytes, decompressed where needed.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::arguments::FileFormat;
use super::tally::Tally;
use crate::cli::failure::Failure;

/// A row may have this many bytes, about: what never ends is no row, such as one whose quote is
/// not closed.
pub(super) const ROW_BYTES_MAX: usize = 16 << 20;
const BUFFER_BYTES: usize = 64 << 10;
/// RFC 1952, section 2.3.1.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The byte order mark that some programs put in front of UTF-8.
const UTF8_BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

#[derive(Debug, Clone)]
pub(super) struct Source {
    /// As the command line names it.
    pub name: String,
    pub format: FileFormat,
    /// None for standard input.
    pub path: Option<PathBuf>,
}

/// Names all files and checks that they are there, before anything is sent.
pub(super) fn name_all(files: &[PathBuf], format: Option<FileFormat>) -> Result<Vec<Source>, Failure> {
    let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
    if files.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(Failure::Usage("standard input (-) can be read only once".into()));
    }
    let source = |path: &PathBuf| {
        let stdin = is_stdin(path);
        let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
        let by_name = || if stdin { None } else { format_by_name(path) };
        let format = format.or_else(by_name).ok_or_else(|| {
            Failure::Usage(format!("{name}: the format cannot be told by the name: give --format csv or ndjson"))
        })?;
        if !stdin {
            let metadata = fs::metadata(path).map_err(|e| Failure::failed(format!("{name}: {e}")))?;
            if metadata.is_dir() {
                return Err(Failure::failed(format!("{name} is a directory: name its files")));
            }
        }
        Ok(Source { name, format, path: (!stdin).then(|| path.clone()) })
    };
    files.iter().map(source).collect()
}

fn format_by_name(path: &Path) -> Option<FileFormat> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "csv" => Some(FileFormat::Csv),
        "ndjson" | "jsonl" => Some(FileFormat::Ndjson),
        _ => None,
    }
}

/// The bytes of all files, compressed as they are; none if one of them cannot tell.
pub(super) fn total_bytes(sources: &[Source]) -> Option<u64> {
    let bytes = |source: &Source| {
        let metadata = fs::metadata(source.path.as_ref()?).ok()?;
        metadata.is_file().then_some(metadata.len())
    };
    sources.iter().map(bytes).sum()
}

/// Whether the data begins with a mark, and the data: with the mark only if it is to be kept.
fn begins_with<const N: usize, R: Read>(
    mark: [u8; N],
    mut data: R,
    keep: bool,
) -> io::Result<(bool, impl Read + use<N, R>)> {
    let mut head = Vec::with_capacity(N);
    data.by_ref().take(N as u64).read_to_end(&mut head)?;
    let marked = head == mark;
    if marked && !keep {
        head.clear();
    }
    Ok((marked, Cursor::new(head).chain(data)))
}

/// A file's bytes, decompressed, that are counted and bounded by row.
pub(super) struct Input {
    inner: BufReader<Box<dyn Read + Send>>,
    since_row: Cell<usize>,
}

impl Input {
    pub(super) fn open(source: &Source, tally: Arc<Tally>) -> io::Result<Self> {
        let raw: Box<dyn Read + Send> = match &source.path {
            Some(path) => Box::new(File::open(path)?),
            None => Box::new(io::stdin()),
        };
        Self::of(Counted { inner: raw, tally })
    }

    /// Compressed data is told by its first bytes, whatever the file is called.
    fn of(raw: impl Read + Send + 'static) -> io::Result<Self> {
        let (compressed, raw) = begins_with(GZIP_MAGIC, raw, true)?;
        let plain: Box<dyn Read + Send> = if compressed {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, raw)))
        } else {
            Box::new(raw)
        };
        let (_, text) = begins_with(UTF8_BOM, plain, false)?;
        Ok(Self { inner: BufReader::with_capacity(BUFFER_BYTES, Box::new(text)), since_row: Cell::new(0) })
    }

    #[cfg(test)]
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Self::of(Cursor::new(bytes.to_vec())).unwrap()
    }

    /// Says that a row has ended: the next one has the whole bound for itself.
    pub(super) fn row_ended(&self) {
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
        Input::of_bytes(bytes).read_to_string(&mut text)?;
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
    fn formats_are_told_by_names() {
        for (name, format) in [
            ("a.csv", Some(FileFormat::Csv)),
            ("dir.x/A.CSV.GZ", Some(FileFormat::Csv)),
            ("a.ndjson.gz", Some(FileFormat::Ndjson)),
            ("a.jsonl", Some(FileFormat::Ndjson)),
            ("a.json", None),
            ("csv", None),
            ("a.gz", None),
        ] {
            assert_eq!(format_by_name(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn a_row_that_never_ends_is_no_row() {
        let mut input = Input::of_bytes(&vec![b'x'; ROW_BYTES_MAX + 3 * BUFFER_BYTES]);
        assert!(io::copy(&mut input, &mut io::sink()).unwrap_err().to_string().contains("longer than 16 MiB"));
    }
}
