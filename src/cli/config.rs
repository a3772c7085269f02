//! `liststore config`: all settings, with their defaults and meanings.

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::output::{Format, FormatOption, Output};

const EXAMPLES: &str = "\
Examples:
  liststore config
  liststore config items.cql
  liststore config fsync --output json
  liststore serve --print-config

The setting http.listen is the key listen in the section [http] of the
configuration file, and LISTSTORE__HTTP__LISTEN in the environment. `serve
--print-config` shows the current values.";

/// The page of all settings. A test compares its tables with the program.
const PAGE: &str = include_str!("../../docs/reference/configuration.md");

/// List all settings with their defaults and meanings
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Only settings with this text in their key or meaning
    text: Option<String>,
    #[command(flatten)]
    format: FormatOption,
}

struct Setting<'p> {
    key: &'p str,
    default: String,
    meaning: String,
}

impl Setting<'_> {
    fn variable(&self) -> String {
        format!("LISTSTORE__{}", self.key.replace('.', "__").to_uppercase())
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let wanted = arguments.text.as_deref().unwrap_or_default().to_lowercase();
    let named =
        |setting: &Setting<'_>| [setting.key, &setting.meaning].iter().any(|t| t.to_lowercase().contains(&wanted));
    let settings: Vec<_> = settings().filter(named).collect();
    if settings.is_empty() {
        return Err(Failure::failed(format!("no setting matches {wanted:?}: `liststore config` lists all")));
    }
    let mut output = Output::open();
    let document = |setting: &Setting<'_>| {
        let Setting { key, default, meaning } = setting;
        json!({"key": key, "environment": setting.variable(), "default": default, "meaning": meaning})
    };
    match arguments.format.output {
        Format::Table => {
            for (number, setting) in settings.iter().enumerate() {
                if number > 0 {
                    output.line("")?;
                }
                let default = if setting.default.is_empty() { "no default" } else { &setting.default };
                output.line(&format!("{}  ({default})", setting.key))?;
                wrapped(&setting.meaning).iter().try_for_each(|line| output.line(line))?;
            }
        }
        Format::Json => output.json(&settings.iter().map(document).collect::<Vec<_>>())?,
        Format::Ndjson => settings.iter().try_for_each(|setting| output.json(&document(setting)))?,
    }
    output.flush()
}

fn settings() -> impl Iterator<Item = Setting<'static>> {
    PAGE.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.strip_suffix('|')?.splitn(3, " | ");
        let key = cells.next()?.trim_end_matches('`');
        let default = plain(cells.next()?);
        let meaning = plain(cells.next().unwrap_or_default());
        Some(Setting { key, default: if default == "–" { String::new() } else { default }, meaning })
    })
}

/// The environment variables of all settings.
pub(super) fn variables() -> impl Iterator<Item = String> {
    settings().map(|setting| setting.variable())
}

/// A cell of the page, without its markup.
fn plain(cell: &str) -> String {
    let mut text = String::new();
    let mut rest = cell.trim();
    while let Some((before, link)) = rest.split_once('[') {
        match link.split_once("](") {
            Some((words, target)) if target.contains(')') => {
                text.push_str(before);
                text.push_str(words);
                rest = target.split_once(')').map_or("", |(_, behind)| behind);
            }
            _ => {
                text.push_str(before);
                text.push('[');
                rest = link;
            }
        }
    }
    text.push_str(rest);
    text.replace('`', "")
}

/// Lines of a terminal, indented.
fn wrapped(text: &str) -> Vec<String> {
    const WIDTH: usize = 96;
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        line.push_str(if line.is_empty() { "    " } else { " " });
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_is_read_without_markup() {
        assert_eq!(plain(" see [below](#memory), or `x` [1] "), "see below, or x [1]");
        let listen = settings().find(|setting| setting.key == "http.listen").unwrap();
        assert_eq!(
            (listen.default.as_str(), listen.variable().as_str()),
            ("127.0.0.1:8080", "LISTSTORE__HTTP__LISTEN")
        );
        assert!(settings().all(|setting| !setting.key.contains(' ') && setting.key.contains('.')));
        assert!(settings().count() > 60);
        assert!(wrapped(&"word ".repeat(50)).iter().all(|line| line.len() <= 100 && line.starts_with("    word")));
    }
}
