//! Usual mistakes, with the program's answers in `mistakes.txt`: each answer names the next step.

use std::path::Path;
use std::process::{Command, Stdio};

use regex::Regex;

use crate::program::{Server, liststore, repository};

/// With a path, the test writes the current answers there.
const WRITE_VARIABLE: &str = "LISTSTORE_WRITE_MISTAKES";

/// The intended or mistyped command. URL is a server with the feature customer.purchase.
const MISTAKES: [(&str, &str); 61] = [
    ("wrong port", "liststore feature list --url http://127.0.0.1:1"),
    ("wrong port of a server that is awaited", "liststore ready --url http://127.0.0.1:1"),
    ("wrong port of a server under load", "liststore bench --url http://127.0.0.1:1"),
    ("a URL without a scheme", "liststore feature list --url 127.0.0.1:8080"),
    ("https to a server without TLS", "liststore feature list --url https://ADDRESS"),
    ("unknown host", "liststore feature list --url http://liststore.invalid:8080"),
    ("a mistyped option", "liststore list get customer purchase 18092 --limt 3"),
    ("a mistyped command", "liststore lists get customer purchase 18092"),
    ("a word for another command", "liststore list show customer purchase 18092"),
    ("a habit", "liststore list delete customer purchase 18092"),
    ("a missing argument", "liststore list get customer purchase"),
    ("no value", "liststore list add customer purchase 18092"),
    ("a mistyped feature", "liststore list get customer purchases 18092"),
    ("another entity type", "liststore list get user purchase 18092"),
    ("another version", "liststore list get customer purchase 18092 --version v2"),
    ("a word for a time", "liststore list add customer purchase 1 x --timestamp yesterday"),
    ("a date alone", "liststore list get customer purchase 18092 --min-timestamp 2010-12-22"),
    ("seconds", "liststore list add customer purchase 1 x --timestamp 1764142756"),
    ("milliseconds", "liststore list add customer purchase 1 x --timestamp 1764142756000"),
    ("an age without a sign", "liststore list get customer purchase 18092 --min-timestamp 7d"),
    ("a TTL without a unit", "liststore feature create a b --value-type string --ttl 30"),
    ("a TTL with another unit", "liststore feature create a b --value-type string --ttl 30days"),
    ("a TTL in months", "liststore feature create a b --value-type string --ttl 6M"),
    ("too long a TTL", "liststore feature create a b --value-type string --ttl 8000d"),
    ("another type", "liststore feature create a b --value-type int --ttl 30d"),
    ("a name with spaces", "liststore feature create 'my users' 'Recently Viewed' --value-type string --ttl 30d"),
    ("a feature that exists", "liststore feature create customer purchase --value-type string --ttl 7300d"),
    ("an ID that begins with a dash", "liststore list get customer purchase -5"),
    ("too large a limit", "liststore list get customer purchase 18092 --limit 100000"),
    ("a limit of 0", "liststore list get customer purchase 18092 --limit 0"),
    ("a missing file", "liststore import customer purchase purchase.csv"),
    ("another column", "liststore import customer purchase purchases.csv"),
    ("an unknown ending", "liststore import customer purchase purchases.txt"),
    ("a directory", "liststore import customer purchase folder"),
    ("a port in use", "liststore serve --listen ADDRESS --data-dir other"),
    ("a data directory in use", "liststore serve --listen 127.0.0.1:0 --data-dir data"),
    ("a data directory that cannot be made", "liststore serve --listen 127.0.0.1:0 --data-dir file/data"),
    ("a file for a data directory", "liststore serve --listen 127.0.0.1:0 --data-dir file"),
    ("a directory of other files", "liststore serve --listen 127.0.0.1:0 --data-dir folder"),
    ("an address of the network", "liststore serve --listen 0.0.0.0:0 --data-dir beyond"),
    ("a port alone", "liststore serve --listen 8081"),
    ("a port with a colon", "liststore serve --listen :8081"),
    ("a missing configuration", "liststore serve --config nope.toml"),
    ("a mistyped setting", "liststore serve --config mistyped.toml"),
    ("malformed TOML", "liststore serve --config malformed.toml"),
    ("a mistyped variable", "LISTSTORE__HTTP__PORT=8081 liststore serve"),
    ("a word for a number", "LISTSTORE__ITEMS__ACTORS=many liststore serve"),
    ("one underscore", "LISTSTORE_HTTP_LISTEN=127.0.0.1:0 liststore feature get customer purchas"),
    ("no key", "liststore feature list --url LOCKED"),
    ("no key for the target of a copy", "liststore copy --from http://ADDRESS --to LOCKED"),
    ("no key for the source of a copy", "liststore copy --from LOCKED --to http://ADDRESS"),
    ("a copy to the wrong port", "liststore copy --from http://ADDRESS --to http://127.0.0.1:1"),
    ("a data directory without --local", "liststore key list --data-dir data"),
    ("two ways to a server", "liststore key list --local --data-dir data --url http://ADDRESS"),
    ("a rate of 0", "liststore key create feed --role writer --requests-per-second 0"),
    ("a cut key", "LISTSTORE_TOKEN=ls_wrong liststore feature list"),
    ("another way to ask for JSON", "liststore feature list --json"),
    ("another format", "liststore feature list -o yaml"),
    ("another way to ask for the version", "liststore -v"),
    ("a deletion in a script", "liststore feature delete customer purchase"),
    ("a mistake in JSON", "liststore list get customer purchases 18092 --output json"),
];

