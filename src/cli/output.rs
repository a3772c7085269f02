//! Standard output: tables for people, JSON and NDJSON for pipes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

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

/// Reads a format. If the value is a file name and another option names the file, the error mentions that option.
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

/// The option with which a command selects its format.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct FormatOption {
    /// How to print data
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// Standard output, buffered. It must be flushed at the end.
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

    /// Text, or a part of a JSON document. It must contain no control characters for a terminal.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(escaped(text).as_bytes()).map_err(Failure::from)
    }

    /// A document in one line.
    pub(super) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(document).map_err(|e| Failure::from(io::Error::from(e)))?;
        self.line(&text)
    }

    /// A table with a header, as wide as its cells. The last column is not padded. On a terminal the widest columns are
    /// cut to its width.
    pub(super) fn table(&mut self, header: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
        let width = |column: usize, name: &str| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.max().unwrap_or(0).max(name.len())
        };
        let mut widths: Vec<usize> = header.iter().enumerate().map(|(column, name)| width(column, name)).collect();
        if let Some(columns) = terminal_columns() {
            fit(&mut widths, columns);
        }
        self.row(&widths, header.iter().copied())?;
        rows.iter().try_for_each(|row| self.row(&widths, row.iter().map(String::as_str)))
    }

    fn row<'a>(&mut self, widths: &[usize], cells: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
        let padded: Vec<String> =
            cells.zip(widths).map(|(cell, width)| format!("{:width$}", cut(cell, *width))).collect();
        self.line(padded.join("  ").trim_end())
    }

    /// The fields of one object: a name and a value in each line.
    pub(super) fn fields<const N: usize>(&mut self, fields: [(&str, String); N]) -> Result<(), Failure> {
        fields.iter().try_for_each(|(name, value)| self.line(format!("{name:13}{}", printable(value)).trim_end()))
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::from)
    }
}

/// The columns of the terminal, if standard output is one.
fn terminal_columns() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Shortens the widest columns until a table fits `columns`.
fn fit(widths: &mut [usize], columns: usize) {
    /// A narrower column would be useless.
    const WIDTH_MIN: usize = 8;
    let gaps = 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > columns {
        match widths.iter_mut().max() {
            Some(widest) if *widest > WIDTH_MIN => *widest -= 1,
            _ => break,
        }
    }
}

/// Shortens the text to `width` characters. A timestamp loses its decimals first.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let second = text.split_once('.').filter(|(_, decimals)| decimals.len() == 10 && decimals.ends_with('Z'));
    if let Some((second, _)) = second.filter(|(second, _)| second.len() < width) {
        return format!("{second}Z");
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
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

/// Prints a server's answer unchanged. `for_people` prints it as text.
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

/// Prints the entries of a listing, which has this name in JSON, unchanged. For people, each entry is a row.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_the_terminal_by_its_widest_columns() {
        let mut widths = [10, 30, 60];
        fit(&mut widths, 80);
        assert_eq!(widths.iter().sum::<usize>() + 4, 80);
        assert_eq!((widths[0], widths[1].abs_diff(widths[2]) <= 6), (10, true), "{widths:?}");
        let mut narrow = [20, 20];
        fit(&mut narrow, 5);
        assert_eq!(narrow, [8, 8]);
        for (text, width, expected) in [
            ("short", 8, "short"),
            ("a longer text", 8, "a longe…"),
            ("2026-11-26T19:12:20.324593556Z", 22, "2026-11-26T19:12:20Z"),
            ("2026-11-26T19:12:20.324593556Z", 12, "2026-11-26T…"),
        ] {
            assert_eq!(cut(text, width), expected);
        }
    }

    #[test]
    fn nouns_follow_their_numbers() {
        for (count, noun, expected) in [
            (1, "list", "1 list"),
            (0, "list", "0 lists"),
            (2, "entry", "2 entries"),
            (2, "key", "2 keys"),
            (3, "index", "3 indexes"),
        ] {
            assert_eq!(counted(count, noun), expected);
        }
    }
}
