//! Many lists in one call: an answer or a problem for each, in their order.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Api, ago, api, api_with, items, one};
use super::faults::faulty;
use super::sockets::until;

const GET: &str = "/v1/lists:batchGet";
const ADD: &str = "/v1/lists:batchAdd";

fn list(feature: &str, entity_id: &str) -> Value {
    json!({"entity_type": "user", "feature": feature, "entity_id": entity_id})
}

/// A request for a list, with more members.
fn with(mut list: Value, more: Value) -> Value {
    list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    list
}

async fn results(api: &Api, path: &str, requests: &[Value]) -> Vec<Value> {
    let answer = api.post(path, json!({ "requests": requests })).await.expect(200);
    let results = answer["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), requests.len(), "one for each");
    results
}

fn codes(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| result["problem"]["code"].as_str().unwrap_or("ok")).collect()
}

/// Lists of several features, some of which are in files, some in memory, some nowhere.
async fn filled() -> (Api, Vec<Value>) {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    api.feature("score", "double", "30d").await;
    api.post("/v1/features/user/seen/versions", json!({"version": "v2"})).await.expect(201);
    let now = ago(500);
    let mut requests = Vec::new();
    for n in 1..=40_u64 {
        let entity = format!("u/{n} é");
        api.add(&items("seen", &entity), &(0..n).map(|i| (now + i, format!("v{i}").into())).collect::<Vec<_>>()).await;
        api.add(&items("score", &entity), &[(now, json!(n as f64 / 2.0))]).await;
        requests.push(list("seen", &entity));
        requests.push(with(list("seen", &entity), json!({"limit": 1 + n % 5})));
        requests.push(with(
            list("seen", &entity),
            json!({"min_timestamp": now + 3, "max_timestamp": (now + 9).to_string()}),
        ));
        requests.push(with(list("seen", &entity), json!({"version": "v2"})));
        requests.push(with(list("seen", &entity), json!({"order": "oldest", "limit": 1 + n % 7})));
        requests.push(with(list("seen", &entity), json!({"order": "newest", "as_of": now + n / 2})));
        requests
            .push(with(list("seen", &entity), json!({"order": "oldest", "as_of": now + 7, "max_timestamp": now + 9})));
        requests.push(list("score", &entity));
    }
    (api, requests)
}

/// The path of the equivalent get.
fn path_of(request: &Value) -> String {
    let text = |name: &str| request[name].as_str().unwrap();
    let query = ["version", "limit", "min_timestamp", "max_timestamp", "as_of", "order", "page_token"];
    let query = query.into_iter().filter_map(|name| {
        let value = request.get(name)?;
        Some(format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    });
    format!("{}?{}", items(text("feature"), text("entity_id")), query.collect::<Vec<_>>().join("&"))
}

#[tokio::test]
async fn each_result_equals_a_get_of_its_list() {
    let (api, requests) = filled().await;
    // Twice: from the part behind memory, and from memory.
    for _ in 0..2 {
        let results = results(&api, GET, &requests).await;
        for (request, result) in requests.iter().zip(&results) {
            assert_eq!(*result, api.get(&path_of(request)).await.expect(200), "{request}");
        }
    }
}

#[tokio::test]
async fn batch_and_single_reads_share_page_tokens() {
    let (api, _) = filled().await;
    for order in ["newest", "oldest"] {
        walk(&api, with(list("seen", "u/40 é"), json!({"limit": 10, "order": order}))).await;
    }
}

/// Walks a list of forty items by both ways in turn.
async fn walk(api: &Api, request: Value) {
    let mut seen = BTreeSet::new();
    let mut page = results(api, GET, std::slice::from_ref(&request)).await.remove(0);
    for turn in 0.. {
        let values = page["items"].as_array().unwrap();
        seen.extend(values.iter().map(|item| item["value"].as_str().unwrap().to_owned()));
        let Some(token) = page["next_page_token"].as_str() else { break };
        let next = with(request.clone(), json!({"page_token": token}));
        page = match turn % 2 {
            0 => api.get(&path_of(&next)).await.expect(200),
            _ => results(api, GET, &[next]).await.remove(0),
        };
    }
    assert_eq!(seen.len(), 40);
}

#[tokio::test]
async fn a_future_moment_fails_only_its_request() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    api.add(&items("seen", "u"), &[(ago(10), "x".into())]).await;
    let as_of = |moment: u64| with(list("seen", "u"), json!({ "as_of": moment }));
    let results = results(&api, GET, &[as_of(ago(5)), as_of(9_999_999_999_999_999_999), as_of(ago(20))]).await;
    assert_eq!(codes(&results), ["ok", "invalid_argument", "ok"]);
    assert_eq!(results[1]["problem"]["field"], "requests[1].as_of");
    let counts = [0, 2].map(|place| results[place]["items"].as_array().unwrap().len());
    assert_eq!(counts, [1, 0]);
}

