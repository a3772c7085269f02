//! The help pages of all commands, compared with `help.txt` and `docs/reference/cli.md`, so that changes of text are
//! reviewed as text.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::program::{liststore, repository};

/// With any value, the test writes the current pages to both files.
const WRITE_VARIABLE: &str = "LISTSTORE_WRITE_HELP";

/// The beginning of `docs/reference/cli.md`.
const INTRODUCTION: &str = include_str!("introduction.txt");

/// A command, such as `list get`, and its help page.
struct Page {
    command: String,
    text: String,
}

#[test]
fn help_pages_are_as_reviewed() {
    let (mut pages, mut seen) = (Vec::new(), HashSet::new());
    collect(&mut vec![], &mut pages, &mut seen);
    let snapshot =
        pages.iter().map(|page| format!("$ {}\n\n{}\n\n", words(&["liststore", &page.command, "--help"]), page.text));
    compare("tests/cli/help.txt", &snapshot.collect::<String>());
    compare("docs/reference/cli.md", &reference(&pages));
}

fn compare(path: &str, present: &str) {
    let file = repository().join(path);
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        std::fs::write(&file, present).unwrap();
    }
    let reviewed = std::fs::read_to_string(&file).unwrap_or_default();
    let differing = present.lines().zip(reviewed.lines()).position(|(now, then)| now != then);
    let line = differing.unwrap_or_else(|| present.lines().count().min(reviewed.lines().count()));
    let at = |text: &str| text.lines().nth(line).unwrap_or("(the end)").to_owned();
    assert!(
        present == reviewed,
        "help differs from {path} in line {}: {:?} instead of {:?}. Set {WRITE_VARIABLE}=1 to write the files",
        line + 1,
        at(present),
        at(&reviewed)
    );
}

/// The page of the documentation: a table of the commands, and a section for each.
fn reference(pages: &[Page]) -> String {
    let mut text = format!("{INTRODUCTION}\n## All commands\n\n| command | purpose |\n| --- | --- |\n");
    for page in pages {
        let (name, purpose) = (words(&["liststore", &page.command]), page.text.split("\n\n").next().unwrap());
        let anchor = name.replace(' ', "-");
        writeln!(text, "| [`{name}`](#{anchor}) | {} |", purpose.replace('\n', " ").replace('|', "\\|")).unwrap();
    }
    for page in pages {
        write!(text, "\n## {}\n\n```text\n{}\n```\n", words(&["liststore", &page.command]), page.text).unwrap();
    }
    text
}

fn words(words: &[&str]) -> String {
    words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

/// Adds the help page of a command and the pages of its subcommands.
fn collect(path: &mut Vec<String>, pages: &mut Vec<Page>, seen: &mut HashSet<String>) {
    let arguments: Vec<_> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let output = liststore(&arguments).env("COLUMNS", "80").output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    let page = String::from_utf8(output.stdout).unwrap();
    pages.push(Page { command: path.join(" "), text: shortened(&page, seen).trim_end().to_owned() });
    for subcommand in subcommands(&page) {
        path.push(subcommand);
        collect(path, pages, seen);
        path.pop();
    }
}

/// A page with only the names of those options and arguments that an earlier page has with the same description.
fn shortened(page: &str, seen: &mut HashSet<String>) -> String {
    let mut short = String::new();
    for block in page.trim_end().split("\n\n") {
        let lines: Vec<_> = block.split('\n').map(str::trim_end).collect();
        if lines == [""] {
            continue;
        }
        let header = usize::from(lines[0].ends_with(':') && !lines[0].starts_with(' '));
        let body = lines[header..].join("\n");
        let start = body.trim_start().to_owned();
        let is_choice = start.starts_with("Possible values:");
        let is_repeated = (is_choice || start.starts_with(['-', '<', '['])) && !seen.insert(body);
        if is_repeated && is_choice {
            continue;
        }
        let shown = if is_repeated { header + 1 } else { lines.len() };
        short.push_str(&lines[..shown].join("\n"));
        short.push_str("\n\n");
    }
    short
}

fn subcommands(page: &str) -> Vec<String> {
    // Commands are in one list, or in groups with headings.
    let listed = page.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    let listed = listed.take_while(|line| *line != "Options:");
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase()) && *name != "help";
    names.filter(is_name).map(str::to_owned).collect()
}
