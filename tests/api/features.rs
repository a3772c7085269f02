//! List features: creating, reading, listing, changing, deleting, and their entity tags.

use std::collections::BTreeMap;

use liststore::domain::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, ago, api, api_with, items, one};

const SEEN: &str = "/v1/features/user/seen";

#[tokio::test]
async fn a_feature_is_created_with_its_default_version() {
    let api = api().await;
    let body = json!({
        "entity_type": "user", "name": "seen", "value_type": "json", "ttl": "90m",
        "description": "what was seen", "owner": "feed", "labels": {"team": "feed", "tier": ""},
    });
    let created = api.post("/v1/features", body).await;
    assert_eq!(created.header("location"), Some(SEEN));
    let feature = created.expect(201);
    let at = feature["created_at"].clone();
    assert!(at.as_str().is_some_and(|text| Timestamp::parse(text).is_ok()));
    let expected = json!({
        "entity_type": "user", "name": "seen", "value_type": "json", "ttl": "1h30m", "identity": "item",
        "description": "what was seen", "owner": "feed", "labels": {"team": "feed", "tier": ""},
        "versions": [{"version": "", "ttl": "1h30m", "identity": "item", "description": "", "created_at": at}],
        "created_at": at, "updated_at": at,
    });
    assert_eq!(feature, expected);
    let read = api.get(SEEN).await;
    assert_eq!(read.etag(), created.etag());
    assert_eq!(read.expect(200), expected);
}

#[tokio::test]
async fn omitted_members_are_returned_empty() {
    let api = api().await;
    let feature = api.feature("seen", "string", "1s").await;
    assert_eq!(
        (feature["description"].clone(), feature["owner"].clone(), feature["labels"].clone()),
        (json!(""), json!(""), json!({}))
    );
}

#[tokio::test]
async fn a_feature_exists_once() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let again = json!({"entity_type": "user", "name": "seen", "value_type": "int64", "ttl": "1d"});
    api.post("/v1/features", again).await.refused("feature_exists", "");
    assert_eq!(api.get(SEEN).await.expect(200)["value_type"], "string");
}

/// A good feature with one member replaced or left out.
fn but(member: &str, value: Option<Value>) -> Value {
    let mut body = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "30d"});
    match value {
        Some(value) => body[member] = value,
        None => drop(body.as_object_mut().unwrap().remove(member)),
    }
    body
}

#[tokio::test]
async fn every_member_is_checked() {
    let api = api().await;
    for member in ["entity_type", "name", "value_type", "ttl"] {
        api.post("/v1/features", but(member, None)).await.refused("invalid_argument", member);
    }
    let many: BTreeMap<_, _> = (0..65).map(|n| (n.to_string(), "")).collect();
    for (member, value, code, field) in [
        ("entity_type", json!("us er"), "invalid_argument", "entity_type"),
        ("entity_type", json!(""), "invalid_argument", "entity_type"),
        ("entity_type", json!(7), "invalid_argument", "entity_type"),
        ("name", json!(".."), "invalid_argument", "name"),
        ("name", json!("a#b"), "invalid_argument", "name"),
        ("name", json!("x".repeat(129)), "invalid_argument", "name"),
        ("value_type", json!("text"), "invalid_argument", "value_type"),
        ("value_type", json!("String"), "invalid_argument", "value_type"),
        ("value_type", json!(null), "invalid_argument", "value_type"),
        ("ttl", json!("30 days"), "invalid_argument", "ttl"),
        ("ttl", json!(30), "invalid_argument", "ttl"),
        ("ttl", json!("0s"), "invalid_argument", "ttl"),
        ("ttl", json!("12h1d"), "invalid_argument", "ttl"),
        ("ttl", json!("7300d1s"), "ttl_too_long", "ttl"),
        ("ttl", json!("99999999999999999999d"), "ttl_too_long", "ttl"),
        ("description", json!("x".repeat(2_001)), "invalid_argument", "description"),
        ("description", json!("a\u{0}b"), "invalid_argument", "description"),
        ("description", json!(null), "invalid_argument", "description"),
        ("owner", json!("x".repeat(201)), "invalid_argument", "owner"),
        ("labels", json!([]), "invalid_argument", "labels"),
        ("labels", json!(null), "invalid_argument", "labels"),
        ("labels", json!({"a": 1}), "invalid_argument", "labels.a"),
        ("labels", json!({"a": null}), "invalid_argument", "labels.a"),
        ("labels", json!({"": "x"}), "invalid_argument", "labels"),
        ("labels", json!({"x".repeat(64): ""}), "invalid_argument", "labels"),
        ("labels", json!({"a": "x".repeat(256)}), "invalid_argument", "labels"),
        ("labels", json!(many), "invalid_argument", "labels"),
        ("versions", json!([]), "invalid_argument", "versions"),
        ("Name", json!("x"), "invalid_argument", "Name"),
    ] {
        api.post("/v1/features", but(member, Some(value))).await.refused(code, field);
    }
    api.get(SEEN).await.refused("feature_not_found", "");
    api.post("/v1/features?dry_run=1", but("ttl", Some(json!("7300d")))).await.refused("invalid_argument", "dry_run");
    api.post("/v1/features", but("ttl", Some(json!("7300d")))).await.expect(201);
}

