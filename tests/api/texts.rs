//! A text arrives unchanged by every encoding of a query, in every parameter with a text.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::client::{Api, ago, api, items};
use super::odd_texts::odd_texts;

const FIND: &str = "/v1/entity-types/user/indexes/by_text/entities";

/// Every way in which a value of a query can be written.
fn encodings(text: &str) -> [String; 3] {
    let url = Url::parse_with_params("http://x/", [("", text)]).unwrap();
    let form = url.query().unwrap().trim_start_matches('=').to_owned();
    let percent = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    // As few escapes as a target allows, with small digits.
    let sparse = text.bytes().map(|byte| match byte {
        b' ' => "+".to_owned(),
        b'+' | b'%' | b'&' | b'#' | b'<' | b'>' | b'`' | 0..=0x20 | 0x7f.. => format!("%{byte:02x}"),
        plain => char::from(plain).to_string(),
    });
    [form, percent, sparse.collect()]
}

/// The answer to a get with this parameter. It is the same for every encoding and for reqwest's own.
async fn ask(api: &Api, path: &str, name: &str, value: &str) -> Value {
    let url = format!("{}{path}", api.server.url);
    let answer = reqwest::Client::new().get(url).query(&[(name, value)]).send().await.unwrap();
    let expected: Value = answer.json().await.unwrap();
    for encoded in encodings(value) {
        let answer = api.raw(&format!("GET {path}?{name}={encoded} HTTP/1.1"), b"").await;
        assert_eq!(answer.json(), expected, "{value:?} as {encoded}");
    }
    expected
}

fn texts_of<'a>(answer: &'a Value, list: &str, member: &str) -> Vec<&'a str> {
    let entries = answer[list].as_array().unwrap_or_else(|| panic!("{answer}"));
    entries.iter().map(|entry| entry[member].as_str().unwrap()).collect()
}

#[tokio::test]
async fn bags_are_found_by_any_text() {
    let api = api().await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    let index = json!({"name": "by_text", "properties": ["/text"]});
    api.post("/v1/entity-types/user/indexes", index).await.expect(201);
    api.until_state("/v1/entity-types/user/indexes/by_text", "ready").await;
    for (number, text) in odd_texts().iter().enumerate() {
        let bag = json!({ "text": text }).to_string();
        let path = format!("/v1/entities/user/e{number}");
        api.send(Method::PUT, &path, &[("content-type", "application/json")], bag.as_bytes()).await.expect(201);
    }
    for (number, text) in odd_texts().iter().enumerate() {
        let answer = ask(&api, FIND, "value", &Value::from(text.as_str()).to_string()).await;
        assert_eq!(texts_of(&answer, "entities", "entity_id"), [format!("e{number}")], "{text:?}");
    }
}

#[tokio::test]
async fn definitions_are_found_by_any_text() {
    let api = api().await;
    for (number, text) in odd_texts().iter().enumerate() {
        let description = format!("[{text}]");
        let feature = json!({"entity_type": "user", "name": format!("f{number}"), "value_type": "string", "ttl": "1d",
            "description": description});
        api.post("/v1/features", feature).await.expect(201);
        let entity_type = json!({"entity_type": format!("t{number}"), "description": description});
        api.post("/v1/entity-types", entity_type).await.expect(201);
    }
    for (number, text) in odd_texts().iter().enumerate() {
        let wanted = format!("[{text}]");
        let features = ask(&api, "/v1/features", "q", &wanted).await;
        assert_eq!(texts_of(&features, "features", "name"), [format!("f{number}")], "{text:?}");
        let types = ask(&api, "/v1/entity-types", "q", &wanted).await;
        assert_eq!(texts_of(&types, "entity_types", "entity_type"), [format!("t{number}")], "{text:?}");
    }
}

#[tokio::test]
async fn the_audit_trail_is_searched_by_any_text() {
    let api = api().await;
    for text in odd_texts() {
        let path = format!("/v1/entities/user/{}", utf8_percent_encode(&text, NON_ALPHANUMERIC));
        // A header has no control characters, and no spaces around it.
        let is_author = text.chars().count() <= 128 && text.trim() == text && !text.contains(char::is_control);
        let author: &[(&str, &str)] = if is_author { &[("liststore-user", &text)] } else { &[] };
        api.send(Method::DELETE, &path, author, b"").await.expect(200);
        let target = format!("entity:user/{text}");
        let found = ask(&api, "/v1/audit", "target", &target).await;
        // An erasure has an entry before it begins, and one after.
        let both = [target.as_str(), &target];
        assert_eq!(texts_of(&found, "changes", "target"), both);
        if is_author {
            let found = ask(&api, "/v1/audit", "by", &text).await;
            assert_eq!(texts_of(&found, "changes", "target"), both, "by {text:?}");
        }
    }
}

#[tokio::test]
async fn entities_and_versions_are_distinguished_by_any_text() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    for text in odd_texts() {
        api.add(&items("seen", &text), &[(ago(1), text.as_str().into())]).await;
    }
    for text in odd_texts() {
        assert_eq!(api.values(&items("seen", &text)).await, [text.as_str()], "{text:?}");
    }
    for label in ["v/1:2", "a.b-c_d"] {
        api.post("/v1/features/user/seen/versions", json!({ "version": label })).await.expect(201);
        let of_version = format!("{}?version={}", items("seen", "u"), utf8_percent_encode(label, NON_ALPHANUMERIC));
        api.add(&of_version, &[(ago(1), label.into())]).await;
        let found = ask(&api, &items("seen", "u"), "version", label).await;
        assert_eq!(found["items"][0]["value"], label);
    }
    // A label has no space, and a plus that was not encoded is one.
    let spaced = format!("{}?version=v+1", items("seen", "u"));
    api.get(&spaced).await.refused("invalid_argument", "version");
}

#[tokio::test]
async fn nul_is_refused_in_every_parameter() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    for (path, names) in [
        (&*list, &["version", "min_timestamp", "max_timestamp", "as_of", "order", "limit", "page_token"][..]),
        (FIND, &["value", "min", "max", "order", "limit", "page_token"]),
        ("/v1/features", &["q", "entity_type", "page_size", "page_token"]),
        ("/v1/entity-types", &["q", "page_size", "page_token"]),
        ("/v1/audit", &["by", "target", "action", "since", "until", "page_size", "page_token"]),
        ("/v1/entities/user/u", &["lists"]),
    ] {
        for name in names {
            for value in ["%00", "a%00b", "a+%00"] {
                let refused = api.get(&format!("{path}?{name}={value}")).await;
                let problem = refused.refused("invalid_argument", name);
                assert!(problem["detail"].as_str().unwrap().contains("NUL"), "{problem}");
            }
        }
    }
}
