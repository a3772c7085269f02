//! Many requests on one connection: each is answered, in order, where its client expects it.

use std::collections::HashSet;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::client::{Answer, ago, api, api_with, items, one};
use super::faults::faulty;
use super::sockets::{PATIENCE, add_request, connect, metric, request, until_closed};

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let rounds = 200;
    let mut all = String::new();
    for number in 0..rounds {
        all += &add_request(&list, &format!("v{number}"));
        all += &request(&format!("GET {list}?limit=1"), "", "");
        all += &request("GET /nowhere", "", "");
    }
    let (mut from, mut to) = connect(&api).await.into_split();
    let sending = tokio::spawn(async move { to.write_all(all.as_bytes()).await.map(|()| to) });
    for number in 0..rounds {
        let added = timeout(PATIENCE, Answer::read(&mut from, false)).await.unwrap();
        assert_eq!(added.expect(200)["added"], 1);
        let got = timeout(PATIENCE, Answer::read(&mut from, false)).await.unwrap();
        assert_eq!(got.values(), [format!("v{number}")]);
        timeout(PATIENCE, Answer::read(&mut from, false)).await.unwrap().refused("not_found", "");
    }
    sending.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_in_pieces_is_one_request() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let whole = add_request(&list, "x");
    for cut in 1..whole.len() {
        let mut stream = connect(&api).await;
        stream.set_nodelay(true).unwrap();
        let (begin, end) = whole.as_bytes().split_at(cut);
        stream.write_all(begin).await.unwrap();
        // The server has the first piece when it answers a request that came later.
        api.get("/livez").await.expect(200);
        stream.write_all(end).await.unwrap();
        let answer = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        assert_eq!(answer.expect(200)["added"], 1, "cut at {cut}");
    }
    assert_eq!(api.values(&list).await, ["x"]);
}

