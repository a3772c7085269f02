//! The README's own code blocks, run against a fresh server, so that they cannot rot.
//!
//! A `console` block holds commands after `$ ` and what they print; `…` stands for what differs
//! from run to run, and TOKEN for a page token, which a later command may use. A `sh` block holds
//! what starts the server and the tests.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::program::{Said, Server, repository};

/// What the README has its reader type beside the tour.
const SETUP: [&str; 4] = [
    "cargo run --release -- serve",
    "cargo run --profile quick --no-default-features -- serve",
    "scripts/test",
    "export PATH=\"$PWD/target/release:$PATH\"",
];

struct Step<'a> {
    /// Of several lines, if they end with a backslash.
    command: String,
    expected: Vec<&'a str>,
}

fn blocks<'a>(page: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == fence {
            blocks.push(lines.by_ref().take_while(|line| *line != "```").collect());
        }
    }
    blocks
}

fn steps(page: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in blocks(page, "console").into_iter().flatten() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), expected: Vec::new() });
            continue;
        }
        let step = steps.last_mut().expect("a block begins with a command");
        if step.command.ends_with('\\') {
            step.command.push('\n');
            step.command.push_str(line);
        } else {
            step.expected.push(line);
        }
    }
    steps
}

/// Whether a line is as the README has it; answers with the token that it holds.
fn matches(line: &str, expected: &str) -> Option<Option<String>> {
    let parts: Vec<&str> = expected.split('…').collect();
    if let Some((before, after)) = expected.split_once("TOKEN") {
        let token = line.strip_prefix(before)?.strip_suffix(after)?;
        return Some(Some(token.to_owned()));
    }
    let mut rest = line.strip_prefix(parts[0])?;
    for part in &parts[1..] {
        let at = if part.is_empty() { rest.len() } else { rest.find(part)? };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty().then_some(None)
}

fn shell(server: &Server, command: &str) -> Said {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_liststore"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        // As on a terminal, both outputs come to one place.
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .env("PATH", path)
        .env("LISTSTORE_URL", &server.url)
        .current_dir(repository())
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .into()
}

#[test]
fn the_tour_does_what_the_readme_says() {
    let page = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let server = Server::start();
    let mut token = String::from("no token yet");
    let steps = steps(&page);
    assert!(steps.len() >= 5, "the tour has {} steps", steps.len());
    for step in steps {
        let command = step.command.replace("http://127.0.0.1:8080", &server.url).replace("TOKEN", &token);
        let said = shell(&server, &command);
        assert_eq!(said.status, 0, "{command}: {said:?}");
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines.len(), step.expected.len(), "{command} printed\n{}", said.out);
        for (line, expected) in lines.into_iter().zip(step.expected) {
            match matches(line, expected) {
                Some(Some(found)) => token = found,
                Some(None) => {}
                None => panic!("{command} printed\n{line}\nwhere the README has\n{expected}"),
            }
        }
    }
}

#[test]
fn the_other_commands_of_the_readme_are_known_to_work() {
    let page = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let typed: BTreeSet<&str> = blocks(&page, "sh").into_iter().flatten().collect();
    assert_eq!(typed, BTreeSet::from(SETUP));
    assert!(repository().join("scripts/test").exists());
    // What it builds is what `scripts/test-lean` tries, but for how much it is optimised.
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    assert!(manifest.lines().any(|line| line == "[profile.quick]"));
    // `serve` without any settings is what `Server` starts, but for the port and the directory.
    let languages: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("```")).collect();
    assert_eq!(languages, BTreeSet::from(["", "console", "sh"]));
}

/// What `serve` tells a newcomer to type next works as it stands, and so does what it tells who has features.
#[test]
fn the_commands_of_the_ready_line_work() {
    let server = Server::start();
    try_commands(&server);
    let (_, _, dir) = server.end(nix::sys::signal::Signal::SIGTERM);
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    assert!(!server.ready.contains("create") && server.ready.contains("feature list"), "{}", server.ready);
    try_commands(&server);
}

fn try_commands(server: &Server) {
    let commands: Vec<&str> = server.ready.lines().skip(1).map(str::trim).collect();
    assert_eq!(commands.len(), 3, "{}", server.ready);
    for command in commands {
        assert!(command.starts_with("liststore "), "{command}");
        let said = shell(server, command);
        assert_eq!(said.status, 0, "{command}: {said:?}");
    }
}

#[test]
fn a_line_matches_with_its_gaps() {
    assert_eq!(matches("a 12 b 3", "a … b …"), Some(None));
    assert_eq!(matches("a 12 b", "a … c"), None);
    assert_eq!(matches("a 12", "a"), None);
    assert_eq!(matches("with --page-token AbC goes on", "with --page-token TOKEN goes on"), Some(Some("AbC".into())));
}