#[tokio::test]
async fn a_token_is_valid_for_one_order() {
    let (api, _) = filled().await;
    let request = with(list("seen", "u/40 é"), json!({"limit": 10, "order": "oldest"}));
    let page = results(&api, GET, std::slice::from_ref(&request)).await.remove(0);
    let token = json!({"page_token": page["next_page_token"]});
    let mut newest = with(request.clone(), token.clone());
    newest.as_object_mut().unwrap().remove("order");
    assert_eq!(codes(&results(&api, GET, &[newest, with(request, token)]).await), ["invalid_page_token", "ok"]);
}

#[tokio::test]
async fn malformed_members_refuse_the_whole_call() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let good = list("seen", "u");
    for (bad, code, field) in [
        (with(good.clone(), json!({"limit": 0})), "invalid_argument", "requests[1].limit"),
        (with(good.clone(), json!({"limit": 10_001})), "invalid_argument", "requests[1].limit"),
        (with(good.clone(), json!({"min_timestamp": true})), "invalid_argument", "requests[1].min_timestamp"),
        (with(good.clone(), json!({"order": "up"})), "invalid_argument", "requests[1].order"),
        (with(good.clone(), json!({"entity_id": 7})), "invalid_argument", "requests[1].entity_id"),
        (with(good.clone(), json!({"more": 7})), "invalid_argument", "requests[1].more"),
        (json!({"entity_type": "user", "feature": "seen"}), "invalid_argument", "requests[1].entity_id"),
        (json!([]), "invalid_argument", "requests[1]"),
    ] {
        api.post(GET, json!({"requests": [good, bad]})).await.refused(code, field);
    }
    // JSON can have half of a surrogate pair, and no text has it.
    let halves = r#"{"requests": [{"entity_type": "user", "feature": "seen", "entity_id": "u", "order": "\ud800"}]}"#;
    let refused = api.send(Method::POST, GET, &[("content-type", "application/json")], halves.as_bytes()).await;
    refused.refused("invalid_argument", "requests[0].order");
    for body in [json!({}), json!({"requests": []}), json!({"requests": {}})] {
        api.post(GET, body.clone()).await.refused("invalid_argument", "requests");
        api.post(ADD, body).await.refused("invalid_argument", "requests");
    }
    api.post(GET, json!({"requests": vec![&good; 1_001]})).await.refused("invalid_argument", "requests");
    api.post(GET, json!({"requests": [good], "more": 1})).await.refused("invalid_argument", "more");
    api.post(&format!("{GET}?limit=5"), json!({"requests": [good]})).await.refused("invalid_argument", "limit");
    assert_eq!(api.get(GET).await.status, 405);

    let add = with(good.clone(), one(ago(1), "x"));
    let bad =
        with(good.clone(), json!({"items": [{"timestamp": ago(1), "value": "y"}, {"timestamp": null, "value": "y"}]}));
    let refused = api.post(ADD, json!({"requests": [add, bad]})).await;
    refused.refused("invalid_argument", "requests[1].items[1].timestamp");
    let many = with(good.clone(), json!({"items": vec![json!({"timestamp": ago(1), "value": "x"}); 1_000]}));
    api.post(ADD, json!({"requests": vec![many; 11]})).await.refused("invalid_argument", "requests");
    assert!(api.values(&items("seen", "u")).await.is_empty(), "nothing is done");
}

