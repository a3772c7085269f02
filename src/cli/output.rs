//! Standard output: tables for people, JSON and NDJSON for pipes.

use std::io::{self, BufWriter, StdoutLock, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::failure::Failure;
use crate::client::printable;

/// How a command prints data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table for people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON document a line
    Ndjson,
}

/// Standard output, buffered: it must be flushed at the end.
pub(super) struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(super) fn open() -> Self {
        Self { out: BufWriter::new(io::stdout().lock()) }
    }

    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.out, "{text}").map_err(Failure::from)
    }

    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).map_err(Failure::from)
    }

    /// A document in one line.
    pub(super) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, document).map_err(|e| Failure::from(io::Error::from(e)))?;
        self.line("")
    }

    /// A table with a header, as wide as its cells; the last column is not padded.
    pub(super) fn table(&mut self, header: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
        let width = |column: usize, name: &str| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.max().unwrap_or(0).max(name.len())
        };
        let widths: Vec<usize> = header.iter().enumerate().map(|(column, name)| width(column, name)).collect();
        self.row(&widths, header.iter().copied())?;
        rows.iter().try_for_each(|row| self.row(&widths, row.iter().map(String::as_str)))
    }

    fn row<'a>(&mut self, widths: &[usize], cells: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
        let padded: Vec<String> = cells.zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        self.line(padded.join("  ").trim_end())
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::from)
    }
}
