//! Bags and entity types on the command line.

use serde_json::{Value, json};

use crate::doubt::in_doubt;
use crate::program::Server;

fn value_of<'a>(shown: &'a str, name: &str) -> &'a str {
    let line = shown.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {shown}"));
    line[name.len()..].trim()
}

#[test]
fn an_entity_type_is_created_shown_changed_and_deleted() {
    let server = Server::start();
    let shown = server.ok(&["entity-type", "create", "user", "--ttl", "90m", "--label", "team=feed"]);
    assert_eq!((value_of(&shown, "ttl"), value_of(&shown, "labels")), ("1h30m", "team=feed"));
    let etag = value_of(&shown, "etag").to_owned();
    assert_eq!(server.ok(&["entity-type", "get", "user"]), shown);
    server.ok(&["entity-type", "create", "story"]);
    let listed = server.ok(&["entity-type", "list"]);
    assert_eq!(listed, "ENTITY TYPE  TTL    OWNER  DESCRIPTION\nstory        7300d\nuser         1h30m\n");
    assert_eq!(server.ok(&["entity-type", "list", "--query", "tor", "--output", "ndjson"]).lines().count(), 1);
    let changed = server.ok(&["entity-type", "update", "user", "--owner", "o", "--no-labels", "--if-match", &etag]);
    assert_eq!((value_of(&changed, "owner"), value_of(&changed, "labels")), ("o", ""));
    let refused = server.run(&["entity-type", "delete", "user", "--if-match", &etag, "--yes"]).failed(1);
    assert!(refused.contains("the resource changed after"), "{refused}");
    assert!(server.run(&["entity-type", "update", "user"]).failed(2).contains("nothing to change"));
    assert!(server.ok(&["entity-type", "delete", "user", "--yes"]).starts_with("deleted user; "));
    let history = server.ok(&["entity-type", "history", "user"]);
    assert_eq!(history.lines().count(), 4);
    assert!(history.contains("labels {\"team\":\"feed\"} -> {}, owner \"\" -> o"), "{history}");
}

