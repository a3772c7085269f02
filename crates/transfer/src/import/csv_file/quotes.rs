//! The quotes of a CSV file, followed by the states of the csv crate's parser.
//!
//! That parser finds a reading of every text (csv-core, section "RFC 4180" of its documentation): an open quote ends
//! with the file, and text after a closing quote belongs to the cell. Both are signs of a file that was cut off or
//! has another dialect. All rows behind such a place are in doubt, so reading ends there with an error.

use std::fmt;
use std::io::{self, Read};

use crate::import::dialect::{CsvDialect, CsvEscape};

/// The context of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    RowStart,
    CellStart,
    Plain,
    Quoted,
    /// Behind a backslash in a quoted cell.
    Escaped,
    /// Behind a quote in a quoted cell: the cell ends, or a second quote follows.
    Closed,
}

/// A fault in the quotes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NotClosed,
    TextBehind,
    UnknownEscape,
}

/// The reason why nothing more can be read of a file, and its line.
#[derive(Debug, Clone, Copy)]
pub struct QuoteError {
    pub line: u64,
    /// Where the cell begins.
    opened: u64,
    fault: Fault,
    escape: Option<CsvEscape>,
}

impl std::error::Error for QuoteError {}

impl fmt::Display for QuoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.fault, self.escape) {
            (Fault::NotClosed, _) => "unclosed quote: the file is truncated, or a quote is missing",
            (Fault::TextBehind, None) => {
                "text after a closing quote: double a quote within quotes (\"\"), or pass --csv-escape backslash if \
                 the file has \\\" instead"
            }
            (Fault::TextBehind, Some(_)) => "text after a closing quote: write a quote within quotes as \\\" or \"\"",
            (Fault::UnknownEscape, _) => {
                "unknown escape: --csv-escape backslash allows a quote, a backslash, a delimiter or a line end after a \
                 backslash"
            }
        })?;
        if self.opened == self.line { Ok(()) } else { write!(f, " (the cell begins in line {})", self.opened) }
    }
}

/// Passes bytes through up to the first fault, which the next read returns as an error.
pub struct Quotes<R> {
    inner: R,
    dialect: CsvDialect,
    state: State,
    line: u64,
    opened: u64,
    error: Option<QuoteError>,
    ends_in_row: bool,
}

impl<R> Quotes<R> {
    pub fn new(inner: R, dialect: CsvDialect) -> Self {
        Self { inner, dialect, state: State::RowStart, line: 1, opened: 1, error: None, ends_in_row: false }
    }

    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Whether the data has ended without a line end.
    pub fn ends_in_row(&self) -> bool {
        self.ends_in_row
    }

    fn step(&mut self, byte: u8) -> Result<State, Fault> {
        Ok(match (self.state, byte) {
            (State::Quoted, b'"') => State::Closed,
            (State::Quoted, b'\\') if self.dialect.escape.is_some() => State::Escaped,
            (State::Quoted, _) => State::Quoted,
            (State::Escaped, b'"' | b'\\' | b'\n' | b'\r') => State::Quoted,
            (State::Escaped, byte) if byte == self.dialect.delimiter => State::Quoted,
            (State::Escaped, _) => return Err(Fault::UnknownEscape),
            (State::Closed, b'"') => State::Quoted,
            (_, byte) if byte == self.dialect.delimiter => State::CellStart,
            (_, b'\n' | b'\r') => State::RowStart,
            (State::Closed, _) => return Err(Fault::TextBehind),
            (State::RowStart | State::CellStart, b'"') => {
                self.opened = self.line;
                State::Quoted
            }
            _ => State::Plain,
        })
    }

    fn fail(&mut self, fault: Fault) -> QuoteError {
        let line = if fault == Fault::NotClosed { self.opened } else { self.line };
        let error = QuoteError { line, opened: self.opened, fault, escape: self.dialect.escape };
        self.error = Some(error);
        error
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.error {
            return Err(io::Error::other(error));
        }
        let bytes = self.inner.read(buffer)?;
        if bytes == 0 && !buffer.is_empty() {
            if matches!(self.state, State::Quoted | State::Escaped) {
                return Err(io::Error::other(self.fail(Fault::NotClosed)));
            }
            self.ends_in_row = self.state != State::RowStart;
        }
        for (place, byte) in buffer[..bytes].iter().enumerate() {
            match self.step(*byte) {
                Ok(state) => self.state = state,
                Err(fault) => {
                    let error = self.fail(fault);
                    return if place == 0 { Err(io::Error::other(error)) } else { Ok(place) };
                }
            }
            self.line += u64::from(*byte == b'\n');
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads byte by byte, so that no step depends on its neighbours in a buffer: the bytes, the error, and the end.
    fn read(text: &str, escape: Option<CsvEscape>) -> (String, Option<String>, bool) {
        let mut quotes = Quotes::new(text.as_bytes(), CsvDialect { escape, ..CsvDialect::default() });
        let (mut read, mut byte) = (Vec::new(), [0]);
        let error = loop {
            match quotes.read(&mut byte) {
                Ok(0) => break None,
                Ok(_) => read.push(byte[0]),
                Err(error) => {
                    let error = error.downcast::<QuoteError>().unwrap();
                    break Some(format!("{}: {error}", error.line));
                }
            }
        };
        (String::from_utf8(read).unwrap(), error, quotes.ends_in_row())
    }

    #[test]
    fn closed_quotes_are_accepted() {
        for (text, ends_in_row) in [
            ("a,\"b\"\r\n\"\",\"\"\"\"\n", false),
            ("\"a\r\n,\"\"b\"\"\",c", true),
            ("5\" pipe,a\"\n", false),
            ("\"C:\\\",x\n", false),
            ("a,\"b\"", true),
            ("a,", true),
            ("a\r", false),
            ("", false),
        ] {
            assert_eq!(read(text, None), (text.to_owned(), None, ends_in_row), "{text}");
        }
        let text = "\"a\\\"b\\\\\",\"c\\,\\\n\"\"\",\\N\n";
        assert_eq!(read(text, Some(CsvEscape::Backslash)), (text.to_owned(), None, false));
    }

    #[test]
    fn open_quotes_and_text_after_quotes_end_the_file_with_their_line() {
        let refused = |text: &str, escape| read(text, escape).1.unwrap();
        assert!(refused("a\n\"b\nc\n", None).starts_with("2: unclosed quote"));
        assert!(refused("\"a\"\"", None).starts_with("1: unclosed quote"));
        let (passed, error, _) = read("a\n\"b\nc,\"d\n", None);
        assert_eq!(passed, "a\n\"b\nc,\"");
        let error = error.unwrap();
        assert!(error.starts_with("3: text after a closing quote") && error.contains("--csv-escape"), "{error}");
        assert!(error.ends_with("(the cell begins in line 2)"), "{error}");
        let escape = Some(CsvEscape::Backslash);
        assert!(refused("\"a\\n\"\n", escape).starts_with("1: unknown escape"));
        assert!(refused("\"a\\", escape).starts_with("1: unclosed quote"));
        assert!(!refused("\"a\"b", escape).contains("--csv-escape"));
    }
}
