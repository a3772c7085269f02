//! `feature export` and `import`: definitions as files.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::callers::ask;
use crate::program::{Server, run};

fn shown(server: &Server) -> Vec<Value> {
    let all: Value = serde_json::from_str(&server.ok(&["feature", "list", "-o", "json"])).unwrap();
    let mut features = all["features"].as_array().unwrap().clone();
    for feature in &mut features {
        let of_time = ["created_at", "updated_at"];
        of_time.iter().for_each(|name| drop(feature.as_object_mut().unwrap().remove(*name)));
        for version in feature["versions"].as_array_mut().unwrap() {
            version.as_object_mut().unwrap().remove("created_at");
        }
    }
    features
}

fn defined() -> Server {
    let server = Server::start();
    server.ok(&[
        "feature",
        "create",
        "user",
        "seen",
        "--value-type",
        "string",
        "--ttl",
        "30d",
        "--owner",
        "yes: #no",
        "--description",
        "a \"b\"\n- c: 1",
        "--label",
        "on=0123",
        "--label",
        "team=null",
    ]);
    server.ok(&["version", "create", "user", "seen", "1.0", "--ttl", "7d", "--description", "~"]);
    server.ok(&["feature", "update", "user", "seen", "--timestamp-ahead-max", "12h"]);
    server.ok(&["version", "update", "user", "seen", "1.0", "--timestamp-ahead-max", "none"]);
    server.feature("clicks", "int64");
    server
}

#[test]
fn exported_definitions_import_unchanged_into_another_server() {
    let (one, other) = (defined(), Server::start());
    let exported = one.ok(&["feature", "export"]);
    assert!(!exported.contains(": null"), "{exported}");
    let file = other.write("features.yaml", exported);
    let planned = other.ok(&["feature", "import", &file, "--dry-run"]);
    let expected = "+ user.seen: string, ttl 30d, timestamp_ahead_max 12h\n\
                    + user.seen, version 1.0: ttl 7d, timestamp_ahead_max none\n";
    assert!(planned.contains(expected), "{planned}");
    assert!(planned.ends_with("3 changes would be made\n"), "{planned}");
    assert_eq!(shown(&other), [Value::Null; 0]);
    let done = other.ok(&["feature", "import", &file, "--user", "ann"]);
    assert!(done.ends_with("3 changes were made\n"), "{done}");
    assert_eq!(shown(&other), shown(&one));
    assert_eq!(other.ok(&["feature", "import", &file]), "no changes\n");
    assert_eq!(other.ok(&["feature", "export"]), one.ok(&["feature", "export"]));
    let history = other.ok(&["feature", "history", "user", "seen"]);
    assert!(history.contains("ann"), "{history}");
}