#[tokio::test]
async fn a_connection_stays_open_after_requests_of_every_kind() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let mut stream = connect(&api).await;
    let chunked = {
        let body = one(ago(1), "chunked").to_string();
        let framing = "Transfer-Encoding: chunked\r\n";
        request(&format!("POST {list}"), framing, &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
    };
    let large = {
        let items: Vec<_> = (0..500).map(|at| json!({"timestamp": ago(60) + at, "value": "x".repeat(200)})).collect();
        let body = json!({ "items": items }).to_string();
        request(&format!("POST {list}"), &format!("Content-Length: {}\r\n", body.len()), &body)
    };
    let together = [
        add_request(&list, "plain"),
        chunked,
        add_request(&list, "after it"),
        large,
        request(&format!("GET {list}?limit=9"), "Connection: keep-alive\r\n", ""),
    ]
    .concat();
    stream.write_all(together.as_bytes()).await.unwrap();
    for added in [1, 1, 1, 500] {
        let answer = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        assert_eq!(answer.expect(200)["added"], added);
    }
    let got = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
    let newest: HashSet<_> = got.values()[..3].iter().map(|value| value.as_str().unwrap().to_owned()).collect();
    assert_eq!(newest, HashSet::from(["plain", "chunked", "after it"].map(str::to_owned)));
    stream.write_all(request(&format!("HEAD {list}"), "", "").as_bytes()).await.unwrap();
    let head = timeout(PATIENCE, Answer::read(&mut stream, true)).await.unwrap();
    assert_eq!(head.status, 200);
    // It is one connection all the time, and is counted as one.
    let before = metric(&api, "liststore_http_connections").await;
    drop(stream);
    let ended = async { while metric(&api, "liststore_http_connections").await >= before {} };
    timeout(PATIENCE, ended).await.expect("the connection is counted until it ends");
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_next_request() {
    let (api, faults) = faulty(&[("items.operation_timeout_ms", "30000")]).await;
    api.feature("seen", "string", "30d").await;
    faults.stall(true);
    let mut stream = connect(&api).await;
    let both = request("GET /livez", "", "") + &add_request(&items("seen", "u"), "x");
    stream.write_all(both.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.expect("the first answer comes").expect(200);
    faults.stall(false);
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().expect(200);
}

#[tokio::test]
async fn an_http_1_0_client_closes_only_its_connection() {
    let api = api_with(&[("http.workers", "1")]).await;
    for _ in 0..3 {
        let mut old = connect(&api).await;
        old.write_all(b"GET /livez HTTP/1.0\r\n\r\n").await.unwrap();
        let answer = until_closed(&mut old).await;
        assert!(answer.starts_with("HTTP/1.0 200 ") || answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let mut stream = connect(&api).await;
    for _ in 0..5 {
        stream.write_all(request("GET /livez", "", "").as_bytes()).await.unwrap();
        let answer = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        assert_eq!((answer.status, answer.header("connection")), (200, None));
    }
}

#[tokio::test]
async fn an_http_1_0_client_may_keep_its_connection() {
    let api = api().await;
    let mut stream = connect(&api).await;
    for _ in 0..3 {
        stream.write_all(b"GET /livez HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").await.unwrap();
        let answer = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        assert_eq!((answer.status, answer.header("connection")), (200, Some("keep-alive")));
    }
}

/// Answers to HEAD have the length of the omitted body: a client that expects a body would read the next answer in the
/// wrong place.
#[tokio::test]
async fn requests_of_all_methods_follow_each_other_on_one_connection() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let mut stream = connect(&api).await;
    let together = [
        add_request(&list, "x"),
        request(&format!("HEAD {list}"), "", ""),
        request(&format!("OPTIONS {list}"), "", ""),
        request("HEAD /metrics", "", ""),
        request("HEAD /nowhere", "Upgrade: websocket\r\nConnection: Upgrade\r\n", ""),
        request(&format!("DELETE {list}"), "Content-Length: 3\r\n", "abc"),
        request(&format!("DELETE {list}"), "Content-Length: 2\r\n", "{}"),
        request(&format!("GET http://elsewhere{list}"), "TE: trailers\r\n", ""),
    ];
    stream.write_all(together.concat().as_bytes()).await.unwrap();
    let statuses = [(false, 200), (true, 200), (false, 204), (true, 200), (true, 404), (false, 400), (false, 204)];
    for (head_only, status) in statuses {
        let answer = timeout(PATIENCE, Answer::read(&mut stream, head_only)).await.unwrap();
        assert_eq!((answer.status, answer.header("connection")), (status, None), "{}", answer.text());
        assert!(!head_only || answer.header("content-length").is_some_and(|length| length != "0"));
    }
    let last = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
    assert_eq!(last.expect(200), json!({"items": []}));
}

#[tokio::test]
async fn a_100_continue_is_sent_only_if_the_body_will_be_read() {
    let api = api_with(&[("http.body_bytes_max", "100000")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let body = one(ago(1), "x").to_string();
    let head = |bytes: usize| {
        request(&format!("POST {list}"), &format!("Expect: 100-continue\r\nContent-Length: {bytes}\r\n"), "")
    };
    let mut stream = connect(&api).await;
    stream.write_all(head(body.len()).as_bytes()).await.unwrap();
    let mut word = [0; 25];
    timeout(PATIENCE, stream.read_exact(&mut word)).await.unwrap().unwrap();
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().expect(200);
    stream.write_all(head(100_001).as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().refused("payload_too_large", "");
}

/// Tools such as `nc -N`, and relays of TCP, end their side behind the request.
#[tokio::test]
async fn a_client_that_closes_its_side_after_its_request_is_answered() {
    let (api, faults) = faulty(&[("items.operation_timeout_ms", "30000")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let ask = async |text: String| {
        let mut stream = connect(&api).await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        until_closed(&mut stream).await
    };
    for number in 0..10 {
        let added = ask(add_request(&list, &format!("v{number}"))).await;
        assert!(added.starts_with("HTTP/1.1 200 "), "{added}");
        for path in [&*list, "/v1/features", "/livez"] {
            let got = ask(request(&format!("GET {path}"), "", "")).await;
            assert!(got.starts_with("HTTP/1.1 200 "), "{path}: {got}");
        }
        let both = ask(request("GET /livez", "", "") + &request("GET /v1/features", "", "")).await;
        assert_eq!(both.matches("HTTP/1.1 200 ").count(), 2, "{both}");
    }
    assert_eq!(api.values(&list).await.len(), 10);
    // The server has seen the end by the time that it has the answer.
    let begun = faults.begun.load(std::sync::atomic::Ordering::SeqCst);
    faults.stall(true);
    let stalled = async {
        while faults.begun.load(std::sync::atomic::Ordering::SeqCst) == begun {
            tokio::task::yield_now().await;
        }
        // Requests that came after the end are answered before it.
        api.get("/livez").await.expect(200);
        faults.stall(false);
    };
    let (added, ()) = tokio::join!(ask(add_request(&list, "late")), stalled);
    assert!(added.starts_with("HTTP/1.1 200 "), "{added}");
    assert_eq!(api.values(&list).await.len(), 11);
}
