//! More memory than allowed: the server stays within its budget, and small requests continue.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{Api, ago, api_with, items, one};
use super::faults::faulty;
use super::overload::{answer, ask, get, metric, post, send, with_key};
use super::sockets::{PATIENCE, connect, until};

#[tokio::test]
async fn all_reserved_memory_comes_from_one_budget() {
    let given = [
        ("http.buffered_bytes_max", "16 MiB"),
        ("http.body_bytes_max", "2 MiB"),
        ("http.response_bytes_max", "4 MiB"),
        // Held for the duration of this test.
        ("http.body_timeout_secs", "3600"),
    ];
    let api = api_with(&given).await;
    api.feature("seen", "string", "30d").await;
    let large = items("seen", "large");
    for part in 0..3 {
        let values: Vec<_> =
            (0..25).map(|n| json!({"timestamp": ago(100 + part * 100 + n), "value": "x".repeat(60_000)})).collect();
        api.post(&large, json!({ "items": values })).await.expect(200);
    }
    // Incomplete bodies, more than there is room for, and answers that no client reads.
    let mut held = Vec::new();
    let half = "x".repeat(1 << 20);
    for _ in 0..30 {
        let mut stream = connect(&api).await;
        let head = format!("POST {large} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 2 << 20);
        // The server may have refused it before it was sent.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = timeout(Duration::from_secs(5), stream.write_all(half.as_bytes())).await;
        held.push(stream);
    }
    let unread = until_refused(&api, &get(&large), 1).await;
    let used = metric(&api, "liststore_http_buffered_bytes").await;
    assert!(used > 4e6 && used <= (16 << 20) as f64, "{used}");
    // Small requests continue.
    let small = items("seen", "small");
    api.post(&small, one(ago(1), "x")).await.expect(200);
    assert_eq!(api.values(&small).await, ["x"]);
    // A client that pipelines small requests without end, and reads nothing, is bounded too.
    let mut ahead = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(&api).await;
        let _ = timeout(Duration::from_millis(200), stream.write_all(get(&small).repeat(20_000).as_bytes())).await;
        ahead.push(stream);
    }
    assert!(metric(&api, "liststore_http_buffered_bytes").await <= (16 << 20) as f64);
    api.get("/readyz").await.expect(200);
    // All of it is given back.
    drop((held, unread, ahead));
    until("nothing is held", async || metric(&api, "liststore_http_buffered_bytes").await == 0.0).await;
    api.get(&large).await.expect(200);
}

#[tokio::test]
async fn a_refusal_without_memory_keeps_the_connection_usable() {
    let given = [
        ("http.buffered_bytes_max", "3 MiB"),
        ("http.body_bytes_max", "500 KiB"),
        ("http.response_bytes_max", "500 KiB"),
        ("http.body_timeout_secs", "3600"),
    ];
    let api = api_with(&given).await;
    api.feature("seen", "string", "30d").await;
    let (large, small) = (items("seen", "large"), items("seen", "small"));
    for part in 0..2 {
        let values: Vec<_> =
            (0..7).map(|n| json!({"timestamp": ago(100 + part * 100 + n), "value": "x".repeat(60_000)})).collect();
        api.post(&large, json!({ "items": values })).await.expect(200);
    }
    // Bodies that do not come to their end leave no room for a long answer.
    let mut holding = Vec::new();
    let half = format!("POST {large} HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n") + &"x".repeat(300_000);
    for _ in 0..5 {
        let mut stream = connect(&api).await;
        send(&mut stream, &half).await;
        holding.push(stream);
    }
    until("much is held", async || metric(&api, "liststore_http_buffered_bytes").await > 2_400_000.0).await;
    let mut stream = connect(&api).await;
    send(&mut stream, &(get(&large) + &get(&small) + &get(&large) + &get("/livez"))).await;
    for status in [503, 200, 503, 200] {
        let answer = answer(&mut stream).await;
        assert_eq!((answer.status, answer.header("connection")), (status, None), "{}", answer.text());
    }
    // A refused request was not also served.
    let counted = async |code: &str, status: u16| {
        let labels = format!("{{code=\"{code}\",operation=\"get_items\",status=\"{status}\"}}");
        metric(&api, &format!("liststore_http_requests_total{labels}")).await
    };
    assert_eq!((counted("overloaded", 503).await, counted("ok", 200).await), (2.0, 1.0));
    drop(holding);
    until("there is room", async || ask(&api, &get(&large)).await.status == 200).await;
}