/// IDs come from outside, so impossible ones are among possible ones.
#[tokio::test]
async fn an_impossible_id_fails_only_its_request() {
    const BAGS: &str = "/v1/entities:batchGet";
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    api.add(&items("seen", "u"), &[(ago(1), "x".into())]).await;
    api.send(Method::PUT, "/v1/entities/user/u", &[("content-type", "application/json")], br#"{"a":1}"#)
        .await
        .expect(201);
    let long = "é".repeat(257);
    for bad in ["", ".", "..", "a\0b", &long] {
        let got = results(&api, GET, &[list("seen", bad), list("seen", "u"), list("seen", bad)]).await;
        assert_eq!(codes(&got), ["invalid_argument", "ok", "invalid_argument"], "{bad:?}");
        assert_eq!(got[0]["problem"]["field"], "requests[0].entity_id");
        assert_eq!(
            (&got[2]["problem"]["field"], &got[1]["items"][0]["value"]),
            (&json!("requests[2].entity_id"), &json!("x"))
        );
        // As alone.
        let alone = api.raw(&format!("GET {} HTTP/1.1", items("seen", bad)), b"").await.json();
        assert_eq!((&alone["code"], &alone["detail"]), (&got[0]["problem"]["code"], &got[0]["problem"]["detail"]));

        let bag = |id: &str| json!({"entity_type": "user", "entity_id": id});
        for path in [BAGS, "/v1/entities:batchGet?lists=seen"] {
            let got = results(&api, path, &[bag("u"), bag(bad), bag("none")]).await;
            assert_eq!(codes(&got), ["ok", "invalid_argument", "bag_not_found"], "{bad:?}");
            assert_eq!(got[0]["properties"], json!({"a": 1}));
            assert_eq!(got[1]["problem"]["field"], "requests[1].entity_id");
        }

        let add = |id: &str| with(list("seen", id), one(ago(2), "y"));
        let fresh = format!("fresh {}", bad.len());
        let got = results(&api, ADD, &[add(bad), add(&fresh), add(bad)]).await;
        assert_eq!(codes(&got), ["invalid_argument", "ok", "invalid_argument"], "{bad:?}");
        assert_eq!(api.values(&items("seen", &fresh)).await, ["y"]);
    }
    // All of them, too.
    assert_eq!(codes(&results(&api, GET, &[list("seen", "")]).await), ["invalid_argument"]);
}

#[tokio::test]
async fn an_impossible_name_or_moment_fails_only_its_request() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    api.post(
        "/v1/features",
        json!({"entity_type": "user", "name": "kept", "value_type": "string", "ttl": "1d", "identity": "key"}),
    )
    .await
    .expect(201);
    api.add(&items("seen", "u"), &[(ago(1), "x".into())]).await;
    let good = list("seen", "u");
    for (more, code, field) in [
        (json!({"entity_type": "us er"}), "invalid_argument", "entity_type"),
        (json!({"feature": ".."}), "invalid_argument", "feature"),
        (json!({"version": "a b"}), "invalid_argument", "version"),
        (json!({"min_timestamp": "yesterday"}), "invalid_timestamp", "min_timestamp"),
        (json!({"max_timestamp": -1}), "invalid_timestamp", "max_timestamp"),
        (json!({"as_of": "2024-02-30T00:00:00Z"}), "invalid_timestamp", "as_of"),
        (json!({"min_timestamp": 2, "max_timestamp": 1}), "invalid_argument", "min_timestamp"),
    ] {
        let got = results(&api, GET, &[good.clone(), with(good.clone(), more.clone()), good.clone()]).await;
        assert_eq!(codes(&got), ["ok", code, "ok"], "{more}");
        assert_eq!(got[1]["problem"]["field"], format!("requests[1].{field}"), "{more}");
    }
    let add = |feature: &str, item: Value| with(list(feature, "v"), json!({"items": [item]}));
    let item = |timestamp: Value| add("seen", json!({"timestamp": timestamp, "value": "x"}));
    let keyed = |key: &str| add("kept", json!({"timestamp": ago(1), "value": "x", "key": key}));
    let got =
        results(&api, ADD, &[item("soon".into()), item(ago(1).into()), keyed(""), keyed("k"), keyed("a\0")]).await;
    assert_eq!(codes(&got), ["invalid_timestamp", "ok", "invalid_argument", "ok", "invalid_argument"]);
    assert_eq!(got[0]["problem"]["field"], "requests[0].items[0].timestamp");
    assert_eq!(got[2]["problem"]["field"], "requests[2].items[0].key");
}

