//! The six value types: accepted values, and their returned form.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use serde_json::{Value, json};

use super::client::{Api, ago, api, items};

/// The raw JSON of the value of an answer that has one item.
async fn stored(api: &Api, feature: &str, raw: &str) -> Result<String, (String, String)> {
    static LISTS: AtomicU32 = AtomicU32::new(0);
    // Each value has a separate list.
    let list = items(feature, &format!("u-{}", LISTS.fetch_add(1, Relaxed)));
    let body = format!(r#"{{"items":[{{"timestamp":{},"value":{raw}}}]}}"#, ago(5));
    let answer = api.send(reqwest::Method::POST, &list, &[], body.as_bytes()).await;
    if answer.status != 200 {
        assert!(api.values(&list).await.is_empty());
        return Err((answer.code(), answer.field().unwrap_or_default()));
    }
    let text = api.get(&list).await.text();
    let value = text.split_once("\"value\":").unwrap().1;
    Ok(value.strip_suffix("}]}").unwrap().to_owned())
}

#[tokio::test]
async fn values_are_returned_as_json_of_their_type() {
    let api = api().await;
    for value_type in ["string", "int64", "double", "bool", "bytes", "json"] {
        api.feature(value_type, value_type, "30d").await;
    }
    for (value_type, sent, returned) in [
        ("string", r#""a\u00e9\ud83d\ude00\"\\\n""#, r#""aé😀\"\\\n""#),
        ("string", r#""""#, r#""""#),
        ("int64", "9223372036854775807", "9223372036854775807"),
        ("int64", r#""-9223372036854775808""#, "-9223372036854775808"),
        ("int64", "0", "0"),
        ("double", "1.5", "1.5"),
        ("double", "1e300", "1e300"),
        ("double", "3", "3.0"),
        ("bool", "true", "true"),
        ("bool", "false", "false"),
        ("bytes", r#""AP8=""#, r#""AP8=""#),
        ("bytes", r#""""#, r#""""#),
        ("json", "null", "null"),
        ("json", r#"{ "b": [1.0, 2e2], "a": {"x": null} }"#, r#"{"a":{"x":null},"b":[1,200]}"#),
        ("json", r#""text""#, r#""text""#),
    ] {
        let found = stored(&api, value_type, sent).await;
        let same = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(found.as_deref().map(same), Ok(same(returned)), "{value_type} {sent}: {found:?}");
    }
    assert_eq!(
        stored(&api, "json", r#"{"b":1,"a":[3,1]}"#).await.as_deref(),
        Ok(r#"{"a":[3,1],"b":1}"#),
        "the canonical form of RFC 8785"
    );
}

#[tokio::test]
async fn minus_zero_equals_zero() {
    let api = api().await;
    api.feature("double", "double", "30d").await;
    let (list, moment) = (items("double", "u"), ago(5));
    for zero in ["-0.0", "0.0", "0", "-0"] {
        let body = format!(r#"{{"items":[{{"timestamp":{moment},"value":{zero}}}]}}"#);
        api.send(reqwest::Method::POST, &list, &[], body.as_bytes()).await.expect(200);
    }
    assert_eq!(api.get(&list).await.text().matches("\"value\":0.0}").count(), 1);
    for zero in ["-0.0", "0.0"] {
        let body = format!(r#"{{"values":[{zero}]}}"#);
        let found = api.send(reqwest::Method::POST, &format!("{list}:contains"), &[], body.as_bytes()).await;
        assert!(!found.expect(200)["results"][0]["timestamp"].is_null(), "{zero}");
    }
    let removed = api.send(reqwest::Method::POST, &format!("{list}:remove"), &[], br#"{"value":-0.0}"#).await;
    assert_eq!(removed.expect(200)["removed"], 1);
    // A member of a set.
    let set = json!({"entity_type": "user", "name": "set", "value_type": "double", "ttl": "30d", "identity": "value"});
    api.post("/v1/features", set).await.expect(201);
    let list = items("set", "u");
    for (zero, age) in [("-0.0", 9), ("0.0", 5)] {
        let body = format!(r#"{{"items":[{{"timestamp":{},"value":{zero}}}]}}"#, ago(age));
        api.send(reqwest::Method::POST, &list, &[], body.as_bytes()).await.expect(200);
    }
    assert_eq!(api.values(&list).await.len(), 1);
}

/// The value that every reply on lists shows of one item, as it is requested.
async fn shown_everywhere(api: &Api, value: Value, query: &str) -> Vec<Value> {
    let query = if query.is_empty() { String::new() } else { format!("?int64_as={query}") };
    let list = items("n", "u");
    let page = api.get(&format!("{list}{query}")).await.expect(200);
    let contained = api.post(&format!("{list}:contains{query}"), json!({"values": [value]})).await.expect(200);
    let found = api.post(&format!("{}:lookup{query}", items("set", "u")), json!({"keys": ["k"]})).await.expect(200);
    let request = json!({"requests": [{"entity_type": "user", "feature": "n", "entity_id": "u"}]});
    let pages = api.post(&format!("/v1/lists:batchGet{query}"), request).await.expect(200);
    let joined = if query.is_empty() { "?lists=n".to_owned() } else { format!("{query}&lists=n") };
    let bag = api.get(&format!("/v1/entities/user/u{joined}")).await.expect(200);
    let request = json!({"requests": [{"entity_type": "user", "entity_id": "u"}]});
    let bags = api.post(&format!("/v1/entities:batchGet{joined}"), request).await.expect(200);
    let values = [
        &page["items"][0]["value"],
        &contained["results"][0]["value"],
        &found["results"][0]["value"],
        &pages["results"][0]["items"][0]["value"],
        &bag["lists"]["n"]["items"][0]["value"],
        &bags["results"][0]["lists"]["n"]["items"][0]["value"],
    ];
    values.into_iter().cloned().collect()
}

#[tokio::test]
async fn integers_are_strings_of_digits_on_request() {
    let api = api().await;
    let number = json!(9_007_199_254_740_993_i64);
    let text = json!("9007199254740993");
    api.feature("n", "int64", "30d").await;
    let set = json!({"entity_type": "user", "name": "set", "value_type": "int64", "ttl": "30d", "identity": "key"});
    api.post("/v1/features", set).await.expect(201);
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    api.send(reqwest::Method::PUT, "/v1/entities/user/u", &[], b"{}").await.expect(201);
    api.add(&items("n", "u"), &[(ago(5), text.clone())]).await;
    let keyed = json!({"timestamp": ago(5), "value": number, "key": "k"});
    api.post(&items("set", "u"), json!({"items": [keyed]})).await.expect(200);
    // In turn, so that no page of another form is remembered.
    for _ in 0..2 {
        for (query, expected) in [("", &number), ("string", &text), ("number", &number)] {
            let shown = shown_everywhere(&api, text.clone(), query).await;
            assert!(shown.iter().all(|value| value == expected), "{query}: {shown:?}");
        }
    }
    // As the feature is defined, unless a call asks for another form.
    for name in ["n", "set"] {
        let feature = format!("/v1/features/user/{name}");
        let changed = api.patch(&feature, json!({"int64_as": "string"})).await.expect(200);
        assert_eq!((&changed["int64_as"], &changed["versions"][0]["int64_as"]), (&json!("string"), &json!("string")));
    }
    for (query, expected) in [("", &text), ("string", &text), ("number", &number)] {
        let shown = shown_everywhere(&api, number.clone(), query).await;
        assert!(shown.iter().all(|value| value == expected), "{query}: {shown:?}");
    }
    let lines = api.send(reqwest::Method::GET, &items("n", "u"), &[("Accept", "application/x-ndjson")], b"").await;
    assert!(lines.text().ends_with("\"value\":\"9007199254740993\"}\n"), "{}", lines.text());
    let version = api.post("/v1/features/user/n/versions", json!({"version": "v2"})).await.expect(201);
    assert_eq!(version["int64_as"], "string", "a version inherits it");
    api.patch("/v1/features/user/n", json!({"int64_as": "number"})).await.expect(200);
    assert_eq!(api.values(&items("n", "u")).await, [number]);
}

#[tokio::test]
async fn the_form_of_integers_is_refused_for_other_types() {
    let api = api().await;
    api.feature("n", "int64", "30d").await;
    api.feature("s", "string", "30d").await;
    api.get(&format!("{}?int64_as=text", items("n", "u"))).await.refused("invalid_argument", "int64_as");
    api.patch("/v1/features/user/n", json!({"int64_as": "text"})).await.refused("invalid_argument", "int64_as");
    api.patch("/v1/features/user/s", json!({"int64_as": "string"})).await.refused("invalid_argument", "int64_as");
    let new = json!({"entity_type": "user", "name": "t", "value_type": "json", "ttl": "30d", "int64_as": "string"});
    api.post("/v1/features", new).await.refused("invalid_argument", "int64_as");
    let version = json!({"version": "v2", "int64_as": "string"});
    api.post("/v1/features/user/s/versions", version).await.refused("invalid_argument", "int64_as");
    // The other values of a call are as they are.
    api.add(&items("s", "u"), &[(ago(5), json!("7"))]).await;
    assert_eq!(api.values(&format!("{}?int64_as=string", items("s", "u"))).await, [json!("7")]);
}

#[tokio::test]
async fn values_of_another_type_are_refused() {
    let api = api().await;
    for value_type in ["string", "int64", "double", "bool", "bytes", "json"] {
        api.feature(value_type, value_type, "30d").await;
    }
    for (value_type, raw, code) in [
        ("string", "1", "value_type_mismatch"),
        ("string", "null", "value_type_mismatch"),
        ("int64", "1.5", "value_type_mismatch"),
        ("int64", "9223372036854775808", "value_type_mismatch"),
        ("int64", r#""1.0""#, "value_type_mismatch"),
        ("double", r#""1.5""#, "value_type_mismatch"),
        ("double", "1e999", "value_type_mismatch"),
        ("bool", "0", "value_type_mismatch"),
        ("bytes", r#""AP8""#, "value_type_mismatch"),
        ("bytes", r#""AP8_""#, "value_type_mismatch"),
        ("json", "9007199254740993", "invalid_argument"),
        ("json", r#"{"a":1,"a":2}"#, "invalid_argument"),
    ] {
        let refused = stored(&api, value_type, raw).await;
        assert_eq!(refused, Err((code.to_owned(), "items[0].value".to_owned())), "{value_type} {raw}");
    }
}

#[tokio::test]
async fn a_value_has_at_most_64_000_bytes() {
    let api = api().await;
    api.feature("string", "string", "30d").await;
    let text = |n: usize| json!("x".repeat(n)).to_string();
    assert!(stored(&api, "string", &text(64_000)).await.is_ok());
    let refused = Err(("invalid_argument".to_owned(), "items[0].value".to_owned()));
    assert_eq!(stored(&api, "string", &text(64_001)).await, refused);
    // Two bytes each in UTF-8.
    assert_eq!(stored(&api, "string", &json!("é".repeat(32_001)).to_string()).await, refused);
}