/// Connections that send this request `times` and read no answer. There are as many as hold the whole share of their
/// caller: an answer reserves more than it holds once it is made, so a refusal among many at once proves little.
async fn until_refused(api: &Api, text: &str, times: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    let refused = async || {
        let mut stream = connect(api).await;
        send(&mut stream, &text.repeat(times)).await;
        held.push(stream);
        ask(api, text).await.status == 503
    };
    until("one is refused", refused).await;
    held
}

/// One key, or all callers without a key, can get only a part of the memory.
#[tokio::test]
async fn each_caller_gets_at_most_a_part_of_the_memory() {
    let given = [
        ("http.buffered_bytes_max", "16 MiB"),
        ("http.body_bytes_max", "2 MiB"),
        ("http.response_bytes_max", "2 MiB"),
        ("http.body_timeout_secs", "3600"),
    ];
    let api = api_with(&given).await;
    api.feature("seen", "string", "30d").await;
    let large = items("seen", "large");
    let values: Vec<_> = (0..25).map(|n| json!({"timestamp": ago(100 + n), "value": "x".repeat(60_000)})).collect();
    api.post(&large, json!({ "items": values })).await.expect(200);
    let admin = super::keys::admin(&api).await;
    let reader =
        async |name: &str| super::keys::key(&api, Some(&admin), json!({"name": name, "roles": ["reader"]})).await.0;
    let (greedy, modest) = (reader("greedy").await, reader("modest").await);
    let held = until_refused(&api, &with_key(&greedy, &get(&large)), 10).await;
    ask(&api, &with_key(&modest, &get(&large))).await.expect(200);
    // Strangers hold documents that they do not read.
    let strangers = until_refused(&api, &get("/openapi.json"), 50).await;
    ask(&api, &with_key(&modest, &get(&large))).await.expect(200);
    drop((held, strangers));
    until("there is room", async || ask(&api, &with_key(&greedy, &get(&large))).await.status == 200).await;
}

fn lookup(list: &str, keys: &[String]) -> String {
    post(&format!("{list}:lookup"), &json!({ "keys": keys }).to_string())
}

async fn set(api: &Api) -> String {
    let set = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "30d", "identity": "key"});
    api.post("/v1/features", set).await.expect(201);
    items("seen", "u")
}

#[tokio::test]
async fn a_lookup_is_answered_within_the_bound_of_a_response() {
    const MEMBERS: usize = 40;
    // A MiB has space for 17 values of this size.
    const VALUE_BYTES: usize = 60_000;
    const FITTING: usize = 17;
    for in_store in ["memory", "embedded"] {
        let given = [("items.store", in_store), ("http.response_bytes_max", "1 MiB"), ("http.workers", "1")];
        let api = api_with(&given).await;
        let list = set(&api).await;
        let keys: Vec<_> = (0..MEMBERS).map(|number| format!("k{number}")).collect();
        for some in keys.chunks(20) {
            let items: Vec<_> = some
                .iter()
                .map(|key| json!({"timestamp": ago(100), "key": key, "value": "x".repeat(VALUE_BYTES)}))
                .collect();
            api.post(&list, json!({ "items": items })).await.expect(200);
        }
        let refused = async |keys: &[String], fitting: usize| {
            let answer = ask(&api, &lookup(&list, keys)).await;
            assert_eq!((answer.status, answer.code()), (413, "lookup_too_large".to_owned()), "{}", answer.text());
            let detail = format!("the first {fitting} of {} members", keys.len());
            assert!(answer.text().contains(&detail), "{}", answer.text());
        };
        refused(&keys, FITTING).await;
        refused(&keys[..=FITTING], FITTING).await;
        refused(&std::iter::repeat_n(keys[0].clone(), MEMBERS).collect::<Vec<_>>(), FITTING).await;
        let found = ask(&api, &lookup(&list, &keys[..FITTING])).await;
        assert!(found.status == 200 && found.body.len() > FITTING * VALUE_BYTES, "{}", found.status);
        // Missing members count for nothing.
        let missing: Vec<_> = (0..900).map(|number| format!("m{number}")).collect();
        let some = [&keys[..FITTING], &missing].concat();
        let found = ask(&api, &lookup(&list, &some)).await.json();
        let results = found["results"].as_array().unwrap();
        assert_eq!(results.len(), some.len());
        assert!(results[..FITTING].iter().zip(&keys).all(|(result, key)| result["key"] == key.as_str()));
        assert!(results[FITTING..].iter().all(serde_json::Value::is_null));
        // Bytes count as written: each of these takes six.
        for key in ["c0", "c1", "c2"] {
            let item = json!({"timestamp": ago(100), "key": key, "value": "\u{1}".repeat(VALUE_BYTES)});
            api.post(&list, json!({ "items": [item] })).await.expect(200);
        }
        refused(&["c0", "c1", "c2"].map(str::to_owned), 2).await;
    }
}

