//! Bags over HTTP: documents of properties next to an entity's lists; and the guide's examples.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Api, ago, api_with, items};
use super::guide::{blocks, is_as_documented};
use super::sockets::until;

pub const U1: &str = "/v1/entities/user/u-1";
pub const BAG_BYTES_MAX: usize = 256 * 1024;

/// A server with the entity type `user`.
pub async fn api() -> Api {
    let api = empty().await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    api
}

async fn empty() -> Api {
    super::client::api().await
}

pub async fn put(api: &Api, path: &str, headers: &[(&str, &str)], text: &str) -> Answer {
    api.send(Method::PUT, path, headers, text.as_bytes()).await
}

pub async fn merge(api: &Api, path: &str, headers: &[(&str, &str)], text: &str) -> Answer {
    let mut all = vec![("content-type", "application/merge-patch+json")];
    all.extend(headers);
    api.send(Method::PATCH, path, &all, text.as_bytes()).await
}

pub fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
}

#[tokio::test]
async fn a_bag_is_put_read_replaced_and_deleted() {
    let api = api().await;
    refused(&api.get(U1).await, 404, "bag_not_found");
    let stored = put(&api, U1, &[], r#" {"b": 1.50, "a": [null, {"é": "\u0041"}]} "#).await;
    let tag = stored.etag().to_owned();
    let body = stored.expect(201);
    assert_eq!((&body["entity_type"], &body["entity_id"]), (&json!("user"), &json!("u-1")));
    let found = api.get(U1).await;
    assert_eq!(found.etag(), tag);
    let expected = format!(
        r#"{{"entity_type":"user","entity_id":"u-1","updated_at":{},"etag":{},"properties":{{"a":[null,{{"é":"A"}}],"b":1.50}}}}"#,
        body["updated_at"],
        json!(tag),
    );
    assert_eq!(found.text(), expected, "numbers stay as they were written");
    let again = put(&api, U1, &[], r#"{"c": true}"#).await;
    assert_ne!(again.etag(), tag);
    let again = again.expect(200);
    assert!(again["updated_at"].as_str() > body["updated_at"].as_str());
    assert_eq!(api.get(U1).await.expect(200)["properties"], json!({"c": true}));

    let deleted = api.delete(&format!("{U1}/bag")).await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    refused(&api.get(U1).await, 404, "bag_not_found");
    refused(&api.delete(&format!("{U1}/bag")).await, 404, "bag_not_found");
    put(&api, U1, &[], "{}").await.expect(201);
    // Any entity ID that lists may have.
    let odd = "/v1/entities/user/a%2Fb%20%C3%A9%22";
    put(&api, odd, &[], "{}").await.expect(201);
    assert_eq!(api.get(odd).await.expect(200)["entity_id"], "a/b é\"");
}

#[tokio::test]
async fn a_new_bag_has_a_new_id() {
    let api = api().await;
    let made = api.post("/v1/entities/user", json!({"name": "Ada"})).await;
    let location = made.header("location").unwrap().to_owned();
    let tag = made.etag().to_owned();
    let id = made.expect(201)["entity_id"].as_str().unwrap().to_owned();
    assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 7);
    assert_eq!(location, format!("/v1/entities/user/{id}"));
    let found = api.get(&location).await;
    assert_eq!((found.etag(), &found.json()["properties"]), (tag.as_str(), &json!({"name": "Ada"})));
    let other = api.post("/v1/entities/user", json!({})).await.expect(201);
    assert!(other["entity_id"].as_str().unwrap() > id.as_str(), "IDs are in the order of time");
}

#[tokio::test]
async fn writes_respect_conditions() {
    let api = api().await;
    let any = [("if-match", "*")];
    refused(&put(&api, U1, &any, "{}").await, 412, "etag_mismatch");
    let unless_exists = [("if-none-match", "*")];
    let first = put(&api, U1, &unless_exists, r#"{"n":1}"#).await;
    let stale = first.etag().to_owned();
    first.expect(201);
    refused(&put(&api, U1, &unless_exists, r#"{"n":2}"#).await, 412, "etag_mismatch");
    let second = put(&api, U1, &[("if-match", &format!("\"17\", {stale}"))], r#"{"n":2}"#).await;
    let fresh = second.etag().to_owned();
    second.expect(200);
    for conditions in [("if-match", stale.as_str()), ("if-match", "\"17\""), ("if-none-match", fresh.as_str())] {
        refused(&put(&api, U1, &[conditions], r#"{"n":3}"#).await, 412, "etag_mismatch");
        refused(&merge(&api, U1, &[conditions], r#"{"n":3}"#).await, 412, "etag_mismatch");
        let deleted = api.send(Method::DELETE, &format!("{U1}/bag"), &[conditions], b"").await;
        refused(&deleted, 412, "etag_mismatch");
    }
    let weak = format!("W/{fresh}");
    refused(&put(&api, U1, &[("if-match", &weak)], "{}").await, 412, "etag_mismatch");
    assert_eq!(api.get(U1).await.expect(200)["properties"], json!({"n": 2}));
    put(&api, U1, &[("if-match", "x")], "{}").await.refused("invalid_argument", "If-Match");
    put(&api, U1, &[("if-none-match", "x")], "{}").await.refused("invalid_argument", "If-None-Match");
    let deleted = api.send(Method::DELETE, &format!("{U1}/bag"), &[("if-match", &fresh)], b"").await;
    assert_eq!(deleted.status, 204);
    refused(&merge(&api, U1, &any, "{}").await, 412, "etag_mismatch");
    refused(&merge(&api, U1, &[], "{}").await, 404, "bag_not_found");
}

#[tokio::test]
async fn an_unchanged_bag_is_not_sent_again() {
    let api = api().await;
    let tag = put(&api, U1, &[], "{}").await.etag().to_owned();
    for has in [tag.clone(), format!("W/{tag}"), format!("\"1\", {tag}"), "*".to_owned()] {
        let kept = api.send(Method::GET, U1, &[("if-none-match", &has)], b"").await;
        assert_eq!((kept.status, kept.body.len(), kept.etag()), (304, 0, tag.as_str()), "{has}");
    }
    let other = api.send(Method::GET, U1, &[("if-none-match", "\"1\"")], b"").await;
    other.expect(200);
    let changed = put(&api, U1, &[], "{}").await.etag().to_owned();
    let found = api.send(Method::GET, U1, &[("if-none-match", &tag)], b"").await;
    assert_eq!(
        (found.status, found.etag()),
        (200, changed.as_str()),
        "the same document at another time is another bag"
    );
}

#[tokio::test]
async fn a_patch_is_merged() {
    let api = api().await;
    put(&api, U1, &[], r#"{"title":"Goodbye!","author":{"given":"John","family":"Doe"},"tags":["a","b"],"n":1.0}"#)
        .await
        .expect(201);
    // RFC 7396, section 3.
    let patch = r#"{"title":"Hello!","phone":"+01-123","author":{"family":null},"tags":["a"]}"#;
    let patched = merge(&api, U1, &[], patch).await;
    let tag = patched.etag().to_owned();
    let text = patched.text();
    let merged = r#"{"author":{"given":"John"},"n":1.0,"phone":"+01-123","tags":["a"],"title":"Hello!"}"#;
    assert!(text.ends_with(&format!("\"properties\":{merged}}}")), "{text}");
    let found = api.get(U1).await;
    assert_eq!((found.etag(), found.text()), (tag.as_str(), text));
    // The kind of JSON is optional.
    let plain = api.patch(U1, json!({"title": null})).await.expect(200);
    assert_eq!(plain["properties"].get("title"), None);
    for kind in ["application/json-patch+json", "text/plain", "application/merge-patch+json; charset=latin1"] {
        let answer = api.send(Method::PATCH, U1, &[("content-type", kind)], b"{}").await;
        refused(&answer, 415, "unsupported_media_type");
    }
    let kind = [("content-type", "application/merge-patch+json")];
    refused(&put(&api, U1, &kind, "{}").await, 415, "unsupported_media_type");
}

#[tokio::test]
async fn no_concurrent_patch_is_lost() {
    let api = api_with(&[("items.operation_timeout_ms", "60000")]).await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    put(&api, U1, &[], "{}").await.expect(201);
    let patches: Vec<_> = (0..40).map(|n| format!("{{\"p{n}\":{n}}}")).collect();
    for answer in join_all(patches.iter().map(|patch| merge(&api, U1, &[], patch))).await {
        answer.expect(200);
    }
    let bag = api.get(U1).await.expect(200)["properties"].clone();
    assert_eq!(bag.as_object().unwrap().len(), 40);
    // Among several callers with the same entity tag, one succeeds.
    let tag = api.get(U1).await.etag().to_owned();
    let seen = [("if-match", tag.as_str())];
    let raced = join_all((0..8).map(|_| merge(&api, U1, &seen, r#"{"won":true}"#))).await;
    let mut statuses: Vec<_> = raced.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
    let unless_exists = [("if-none-match", "*")];
    let first = join_all((0..8).map(|_| put(&api, "/v1/entities/user/raced", &unless_exists, "{}"))).await;
    assert_eq!(first.iter().filter(|answer| answer.status == 201).count(), 1);
}

#[tokio::test]
async fn an_invalid_bag_is_refused_and_not_stored() {
    let api = api().await;
    put(&api, U1, &[], r#"{"kept":true}"#).await.expect(201);
    let tag = api.get(U1).await.etag().to_owned();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let large = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    let too_large = large(BAG_BYTES_MAX + 1);
    for (status, code, text) in [
        (411, "length_required", ""),
        (400, "invalid_json", " "),
        (400, "invalid_json", "{"),
        (400, "invalid_json", "{\"a\":1}x"),
        (400, "invalid_argument", "[]"),
        (400, "invalid_argument", "null"),
        (400, "invalid_argument", "\"a\""),
        (400, "invalid_argument", "{\"a\":1,\"a\":2}"),
        (400, "invalid_argument", "{\"a\":{\"b\":1,\"\\u0062\":2}}"),
        (400, "invalid_argument", "{\"a\":1e999}"),
        (400, "invalid_argument", deep.as_str()),
        (413, "bag_too_large", too_large.as_str()),
    ] {
        let about = text.get(..40).unwrap_or(text);
        for answer in [
            put(&api, U1, &[], text).await,
            merge(&api, U1, &[], text).await,
            api.send(Method::POST, "/v1/entities/user", &[], text.as_bytes()).await,
        ] {
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{about}");
        }
    }
    refused(&api.send(Method::PUT, U1, &[], b"{\"a\":\"\xff\"}").await, 400, "invalid_json");
    for path in ["/v1/entities/us%20er/u-1", "/v1/entities/user/%00", "/v1/entities//u-1"] {
        let answer = put(&api, path, &[], "{}").await;
        refused(&answer, 400, "invalid_argument");
    }
    refused(&put(&api, "/v1/entities/story/s-1", &[], "{}").await, 404, "entity_type_not_found");
    let found = api.get(U1).await;
    assert_eq!((found.etag(), &found.json()["properties"]), (tag.as_str(), &json!({"kept": true})));

    // The largest bag, and a patch that would exceed it.
    put(&api, U1, &[], &large(BAG_BYTES_MAX)).await.expect(200);
    let grown = merge(&api, U1, &[], "{\"b\":1}").await;
    refused(&grown, 413, "bag_too_large");
    assert_eq!(api.get(U1).await.expect(200)["properties"]["a"].as_str().unwrap().len(), BAG_BYTES_MAX - 8);
    // White space is not stored.
    let spaced = format!("{}{}", " ".repeat(1_000), large(BAG_BYTES_MAX - 1_000));
    put(&api, U1, &[], &spaced).await.expect(200);
}

#[tokio::test]
async fn numbers_beyond_64_bits_stay_exact() {
    let api = api().await;
    let text = r#"{"a":18446744073709551617,"b":-9223372036854775809,"c":0.1000000000000000000000001,"d":[1e300]}"#;
    put(&api, U1, &[], text).await.expect(201);
    assert!(api.get(U1).await.text().contains(text));
    merge(&api, U1, &[], "{\"e\":123456789012345678901234567890}").await.expect(200);
    let found = api.get(U1).await.text();
    assert!(found.contains("18446744073709551617") && found.contains("123456789012345678901234567890"), "{found}");
}

#[tokio::test]
async fn bags_end_with_their_ttl_entity_type_or_entity() {
    let api = empty().await;
    let create = json!({"entity_type": "user", "ttl": "30d"});
    api.post("/v1/entity-types", create.clone()).await.expect(201);
    api.feature("seen", "string", "30d").await;
    api.add(&items("seen", "u-1"), &[(ago(1), "a".into())]).await;
    put(&api, U1, &[], "{}").await.expect(201);
    // Deleting a bag leaves the lists alone, and the other way round.
    assert_eq!(api.delete(&format!("{U1}/bag")).await.status, 204);
    assert_eq!(api.values(&items("seen", "u-1")).await, ["a"]);
    put(&api, U1, &[], "{}").await.expect(201);
    api.delete(&items("seen", "u-1")).await;
    api.get(U1).await.expect(200);
    // An entity type that is created again has none.
    api.delete("/v1/entity-types/user").await.expect(200);
    refused(&api.get(U1).await, 404, "entity_type_not_found");
    api.post("/v1/entity-types", create).await.expect(201);
    refused(&api.get(U1).await, 404, "bag_not_found");
    put(&api, U1, &[], "{}").await.expect(201);
    let receipt = api.delete(U1).await.expect(200);
    let bag = |generation: u64, deleted: bool| json!({"generation": generation, "deleted": deleted, "cleared": true});
    assert_eq!((&receipt["complete"], &receipt["bags"]), (&json!(true), &json!([bag(1, true), bag(2, false)])));
    refused(&api.get(U1).await, 404, "bag_not_found");
    put(&api, U1, &[], "{}").await.expect(201);
    api.patch("/v1/entity-types/user", json!({"ttl": "1s"})).await.expect(200);
    until("it has expired", async || api.get(U1).await.status == 404).await;
    put(&api, U1, &[], "{}").await.expect(201);
}

/// A caller with an outdated bag must not erase a changed entity.
#[tokio::test]
async fn an_erasure_honours_the_condition_of_the_bag() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    api.add(&items("seen", "u-1"), &[(ago(1), "a".into())]).await;
    let stale = put(&api, U1, &[], "{}").await.etag().to_owned();
    let fresh = put(&api, U1, &[], "{}").await.etag().to_owned();
    let erased = api.send(Method::DELETE, U1, &[("if-match", &stale)], b"").await;
    refused(&erased, 412, "etag_mismatch");
    assert_eq!(api.values(&items("seen", "u-1")).await, ["a"]);
    api.send(Method::DELETE, U1, &[("if-match", &fresh)], b"").await.expect(200);
    assert!(api.values(&items("seen", "u-1")).await.is_empty());
    refused(&api.send(Method::DELETE, U1, &[("if-match", "*")], b"").await, 412, "etag_mismatch");
    refused(&api.send(Method::DELETE, "/v1/entities/story/s", &[("if-match", "*")], b"").await, 412, "etag_mismatch");
    api.delete("/v1/entities/story/s").await.expect(200);
}

#[tokio::test]
async fn entities_with_bags_are_listed_and_purged() {
    let api = api().await;
    let list = async |query: &str| {
        let page = api.get(&format!("/v1/entities/user{query}")).await.expect(200);
        let entities: Vec<_> =
            page["entities"].as_array().unwrap().iter().map(|e| e.as_str().unwrap().to_owned()).collect();
        (entities, page["next_page_token"].as_str().map(str::to_owned))
    };
    assert_eq!(list("").await, (vec![], None));
    for n in 0..5 {
        put(&api, &format!("/v1/entities/user/u-{n}"), &[], "{}").await.expect(201);
    }
    assert_eq!(api.delete("/v1/entities/user/u-3/bag").await.status, 204);
    let (mut found, mut token) = list("?page_size=2").await;
    while let Some(next) = token {
        let (more, after) = list(&format!("?page_size=2&page_token={next}")).await;
        found.extend(more);
        token = after;
    }
    found.sort();
    assert_eq!(found, ["u-0", "u-1", "u-2", "u-4"]);
    api.get("/v1/entities/user?page_token=x").await.refused("invalid_page_token", "page_token");
    refused(&api.get("/v1/entities/story").await, 404, "entity_type_not_found");
    let job = api.post("/v1/entity-types/user/purge", json!({})).await.expect(202);
    let id = job["id"].as_str().unwrap();
    let done = api.until_state(&format!("/v1/jobs/{id}"), "done").await;
    assert_eq!((&done["lists_cleared"], list("").await), (&json!(4), (vec![], None)));
}

#[tokio::test]
async fn the_store_in_memory_keeps_bags_too() {
    let api = api_with(&[("items.store", "memory"), ("metadata.store", "memory")]).await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    put(&api, U1, &[], r#"{"a":1}"#).await.expect(201);
    merge(&api, U1, &[], r#"{"b":2}"#).await.expect(200);
    assert_eq!(api.get(U1).await.expect(200)["properties"], json!({"a": 1, "b": 2}));
    assert_eq!(api.delete(&format!("{U1}/bag")).await.status, 204);
}

#[tokio::test]
async fn the_examples_of_the_guide_return_its_answers() {
    let (api, mut noted) = (empty().await, String::new());
    let page = include_str!("../../docs/explanation/bags.md");
    let (requests, answers) = (blocks(page, "http"), blocks(page, "json"));
    assert_eq!(requests.len(), answers.len());
    for (request, documented) in requests.into_iter().zip(answers) {
        let (head, body) =
            request.split_once("\n{").map_or((request, String::new()), |(head, rest)| (head, format!("{{{rest}")));
        let mut lines = head.lines();
        let (method, path) = lines.next().unwrap().split_once(' ').unwrap();
        let headers: Vec<(&str, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name, value.replace("TAG", &noted)))
            .collect();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let now = super::client::ago(0).to_string();
        let answer = api.send(method.parse().unwrap(), path, &headers, body.replace("NOW", &now).as_bytes()).await;
        if let Some(tag) = answer.header("etag") {
            tag.clone_into(&mut noted);
        }
        let (status, documented) = documented.split_once('\n').unwrap_or((documented, ""));
        assert_eq!(answer.status.to_string(), status, "{request}: {}", answer.text());
        if !documented.is_empty() {
            let documented: Value = serde_json::from_str(&documented.replace("[…]", "\"…\"")).unwrap();
            let found: Value = serde_json::from_slice(&answer.body).unwrap();
            assert!(
                is_as_documented(&found, &documented, &mut String::new()),
                "{request}:\n{found}\nis not\n{documented}"
            );
        }
    }
}