#[tokio::test]
async fn a_problem_of_one_list_fails_only_its_request() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    api.add(&items("seen", "u"), &[(ago(1), "a".into()), (ago(2), "b".into())]).await;
    let page = |token: &str| with(list("seen", "u"), json!({"page_token": token}));
    let token = api.get(&format!("{}?limit=1", items("seen", "u"))).await.json()["next_page_token"].clone();
    let requests = [
        list("seen", "u"),
        list("none", "u"),
        with(list("seen", "u"), json!({"version": "none"})),
        page("nonsense"),
        with(list("seen", "other"), json!({"page_token": token})),
        page(token.as_str().unwrap()),
    ];
    let results = results(&api, GET, &requests).await;
    let expected = ["ok", "feature_not_found", "version_not_found", "invalid_page_token", "invalid_page_token", "ok"];
    assert_eq!(codes(&results), expected);
    assert_eq!(results[3]["problem"]["field"], "requests[3].page_token");
    assert_eq!(results[0]["items"].as_array().unwrap().len(), 2);
    assert_eq!(results[5]["items"][0]["value"], "b");
    // A problem in a batch has the members of a single problem.
    let alone = api.get(&items("none", "u")).await.json();
    assert_eq!(results[1]["problem"], alone);
    let text = api.get("/metrics").await.text();
    assert!(text.contains("liststore_batch_failures_total 4"), "{text}");
}

#[tokio::test]
async fn adds_have_one_result_each() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    api.feature("count", "int64", "1h").await;
    let add = |feature: &str, entity: &str, at: u64, value: Value| with(list(feature, entity), one(at, value));
    let now = ago(1);
    let requests = [
        add("seen", "a", now, "x".into()),
        add("count", "a", now, "x".into()),
        add("none", "a", now, "x".into()),
        add("count", "b", now, 7.into()),
        add("seen", "b", ago(7_200), "old".into()),
        add("seen", "c", 9_000_000_000_000_000_000, "far".into()),
        add("seen", "a", now + 1, "y".into()),
    ];
    let results = results(&api, ADD, &requests).await;
    let expected = ["ok", "value_type_mismatch", "feature_not_found", "ok", "ok", "timestamp_too_far_ahead", "ok"];
    assert_eq!(codes(&results), expected);
    assert_eq!(results[1]["problem"]["field"], "requests[1].items[0].value");
    assert_eq!(results[5]["problem"]["field"], "requests[5].items[0].timestamp");
    assert_eq!(
        (&results[0], &results[4]),
        (&json!({"added": 1, "already_expired": 0}), &json!({"added": 0, "already_expired": 1}))
    );
    assert_eq!(api.values(&items("seen", "a")).await, ["y", "x"]);
    assert_eq!(api.values(&items("count", "b")).await, [7]);
    assert!(api.values(&items("seen", "c")).await.is_empty());
}

