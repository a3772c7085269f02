//! Line numbers for a parser that only has byte offsets.
//!
//! The csv crate counts the line on which the previous row ended, if lines end with CR LF or blank lines are between
//! rows.

use std::collections::VecDeque;
use std::io::{self, Read};

/// Passes bytes through, and remembers where each line that is not blank begins.
pub struct LineStarts<R> {
    inner: R,
    offset: u64,
    line: u64,
    in_line: bool,
    /// Offset and number of lines that were not requested yet, in order. Bounded by the parser's buffer, and by the
    /// lines within one row.
    starts: VecDeque<(u64, u64)>,
}

impl<R: Read> LineStarts<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, offset: 0, line: 1, in_line: false, starts: VecDeque::new() }
    }

    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// The number of the first line that is not blank and begins at `offset` or later. Offsets
    /// must not go back.
    pub fn line_at(&mut self, offset: u64) -> u64 {
        while self.starts.front().is_some_and(|(start, _)| *start < offset) {
            self.starts.pop_front();
        }
        self.starts.front().map_or(self.line, |(_, line)| *line)
    }
}

impl<R: Read> Read for LineStarts<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        for (place, byte) in buffer[..bytes].iter().enumerate() {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.in_line = false;
                }
                b'\r' => {}
                _ if !self.in_line => {
                    self.in_line = true;
                    self.starts.push_back((self.offset + place as u64, self.line));
                }
                _ => {}
            }
        }
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_carriage_returns_are_skipped() {
        let text = b"one\r\n\r\nthree\n\n\nsix";
        let mut lines = LineStarts::new(text.as_slice());
        // Byte by byte, so that no step depends on the following bytes.
        let mut byte = [0];
        while lines.read(&mut byte).unwrap() > 0 {}
        for (offset, line) in [(0, 1), (4, 3), (5, 3), (7, 3), (8, 6), (15, 6)] {
            assert_eq!(lines.line_at(offset), line, "{offset}");
        }
    }
}