#[tokio::test]
async fn a_change_leaves_other_members_unchanged() {
    let api = api().await;
    let body = json!({
        "entity_type": "user", "name": "seen", "value_type": "string", "ttl": "30d",
        "description": "d", "owner": "o", "labels": {"a": "1", "b": "2"},
    });
    let created = api.post("/v1/features", body).await;
    let patched = api.patch(SEEN, json!({"labels": {"c": "3"}, "owner": ""})).await;
    assert_ne!(patched.etag(), created.etag());
    let (before, after) = (created.expect(201), patched.expect(200));
    assert_eq!(after["labels"], json!({"c": "3"}));
    assert_eq!((&after["owner"], &after["description"], &after["ttl"]), (&json!(""), &json!("d"), &json!("30d")));
    assert_eq!(after["created_at"], before["created_at"]);
    assert_ne!(after["updated_at"], before["updated_at"]);

    let patched = api.patch(SEEN, json!({"ttl": "7d"})).await.expect(200);
    assert_eq!((&patched["ttl"], &patched["versions"][0]["ttl"]), (&json!("7d"), &json!("7d")));

    let (before, nothing) = (api.get(SEEN).await, api.patch(SEEN, json!({})).await);
    assert_eq!((nothing.etag(), nothing.expect(200)), (before.etag(), before.expect(200)));
}

#[tokio::test]
async fn changes_of_fixed_members_are_refused_with_the_alternative() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    for member in ["value_type", "entity_type", "name"] {
        let refused = api.patch(SEEN, json!({member: "string"})).await.refused("invalid_argument", member);
        assert!(refused["detail"].as_str().unwrap().contains("create another feature"), "{refused}");
    }
    api.patch(SEEN, json!({"versions": []})).await.refused("invalid_argument", "versions");
    api.patch(SEEN, json!({"ttl": null})).await.refused("invalid_argument", "ttl");
    api.patch(SEEN, json!({"ttl": "8000d"})).await.refused("ttl_too_long", "ttl");
    api.patch("/v1/features/user/unknown", json!({"ttl": "1d"})).await.refused("feature_not_found", "");
    api.delete("/v1/features/user/unknown").await.refused("feature_not_found", "");
    api.get("/v1/features/user/unknown").await.refused("feature_not_found", "");
}

async fn conditional(api: &Api, method: Method, path: &str, tag: &str) -> super::client::Answer {
    let body: &[u8] = if method == Method::PATCH { br#"{"description":"changed"}"# } else { b"" };
    api.send(method, path, &[("if-match", tag)], body).await
}

#[tokio::test]
async fn a_failed_condition_prevents_the_change() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let first = api.get(SEEN).await.etag().to_owned();
    for stale in ["\"0\"", "\"other\"", &format!("W/{first}"), "\"0\", \"1000000\""] {
        conditional(&api, Method::PATCH, SEEN, stale).await.refused("etag_mismatch", "");
        conditional(&api, Method::DELETE, SEEN, stale).await.refused("etag_mismatch", "");
    }
    for malformed in ["", "0", "\"", "*, \"1\"", "\"1\" \"2\""] {
        conditional(&api, Method::PATCH, SEEN, malformed).await.refused("invalid_argument", "If-Match");
        conditional(&api, Method::DELETE, SEEN, malformed).await.refused("invalid_argument", "If-Match");
    }
    let second = conditional(&api, Method::PATCH, SEEN, &format!("\"x\", {first}")).await;
    assert_eq!(second.expect(200)["description"], "changed");
    conditional(&api, Method::PATCH, SEEN, &first).await.refused("etag_mismatch", "");
    conditional(&api, Method::DELETE, SEEN, &first).await.refused("etag_mismatch", "");
    conditional(&api, Method::DELETE, SEEN, second.etag()).await.expect(200);
    conditional(&api, Method::DELETE, SEEN, "*").await.refused("feature_not_found", "");
}

