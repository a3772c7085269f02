//! The help pages of all commands, compared with `help.txt` so that changes of text are reviewed as text.

use std::collections::HashSet;

use crate::program::{liststore, repository};

/// Set to any value, it writes the present pages to the file.
const WRITE_VARIABLE: &str = "LISTSTORE_WRITE_HELP";

#[test]
fn help_pages_are_as_reviewed() {
    let (mut pages, mut seen) = (String::new(), HashSet::new());
    collect(&mut vec![], &mut pages, &mut seen);
    let file = repository().join("tests/cli/help.txt");
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        std::fs::write(&file, &pages).unwrap();
    }
    let reviewed = std::fs::read_to_string(&file).unwrap();
    let differing = pages.lines().zip(reviewed.lines()).position(|(now, then)| now != then);
    let line = differing.unwrap_or_else(|| pages.lines().count().min(reviewed.lines().count()));
    let at = |text: &str| text.lines().nth(line).unwrap_or("(the end)").to_owned();
    assert!(
        pages == reviewed,
        "help differs from tests/cli/help.txt in line {}: {:?} instead of {:?}. Set {WRITE_VARIABLE}=1 to write the file",
        line + 1,
        at(&pages),
        at(&reviewed)
    );
}

/// Appends the help page of a command and the pages of its subcommands.
fn collect(path: &mut Vec<String>, pages: &mut String, seen: &mut HashSet<String>) {
    let arguments: Vec<_> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let output = liststore(&arguments).env("COLUMNS", "80").output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    let page = String::from_utf8(output.stdout).unwrap();
    pages.push_str(&format!("$ liststore {}\n\n{}", arguments.join(" "), shortened(&page, seen)));
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
    let listed = page.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}
