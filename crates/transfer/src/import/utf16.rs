//! UTF-16 as UTF-8, for files of programs that write the former.

use std::io::{self, Read};

/// Bytes that the mark of a file is found in.
pub const HEAD_BYTES: usize = 4;
const BUFFER_BYTES: usize = 8 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    Little,
    Big,
}

/// The length of the byte order mark at the head of a file, and its order of UTF-16.
pub fn mark(head: &[u8]) -> io::Result<(usize, Option<ByteOrder>)> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    match head {
        [0xef, 0xbb, 0xbf, ..] => Ok((3, None)),
        [0xff, 0xfe, 0, 0] | [0, 0, 0xfe, 0xff] => refused("UTF-32 is not supported: convert the file to UTF-8"),
        [0xff, 0xfe, ..] => Ok((2, Some(ByteOrder::Little))),
        [0xfe, 0xff, ..] => Ok((2, Some(ByteOrder::Big))),
        [1..=255, 0, 1..=255, 0] | [0, 1..=255, 0, 1..=255] => {
            refused("UTF-16 without a byte order mark: convert the file to UTF-8, or add the mark")
        }
        _ => Ok((0, None)),
    }
}

/// Converts while it reads.
pub struct Utf16<R> {
    inner: R,
    order: ByteOrder,
    /// The odd byte that a read ended with.
    odd: Option<u8>,
    /// The first half of a pair of surrogates.
    high: Option<u16>,
    converted: Vec<u8>,
    taken: usize,
}

impl<R: Read> Utf16<R> {
    pub fn new(inner: R, order: ByteOrder) -> Self {
        Self { inner, order, odd: None, high: None, converted: Vec::new(), taken: 0 }
    }

    /// Reads and converts some bytes; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; BUFFER_BYTES];
        let from = usize::from(self.odd.is_some());
        bytes[0] = self.odd.take().unwrap_or_default();
        let read = self.inner.read(&mut bytes[from..])?;
        if read == 0 {
            if from == 1 || self.high.is_some() {
                return Err(invalid("the file ends within a character of UTF-16: it may be truncated"));
            }
            return Ok(false);
        }
        let bytes = &bytes[..from + read];
        self.converted.clear();
        self.taken = 0;
        let pairs = bytes.chunks_exact(2);
        self.odd = pairs.remainder().first().copied();
        for pair in pairs {
            let pair = [pair[0], pair[1]];
            let unit = match self.order {
                ByteOrder::Little => u16::from_le_bytes(pair),
                ByteOrder::Big => u16::from_be_bytes(pair),
            };
            self.convert(unit)?;
        }
        Ok(true)
    }

    fn convert(&mut self, unit: u16) -> io::Result<()> {
        let units = match (self.high.take(), unit) {
            (None, 0xd800..=0xdbff) => {
                self.high = Some(unit);
                return Ok(());
            }
            (None, _) => [unit, 0],
            (Some(high), _) => [high, unit],
        };
        let length = if (0xd800..=0xdbff).contains(&units[0]) { 2 } else { 1 };
        let read = char::decode_utf16(units[..length].iter().copied()).next();
        let character = read.and_then(Result::ok).ok_or_else(|| invalid("the file is not valid UTF-16"))?;
        self.converted.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.converted.len() {
            if !self.fill()? {
                return Ok(0);
            }
        }
        let left = &self.converted[self.taken..];
        let bytes = left.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&left[..bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}
