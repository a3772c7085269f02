//! More connections and more requests than allowed: the server stays within its bounds, and answers health checks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{Answer, Api, ago, api_with, items, one};
use super::faults::faulty;
use super::sockets::{PATIENCE, connect, until};

const SLOTS: usize = 8;

pub async fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

pub async fn answer(stream: &mut TcpStream) -> Answer {
    timeout(PATIENCE, Answer::read(stream, false)).await.expect("an answer")
}

/// Sends one request, on a separate connection.
pub async fn ask(api: &Api, text: &str) -> Answer {
    let mut stream = connect(api).await;
    send(&mut stream, text).await;
    answer(&mut stream).await
}

/// Sends a request, unless another connection gets the slot before. Then there is no answer, and the caller may retry.
async fn try_ask(api: &Api, text: &str) -> Option<Answer> {
    let mut stream = connect(api).await;
    stream.write_all(text.as_bytes()).await.ok()?;
    let came = timeout(PATIENCE, stream.peek(&mut [0])).await.expect("an answer");
    came.is_ok_and(|bytes| bytes > 0).then_some(())?;
    Some(answer(&mut stream).await)
}

pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

pub fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

pub async fn metric(api: &Api, name: &str) -> f64 {
    let text = loop {
        if let Some(answer) = try_ask(api, &get("/metrics")).await {
            break answer.text();
        }
    };
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {name}: {text}")).parse().unwrap()
}

/// Occupies all slots with requests that run until the stall ends.
async fn occupy(api: &Api) -> Vec<TcpStream> {
    let mut busy = Vec::new();
    while busy.len() < SLOTS {
        let (number, mut stream) = (busy.len(), connect(api).await);
        send(&mut stream, &post(&items("seen", &format!("u{number}")), &one(ago(1), "x").to_string())).await;
        // It is refused until the previous permit holder has ended.
        let works = tokio::select! {
            () = until("it has a permit", async || metric(api, "liststore_list_permits_in_use").await > number as f64) => true,
            _ = stream.readable() => false,
        };
        if works {
            busy.push(stream);
        }
    }
    busy
}

async fn stalled() -> (Api, std::sync::Arc<super::faults::Faults>) {
    let given = [
        ("http.connections_max", "8"),
        ("http.workers", "2"),
        ("items.actors", "1"),
        ("items.operation_timeout_ms", "600000"),
    ];
    let (api, faults) = faulty(&given).await;
    api.feature("seen", "string", "30d").await;
    faults.stall(true);
    (api, faults)
}

