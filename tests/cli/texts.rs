//! A text argument of a command has the same meaning for the server.

use serde_json::{Value, json};

use crate::odd_texts::odd_texts;
use crate::program::Server;

/// The members of a command's JSON output.
fn members(printed: &str, list: &str, member: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(printed).unwrap();
    let entries = document[list].as_array().unwrap_or_else(|| panic!("{document}"));
    entries.iter().map(|entry| entry[member].as_str().unwrap().to_owned()).collect()
}

#[test]
fn commands_find_any_text() {
    let server = Server::start();
    server.ok(&["entity-type", "create", "user"]);
    server.ok(&["index", "create", "user", "by_text", "--property", "/text"]);
    for (number, text) in odd_texts().iter().enumerate() {
        let (bag, entity, feature) = (json!({ "text": text }).to_string(), format!("e{number}"), format!("f{number}"));
        server.ok(&["entity", "put", "user", &entity, &bag]);
        let description = format!("[{text}]");
        let definition = ["feature", "create", "user", &feature, "--value-type", "string", "--ttl", "1d"];
        server.ok(&[&definition[..], &["--description", &description]].concat());
        server.ok(&["entity", "erase", "user", text, "--yes"]);
    }
    for (number, text) in odd_texts().iter().enumerate() {
        let value = Value::from(text.as_str()).to_string();
        let found = server.ok(&["entity", "find", "user", "by_text", "--value", &value, "-o", "json"]);
        assert_eq!(members(&found, "entities", "entity_id"), [format!("e{number}")], "{text:?}");
        let found = server.ok(&["feature", "list", "--query", &format!("[{text}]"), "-o", "json"]);
        assert_eq!(members(&found, "features", "name"), [format!("f{number}")], "{text:?}");
        let target = format!("entity:user/{text}");
        let found = server.ok(&["audit", "--target", &target, "-o", "json"]);
        // An erasure has an entry before it begins, and one after it.
        assert_eq!(members(&found, "changes", "target"), [target.as_str(), &target], "{text:?}");
    }
}