/// A slow store fills the memory only with as many items as fit.
#[tokio::test]
async fn a_lookup_reserves_its_memory_before_the_read() {
    let given = [
        ("http.buffered_bytes_max", "8 MiB"),
        ("http.body_bytes_max", "1 MiB"),
        ("http.response_bytes_max", "2 MiB"),
        ("items.operation_timeout_ms", "600000"),
    ];
    let (api, faults) = faulty(&given).await;
    let list = set(&api).await;
    let text = lookup(&list, &(0..100).map(|number| format!("k{number}")).collect::<Vec<_>>());
    faults.stall(true);
    let mut held = Vec::new();
    let refused = loop {
        let mut stream = connect(&api).await;
        send(&mut stream, &text).await;
        let wanted = 2e6 * (held.len() + 1) as f64;
        let has_memory = tokio::select! {
            () = until("it has memory", async || metric(&api, "liststore_http_buffered_bytes").await >= wanted) => true,
            _ = stream.readable() => false,
        };
        if !has_memory {
            break answer(&mut stream).await;
        }
        held.push(stream);
    };
    assert_eq!((refused.status, refused.code(), held.len()), (503, "overloaded".to_owned(), 3), "{}", refused.text());
    faults.stall(false);
    for mut stream in held {
        answer(&mut stream).await.expect(200);
    }
    until("nothing is held", async || metric(&api, "liststore_http_buffered_bytes").await == 0.0).await;
    ask(&api, &text).await.expect(200);
}

/// An index that has found all these bags of `user`.
async fn bags(api: &Api, count: usize, value_bytes: usize) {
    api.post("/v1/entity-types", json!({"entity_type": "user"})).await.expect(201);
    let index = json!({"name": "by_a", "properties": ["/a"]});
    api.post("/v1/entity-types/user/indexes", index).await.expect(201);
    api.until_state("/v1/entity-types/user/indexes/by_a", "ready").await;
    for number in 0..count {
        let bag = json!({"a": "x", "b": "y".repeat(value_bytes)}).to_string();
        let put = api.send(reqwest::Method::PUT, &format!("/v1/entities/user/u{number}"), &[], bag.as_bytes()).await;
        put.expect(201);
    }
}

fn batch_of_bags(count: usize) -> String {
    let all: Vec<_> = (0..count).map(|n| json!({"entity_type": "user", "entity_id": format!("u{n}")})).collect();
    post("/v1/entities:batchGet", &json!({ "requests": all }).to_string())
}