#[tokio::test]
async fn a_thousand_lists_are_written_and_read() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let now = ago(100);
    let add = |n: usize| {
        let entity = format!("u-{}", n % 700);
        let items: Vec<_> = (0..10).map(|i| json!({"timestamp": now + i, "value": format!("{n}-{i}")})).collect();
        with(list("seen", &entity), json!({ "items": items }))
    };
    let added = results(&api, ADD, &(0..1_000).map(add).collect::<Vec<_>>()).await;
    assert!(added.iter().all(|result| *result == json!({"added": 10, "already_expired": 0})));
    let requests: Vec<_> = (0..1_000).map(|n| with(list("seen", &format!("u-{n}")), json!({"limit": 20}))).collect();
    for (n, result) in results(&api, GET, &requests).await.iter().enumerate() {
        let expected = if n < 300 {
            20
        } else if n < 700 {
            10
        } else {
            0
        };
        assert_eq!(result["items"].as_array().unwrap().len(), expected, "{n}");
    }
}

#[tokio::test]
async fn lists_beyond_the_size_of_the_answer_get_a_problem() {
    let api = api_with(&[("http.response_bytes_max", "65536")]).await;
    api.feature("seen", "string", "30d").await;
    for entity in 0..6 {
        api.add(&items("seen", &entity.to_string()), &[(ago(1), "x".repeat(20_000).into())]).await;
    }
    // This one alone is above the bound.
    api.add(&items("seen", "6"), &[(ago(1), "\"".repeat(60_000).into())]).await;
    for first in [0, 6] {
        let mut missing: Vec<_> = (0..7).map(|entity| (first + entity) % 7).collect();
        let mut calls = Vec::new();
        while !missing.is_empty() {
            let requests: Vec<_> = missing.iter().map(|entity| list("seen", &entity.to_string())).collect();
            let results = results(&api, GET, &requests).await;
            let before = missing.len();
            let mut codes = codes(&results).into_iter();
            missing.retain(|_| codes.next() == Some("response_too_large"));
            let delivered: usize =
                results.iter().filter_map(|result| result.get("items")).map(|i| i.to_string().len()).sum();
            assert!(before - missing.len() == 1 || delivered <= 65_536, "{delivered}");
            let problem = results.iter().find_map(|result| result.get("problem"));
            assert!(problem.is_none_or(|problem| problem["retryable"] == true), "{problem:?}");
            calls.push(before - missing.len());
        }
        assert_eq!(calls, if first == 0 { vec![3, 3, 1] } else { vec![1, 3, 3] });
    }
    // The same list again takes space again.
    let same = vec![list("seen", "0"); 5];
    assert_eq!(codes(&results(&api, GET, &same).await).iter().filter(|code| **code == "ok").count(), 3);
}

#[tokio::test]
async fn late_lists_get_a_problem_and_others_their_items() {
    let (api, faults) = faulty(&[("items.operation_timeout_ms", "60000")]).await;
    api.feature("seen", "string", "30d").await;
    faults.stall(true);
    let soon = [("liststore-timeout-ms", "30"), ("content-type", "application/json")];
    let requests: Vec<_> = (0..100).map(|n| list(if n % 2 == 0 { "seen" } else { "none" }, &n.to_string())).collect();
    let body = json!({ "requests": requests }).to_string();
    let results = api.send(Method::POST, GET, &soon, body.as_bytes()).await.expect(200);
    let results = results["results"].as_array().unwrap();
    for (n, code) in codes(results).into_iter().enumerate() {
        assert_eq!(code, if n % 2 == 0 { "deadline_exceeded" } else { "feature_not_found" });
    }
    assert!(results.iter().all(|result| result["problem"].get("outcome_unknown").is_none()), "a read is sure");
    let late = results[0]["problem"]["detail"].as_str().unwrap();
    assert!(late.contains("before the read was complete"), "{late}");
    let add = |n: usize| with(list("seen", &n.to_string()), one(ago(1), "x"));
    let body = json!({"requests": (0..100).map(add).collect::<Vec<_>>()}).to_string();
    // Enough time to begin all concurrent reads, on a busy machine too.
    let later = [("liststore-timeout-ms", "6000"), ("content-type", "application/json")];
    let results = api.send(Method::POST, ADD, &later, body.as_bytes()).await.expect(200);
    let results = results["results"].as_array().unwrap();
    assert!(codes(results).iter().all(|code| *code == "deadline_exceeded"));
    // A started operation may still complete. One that did not start does not.
    let unsure = results.iter().filter(|result| result["problem"]["outcome_unknown"] == true).count();
    assert_eq!(unsure, 64, "as many as are at work at once");
    faults.stall(false);
}