#[tokio::test]
async fn a_feature_changes_its_tag_with_its_versions() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let mut tags = vec![api.get(SEEN).await.etag().to_owned()];
    api.post(&format!("{SEEN}/versions"), json!({"version": "v2"})).await.expect(201);
    tags.push(api.get(SEEN).await.etag().to_owned());
    api.patch(&format!("{SEEN}/versions/v2"), json!({"ttl": "1d"})).await.expect(200);
    tags.push(api.get(SEEN).await.etag().to_owned());
    api.delete(&format!("{SEEN}/versions/v2")).await.expect(200);
    tags.push(api.get(SEEN).await.etag().to_owned());
    tags.dedup();
    assert_eq!(tags.len(), 4);
}

#[tokio::test]
async fn a_deleted_feature_is_missing_and_starts_empty_once_created_again() {
    let api = api_with(&[("metadata.poll_interval_secs", "7")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    api.post(&list, one(ago(1), "old")).await.expect(200);
    // The longest TTL that it ever had counts.
    api.patch(SEEN, json!({"ttl": "60d"})).await.expect(200);
    api.patch(SEEN, json!({"ttl": "1d"})).await.expect(200);
    let before = ago(0);
    let deleted = api.delete(SEEN).await.expect(200);
    let by = Timestamp::parse(deleted["items_expire_by"].as_str().unwrap()).unwrap().as_nanos();
    let lifetime = (60 * 86_400 + 7) * 1_000_000_000_u64;
    assert!((before + lifetime..=ago(0) + lifetime).contains(&by), "{by}");

    api.get(SEEN).await.refused("feature_not_found", "");
    api.get(&list).await.refused("feature_not_found", "");
    api.post(&list, one(ago(1), "x")).await.refused("feature_not_found", "");
    api.feature("seen", "int64", "30d").await;
    assert!(api.values(&list).await.is_empty());
    api.post(&list, one(ago(1), 7)).await.expect(200);
    assert_eq!(api.values(&list).await, [7]);
}

fn names(page: &Value) -> Vec<String> {
    let name = |f: &Value| format!("{}.{}", f["entity_type"].as_str().unwrap(), f["name"].as_str().unwrap());
    page["features"].as_array().unwrap().iter().map(name).collect()
}

async fn several(api: &Api) {
    for (entity_type, name, description, owner) in [
        ("user", "seen", "Stories, 100% of them", "feed"),
        ("user", "Seen", "", "ops"),
        ("user", "bought", "every purchase", "shop"),
        ("item", "viewers", "", "FEED team"),
    ] {
        let body = json!({
            "entity_type": entity_type, "name": name, "value_type": "string", "ttl": "1d",
            "description": description, "owner": owner,
        });
        api.post("/v1/features", body).await.expect(201);
    }
}

#[tokio::test]
async fn features_are_listed_in_byte_order_and_filtered() {
    let api = api().await;
    assert_eq!(api.get("/v1/features").await.expect(200), json!({"features": []}));
    several(&api).await;
    for (query, expected) in [
        ("", vec!["item.viewers", "user.Seen", "user.bought", "user.seen"]),
        ("?entity_type=user", vec!["user.Seen", "user.bought", "user.seen"]),
        ("?entity_type=nothing", vec![]),
        ("?q=seen", vec!["user.Seen", "user.seen"]),
        ("?q=feed", vec!["item.viewers", "user.seen"]),
        ("?q=PURCHASE", vec!["user.bought"]),
        ("?q=100%25+of", vec!["user.seen"]),
        ("?q=100%25%20of", vec!["user.seen"]),
        ("?q=%25", vec!["user.seen"]),
        ("?q=_", vec![]),
        ("?q=feed&entity_type=item", vec!["item.viewers"]),
    ] {
        assert_eq!(names(&api.get(&format!("/v1/features{query}")).await.expect(200)), expected, "{query}");
    }
}

#[tokio::test]
async fn listings_are_walked_in_pages() {
    let api = api().await;
    several(&api).await;
    for page_size in 1..=5 {
        let (mut found, mut pages, mut next) = (vec![], 0, String::new());
        loop {
            let page = api.get(&format!("/v1/features?page_size={page_size}{next}")).await.expect(200);
            found.extend(names(&page));
            pages += 1;
            match page["next_page_token"].as_str() {
                Some(token) => next = format!("&page_token={token}"),
                None => break,
            }
        }
        assert_eq!(found, ["item.viewers", "user.Seen", "user.bought", "user.seen"]);
        assert_eq!(pages, 4_usize.div_ceil(page_size));
    }
    let page = api.get("/v1/features?page_size=1&entity_type=user").await.expect(200);
    let token = page["next_page_token"].as_str().unwrap();
    for query in [
        format!("page_token={token}"),
        format!("entity_type=item&page_token={token}"),
        format!("entity_type=user&q=e&page_token={token}"),
        format!("entity_type=user&page_token={token}x"),
    ] {
        api.get(&format!("/v1/features?{query}")).await.refused("invalid_page_token", "page_token");
    }
    api.get(&format!("/v1/features/user/seen/history?page_token={token}"))
        .await
        .refused("invalid_page_token", "page_token");
    for (query, field) in [
        ("page_size=0", "page_size"),
        ("page_size=1001", "page_size"),
        ("page_size=ten", "page_size"),
        ("q=", "q"),
        ("entity_type=", "entity_type"),
        ("entity_type=a%20b", "entity_type"),
        ("q=a&q=b", "q"),
        ("limit=5", "limit"),
        ("q=%FF", "q"),
    ] {
        api.get(&format!("/v1/features?{query}")).await.refused("invalid_argument", field);
    }
}

/// Pages of large definitions, and of their changes, are no longer than other answers, and nothing is left out.
#[tokio::test]
async fn pages_end_before_they_exceed_the_bound_of_a_response() {
    const BYTES_MAX: usize = 64 << 10;
    const FEATURES: usize = 12;
    const CHANGES: usize = 4;
    let api = api_with(&[("http.response_bytes_max", &BYTES_MAX.to_string())]).await;
    let labels: serde_json::Map<_, _> = (0..60).map(|n| (format!("l{n}"), json!("x".repeat(250)))).collect();
    for n in 0..FEATURES {
        let name = format!("f{n:02}");
        let feature =
            json!({"entity_type": "user", "name": name, "value_type": "string", "ttl": "1d", "labels": labels});
        api.post("/v1/features", feature).await.expect(201);
    }
    for n in 0..CHANGES {
        api.patch("/v1/features/user/f00", json!({"description": format!("change {n}")})).await.expect(200);
    }
    for (path, member, expected) in [
        ("/v1/features", "features", FEATURES),
        ("/v1/features/user/f00/history", "history", 1 + CHANGES),
        ("/v1/audit", "changes", FEATURES + CHANGES),
    ] {
        let (mut entries, mut pages, mut next) = (Vec::new(), 0, String::new());
        loop {
            let page = api.get(&format!("{path}?page_size=1000{next}")).await;
            assert!(page.body.len() <= BYTES_MAX, "{path}: {}", page.body.len());
            let page = page.expect(200);
            entries.extend(page[member].as_array().unwrap().clone());
            pages += 1;
            match page["next_page_token"].as_str() {
                Some(token) => next = format!("&page_token={token}"),
                None => break,
            }
        }
        let mut distinct: Vec<_> = entries.iter().map(Value::to_string).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(pages > 2 && entries.len() >= expected && distinct.len() == entries.len(), "{path}: {pages} pages");
    }
}
