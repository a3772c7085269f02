//! Bags and entity types on the command line.

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
    let refused = server.run(&["entity-type", "delete", "user", "--if-match", &etag]).failed(1);
    assert!(refused.contains("it was changed since"), "{refused}");
    assert!(server.run(&["entity-type", "update", "user"]).failed(2).contains("name what to change"));
    assert!(server.ok(&["entity-type", "delete", "user"]).starts_with("deleted user; "));
    let history = server.ok(&["entity-type", "history", "user"]);
    assert_eq!(history.lines().count(), 4);
    assert!(history.contains("labels {\"team\":\"feed\"} -> {}, owner \"\" -> o"), "{history}");
}

#[test]
fn a_bag_is_put_shown_changed_and_deleted() {
    let server = Server::start();
    let refused = server.run(&["entity", "put", "user", "u-17", "{}"]).failed(1);
    assert!(refused.contains("there is no entity type user"), "{refused}");
    server.ok(&["entity-type", "create", "user"]);
    let put = server.ok(&["entity", "put", "user", "u-17", r#"{"name": "Ada", "n": 1.50}"#, "--only-new"]);
    let etag = value_of(&put, "etag").to_owned();
    let shown = server.ok(&["entity", "get", "user", "u-17"]);
    assert_eq!(shown, format!("{put}{{\"n\":1.50,\"name\":\"Ada\"}}\n"));
    assert!(server.run(&["entity", "put", "user", "u-17", "{}", "--only-new"]).failed(1).contains("has a bag"));
    let patched = server.ok(&["entity", "patch", "user", "u-17", r#"{"n": null}"#, "--if-match", &etag]);
    assert!(patched.ends_with("{\"name\":\"Ada\"}\n"), "{patched}");
    assert!(
        server.run(&["entity", "patch", "user", "u-17", "{}", "--if-match", &etag]).failed(1).contains("another one")
    );
    let file = server.write("bag.json", r#"{"from": "a file"}"#);
    server.ok(&["entity", "put", "user", "u-17", "--file", &file]);
    let json = server.ok(&["entity", "get", "user", "u-17", "--output", "json"]);
    assert!(json.contains(r#""properties":{"from":"a file"}"#), "{json}");

    server.ok(&["feature", "create", "user", "seen", "--value-type", "string", "--ttl", "1d"]);
    server.ok(&["list", "add", "user", "seen", "u-17", "story-9"]);
    let joined = server.ok(&["entity", "get", "user", "u-17", "--lists", "seen:5,none"]);
    assert!(joined.contains("\"story-9\"") && joined.contains("none: there is no feature user.none"), "{joined}");
    assert!(server.run(&["entity", "get", "user", "u-17", "--lists", "seen:x"]).err.contains("lists are features"));
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
