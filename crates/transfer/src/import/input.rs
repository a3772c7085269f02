//! The bytes of a file, decompressed where needed, and bounded by row.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use super::coding::{FileCoding, decoded};
use super::source::Source;
use super::tally::Tally;
use super::utf16;

/// The approximate limit of a row. An endless row, such as one with an unclosed quote, exceeds it.
pub const ROW_BYTES_MAX: usize = 16 << 20;
const BUFFER_BYTES: usize = 64 << 10;

/// The data as UTF-8 without a byte order mark. Data that begins with the mark of UTF-16 is converted.
fn unmarked<R: Read + Send + 'static>(mut data: R) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(utf16::HEAD_BYTES);
    data.by_ref().take(utf16::HEAD_BYTES as u64).read_to_end(&mut head)?;
    let (mark, order) = utf16::mark(&head)?;
    let data = Cursor::new(head.split_off(mark)).chain(data);
    Ok(match order {
        None => Box::new(data),
        Some(order) => Box::new(utf16::Utf16::new(data, order)),
    })
}

/// The text of a file, decompressed and without a mark; `-` is standard input.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let data = if path == Path::new("-") {
        decoded(io::stdin(), FileCoding::Plain)?
    } else {
        decoded(File::open(path)?, FileCoding::by_name(path))?
    };
    unmarked(data)
}

/// Reads the next line into `line`, without its line feed. Returns false at the end of the input. A line longer than
/// `bytes_max` is an error.
pub fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<bool> {
    line.clear();
    let bytes = input.by_ref().take(bytes_max as u64 + 1).read_until(b'\n', line)?;
    line.pop_if(|last| *last == b'\n');
    if line.len() > bytes_max {
        return Err(io::Error::other(format!("the line is longer than {} KiB", bytes_max >> 10)));
    }
    Ok(bytes > 0)
}

/// A file's bytes, decompressed, that are counted and bounded by row.
pub struct Input {
    inner: BufReader<Box<dyn Read + Send>>,
    since_row: Cell<usize>,
}

impl Input {
    pub fn open(source: &Source, tally: Arc<Tally>) -> io::Result<Self> {
        let (file, named) = match &source.path {
            Some(path) => (tally.stop.open(|| File::open(path))?, FileCoding::by_name(path)),
            // Without the buffer of the standard library, whose bytes an interruption would lose.
            None => (File::from(io::stdin().as_fd().try_clone_to_owned()?), FileCoding::Plain),
        };
        Self::of(Counted { file, tally }, named)
    }

    /// A file whose bytes are not counted.
    pub fn open_file(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?, FileCoding::by_name(path))
    }

    fn of(raw: impl Read + Send + 'static, named: FileCoding) -> io::Result<Self> {
        let text = unmarked(decoded(raw, named)?)?;
        Ok(Self { inner: BufReader::with_capacity(BUFFER_BYTES, text), since_row: Cell::new(0) })
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
        // The parser's buffer may hold bytes of the previous row.
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

struct Counted {
    file: File,
    tally: Arc<Tally>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tally.stop.await_bytes(&self.file)?;
        let bytes = self.file.read(buffer)?;
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
    fn a_byte_order_mark_is_not_data() {
        assert_eq!(text(b"\xef\xbb\xbfmarked"), "marked");
        for coding in [FileCoding::Gzip, FileCoding::Zstd] {
            let mut encoder = coding.encoder(Vec::new()).unwrap();
            encoder.write_all(b"\xef\xbb\xbfmarked").unwrap();
            assert_eq!(text(&encoder.finish().unwrap()), "marked", "{coding:?}");
        }
    }

    #[test]
    fn utf_16_is_read_in_either_byte_order() {
        let file = "\u{feff}entity_id,value\nu,é🎈\n";
        let expected = "entity_id,value\nu,é🎈\n";
        let little: Vec<u8> = file.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = file.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [&little, &big] {
            assert_eq!(text(bytes), expected);
            // A file that is cut within a character is not text.
            let cut = Input::of_bytes(&bytes[..bytes.len() - 1]).unwrap();
            assert!(io::read_to_string(cut).unwrap_err().to_string().contains("UTF-16"));
        }
        let gzip = {
            let mut encoder = FileCoding::Gzip.encoder(Vec::new()).unwrap();
            encoder.write_all(&little).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(text(&gzip), expected);
        for (bytes, why) in [
            (&b"\xff\xfe\0\0a\0\0\0"[..], "UTF-32"),
            (b"a\0,\0b\0", "byte order mark"),
            (b"\0a\0,\0b", "byte order mark"),
        ] {
            assert!(Input::of_bytes(bytes).err().unwrap().to_string().contains(why));
        }
        let half = [&b"\xff\xfe"[..], &0xd83c_u16.to_le_bytes(), b"a\0"].concat();
        assert!(io::read_to_string(Input::of_bytes(&half).unwrap()).is_err());
    }

    #[test]
    fn lines_are_bounded_without_their_end() {
        let read = |text: &[u8]| {
            let (mut input, mut line, mut lines) = (text, Vec::new(), Vec::new());
            while read_line(&mut input, &mut line, 1 << 10).map_err(|error| error.to_string())? {
                lines.push(line.len());
            }
            Ok(lines)
        };
        let longest = "x".repeat(1 << 10);
        assert_eq!(read(format!("a\n\n{longest}\n{longest}").as_bytes()), Ok(vec![1, 0, 1024, 1024]));
        assert_eq!(read(b""), Ok(vec![]));
        for end in ["", "\n"] {
            let refused = read(format!("{longest}x{end}").as_bytes());
            assert_eq!(refused, Err("the line is longer than 1 KiB".to_owned()));
        }
    }

    #[test]
    fn an_endless_row_is_refused() {
        let mut input = Input::of_bytes(&vec![b'x'; ROW_BYTES_MAX + 3 * BUFFER_BYTES]).unwrap();
        assert!(io::copy(&mut input, &mut io::sink()).unwrap_err().to_string().contains("longer than 16 MiB"));
    }
}
