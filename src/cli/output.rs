//! Standard output: tables for people, JSON and NDJSON for pipes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufWriter, StdoutLock, Write};

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::failure::Failure;
use crate::client::{escaped, printable, read};

/// How a command prints data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON document per line
    Ndjson,
}

/// Reads a format. Where a file is named by another option, whoever names it here is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(&self, command: &Command, option: Option<&Arg>, value: &OsStr) -> Result<Format, clap::Error> {
        EnumValueParser::new().parse_ref(command, option, value).map_err(|mut error| {
            if command.get_arguments().any(|option| option.get_long() == Some("file")) {
                let hint = "--output selects the output format: name the file with --file".into();
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint]));
            }
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Format::value_variants().iter().filter_map(Format::to_possible_value)))
    }
}

/// The option by which a command is told so.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct FormatOption {
    /// How to print data
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
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
        self.text(text)?;
        self.text("\n")
    }

    /// Text, or a part of a JSON document. No character in it steers a terminal.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(escaped(text).as_bytes()).map_err(Failure::from)
    }

    /// A document in one line.
    pub(super) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(document).map_err(|e| Failure::from(io::Error::from(e)))?;
        self.line(&text)
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

    /// What is told of one thing: a name and a value in each line.
    pub(super) fn fields<const N: usize>(&mut self, fields: [(&str, String); N]) -> Result<(), Failure> {
        fields.iter().try_for_each(|(name, value)| self.line(format!("{name:13}{}", printable(value)).trim_end()))
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::from)
    }
}

/// `1 list`, `2 lists`, `2 indexes`, `2 entries`, `2 keys`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    let is_vowel = |text: &str| text.ends_with(['a', 'e', 'i', 'o', 'u']);
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("1 {noun}"),
        Some(stem) if !is_vowel(stem) => format!("{count} {stem}ies"),
        _ if noun.ends_with('x') => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

/// Prints what a server told, as it stands; `for_people` prints it otherwise.
pub(super) fn show(
    body: &[u8],
    format: Format,
    for_people: impl FnOnce(&mut Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut output = Output::open();
    match format {
        Format::Table => for_people(&mut output)?,
        Format::Json | Format::Ndjson => output.json(&read::<Box<RawValue>>(body)?)?,
    }
    output.flush()
}

/// Prints the entries of a listing, which has this name in JSON, as they stand; for people a row each.
pub(super) fn show_all<T: DeserializeOwned>(
    name: &str,
    entries: &[Box<RawValue>],
    format: Format,
    header: &[&str],
    row: impl Fn(T) -> Vec<String>,
) -> Result<(), Failure> {
    let mut output = Output::open();
    match format {
        Format::Json => output.json(&BTreeMap::from([(name, entries)]))?,
        Format::Ndjson => entries.iter().try_for_each(|entry| output.json(entry))?,
        Format::Table => {
            let rows = entries.iter().map(|entry| Ok(row(read(entry.get().as_bytes())?)));
            output.table(header, &rows.collect::<Result<Vec<_>, Failure>>()?)?;
        }
    }
    output.flush()
}
