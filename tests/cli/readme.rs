//! The README's code blocks, run against a fresh server, so that they stay correct.

use std::collections::BTreeSet;

use crate::program::{Server, repository};
use crate::walkthrough::{Block, Shell, blocks, follow};

/// Commands of the README that the test does not run.
const SETUP: [&str; 4] = [
    "cargo run --release -- serve",
    "cargo run --profile quick --no-default-features -- serve",
    "scripts/test",
    "export PATH=\"$PWD/target/release:$PATH\"",
];

#[test]
fn the_tour_of_the_readme_works() {
    let page = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let steps: usize =
        blocks(&page).iter().map(|block| if let Block::Console(steps) = block { steps.len() } else { 0 }).sum();
    assert!(steps >= 5, "the tour has {steps} steps");
    let server = Server::start();
    let mut shell = Shell::start(&server, repository(), &[], &[]);
    let setup = follow(&page, &mut shell, repository(), |text| text.replace("http://127.0.0.1:8080", &server.url));
    assert_eq!(setup.iter().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(SETUP));
}

#[test]
fn the_other_commands_of_the_readme_are_known_to_work() {
    let page = std::fs::read_to_string(repository().join("README.md")).unwrap();
    assert!(repository().join("scripts/test").exists());
    // `scripts/test-lean` tests the same build, except for its optimisation.
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    assert!(manifest.lines().any(|line| line == "[profile.quick]"));
    // `Server` starts the same as `serve` without settings, except for the port and the directory.
    let languages: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("```")).collect();
    assert_eq!(languages, BTreeSet::from(["", "console", "sh"]));
}

/// The next commands that `serve` prints work unchanged, without features and with some.
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
    let mut shell = Shell::start(server, server.dir.path(), &[], &[]);
    for command in commands {
        assert!(command.starts_with("liststore "), "{command}");
        let (status, out) = shell.run(command);
        assert_eq!(status, "0", "{command}: {out}");
    }
}
