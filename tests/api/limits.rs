//! The limits of one caller: requests, items, and concurrent operations.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::client::{Answer, ago, api, api_with};
use super::keys::{admin, key, with_key};
use super::sockets::{connect, until};

/// In a bucket that fills so slowly that no test sees it.
#[tokio::test]
async fn a_key_has_its_limits_of_requests_and_items() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let limited = json!({"name": "n", "roles": ["writer"], "requests_per_second": 1, "requests_burst": 5});
    let (noisy, id) = key(&api, Some(&admin), limited).await;
    let shown = with_key(&api, &admin, Method::GET, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    assert_eq!((&shown["requests_burst"], &shown["items_burst"]), (&json!(5), &Value::Null));
    let list = "/v1/lists/user/seen/u/items";
    let mut answer = with_key(&api, &noisy, Method::GET, list, &Value::Null).await;
    assert_eq!(answer.header("ratelimit-policy"), Some("\"requests\";q=5;w=5;qu=\"requests\""));
    assert!(answer.header("ratelimit").unwrap().starts_with("\"requests\";r="));
    // On a slow machine some units may refill.
    for _ in 0..100 {
        answer = with_key(&api, &noisy, Method::GET, list, &Value::Null).await;
        if answer.status == 429 {
            break;
        }
    }
    answer.refused("rate_limited", "");
    assert!(answer.header("ratelimit").unwrap().starts_with("\"requests\";r=0;"), "{:?}", answer.headers);
    // With any state of a limit, other callers are not affected.
    for _ in 0..20 {
        let other = with_key(&api, &admin, Method::GET, list, &Value::Null).await;
        other.expect(200);
        assert_eq!(other.header("ratelimit"), None);
    }

    let limited = json!({"name": "i", "roles": ["writer"], "items_per_second": 1, "items_burst": 3});
    let (greedy, _) = key(&api, Some(&admin), limited).await;
    let items: Vec<_> = (0..50).map(|n| json!({"timestamp": ago(60) + n, "value": "x"})).collect();
    let (add, one) = (json!({ "items": items }), json!({ "items": &items[..1] }));
    with_key(&api, &greedy, Method::POST, list, &add).await.expect(200);
    let refused = with_key(&api, &greedy, Method::POST, list, &one).await;
    refused.refused("rate_limited", "");
    let waits: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((20..=48).contains(&waits), "the fifty are owed: {waits}");
    with_key(&api, &greedy, Method::GET, list, &Value::Null).await.refused("rate_limited", "");
    // An operation without items is not limited by that.
    with_key(&api, &greedy, Method::GET, "/v1/features", &Value::Null).await.expect(200);
    let batch = json!({"requests": [{"entity_type": "user", "feature": "seen", "entity_id": "u"}]});
    with_key(&api, &greedy, Method::POST, "/v1/lists:batchGet", &batch).await.refused("rate_limited", "");
    // Items that are read count too.
    let reading = json!({"name": "r", "roles": ["reader"], "items_per_second": 1, "items_burst": 3});
    let (reader, _) = key(&api, Some(&admin), reading).await;
    with_key(&api, &reader, Method::GET, list, &Value::Null).await.expect(200);
    with_key(&api, &reader, Method::GET, list, &Value::Null).await.refused("rate_limited", "");
    let metrics = with_key(&api, &admin, Method::GET, "/metrics", &Value::Null).await.text();
    assert!(metrics.contains("liststore_access_refused_total{reason=\"rate_limited\"}"), "{metrics}");
}

/// Otherwise a caller without permissions could send any number of requests.
#[tokio::test]
async fn refused_requests_count_against_the_limit() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let elsewhere = json!({"name": "n", "roles": ["writer"], "scopes": ["customer.*"], "requests_per_second": 1, "requests_burst": 4});
    let (noisy, _) = key(&api, Some(&admin), elsewhere).await;
    let list = "/v1/lists/user/seen/u/items";
    let first = with_key(&api, &noisy, Method::GET, list, &Value::Null).await;
    first.refused("permission_denied", "");
    assert!(first.header("ratelimit").is_some(), "{:?}", first.headers);
    let mut last = first;
    for _ in 0..100 {
        if last.status == 429 {
            break;
        }
        last = with_key(&api, &noisy, Method::GET, list, &Value::Null).await;
    }
    last.refused("rate_limited", "");
    let reported: u64 = last.header("ratelimit").unwrap().split_once(";t=").unwrap().1.parse().unwrap();
    let retry_after: u64 = last.header("retry-after").unwrap().parse().unwrap();
    assert!(reported <= retry_after, "a caller that returns then is admitted: {last:?}");
}

/// So that refusing a caller that does not slow down takes nothing from other callers.
#[tokio::test]
async fn a_caller_that_ignores_refusals_is_slowed_down() {
    const REQUESTS: usize = 3_000;
    let api = api().await;
    let admin = admin(&api).await;
    let limited = json!({"name": "n", "roles": ["writer"], "requests_per_second": 1, "requests_burst": 1});
    let (noisy, _) = key(&api, Some(&admin), limited).await;
    let mut stream = connect(&api).await;
    let began = Instant::now();
    let (mut reading, mut writing) = stream.split();
    let request = format!("GET /v1/features HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {noisy}\r\n\r\n");
    let requests = request.repeat(REQUESTS);
    let sending = async { writing.write_all(requests.as_bytes()).await.unwrap() };
    let taking = async {
        let mut refused = 0;
        for _ in 0..REQUESTS {
            refused += usize::from(Answer::read(&mut reading, false).await.status == 429);
        }
        refused
    };
    let ((), refused) = tokio::join!(sending, taking);
    assert!(refused > REQUESTS - 100, "{refused}");
    // A thousand are answered at once, and further ones at the rate.
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
}