/// Small incomplete bodies hold memory. They leave about `left` bytes of it.
async fn leave_memory(api: &Api, limit: usize, left: usize) -> Vec<TcpStream> {
    const BODY_BYTES: usize = 60_000;
    let count = (limit - left) / BODY_BYTES;
    let mut held = Vec::new();
    for _ in 0..count {
        let mut stream = connect(api).await;
        let head = format!("POST /v1/lists:batchGet HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
        send(&mut stream, &(head + &" ".repeat(BODY_BYTES / 2))).await;
        held.push(stream);
    }
    // A body has memory for the received bytes, and for as many again.
    let wanted = (count * BODY_BYTES) as f64;
    until("it is held", async || metric(api, "liststore_http_buffered_bytes").await >= wanted).await;
    held
}

/// Asks until there is room, which the answer before may still have.
async fn served(api: &Api, text: &str) -> serde_json::Value {
    let answer = timeout(PATIENCE, async {
        loop {
            let answer = ask(api, text).await;
            if answer.status != 503 {
                return answer;
            }
        }
    });
    answer.await.expect("it is served").expect(200)
}

/// As [`a_lookup_reserves_its_memory_before_the_read`].
#[tokio::test]
async fn bags_reserve_their_memory_before_the_read() {
    const LARGE_BYTES: usize = 6 << 20;
    let given = [
        ("http.buffered_bytes_max", "8 MiB"),
        ("http.body_bytes_max", "1 MiB"),
        ("http.response_bytes_max", "2 MiB"),
        ("http.body_timeout_secs", "3600"),
        ("items.operation_timeout_ms", "600000"),
    ];
    let (api, faults) = faulty(&given).await;
    bags(&api, 12, 200_000).await;
    let text = batch_of_bags(12);
    let before = faults.begun.load(SeqCst);
    faults.stall(true);
    let mut held = Vec::new();
    while held.len() < 3 {
        let mut stream = connect(&api).await;
        send(&mut stream, &text).await;
        held.push(stream);
        let wanted = 2e6 * held.len() as f64;
        until("it has memory", async || metric(&api, "liststore_http_buffered_bytes").await >= wanted).await;
    }
    let refused = ask(&api, &text).await;
    assert_eq!((refused.status, refused.code()), (503, "overloaded".to_owned()), "{}", refused.text());
    faults.stall(false);
    let served = held.len();
    for mut stream in held {
        answer(&mut stream).await.expect(200);
    }
    assert_eq!(faults.begun.load(SeqCst), before + 12 * served, "the refused request reads nothing");
    until("nothing is held", async || metric(&api, "liststore_http_buffered_bytes").await == 0.0).await;
    // No memory for a bag: nothing is read that is then refused.
    let holding = leave_memory(&api, LARGE_BYTES, 0).await;
    let begun = faults.begun.load(SeqCst);
    let find = get("/v1/entity-types/user/indexes/by_a/entities?value=%22x%22");
    for text in [&text, &find] {
        let refused = ask(&api, text).await;
        assert_eq!((refused.status, refused.code()), (503, "overloaded".to_owned()), "{}", refused.text());
    }
    assert!(faults.begun.load(SeqCst) <= begun + 1, "more than the entries were read");
    let counted = async |operation: &str, code: &str, status: u16| {
        let labels = format!("{{code=\"{code}\",operation=\"{operation}\",status=\"{status}\"}}");
        metric(&api, &format!("liststore_http_requests_total{labels}")).await
    };
    assert_eq!(counted("batch_get_bags", "overloaded", 503).await, 2.0);
    assert_eq!(counted("batch_get_bags", "ok", 200).await, 3.0);
    assert_eq!(counted("find_bags", "overloaded", 503).await, 1.0);
    drop(holding);
}

/// Little memory produces short answers, and the client requests the rest again.
#[tokio::test]
async fn bags_are_returned_in_parts_if_memory_is_short() {
    const COUNT: usize = 12;
    // Three quarters of the memory.
    const LARGE_BYTES: usize = 12 << 20;
    for in_store in ["memory", "embedded"] {
        let api = api_with(&[
            ("items.store", in_store),
            ("http.buffered_bytes_max", "16 MiB"),
            ("http.body_bytes_max", "1 MiB"),
            ("http.body_timeout_secs", "3600"),
        ])
        .await;
        bags(&api, COUNT, 200_000).await;
        let holding = leave_memory(&api, LARGE_BYTES, 600_000).await;
        let (mut found, mut pages, mut token) = (Vec::new(), 0, String::new());
        loop {
            let path = format!("/v1/entity-types/user/indexes/by_a/entities?value=%22x%22{token}");
            let page = served(&api, &get(&path)).await;
            let bags = page["entities"].as_array().unwrap();
            assert!((1..COUNT / 2).contains(&bags.len()), "{in_store}: {}", bags.len());
            found.extend(bags.iter().map(|bag| bag["entity_id"].to_string()));
            pages += 1;
            match page["next_page_token"].as_str() {
                Some(next) => token = format!("&page_token={next}"),
                None => break,
            }
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), COUNT);
        assert!(pages > 2, "{pages}");
        let some = served(&api, &batch_of_bags(COUNT)).await;
        let (bags, rest): (Vec<_>, Vec<_>) =
            some["results"].as_array().unwrap().iter().partition(|result| result.get("properties").is_some());
        assert!((1..COUNT / 2).contains(&bags.len()), "{in_store}: {}", bags.len());
        assert!(rest.iter().all(|result| result["problem"]["code"] == "response_too_large"));
        drop(holding);
        let all = async || {
            let results = ask(&api, &batch_of_bags(COUNT)).await.expect(200);
            results["results"].as_array().unwrap().iter().all(|result| result.get("properties").is_some())
        };
        until("there is room", async || all().await).await;
    }
}