#[tokio::test]
async fn equal_requests_are_read_once() {
    let (api, faults) =
        faulty(&[("items.permits_per_actor", "1"), ("items.actors", "1"), ("items.permit_wait_ms", "10")]).await;
    api.feature("seen", "string", "30d").await;
    faults.stall(true);
    let soon = [("liststore-timeout-ms", "6000"), ("content-type", "application/json")];
    let codes_of = async |requests: Vec<Value>| {
        let body = json!({ "requests": requests }).to_string();
        let answer = api.send(Method::POST, GET, &soon, body.as_bytes()).await.expect(200);
        codes(answer["results"].as_array().unwrap()).into_iter().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    // One permit is enough for one read with several equal requests, which the body writes in several ways.
    let same = [
        list("seen", "u"),
        with(list("seen", "u"), json!({"limit": 100})),
        with(list("seen", "u"), json!({"version": ""})),
    ];
    assert_eq!(codes_of(same.to_vec()).await, BTreeSet::from(["deadline_exceeded".to_owned()]));
    faults.stall(false);
    until("it is read", async || api.get(&items("seen", "u")).await.status == 200).await;
    faults.stall(true);
    let others = codes_of(vec![list("seen", "u"), list("seen", "v")]).await;
    assert_eq!(others, BTreeSet::from(["deadline_exceeded".to_owned(), "overloaded".to_owned()]));
    faults.stall(false);
}

#[tokio::test]
async fn scopes_are_checked_for_each_list() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    api.feature("other", "string", "1h").await;
    let key = async |by: Option<&str>, body: Value| {
        let authorization = format!("Bearer {}", by.unwrap_or_default());
        let headers = [("content-type", "application/json"), ("authorization", &*authorization)];
        let headers = &headers[..1 + usize::from(by.is_some())];
        let made = api.send(Method::POST, "/v1/keys", headers, body.to_string().as_bytes()).await.expect(201);
        made["token"].as_str().unwrap().to_owned()
    };
    let admin = key(None, json!({"name": "admin", "roles": ["admin"]})).await;
    let limited = key(Some(&admin), json!({"name": "l", "roles": ["writer"], "scopes": ["user.seen"]})).await;
    let editor = key(Some(&admin), json!({"name": "e", "roles": ["editor"]})).await;
    let ask = async |token: &str, path: &str, requests: Value| {
        let headers = [("content-type", "application/json"), ("authorization", &*format!("Bearer {token}"))];
        api.send(Method::POST, path, &headers, json!({ "requests": requests }).to_string().as_bytes()).await
    };
    let gets = json!([list("seen", "u"), list("other", "u"), list("unknown", "u")]);
    let answer = ask(&limited, GET, gets.clone()).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    // A caller without permission for a feature does not learn whether it exists.
    assert_eq!(codes(results), ["ok", "permission_denied", "permission_denied"]);
    let adds = json!([with(list("seen", "u"), one(ago(1), "x")), with(list("other", "u"), one(ago(1), "x"))]);
    let answer = ask(&limited, ADD, adds.clone()).await.expect(200);
    assert_eq!(codes(answer["results"].as_array().unwrap()), ["ok", "permission_denied"]);
    assert!(ask(&admin, GET, json!([list("other", "u")])).await.expect(200)["results"][0]["items"] == json!([]));
    ask(&editor, GET, gets).await.refused("permission_denied", "");
    ask(&editor, ADD, adds).await.refused("permission_denied", "");
}