#[test]
fn a_file_has_entity_types_with_their_indexes() {
    let (one, other) = (Server::start(), Server::start());
    let create = ["entity-type", "create", "user", "--ttl", "365d", "--owner", "feed-team", "--label", "a=b"];
    one.ok(&[&create[..], &["-o", "json"]].concat());
    one.ok(&["entity-type", "create", "card", "-o", "json"]);
    let index = ["index", "create", "user", "by_city", "--property", "/city", "--order-by", "/score", "--wait"];
    one.ok(&[&index[..], &["-o", "json"]].concat());
    let exported = one.ok(&["feature", "export"]);
    assert!(exported.contains("indexes:") && !exported.contains("null"), "{exported}");
    let file = other.write("definitions.yaml", &exported);
    let planned = other.ok(&["feature", "import", &file, "--dry-run"]);
    let expected = "+ entity type card: ttl 7300d\n\
                    + entity type user: ttl 365d\n\
                    + entity type user, index by_city: /city, by /score\n\
                    3 changes would be made\n";
    assert_eq!(planned, expected);
    other.ok(&["feature", "import", &file]);
    assert_eq!(other.ok(&["feature", "import", &file]), "no changes\n");
    assert_eq!(other.ok(&["feature", "export"]), exported);

    let changed = other.write("changed.yaml", exported.replace("365d", "30d"));
    let plan: Value = serde_json::from_str(&other.ok(&["feature", "import", &changed, "-o", "json"])).unwrap();
    let change = &plan["changes"][0];
    assert_eq!((&change["action"], &change["entity_type"]), (&"update".into(), &"user".into()), "{plan}");
    assert_eq!((&change["details"], change.get("name")), (&"ttl 365d -> 30d".into(), None), "{plan}");

    let moved = other.write("moved.yaml", exported.replace("/city", "/town"));
    let refused = other.run(&["feature", "import", &moved]).failed(1);
    assert!(refused.contains("the index by_city of user has /city, by /score instead of /town"), "{refused}");

    // A file that does not mention entity types leaves them unchanged.
    let features = other.write("features.yaml", "features: []\n");
    assert_eq!(other.ok(&["feature", "import", &features, "--prune"]), "no changes\n");
    let fewer =
        other.write("fewer.yaml", "entity_types: [{entity_type: user, ttl: 30d, owner: feed-team, labels: {a: b}}]\n");
    let kept = other.ok(&["feature", "import", &fewer, "--dry-run"]);
    assert!(kept.contains("entity type card is not in the file: unchanged"), "{kept}");
    let pruned = other.ok(&["feature", "import", &fewer, "--prune", "--yes"]);
    assert!(
        pruned.contains("- entity type card\n") && pruned.contains("- entity type user, index by_city\n"),
        "{pruned}"
    );
    let neither = other.write("neither.yaml", "{}\n");
    assert!(other.run(&["feature", "import", &neither]).failed(1).contains("neither features nor entity_types"));
}

#[test]
fn differences_are_shown_and_applied_without_deletions() {
    let server = defined();
    let before = shown(&server);
    let text =
        "features:\n- {entity_type: user, name: seen, value_type: string, ttl: 720h, owner: feed, labels: {a: b}}\n";
    let file = server.write("features.yaml", text);
    let planned = server.ok(&["feature", "import", &file, "--dry-run", "--prune"]);
    assert!(planned.contains("owner yes: #no -> feed") && !planned.contains("ttl"), "{planned}");
    assert!(planned.contains("- user.seen, version 1.0\n") && planned.contains("- customer.clicks\n"), "{planned}");
    assert_eq!(shown(&server), before);
    let done = server.ok(&["feature", "import", &file]);
    assert!(done.contains("customer.clicks is not in the file: unchanged"), "{done}");
    assert!(done.ends_with("1 change was made\n"), "{done}");
    let after = shown(&server);
    assert_eq!((after.len(), &after[1]["owner"], &after[1]["description"]), (2, &"feed".into(), &"".into()));
    assert_eq!(after[1]["versions"].as_array().unwrap().len(), 2);
    let refused = server.run(&["feature", "import", &file, "--prune"]);
    assert!(refused.out.contains("- customer.clicks\n") && refused.failed(2).contains("pass --yes"));
    assert_eq!(shown(&server), after, "nothing is deleted unconfirmed");
    server.ok(&["feature", "import", &file, "--prune", "--yes"]);
    let after = shown(&server);
    assert_eq!((after.len(), after[0]["versions"].as_array().unwrap().len()), (1, 1));
}