/// The least memory that the settings accept. While strangers hold their whole share, one caller with a key has space
/// for the longest body and the longest page together, through the actors of the lists.
#[tokio::test]
async fn the_least_memory_fits_the_largest_request_of_one_caller() {
    const BODY_BYTES: usize = 200 << 10;
    for (answer_bytes, in_store) in [(1_usize << 10, "memory"), (4 << 20, "memory"), (4 << 20, "embedded")] {
        let least = BODY_BYTES + answer_bytes.max(1 << 20) + (1_408 << 10);
        let [body_max, answer_max, least] = [BODY_BYTES, answer_bytes, least].map(|bytes| bytes.to_string());
        let api = api_with(&[
            ("items.store", in_store),
            ("http.buffered_bytes_max", &least),
            ("http.body_bytes_max", &body_max),
            ("http.response_bytes_max", &answer_max),
        ])
        .await;
        api.feature("seen", "string", "30d").await;
        let large = items("seen", "large");
        for part in 0..25 {
            let values: Vec<_> =
                (0..3).map(|n| json!({"timestamp": ago(100 + part * 10 + n), "value": "x".repeat(60_000)})).collect();
            api.post(&large, json!({ "items": values })).await.expect(200);
        }
        let admin = super::keys::admin(&api).await;
        let strangers = until_refused(&api, &get("/openapi.json"), 50).await;
        let page = ask(&api, &with_key(&admin, &get(&format!("{large}?limit=10000")))).await;
        let shortest = answer_bytes.saturating_sub(130_000).max(60_000);
        assert!(page.status == 200 && page.body.len() > shortest, "{answer_max} {in_store}: {}", page.body.len());
        let list = json!({"entity_type": "user", "feature": "seen", "entity_id": "large", "limit": 10_000});
        let body = json!({ "requests": [list] }).to_string();
        let body = body.clone() + &" ".repeat(BODY_BYTES - body.len());
        let batch = ask(&api, &with_key(&admin, &post("/v1/lists:batchGet", &body))).await;
        let has_page = batch.json()["results"][0].get("items").is_some();
        assert!(has_page && batch.body.len() > shortest, "{answer_max} {in_store}: {}", batch.body.len());
        let chunked = format!("{BODY_BYTES:x}\r\n{body}\r\n0\r\n\r\n");
        let head = "POST /v1/lists:batchGet HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        ask(&api, &with_key(&admin, &format!("{head}{chunked}"))).await.expect(200);
        drop(strangers);
    }
}