/// With any way of reading or removing items.
#[tokio::test]
async fn counted_searched_and_removed_items_count_as_items() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let list = "/v1/lists/user/seen/u/items";
    let at = ago(60);
    let items: Vec<_> = (0..50).map(|n| json!({"timestamp": at + n, "value": format!("{n}")})).collect();
    let values: Vec<_> = (0..50).map(|n| n.to_string()).collect();
    let requests: Vec<_> =
        (0..50).map(|n| json!({"entity_type": "user", "feature": "seen", "entity_id": n.to_string()})).collect();
    for (number, (method, path, body)) in [
        (Method::GET, format!("{list}:count"), Value::Null),
        (Method::POST, format!("{list}:contains"), json!({ "values": values })),
        (Method::POST, "/v1/lists:batchGet".to_owned(), json!({ "requests": requests })),
        (Method::POST, format!("{list}:remove"), json!({ "items": items })),
        (Method::POST, format!("{list}:remove"), json!({"min_timestamp": "1970-01-02T00:00:00Z"})),
    ]
    .into_iter()
    .enumerate()
    {
        with_key(&api, &admin, Method::POST, list, &json!({ "items": items })).await.expect(200);
        let limited =
            json!({"name": format!("k{number}"), "roles": ["writer"], "items_per_second": 1, "items_burst": 3});
        let (greedy, _) = key(&api, Some(&admin), limited).await;
        with_key(&api, &greedy, method, &path, &body).await.expect(200);
        let refused = with_key(&api, &greedy, Method::GET, list, &Value::Null).await;
        refused.refused("rate_limited", "");
        let waits: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((20..=48).contains(&waits), "the fifty are owed: {waits}, {path}");
    }
}

#[tokio::test]
async fn limits_of_the_settings_apply_to_keys_without_limits() {
    let limits = [("access.rate_limits.requests_per_second", "1"), ("access.rate_limits.requests_burst", "3")];
    let api = api_with(&limits).await;
    // No caller is known here yet, so none is limited.
    for _ in 0..10 {
        api.get("/v1/features").await.expect(200);
    }
    let free = json!({"name": "free", "roles": ["admin"], "requests_per_second": 1_000_000});
    let (free, _) = key(&api, None, free).await;
    let (bound, id) = key(&api, Some(&free), json!({"name": "bound", "roles": ["reader"]})).await;
    let refused = async || {
        for _ in 0..100 {
            let answer = with_key(&api, &bound, Method::GET, "/v1/features", &Value::Null).await;
            if answer.status == 429 {
                return answer.refused("rate_limited", "");
            }
        }
        panic!("it is not limited");
    };
    refused().await;
    for _ in 0..20 {
        with_key(&api, &free, Method::GET, "/v1/features", &Value::Null).await.expect(200);
    }
    // The used part stays used when keys are published again.
    with_key(&api, &free, Method::POST, "/v1/keys", &json!({"name": "other", "roles": ["reader"]})).await.expect(201);
    refused().await;
    with_key(&api, &free, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    for (body, field) in [
        (json!({"name": "a", "roles": ["reader"], "requests_per_second": 0}), "requests_per_second"),
        (json!({"name": "a", "roles": ["reader"], "items_per_second": "7"}), "items_per_second"),
        (json!({"name": "a", "roles": ["reader"], "items_burst": 7}), "items_burst"),
        (json!({"name": "a", "roles": ["reader"], "items_per_second": 1, "items_burst": 100_000_001}), "items_burst"),
    ] {
        with_key(&api, &free, Method::POST, "/v1/keys", &body).await.refused("invalid_argument", field);
    }
}

/// Otherwise one caller could hold all permits of a list actor, also by leaving early, while the store continues.
#[tokio::test]
async fn one_caller_has_a_share_of_concurrent_operations() {
    let settings =
        [("items.permits_per_actor", "4"), ("items.actors", "1"), ("access.rate_limits.operations_percent", "50")];
    let (api, faults) = super::faults::faulty(&settings).await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let (noisy, _) = key(&api, Some(&admin), json!({"name": "n", "roles": ["writer"]})).await;
    faults.stall(true);
    let list = "/v1/lists/user/seen/u/items";
    let leave_early = async |token: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", &*authorization), ("liststore-timeout-ms", "100")];
        api.send(Method::GET, list, &headers, b"").await
    };
    // An operation that the actor reaches too late is not begun, and frees its share.
    let patience = Instant::now() + Duration::from_secs(60);
    while faults.begun.load(SeqCst) < 2 {
        assert!(Instant::now() < patience, "only {} are begun", faults.begun.load(SeqCst));
        let left = leave_early(&noisy).await;
        assert!(["deadline_exceeded", "rate_limited"].contains(&left.code().as_str()), "{}", left.text());
    }
    for _ in 0..3 {
        leave_early(&noisy).await.refused("rate_limited", "");
    }
    // Others have the rest.
    leave_early(&admin).await.refused("deadline_exceeded", "");
    faults.stall(false);
    let may_again = async || with_key(&api, &noisy, Method::GET, list, &Value::Null).await.status != 429;
    until("it may again", may_again).await;
    for _ in 0..10 {
        with_key(&api, &noisy, Method::GET, list, &Value::Null).await.expect(200);
    }
}
