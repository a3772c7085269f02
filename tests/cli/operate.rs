//! How to operate a server: the pages of `docs/howto/operate/`, followed like the other recipes.

use std::net::Ipv4Addr;
use std::process::Command;

use regex::Regex;
use tempfile::TempDir;

use crate::pages::{Guide, cassandra, tool};
use crate::ports::free_port;
use crate::postgres;
use crate::program::{Server, liststore, repository};

/// Pages whose commands a script runs, without those for registries of images and for GitHub.
const IN_SCRIPTS: [(&str, &str); 3] = [
    ("howto/operate/install.md", "test-release"),
    ("howto/operate/kubernetes.md", "test-kubernetes"),
    ("howto/operate/kubernetes-cluster.md", "test-kubernetes"),
];

#[test]
fn pages_that_no_test_here_follows_have_a_script() {
    for (page, script) in IN_SCRIPTS {
        let text = std::fs::read_to_string(repository().join("scripts").join(script)).unwrap();
        assert!(text.contains(&format!("docs/{page}")), "{page}");
    }
}

#[test]
fn first_key() {
    Guide::new("howto/operate/first-key.md")
        .with_setup(&[
            "liststore serve --listen 0.0.0.0:8080",
            "liststore serve --listen 127.0.0.1:8081",
            "liststore key create admin --role admin --url http://127.0.0.1:8081",
            // The suite's module `keys` starts a server with such a file.
            "LISTSTORE__ACCESS__BOOTSTRAP_KEY_FILE=bootstrap.key liststore serve",
        ])
        .follow();
}

#[test]
fn tls() {
    let Some(_) = tool("openssl") else { return };
    let port = free_port(Ipv4Addr::LOCALHOST);
    Guide::new("howto/operate/tls.md")
        .with_name("localhost:8443", format!("localhost:{port}"))
        .with_name("127.0.0.1:8443", format!("127.0.0.1:{port}"))
        .follow();
}

/// The sign-in itself needs an issuer: the suites `api` and `console` have one.
#[test]
fn single_sign_on() {
    Guide::new("howto/operate/single-sign-on.md")
        .with_setup(&[
            "export LISTSTORE_TOKEN=$(cat token)",
            "curl -s http://127.0.0.1:8080/v1/me -H \"Authorization: Bearer $LISTSTORE_TOKEN\"",
        ])
        .follow();
}