#[test]
fn a_file_changes_timestamp_ahead_max() {
    let server = defined();
    let versions = "versions: [{version: '1.0', ttl: 7d, timestamp_ahead_max: 24h}]";
    let feature = format!("entity_type: user, name: seen, value_type: string, ttl: 30d, {versions}");
    let file = server.write("features.yaml", format!("features:\n- {{{feature}}}\n"));
    let done = server.ok(&["feature", "import", &file]);
    assert!(done.contains("timestamp_ahead_max 12h -> null"), "{done}");
    assert!(done.contains("~ user.seen, version 1.0: timestamp_ahead_max none -> 1d"), "{done}");
    let after = shown(&server);
    assert_eq!(after[1].get("timestamp_ahead_max"), None);
    assert_eq!(after[1]["versions"][1]["timestamp_ahead_max"], "1d");
    let table = server.ok(&["version", "list", "user", "seen"]);
    assert!(table.contains("AHEAD MAX") && table.contains(" - ") && table.contains(" 1d "), "{table}");
    server.ok(&["version", "update", "user", "seen", "1.0", "--timestamp-ahead-max", "server"]);
    assert_eq!(shown(&server)[1]["versions"][1].get("timestamp_ahead_max"), None);
    let refused = server.run(&["feature", "update", "user", "seen", "--timestamp-ahead-max", "1 day"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.err.contains("it must be none, server, or whole numbers with units"), "{refused:?}");
}

#[test]
fn an_invalid_file_changes_nothing() {
    let server = defined();
    let before = shown(&server);
    let feature = |rest: &str| format!("features:\n- {{entity_type: user, name: new, {rest}}}\n");
    for (text, reported) in [
        (feature("value_type: string, ttl: 30x"), "user.new"),
        (feature("value_type: text, ttl: 30d"), "user.new"),
        (feature("value_type: string, ttl: 30d, timestamp_ahead_max: 0s"), "timestamp_ahead_max must be none, or"),
        (feature("value_type: string, ttl: 30d, tll: 1d"), "tll"),
        (feature("value_type: string, ttl: 30d") + &feature("value_type: string, ttl: 30d")[10..], "duplicate"),
        (feature("value_type: string, ttl: 30d, versions: [{version: '', ttl: 1d}]"), "default"),
        ("features:\n- {entity_type: user, name: seen, value_type: int64, ttl: 30d}\n".to_owned(), "cannot be changed"),
        ("- nonsense".to_owned(), "cannot read the file"),
    ] {
        let file = server.write("features.yaml", &text);
        let finished = server.run(&["feature", "import", &file, "--prune"]);
        assert!(finished.status == 1 && finished.err.contains(reported), "{text}: {finished:?}");
        assert_eq!(shown(&server), before);
    }
}

/// Definitions after the end of a partial file would be missing, and so be deleted.
#[test]
fn a_file_is_read_completely_or_not_at_all() {
    let server = defined();
    let before = shown(&server);
    let first = "features:\n- {entity_type: user, name: seen, value_type: string, ttl: 30d}\n";
    let rest = "- {entity_type: customer, name: clicks, value_type: int64, ttl: 30d}\n";
    let file = server.write("features.yaml", [first, &"\n".repeat(64 << 20), rest].concat());
    let reported = server.run(&["feature", "import", &file, "--prune"]).failed(1);
    assert!(reported.ends_with("it is larger than 64 MiB"), "{reported}");
    assert_eq!(shown(&server), before);
}

/// Forwards a client's bytes, and calls `first` before the first part of a connection that begins with `PATCH`.
fn pass_on(client: TcpStream, server: &str, first: &dyn Fn()) {
    let (mut client, mut upstream) = (client, TcpStream::connect(server).unwrap());
    let (mut answers, mut back) = (upstream.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut answers, &mut back).unwrap_or_default());
    let mut part = [0; 65_536];
    while let Ok(read @ 1..) = client.read(&mut part) {
        if part.starts_with(b"PATCH ") {
            first();
        }
        upstream.write_all(&part[..read]).unwrap();
    }
}

#[test]
fn a_concurrent_change_is_not_overwritten() {
    let server = defined();
    let text = "features:\n- {entity_type: user, name: seen, value_type: string, ttl: 720h, owner: feed}\n";
    let file = server.write("features.yaml", text);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let address = server.address().to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let address = address.clone();
            std::thread::spawn(move || {
                let change_owner = || {
                    let changed = ask(&address, "PATCH", "/v1/features/user/seen", r#"{"owner":"shop"}"#);
                    assert_eq!(changed.status, 200);
                };
                pass_on(client.unwrap(), &address, &change_owner);
            });
        }
    });
    let finished = run(&["feature", "import", &file, "--url", &url]);
    assert!(finished.status == 1 && finished.err.contains("etag_mismatch"), "{finished:?}");
    assert_eq!(shown(&server)[1]["owner"], "shop");
}