#[tokio::test]
async fn a_new_connection_replaces_a_waiting_one() {
    let api = api_with(&[("http.connections_max", &SLOTS.to_string()), ("http.workers", "2")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    // Some have been served, some have begun a head, and some are silent.
    let mut waiting = Vec::new();
    for number in 0..3 * SLOTS {
        let mut stream = connect(&api).await;
        match number % 3 {
            0 => {
                send(&mut stream, &get(&list)).await;
                answer(&mut stream).await.expect(200);
            }
            1 => send(&mut stream, "GET /livez HTTP/1.1\r\nHost:").await,
            _ => {}
        }
        waiting.push(stream);
    }
    // However many there were, a new one is served, with anything.
    for _ in 0..3 * SLOTS {
        ask(&api, &get(&list)).await.expect(200);
    }
    until("they are gone", async || {
        metric(&api, "liststore_http_connections_evicted_total").await >= (2 * SLOTS) as f64
    })
    .await;
    // The latest are still there.
    let mut last = connect(&api).await;
    send(&mut last, &get(&list)).await;
    answer(&mut last).await.expect(200);
    ask(&api, &get("/livez")).await.expect(200);
    send(&mut last, &get(&list)).await;
    answer(&mut last).await.expect(200);
}

#[tokio::test]
async fn health_is_answered_while_all_connections_are_busy() {
    let (api, faults) = stalled().await;
    let busy = occupy(&api).await;
    // A silent client prevents no other client from sending requests.
    let mut silent = Vec::new();
    for _ in 0..600 {
        silent.push(connect(&api).await);
        if silent.len() % 100 == 0 {
            ask(&api, &get("/livez")).await.expect(200);
            ask(&api, &get("/readyz")).await.expect(200);
        }
    }
    for request in [get(&items("seen", "u")), get("/v1/features"), post(&items("seen", "u"), "{}")] {
        let refused = ask(&api, &request).await;
        assert_eq!((refused.code(), refused.status), ("overloaded".to_owned(), 503), "{}", refused.text());
        assert!(refused.header("retry-after").is_some() && refused.header("connection") == Some("close"));
    }
    // Those at work were left alone, and there is room again once they are done.
    faults.stall(false);
    for mut stream in busy {
        answer(&mut stream).await.expect(200);
    }
    until("there is room", async || {
        try_ask(&api, &get(&items("seen", "u0"))).await.is_some_and(|answer| answer.status == 200)
    })
    .await;
}

pub fn with_key(token: &str, request: &str) -> String {
    request.replacen("\r\n", &format!("\r\nAuthorization: Bearer {token}\r\n"), 1)
}

/// Unknown callers take no slot from callers with a key, in any state of their connections.
#[tokio::test]
async fn callers_without_a_key_do_not_lock_out_others() {
    let slots = SLOTS.to_string();
    let given = [("http.connections_max", &*slots), ("http.workers", "2"), ("http.body_timeout_secs", "3600")];
    for is_open in [false, true] {
        let api = api_with(&given).await;
        api.feature("seen", "string", "30d").await;
        let list = items("seen", "u");
        let admin = if is_open { String::new() } else { super::keys::admin(&api).await };
        let half_body = format!("POST {list} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n");
        let unread = get("/openapi.json").repeat(100);
        let asked = if is_open { get(&list) } else { with_key(&admin, &get(&list)) };
        for text in [half_body, unread] {
            let mut strangers = Vec::new();
            for _ in 0..3 * SLOTS {
                let mut stream = connect(&api).await;
                send(&mut stream, &text).await;
                strangers.push(stream);
                ask(&api, &asked).await.expect(200);
            }
        }
        // Strangers that send requests without end, and read their answers.
        let mut strangers = Vec::new();
        for _ in 0..3 * SLOTS {
            let (mut from, mut to) = connect(&api).await.into_split();
            let text = get("/nothing").repeat(200);
            strangers.push(tokio::spawn(async move {
                let mut nowhere = tokio::io::sink();
                let asking = async { while to.write_all(text.as_bytes()).await.is_ok() {} };
                tokio::join!(asking, tokio::io::copy(&mut from, &mut nowhere))
            }));
            let answer = loop {
                if let Some(answer) = try_ask(&api, &asked).await {
                    break answer;
                }
            };
            answer.expect(200);
        }
        strangers.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// More than one worker can do: requests that waited too long are refused, at once and only for that reason.
#[tokio::test]
async fn a_worker_that_is_behind_refuses_late_requests() {
    const CALLERS: usize = 200;
    const REFUSALS: u64 = 20;
    let api = api_with(&[("http.workers", "1"), ("http.socket_wait_ms", "10")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let many: Vec<_> = (0..1_000).map(|n| json!({"timestamp": ago(n), "value": "x"})).collect();
    api.post(&list, json!({ "items": many })).await.expect(200);
    // Pages with bounds are rendered each time.
    let request = get(&format!("{list}?limit=1000&min_timestamp=1"));
    let (refused, served, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let caller = async || {
        let mut stream = connect(&api).await;
        while !stop.load(SeqCst) {
            send(&mut stream, &request).await;
            let answer = answer(&mut stream).await;
            if answer.status == 200 {
                served.fetch_add(1, SeqCst);
                continue;
            }
            assert_eq!((answer.status, answer.code()), (503, "overloaded".to_owned()));
            assert!(answer.text().contains("waited too long"), "{}", answer.text());
            assert!(answer.header("retry-after").is_some() && answer.header("connection").is_none());
            refused.fetch_add(1, SeqCst);
        }
    };
    let others = async {
        // All of them wait equally long, and requests that are not load are answered.
        until("so many are refused", async || {
            ask(&api, &get("/livez")).await.expect(200);
            ask(&api, &get("/v1/features")).await.expect(200);
            refused.load(SeqCst) >= REFUSALS
        })
        .await;
        stop.store(true, SeqCst);
    };
    tokio::join!(others, join_all((0..CALLERS).map(|_| caller())));
    assert!(served.load(SeqCst) > 0);
    assert_eq!(metric(&api, "liststore_http_requests_shed_total").await, refused.load(SeqCst) as f64);
    until("there is room", async || ask(&api, &request).await.status == 200).await;
}

/// Documents that unknown callers do not read keep a worker busy. The server still refuses no callers with a key, and
/// no callers of an open server.
#[tokio::test]
async fn anonymous_requests_for_documents_cause_no_refused_list_operation() {
    const STRANGERS: usize = 200;
    let given = [("http.workers", "1"), ("http.socket_wait_ms", "10"), ("http.buffered_bytes_max", "16 MiB")];
    for is_open in [false, true] {
        let api = api_with(&given).await;
        api.feature("seen", "string", "30d").await;
        let list = items("seen", "u");
        let admin = if is_open { String::new() } else { super::keys::admin(&api).await };
        let by_key = |request: String| if is_open { request } else { with_key(&admin, &request) };
        let asked = by_key(get(&list));
        let mut strangers = Vec::new();
        for _ in 0..STRANGERS {
            let mut stream = connect(&api).await;
            send(&mut stream, &get("/openapi.json").repeat(100)).await;
            strangers.push(stream);
            ask(&api, &asked).await.expect(200);
        }
        for _ in 0..STRANGERS {
            ask(&api, &asked).await.expect(200);
        }
        let metrics = ask(&api, &by_key(get("/metrics"))).await.text();
        assert!(metrics.contains("\nliststore_http_requests_shed_total 0\n"), "{metrics}");
        drop(strangers);
    }
}

/// A client that resets its connection leaves no memory behind.
#[tokio::test]
async fn broken_connections_leave_nothing_behind() {
    let api = api_with(&[("http.response_bytes_max", "4 MiB")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    for part in 0..3 {
        let values: Vec<_> =
            (0..25).map(|n| json!({"timestamp": ago(100 + part * 100 + n), "value": "x".repeat(60_000)})).collect();
        api.post(&list, json!({ "items": values })).await.expect(200);
    }
    let before = metric(&api, "liststore_http_connections").await;
    for number in 0..60 {
        let mut stream = connect(&api).await;
        send(&mut stream, &get(&list).repeat(2)).await;
        let mut some = [0; 1_000];
        timeout(PATIENCE, stream.read_exact(&mut some)).await.unwrap().unwrap();
        match number % 3 {
            // Closing with bytes unread resets the connection.
            0 => drop(stream),
            1 => stream.shutdown().await.unwrap(),
            _ => stream.set_zero_linger().unwrap(),
        }
    }
    until("they are gone", async || metric(&api, "liststore_http_connections").await <= before).await;
    until("nothing is held", async || metric(&api, "liststore_http_buffered_bytes").await == 0.0).await;
    api.get(&list).await.expect(200);
}

/// An upload that takes longer than any operation may is carried out: its deadline counts from its end.
#[tokio::test]
async fn deadlines_count_from_the_end_of_the_request() {
    // In memory, so that only the upload takes long.
    let (api, _) = faulty(&[("items.operation_timeout_ms", "6000")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let body = one(ago(1), "x".repeat(60_000)).to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for (framing, body) in
        [(format!("Content-Length: {}", body.len()), &body), ("Transfer-Encoding: chunked".to_owned(), &chunked)]
    {
        let mut stream = connect(&api).await;
        send(&mut stream, &format!("POST {list} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n")).await;
        for piece in body.as_bytes().chunks(body.len() / 8) {
            stream.write_all(piece).await.unwrap();
            tokio::time::sleep(Duration::from_millis(850)).await;
        }
        answer(&mut stream).await.expect(200);
    }
}
