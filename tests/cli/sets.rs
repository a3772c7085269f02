//! Sets on the command line: created, filled, looked up, emptied by key, exported, imported, copied.

use crate::program::Server;

fn suspended(server: &Server) {
    server.ok(&[
        "feature",
        "create",
        "status",
        "suspended",
        "--value-type",
        "string",
        "--ttl",
        "7300d",
        "--identity",
        "key",
    ]);
    for (key, value, at) in [
        ("u-17", "sent 400 mails", "2024-08-29T16:44:05Z"),
        ("u-18", "a \"quoted\", reason", "2024-08-29T16:44:06Z"),
        ("u-17", "again", "2024-08-29T16:44:07Z"),
    ] {
        server.ok(&["list", "add", "status", "suspended", "spam", "--key", key, value, "--timestamp", at]);
    }
}

const ROWS: &str = "\
2024-08-29T16:44:07.000000000Z  u-17          \"again\"
2024-08-29T16:44:06.000000000Z  u-18          \"a \\\"quoted\\\", reason\"
";

fn get(server: &Server, version: &str) -> String {
    let page = server.ok(&["list", "get", "status", "suspended", "spam", "--version", version]);
    let Some((heading, rows)) = page.split_once('\n') else { return String::new() };
    assert_eq!(heading, "TIMESTAMP                       KEY           VALUE");
    rows.to_owned()
}

#[test]
fn a_member_is_added_looked_up_and_removed_by_its_key() {
    let server = Server::start();
    suspended(&server);
    assert_eq!(get(&server, ""), ROWS);
    let found = server.ok(&["list", "lookup", "status", "suspended", "spam", "u-17", "nobody"]);
    assert_eq!(
        found,
        "2024-08-29T16:44:07.000000000Z  u-17          \"again\"\n-                               nobody\n"
    );
    let refused = server.run(&["list", "add", "status", "suspended", "spam", "no key"]).failed(1);
    assert!(refused.contains("items[0].key") && refused.contains("key is missing"), "{refused}");
    let refused = server.run(&["list", "add", "status", "suspended", "spam", "--key", "a", "x", "y"]).failed(2);
    assert!(refused.contains("1 key given for 2 values"), "{refused}");
    assert_eq!(
        server.ok(&["list", "remove", "status", "suspended", "spam", "--key", "u-17", "--key", "x"]),
        "removed 1\n"
    );
    assert_eq!(get(&server, "").lines().count(), 1);
    let shown = server.ok(&["feature", "get", "status", "suspended"]);
    assert!(shown.contains("identity     key\nkeep         newest\n"), "{shown}");
}

#[test]
fn a_set_is_copied_to_another_identity_and_another_server() {
    let (server, other) = (Server::start(), Server::start());
    suspended(&server);
    for form in ["csv", "ndjson.gz"] {
        let (version, file) = (form.replace('.', "-"), server.dir.path().join(format!("suspended.{form}")));
        let file = file.to_str().unwrap();
        server.ok(&["export", "status", "suspended", "--file", file]);
        server.ok(&["version", "create", "status", "suspended", &version, "--keep", "oldest"]);
        server.ok(&["import", "--entity-type", "status", "--feature", "suspended", "--version", &version, file]);
        assert_eq!(get(&server, &version), ROWS, "{form}");
    }
    // An import of the values alone, without keys.
    let file = server.dir.path().join("suspended.csv");
    server.ok(&["version", "create", "status", "suspended", "reasons", "--identity", "value"]);
    let import = ["import", "--entity-type", "status", "--feature", "suspended", "--version", "reasons"];
    server.ok(&[&import[..], &[file.to_str().unwrap()]].concat());
    let found = server.ok(&["list", "lookup", "status", "suspended", "spam", "again", "--version", "reasons"]);
    assert_eq!(found, "2024-08-29T16:44:07.000000000Z  \"again\"\n");
    let refused = server.run(&[&import[..], &["--key-column", "key", file.to_str().unwrap()]].concat()).failed(2);
    assert!(refused.contains("have no keys"), "{refused}");

    let definitions = server.write("features.yaml", server.ok(&["feature", "export"]));
    other.ok(&["feature", "import", &definitions]);
    assert_eq!(other.ok(&["feature", "export"]), server.ok(&["feature", "export"]));
    assert_eq!(other.ok(&["feature", "import", &definitions]), "no changes\n");
    other.ok(&["copy", "--from", &server.url, "--to", &other.url]);
    assert_eq!((get(&other, ""), get(&other, "csv")), (ROWS.to_owned(), ROWS.to_owned()));
    let changed = server.ok(&["feature", "export"]).replacen("identity: key", "identity: value", 1);
    let refused = other.run(&["feature", "import", &server.write("changed.yaml", changed)]).failed(1);
    assert!(refused.contains("cannot be changed") && refused.contains("liststore export and import"), "{refused}");
}