/// Restored servers start in the suite's module `restores`.
#[test]
fn backup_and_restore() {
    let places = TempDir::new().unwrap();
    let place = |name: &str| places.path().join(name).to_str().unwrap().to_owned();
    // A place for backups, and the broken store that the page moves away.
    for name in ["backups", "store"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    let guide = Guide::new("howto/operate/backup-and-restore.md")
        .with_name("/var/backups/liststore", place("backups"))
        .with_name("/mnt/backups", place("volume"))
        .with_name("/var/lib/liststore", place("store"))
        .with_setup(&[
            "liststore backup --stream | ssh backup-host 'cat > monday.tar'",
            "liststore serve --data-dir /var/lib/liststore",
        ]);
    guide.server.feature("seen", "string");
    guide.server.ok(&["list", "add", "customer", "seen", "c-1", "--value", "a"]);
    guide.follow();
}

#[test]
fn upgrade() {
    Guide::new("howto/operate/upgrade.md").follow();
}

#[test]
fn monitor() {
    Guide::new("howto/operate/monitor.md").follow();
}

#[test]
fn size() {
    Guide::new("howto/operate/size.md").follow();
}

#[test]
fn postgres_for_definitions() {
    let postgres = postgres::Server::start();
    Guide::new("howto/operate/postgres.md")
        .with_name("postgres://liststore:secret@db.internal:5432/liststore?sslmode=verify-full", &postgres.url)
        .follow();
}

#[test]
fn cassandra_for_items() {
    let (Some(cqlsh), Some(address)) = (tool("cqlsh"), cassandra()) else { return };
    let keyspace = format!("operate_{}", std::process::id());
    let other = Server::start();
    let guide = Guide::new("howto/operate/cassandra-and-scylladb.md")
        .with_name("http://lists-on-cassandra:8080", &other.url)
        .with_name("\"10.0.0.1:9042\", \"10.0.0.2:9042\"", format!("\"{address}\""))
        .with_name("\"dc1\"", "\"datacenter1\"")
        .with_name("\"liststore\"", format!("\"{keyspace}\""))
        .with_name("replication_factor = 3", "replication_factor = 1")
        .with_setup(&["liststore serve --config cluster.toml"]);
    guide.server.feature("seen", "string");
    guide.server.ok(&["list", "add", "customer", "seen", "c-1", "a"]);
    guide.server.ok(&["entity-type", "create", "customer", "--ttl", "30d"]);
    guide.server.ok(&["entity", "put", "customer", "c-1", r#"{"city": "Rome"}"#]);
    guide.follow();
    let (host, port) = address.rsplit_once(':').unwrap();
    let statement = format!("DROP KEYSPACE {keyspace}");
    let dropped = Command::new(cqlsh).args([host, port, "-e", &statement]).output().unwrap();
    assert!(dropped.status.success(), "{dropped:?}");
}

#[test]
fn troubleshooting() {
    Guide::new("howto/operate/troubleshooting.md").follow();
}

/// Mistakes with their commands. Each makes the program print one of the page's messages.
const MISTAKES: [&[&str]; 25] = [
    &["serve", "--listen", "TAKEN", "--data-dir", "other"],
    &["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"],
    &["serve", "--listen", "127.0.0.1:0", "--data-dir", "file"],
    &["serve", "--listen", "127.0.0.1:0", "--data-dir", "foreign"],
    &["serve", "--listen", "0.0.0.0:0", "--data-dir", "beyond"],
    &["serve", "--listen", "8081"],
    &["serve", "--config", "absent.toml"],
    &["serve", "--config", "unknown.toml"],
    &["serve", "--config", "malformed.toml"],
    &["serve", "--config", "number.toml"],
    &["feature", "list", "--url", "http://127.0.0.1:1"],
    &["feature", "list", "--url", "http://liststore.invalid:8080"],
    &["feature", "list", "--url", "https://TAKEN"],
    &["feature", "list", "--url", "127.0.0.1:8080"],
    &["list", "get", "customer", "purchases", "1"],
    &["list", "get", "customer", "purchase", "1", "--version", "v2"],
    &["feature", "create", "customer", "purchase", "--value-type", "string", "--ttl", "7300d"],
    &["feature", "update", "customer", "purchase", "--value-type", "json"],
    &["list", "get", "customer", "purchase", "-5"],
    &["feature", "create", "a", "b", "--value-type", "string", "--ttl", "30"],
    &["list", "add", "customer", "purchase", "1", "x", "--timestamp", "yesterday"],
    &["feature", "create", "a", "b", "--value-type", "int", "--ttl", "30d"],
    &["import", "customer", "purchase", "columns.csv"],
    &["list", "add", "customer", "purchase", "1", "x", "--timestamp", "1764142756"],
    &["list", "add", "customer", "purchase", "1", "x", "--timestamp", "1764142756000"],
];

#[test]
fn mistakes_print_the_messages_of_the_page() {
    let server = Server::start();
    server.feature("purchase", "string");
    server.write("file", "");
    server.write("unknown.toml", "[http]\nlisten_addr = \"127.0.0.1:0\"\n");
    server.write("malformed.toml", "[http\n");
    server.write("number.toml", "[items]\nactors = \"many\"\n");
    server.write("columns.csv", "customer_id,invoice_date\n1,2\n");
    std::fs::create_dir(server.dir.path().join("foreign")).unwrap();
    server.write("foreign/file", "of another program");

    let mistake = |arguments: &[&str], environment: &[(&str, &str)]| {
        let arguments: Vec<_> = arguments.iter().map(|word| word.replace("TAKEN", server.address())).collect();
        let mut command = liststore(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.env("LISTSTORE_URL", &server.url).envs(environment.iter().copied()).current_dir(server.dir.path());
        let output = command.output().unwrap();
        String::from_utf8(output.stderr).unwrap().replace("\\\"", "\"")
    };
    let mut printed: Vec<_> = MISTAKES.iter().map(|arguments| mistake(arguments, &[])).collect();
    printed.push(mistake(&["feature", "list"], &[("LISTSTORE_TOKEN", "wrong")]));
    printed.push(mistake(&["import", "customer", "purchase", "file"], &[]));

    let page = std::fs::read_to_string(repository().join("docs/howto/operate/troubleshooting.md")).unwrap();
    let tables = page.split("| message | cause | remedy |").skip(1).flat_map(|table| {
        let rows = table.lines().skip(2).map(str::trim).take_while(|line| line.starts_with('|'));
        rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next())
    });
    let messages: Vec<_> = tables.collect();
    assert_eq!(messages.len(), printed.len(), "{messages:#?}");
    for message in messages {
        let pattern = Regex::new(&regex::escape(message).replace('…', ".*")).unwrap();
        assert!(printed.iter().any(|text| pattern.is_match(text)), "no mistake prints {message:?}: {printed:#?}");
    }
}