#[test]
fn a_bag_is_put_shown_changed_and_deleted() {
    let server = Server::start();
    let refused = server.run(&["entity", "put", "user", "u-17", "{}"]).failed(1);
    assert!(refused.contains("the entity type user does not exist"), "{refused}");
    server.ok(&["entity-type", "create", "user"]);
    let put = server.ok(&["entity", "put", "user", "u-17", r#"{"name": "Ada", "n": 1.50}"#, "--only-new"]);
    let etag = value_of(&put, "etag").to_owned();
    let shown = server.ok(&["entity", "get", "user", "u-17"]);
    assert_eq!(shown, format!("{put}{{\"n\":1.50,\"name\":\"Ada\"}}\n"));
    assert!(server.run(&["entity", "put", "user", "u-17", "{}", "--only-new"]).failed(1).contains("already has a bag"));
    let patched = server.ok(&["entity", "patch", "user", "u-17", r#"{"n": null}"#, "--if-match", &etag]);
    assert!(patched.ends_with("{\"name\":\"Ada\"}\n"), "{patched}");
    assert!(
        server
            .run(&["entity", "patch", "user", "u-17", "{}", "--if-match", &etag])
            .failed(1)
            .contains("does not match the given entity tag")
    );
    let file = server.write("bag.json", r#"{"from": "a file"}"#);
    server.ok(&["entity", "put", "user", "u-17", "--file", &file]);
    let json = server.ok(&["entity", "get", "user", "u-17", "--output", "json"]);
    assert!(json.contains(r#""properties":{"from":"a file"}"#), "{json}");

    server.ok(&["feature", "create", "user", "seen", "--value-type", "string", "--ttl", "1d"]);
    server.ok(&["list", "add", "user", "seen", "u-17", "story-9"]);
    let joined = server.ok(&["entity", "get", "user", "u-17", "--lists", "seen:5,none"]);
    assert!(
        joined.contains("\"story-9\"") && joined.contains("none: the feature user.none does not exist"),
        "{joined}"
    );
    assert!(server.run(&["entity", "get", "user", "u-17", "--lists", "seen:x"]).err.contains("lists must be features"));
    let counted = r#"={"windows":["1h"],"aggregates":[{"name":"stories","function":"count"}]}"#;
    let (seen, none) = (format!("seen{counted}"), format!("none{counted}"));
    let joined = server.ok(&["entity", "get", "user", "u-17", "--aggregate", &seen, "--aggregate", &none]);
    assert!(joined.lines().any(|line| line.split_whitespace().eq(["seen:", "WINDOW", "stories"])), "{joined}");
    assert!(joined.lines().any(|line| line.split_whitespace().eq(["1h", "1"])), "{joined}");
    assert!(joined.contains("none: the feature user.none does not exist"), "{joined}");
    let json = server.ok(&["entity", "get", "user", "u-17", "--aggregate", &seen, "--output", "ndjson"]);
    assert!(json.contains(r#""aggregates":{"seen":{"as_of":"#), "{json}");
    for (wrong, reason) in
        [("seen", "expected FEATURE=JSON"), ("seen={}", "windows: windows is missing"), ("a b={}", "name must")]
    {
        let refused = server.run(&["entity", "get", "user", "u-17", "--aggregate", wrong]);
        assert!(refused.status == 2 && refused.err.contains(reason), "{refused:?}");
    }
    let twice = server.run(&["entity", "get", "user", "u-17", "--aggregate", &seen, "--aggregate", &seen]);
    assert!(twice.status == 2 && twice.err.contains("duplicate feature seen"), "{twice:?}");
    assert_eq!(server.ok(&["entity", "delete", "user", "u-17"]), "deleted the bag of user u-17\n");
    assert!(server.run(&["entity", "get", "user", "u-17"]).failed(1).contains("the entity has no bag"));
    assert!(server.ok(&["list", "get", "user", "seen", "u-17"]).contains("story-9"));
    server.ok(&["entity", "put", "user", "u-17", "{}"]);
    let erased = server.ok(&["entity", "erase", "user", "u-17", "--yes"]);
    assert!(erased.contains("(bag)") && erased.contains("seen"), "{erased}");
}

#[test]
fn a_bag_comes_from_standard_input() {
    let server = Server::start();
    server.ok(&["entity-type", "create", "user"]);
    server.run_with_input(&["entity", "put", "user", "u-17", "--file", "-"], b"{\"from\": \"a pipe\"}").ok();
    assert!(server.ok(&["entity", "get", "user", "u-17"]).contains("a pipe"));
}

#[test]
fn several_bags_are_read_at_once() {
    let server = Server::start();
    server.ok(&["entity-type", "create", "user"]);
    for id in ["u-1", "u-2"] {
        server.ok(&["entity", "put", "user", id, &format!("{{\"id\": \"{id}\"}}")]);
    }
    let shown = server.ok(&["entity", "get", "user", "u-2", "u-1"]);
    let (two, one) = (shown.find("{\"id\":\"u-2\"}").unwrap(), shown.find("{\"id\":\"u-1\"}").unwrap());
    assert!(two < one, "{shown}");
    let lines = server.ok(&["entity", "get", "user", "u-1", "u-2", "-o", "ndjson"]);
    assert!(lines.lines().count() == 2 && lines.lines().all(|line| line.contains("\"properties\"")), "{lines}");
    let some = server.run(&["entity", "get", "user", "u-1", "u-3"]);
    assert!(some.status == 1 && some.out.contains("u-3: ") && some.out.contains("{\"id\":\"u-1\"}"), "{some:?}");
    assert!(some.err.contains("1 of 2 entities could not be read"), "{some:?}");
}

#[test]
fn bags_are_exported_imported_and_copied() {
    let (server, other) = (Server::start(), Server::start());
    for server in [&server, &other] {
        server.ok(&["entity-type", "create", "user"]);
    }
    // More than one part. Numbers stay as written.
    let line = |n: usize| format!("{{\"entity_id\":\"u-{n}\",\"properties\":{{\"n\":{n}.0,\"s\":\"é\"}}}}\n");
    let lines: String = (0..1_200).map(line).collect();
    let people = server.write("people.ndjson", &lines);
    assert_eq!(server.ok(&["entity", "import", "user", &people]), "1200 bags\n");
    for name in ["all.ndjson.gz", "all.ndjson.zst"] {
        let export = ["entity", "export", "user", "--file", name];
        assert_eq!(server.ok(&export), "1200 bags\n");
        assert!(server.run(&export).failed(1).contains("already exists"));
    }
    let plain = server.run(&["entity", "export", "user"]);
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&plain.out), sorted(&lines));
    for name in ["all.ndjson.gz", "all.ndjson.zst"] {
        let exported = server.dir.path().join(name);
        let import = ["entity", "import", "user", exported.to_str().unwrap(), "--output", "json"];
        assert_eq!(other.ok(&import), "{\"bags\":1200}\n");
        assert_eq!(sorted(&other.run(&["entity", "export", "user", "--file", "-"]).out), sorted(&lines));
    }
    // The comparison reports the surplus of the other server.
    let copy = ["entity", "copy", "user", "--from", &*server.url, "--to", &*other.url];
    assert!(server.ok(&copy).contains("1200 bags copied; 1200 in the source, 1200 in the target: both are equal"));
    other.ok(&["entity", "put", "user", "more", "{}"]);
    let finished = server.run(&[&copy[..], &["-o", "json"]].concat());
    assert!(
        finished.status == 1 && finished.err.contains("differ") && finished.out.contains("\"bags\":1201"),
        "{finished:?}"
    );
    let marked =
        server.write("marked.ndjson", "\u{feff}{\"entity_id\": \"u-1\", \"properties\": {\"n\":1.0,\"s\":\"é\"}}");
    assert_eq!(server.ok(&["entity", "import", "user", &marked]), "1 bag\n");
    let empty = server.run(&["entity", "put", "user", "u-1", " "]).failed(2);
    assert!(empty.contains("the document is empty"), "{empty}");
    // The bags before a bad line are stored.
    let bad = server.write("bad.ndjson", "{\"entity_id\": \"before\", \"properties\": {}}\n{\"entity_id\": \"\"}\n");
    let reported = server.run(&["entity", "import", "user", &bad]).failed(1);
    assert!(reported.contains("bad.ndjson, line 2") && reported.contains("(imported 1 bag:"), "{reported}");
    server.ok(&["entity", "get", "user", "before"]);
    server.ok(&["entity", "delete", "user", "before"]);
    // Of several lines for one entity, the last one counts, and each is checked.
    let line = |properties: &str| format!("{{\"entity_id\": \"twice\", \"properties\": {properties}}}\n");
    let twice = server.write("twice.ndjson", [line("{\"n\": 1}"), line("{\"n\": 2}")].concat());
    assert_eq!(server.ok(&["entity", "import", "user", &twice]), "2 bags\n");
    assert!(server.ok(&["entity", "get", "user", "twice"]).contains("\"n\":2"));
    let bad = server.write("twice.ndjson", [line("[]"), line("{\"n\": 3}")].concat());
    let reported = server.run(&["entity", "import", "user", &bad]).failed(1);
    assert!(reported.contains("line 1: properties: a bag must be a JSON object"), "{reported}");
    assert!(server.ok(&["entity", "get", "user", "twice"]).contains("\"n\":2"));
    server.ok(&["entity", "delete", "user", "twice"]);
    let long = server.write("long.ndjson", line(&format!("{{\"s\": \"{}\"}}", "x".repeat(2 << 20))));
    let reported = server.run(&["entity", "import", "user", &long]).failed(1);
    assert!(reported.contains("line 1: the line is longer than 2048 KiB"), "{reported}");
    // The copy creates missing definitions with the same properties.
    server.ok(&["index", "create", "user", "by_n", "--property", "/n", "--order-by", "/n", "--wait"]);
    server.ok(&["index", "create", "user", "by_s", "--property", "/s", "--wait"]);
    let third = Server::start();
    let copy = ["entity", "copy", "user", "--from", &*server.url, "--to", &*third.url];
    let reported = server.ok(&copy);
    let created = ["the entity type user", "the index by_n", "the index by_s"];
    let created = created.map(|what| format!("created {what} in the target\n")).concat();
    assert!(reported.starts_with(&created) && reported.contains("both are equal"), "{reported}");
    let found = |server: &Server| server.ok(&["entity", "find", "user", "by_n", "--value", "7.0", "-o", "ndjson"]);
    assert!(found(&third).contains("u-7") && found(&third).lines().count() == 1, "{}", found(&third));
    let shown = |server: &Server| {
        let index: Value = serde_json::from_str(&server.ok(&["index", "get", "user", "by_n", "-o", "json"])).unwrap();
        (index["properties"].clone(), index["order_by"].clone(), index["state"].clone())
    };
    assert_eq!(shown(&third), shown(&server));
    let again: Value = serde_json::from_str(&server.ok(&[&copy[..], &["-o", "json"]].concat())).unwrap();
    assert_eq!((&again["entity_type_created"], &again["indexes_created"]), (&json!(false), &json!([])), "{again}");
    third.ok(&["index", "drop", "user", "by_s", "--yes"]);
    third.ok(&["index", "create", "user", "by_other", "--property", "/s", "--wait"]);
    server.ok(&["index", "create", "user", "by_other", "--property", "/n", "--wait"]);
    let other_index = server.run(&copy).failed(1);
    assert!(other_index.contains("by_other") && other_index.contains("different properties"), "{other_index}");
    server.ok(&["entity-type", "update", "user", "--ttl", "30d"]);
    let other_ttl = server.run(&copy).failed(1);
    assert!(other_ttl.contains("ttl 30d in the source but 7300d in the target"), "{other_ttl}");
    let none = server.run(&["entity", "copy", "none", "--from", &*server.url, "--to", &*other.url]).failed(1);
    assert!(none.contains("entity_type_not_found"), "{none}");
}

/// Otherwise a copy would stop at its own definitions.
#[test]
fn a_copy_continues_with_entity_types_whose_creation_got_no_answer() {
    let (server, other) = (Server::start(), Server::start());
    server.ok(&["entity-type", "create", "user", "--ttl", "30d"]);
    server.ok(&["index", "create", "user", "by_n", "--property", "/n", "--wait"]);
    server.ok(&["index", "create", "user", "by_s", "--property", "/s", "--wait"]);
    server.ok(&["entity", "put", "user", "u-1", "{\"n\": 1}"]);
    let target = in_doubt(other.address().to_owned());
    let copied = server.ok(&["entity", "copy", "user", "--from", &server.url, "--to", &target, "-o", "json"]);
    let copied: Value = serde_json::from_str(&copied).unwrap();
    let created = (&copied["entity_type_created"], &copied["indexes_created"], &copied["to"]["bags"]);
    assert_eq!(created, (&json!(true), &json!(["by_n", "by_s"]), &json!(1)));
    assert!(other.ok(&["entity", "find", "user", "by_n", "--value", "1"]).contains("u-1"));
}
