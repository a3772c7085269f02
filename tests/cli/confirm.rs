//! Commands that remove something ask on a terminal, with numbers, and need `--yes` without one.

use std::io::Write;
use std::process::Stdio;

use crate::program::{CommandOutput, Server, liststore};

/// Runs a command on a new terminal, where a person answers with this line.
fn on_terminal(server: &Server, arguments: &[&str], answer: &str) -> CommandOutput {
    let program = server.command(arguments);
    let words: Vec<_> = [program.get_program()].into_iter().chain(program.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut command = std::process::Command::new("script");
    for (name, _) in liststore(&[]).get_envs() {
        command.env_remove(name);
    }
    command.args(["-qec", &words.join(" "), "/dev/null"]).env("SHELL", "/bin/sh").env("LISTSTORE_URL", &server.url);
    command.current_dir(server.dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    // A command that does not ask may have ended.
    let _ = writeln!(stdin, "{answer}");
    let finished = process.wait_with_output().unwrap();
    drop(stdin);
    finished.into()
}

/// The data for all deletions.
fn filled() -> Server {
    let server = Server::start();
    server.feature("seen", "string");
    server.ok(&["version", "create", "customer", "seen", "v2", "-o", "json"]);
    for (entity, version) in [("u-1", ""), ("u-2", ""), ("u-1", "v2")] {
        server.ok(&["list", "add", "customer", "seen", entity, "a", "b", "--version", version]);
    }
    server.ok(&["entity-type", "create", "customer", "-o", "json"]);
    for entity in ["u-1", "u-2"] {
        server.ok(&["entity", "put", "customer", entity, r#"{"country":"GB"}"#, "-o", "json"]);
    }
    server.ok(&["index", "create", "customer", "by_country", "--property", "/country", "--wait", "-o", "json"]);
    server
}

const DELETIONS: [(&[&str], &str); 5] = [
    (&["list", "clear", "customer", "seen", "u-1"], "Remove 2 items from the list customer.seen of u-1?"),
    (&["version", "delete", "customer", "seen", "v2"], "the version \"v2\" of customer.seen with 1 list with 2 items?"),
    (&["feature", "delete", "customer", "seen"], "customer.seen with 2 versions and 3 lists with 6 items?"),
    (&["index", "drop", "customer", "by_country"], "by_country (/country) of customer, which has 2 bags?"),
    (&["entity-type", "delete", "customer"], "the entity type customer with 2 bags and 1 index?"),
];

#[test]
fn a_deletion_asks_on_a_terminal_and_shows_counts() {
    let server = filled();
    for (arguments, question) in DELETIONS {
        let finished = on_terminal(&server, arguments, "n");
        assert!(finished.out.contains(question), "{arguments:?}: {finished:?}");
        assert!(finished.status == 1 && finished.out.contains("cancelled: nothing was changed"), "{finished:?}");
    }
    assert_eq!(server.items("seen", "u-1").len(), 2);
    let finished = on_terminal(&server, &["list", "clear", "customer", "seen", "u-1"], "y");
    assert!(finished.status == 0 && finished.out.contains("removed all items"), "{finished:?}");
    assert!(server.items("seen", "u-1").is_empty());
    let missing = on_terminal(&server, &["feature", "delete", "customer", "sene"], "y");
    assert!(missing.status == 1 && !missing.out.contains("[y/N]"), "{missing:?}");
}

#[test]
fn an_import_with_deletions_and_an_erasure_ask_with_numbers() {
    let server = filled();
    let file = server.write("definitions.yaml", "features: []\nentity_types: []\n");
    let import = ["feature", "import", &file, "--prune"];
    let finished = on_terminal(&server, &import, "n");
    assert!(finished.out.contains("The file does not have 1 entity type, 1 feature. Delete them"), "{finished:?}");
    assert!(finished.status == 1 && finished.out.contains("cancelled: nothing was changed"), "{finished:?}");
    let finished = on_terminal(&server, &["entity", "erase", "customer", "u-1"], "n");
    assert!(finished.out.contains("Erase customer u-1: its bag, 2 lists with items, and"), "{finished:?}");
    assert!(finished.status == 1 && server.items("seen", "u-1").len() == 2, "{finished:?}");
    let finished = on_terminal(&server, &import, "y");
    assert!(finished.status == 0 && finished.out.contains("2 changes were made"), "{finished:?}");
}

#[test]
fn a_deletion_without_a_terminal_requires_yes() {
    let server = filled();
    for (arguments, _) in DELETIONS {
        let refused = server.run_with_input(arguments, b"y\n");
        assert!(refused.failed(2).contains("pass --yes"), "{arguments:?}");
    }
    let nowhere = [DELETIONS[2].0, &["--url", "http://127.0.0.1:1"]].concat();
    assert!(server.run(&nowhere).failed(2).contains("pass --yes"));
    for (arguments, _) in DELETIONS {
        server.ok(&[arguments, &["--yes"]].concat());
    }
}

#[test]
fn a_revocation_asks_again_for_created_keys() {
    let server = Server::start();
    server.run(&["key", "create", "root", "--role", "admin", "-o", "json"]);
    let root =
        server.run(&["key", "create", "second", "--role", "admin", "--local", "--data-dir", "data", "-o", "json"]);
    let root: serde_json::Value = serde_json::from_str(&root.out).unwrap();
    let (token, id) = (root["token"].as_str().unwrap(), root["key"]["id"].as_str().unwrap());
    let file = server.write("token", token);
    server.run(&["key", "create", "third", "--role", "reader", "--token-file", &file, "-o", "json"]);
    let revoke = ["key", "revoke", id, "--local", "--data-dir", "data"];
    let finished = on_terminal(&server, &revoke, "n");
    assert!(finished.status == 1 && finished.out.contains(&format!("Revoke the key {id} (second")), "{finished:?}");
    let finished = on_terminal(&server, &revoke, "y\ny");
    assert!(finished.status == 0 && finished.out.contains("It created 1 key: "), "{finished:?}");
    assert!(finished.out.contains("revoked the keys it created"), "{finished:?}");
}