/// At least one of these is in every answer to a mistake.
const NEXT_STEPS: [&str; 16] = [
    "`liststore ",
    "tip: ",
    "pass --",
    "pass an API key",
    "with --",
    "it has the ",
    "[possible values: ",
    "such as ",
    "did you mean",
    "must be ",
    "choose ",
    "write ",
    "correct ",
    "check ",
    "name a ",
    "nearest known",
];

fn answer(server: &Server, locked: &Server, command: &str) -> String {
    let program = liststore(&[]);
    let folder = Path::new(program.get_program()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let command = command.replace("ADDRESS", server.address()).replace("LOCKED", &locked.url);
    let mut shell = Command::new("sh");
    for (name, _) in program.get_envs() {
        shell.env_remove(name);
    }
    shell.args(["-c", &format!("{command} 2>&1")]).env("PATH", path).env("COLUMNS", "100");
    shell.env("LISTSTORE_URL", &server.url).env("LISTSTORE__LOG__FORMAT", "text").env("NO_COLOR", "1");
    let output = shell.current_dir(server.dir.path()).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let dir = server.dir.path().canonicalize().unwrap();
    let text = text.replace(locked.address(), "127.0.0.1:8081").replace(server.address(), "127.0.0.1:8080");
    let text = text.replace(&format!("{}/", dir.display()), "");
    let seconds = Regex::new(r"\([0-9.]+ s, [0-9]+ rows/s\)").unwrap().replace_all(&text, "(… s)");
    let timed = Regex::new("\"timestamp\":\"[^\"]*\"").unwrap().replace_all(&seconds, "\"timestamp\":\"…\"");
    format!("{}\n[exit status {}]", timed.trim_end(), output.status.code().unwrap())
}

#[test]
fn each_answer_names_the_next_step() {
    let server = Server::start();
    server.feature("purchase", "string");
    let locked = Server::start_with(&[("LISTSTORE__ACCESS__MODE", "required")]);
    server.write("file", "");
    server.write("mistyped.toml", "[http]\nlisten_addr = \"127.0.0.1:0\"\n");
    server.write("malformed.toml", "[http\nlisten = 1\n");
    for name in ["purchases.csv", "purchases.txt"] {
        server.write(name, "customer_id,stock_code,invoice_date\n1,2,3\n");
    }
    std::fs::create_dir(server.dir.path().join("folder")).unwrap();
    server.write("folder/x", "of another program");

    let (mut present, mut helpless) = (String::new(), Vec::new());
    for (what, command) in MISTAKES {
        let answer = answer(&server, &locked, command);
        let is_mistake = !answer.ends_with("[exit status 0]");
        let has_step = NEXT_STEPS.iter().any(|step| answer.contains(step));
        helpless.extend((is_mistake && !has_step).then(|| format!("{what}: {answer}")));
        present.push_str(&format!("# {what}\n$ {command}\n{answer}\n\n"));
    }
    if let Some(path) = std::env::var_os(WRITE_VARIABLE) {
        std::fs::write(path, &present).unwrap();
    }
    assert!(helpless.is_empty(), "answers without a next step: {helpless:#?}");
    let reviewed = std::fs::read_to_string(repository().join("tests/cli/mistakes.txt")).unwrap();
    let differing = present.lines().zip(reviewed.lines()).find(|(now, then)| now != then);
    assert!(
        present == reviewed,
        "answers differ from tests/cli/mistakes.txt: {differing:?}. Set {WRITE_VARIABLE}=FILE"
    );
}

#[test]
fn further_mistakes_have_a_remedy() {
    let server = Server::start();
    server.feature("purchase", "string");
    for (arguments, status, reported) in [
        (&["feature", "history", "customer", "purchases"][..], 1, "did you mean customer purchase?"),
        (&["export", "customer", "purchases"], 1, "did you mean customer purchase?"),
        (&["export", "customer", "purchase", "--version", "v2"], 1, "it has the default version (without --version)"),
        (&["entity", "export", "custome"], 1, "`liststore entity-type create custome` creates it"),
        (&["list", "lookup", "customer", "purchase", "1", "x"], 1, "`liststore list contains` finds values"),
        (&["pool", "resize", "--actors", "0"], 2, "must be a whole number from 1 to 1024"),
        (&["pool", "resize", "--permits", "many"], 2, "must be a whole number from 1 to 1000000"),
        (&["cleen"], 2, "a similar subcommand exists: `liststore index clean`"),
        (&["purg", "customer", "purchase"], 2, "a similar subcommand exists: `liststore feature purge`"),
        (&["import", "--featur", "x"], 2, "`liststore import --help` lists its options"),
    ] {
        let finished = server.run(arguments);
        assert!(finished.status == status && finished.err.contains(reported), "{arguments:?}: {finished:?}");
    }
}

#[test]
fn a_long_value_is_not_repeated_whole() {
    let server = Server::start();
    server.feature("purchase", "string");
    let long = "9".repeat(70_000);
    let long = long.as_str();
    for (arguments, status) in [
        (&["list", "add", "customer", "purchase", "1", long][..], 2),
        (&["list", "get", "customer", "purchase", long], 2),
        (&["list", "get", "customer", long, "1"], 2),
        (&["list", "get", "customer", "purchase", "1", "--min-timestamp", long], 2),
        (&["feature", "create", "customer", "x", "--value-type", long, "--ttl", "1d"], 2),
        (&["feature", "create", "customer", "x", "--value-type", "string", "--ttl", long], 2),
        (&[long], 2),
    ] {
        let finished = server.run(arguments);
        assert_eq!(finished.status, status, "{}", finished.err.len());
        assert!(
            finished.err.contains('…') && finished.err.len() < 1_000,
            "{}",
            &finished.err[..finished.err.len().min(1_000)]
        );
    }
}

#[test]
fn errors_are_json_if_json_is_requested() {
    let server = Server::start();
    let parsed = |arguments: &[&str]| -> (i32, serde_json::Value) {
        let finished = server.run(arguments);
        assert!(finished.out.is_empty(), "{finished:?}");
        (finished.status, serde_json::from_str(&finished.err).unwrap())
    };
    let (status, error) = parsed(&["feature", "get", "customer", "seen", "--output", "json"]);
    assert_eq!((status, &error["problem"]["code"]), (1, &"feature_not_found".into()));
    assert!(error["error"].as_str().unwrap().starts_with("the feature customer.seen does not exist"), "{error}");
    let (status, error) = parsed(&["feature", "get", "customer", "-o", "ndjson"]);
    assert_eq!((status, &error["exit_status"]), (2, &2.into()));
    assert!(error["error"].as_str().unwrap().contains("<FEATURE>"), "{error}");
    let (_, error) = parsed(&["feature", "list", "--url", "http://127.0.0.1:1", "-o", "json"]);
    assert!(error["error"].as_str().unwrap().contains("cannot reach") && error.get("problem").is_none(), "{error}");
}

/// The reader closes the pipe after the first line.
#[test]
fn an_export_into_a_closed_pipe_ends_quietly() {
    let server = Server::start();
    server.feature("seen", "string");
    let rows: String = (0..100).map(|n| format!("u,{},{}\n", 1_760_000_000 + n, "x".repeat(40))).collect();
    let file = server.write("rows.csv", format!("entity_id,timestamp,value\n{rows}"));
    server.ok(&["import", "customer", "seen", &file, "--timestamp-unit", "s"]);
    for command in [&["export", "customer", "seen"][..], &["export", "customer", "seen", "--format", "csv"]] {
        let mut process = server.spawn(command);
        drop(process.stdout.take());
        let output = process.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
            (Some(0), ""),
            "{command:?}"
        );
    }
}
