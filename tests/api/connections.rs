//! Clients that are slow, endless, or many: they end by a bound or a time, and bother nobody else.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{Answer, Api, ago, api, api_with, items, one};
use super::faults::faulty;

/// Far more than any of this takes, and less than a hanging test should.
const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(api: &Api) -> TcpStream {
    TcpStream::connect(api.server.address()).await.unwrap()
}

/// All that comes until the server ends the connection.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // What was not read of a request makes the end a reset.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server ends the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Holds that this is the one answer of a connection that brought no request: a problem with an ID.
#[track_caller]
fn refused_at_once(answer: &str, status: &str, code: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
    for line in ["connection: close", "content-type: application/problem+json"] {
        assert!(head.lines().any(|sent| sent == line), "no {line}: {answer}");
    }
    assert!(head.contains("\r\nx-request-id: "), "{answer}");
    let problem: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("more than one: {answer}"));
    assert_eq!(problem["code"], code, "{answer}");
}

/// The value of a metric without labels.
async fn metric(api: &Api, name: &str) -> f64 {
    let text = api.get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {name}")).parse().unwrap()
}

/// Sends these bytes one by one, with rests, until the server ends the connection.
async fn drip(stream: TcpStream, bytes: &[u8]) -> String {
    let (mut from, mut to) = stream.into_split();
    let mut answer = Vec::new();
    let dripping = async {
        for byte in bytes.iter().cycle() {
            if to.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        std::future::pending::<()>().await;
    };
    let reading = timeout(PATIENCE, from.read_to_end(&mut answer));
    tokio::select! {
        () = dripping => {}
        read = reading => { let _ = read.expect("the server ends the connection"); }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn heads_that_do_not_come_to_an_end_are_ended() {
    let api = api().await;
    let mut idle = Vec::new();
    for number in 0..200 {
        let mut stream = connect(&api).await;
        // Some say nothing at all, some begin.
        if number % 2 == 0 {
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow:").await.unwrap();
        }
        idle.push(stream);
    }
    api.get("/livez").await.expect(200);
    refused_at_once(&drip(connect(&api).await, b"GET").await, "408 Request Timeout", "request_timeout");
    for (number, mut stream) in idle.into_iter().enumerate() {
        let answer = until_closed(&mut stream).await;
        if number % 2 == 0 {
            refused_at_once(&answer, "408 Request Timeout", "request_timeout");
        } else {
            assert!(answer.is_empty(), "{answer}");
        }
    }
    api.get("/livez").await.expect(200);
}

#[tokio::test]
async fn a_head_of_a_megabyte_is_refused() {
    let api = api().await;
    for head in ["GET /livez HTTP/1.1\r\nHost: x\r\nX-Large: ", "GET /", "X"] {
        let mut stream = connect(&api).await;
        let large = vec![b'a'; 1 << 20];
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server has answered before it has taken all of it, and takes the rest for a while.
        stream.write_all(&large).await.unwrap();
        let answer = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        assert_eq!(answer.status, 431);
        answer.refused("head_too_large", "");
    }
    // Many small headers are no way around it.
    let mut stream = connect(&api).await;
    let mut head = b"GET /livez HTTP/1.1\r\nHost: x\r\n".to_vec();
    (0..100_000).for_each(|number| head.extend_from_slice(format!("x-{number}: y\r\n").as_bytes()));
    stream.write_all(&head).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().refused("head_too_large", "");
    api.get("/livez").await.expect(200);
}

#[tokio::test]
async fn bodies_that_never_end_are_ended() {
    let api = api_with(&[("http.body_timeout_secs", "1"), ("http.body_bytes_max", "100000")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let head = |framing: &str| format!("POST {list} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n").into_bytes();

    let mut waiting = Vec::new();
    for length in ["90", "90000"] {
        let mut stream = connect(&api).await;
        stream.write_all(&head(&format!("Content-Length: {length}"))).await.unwrap();
        stream.write_all(b"{").await.unwrap();
        waiting.push(stream);
    }
    let mut dripping = connect(&api).await;
    dripping.write_all(&head("Transfer-Encoding: chunked")).await.unwrap();
    // Others are served meanwhile.
    api.post(&list, one(ago(1), "x")).await.expect(200);
    let dripped = drip(dripping, b"1\r\n \r\n").await;
    assert!(dripped.starts_with("HTTP/1.1 504 ") && dripped.contains("deadline_exceeded"), "{dripped}");
    for mut stream in waiting {
        let waited = until_closed(&mut stream).await;
        assert!(waited.starts_with("HTTP/1.1 504 ") && waited.contains("did not arrive within 1 s"), "{waited}");
        let (head, _) = waited.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("connection: close"), "{waited}");
    }

    // As fast as it can be sent: refused at the bound, long before the time is over.
    let endless = connect(&api).await;
    let (mut from, mut to) = endless.into_split();
    to.write_all(&head("Transfer-Encoding: chunked")).await.unwrap();
    let flooding = tokio::spawn(async move {
        let mut chunk = b"10000\r\n".to_vec();
        chunk.resize(chunk.len() + 0x10000, b' ');
        chunk.extend_from_slice(b"\r\n");
        while to.write_all(&chunk).await.is_ok() {}
    });
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, from.read_to_end(&mut answer)).await.expect("the server ends the connection");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("payload_too_large"), "{answer}");
    drop(from);
    timeout(PATIENCE, flooding).await.expect("the server takes no more").unwrap();
    // So it is where no body is expected, or wanted: nothing is done before its request is whole.
    api.post(&items("seen", "other"), one(ago(1), "x")).await.expect(200);
    for (head, status) in [
        (format!("DELETE {}", items("seen", "other")), "504"),
        ("DELETE /v1/features/user/seen".to_owned(), "504"),
        ("GET /livez".to_owned(), "504"),
        ("POST /nowhere".to_owned(), "404"),
    ] {
        let mut stream = connect(&api).await;
        stream
            .write_all(format!("{head} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let answer = drip(stream, b"1\r\n \r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    assert_eq!(api.values(&list).await, ["x"]);
    assert_eq!(api.values(&items("seen", "other")).await, ["x"]);
}

/// A request of one client, to be put together with others.
fn request(line: &str, framing: &str, body: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: x\r\n{framing}\r\n{body}")
}

fn add_request(list: &str, value: &str) -> String {
    let body = one(ago(1), value).to_string();
    request(&format!("POST {list}"), &format!("Content-Length: {}\r\n", body.len()), &body)
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_their_order() {
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
async fn a_connection_goes_on_after_requests_of_every_kind() {
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
async fn an_answer_does_not_wait_for_the_next_one() {
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
async fn an_older_client_ends_no_connection_but_its_own() {
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
async fn a_refusal_is_heard_by_a_client_that_still_sends() {
    let api = api_with(&[("http.body_bytes_max", "100000")]).await;
    api.feature("seen", "string", "30d").await;
    let body = vec![b' '; 8 << 20];
    let mut stream = connect(&api).await;
    let head = request(&format!("POST {}", items("seen", "u")), &format!("Content-Length: {}\r\n", body.len()), "");
    stream.write_all(head.as_bytes()).await.unwrap();
    // It listens only when all is sent, as simple clients do.
    stream.write_all(&body).await.expect("the server takes in what it has refused, for a while");
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().refused("payload_too_large", "");
}

#[tokio::test]
async fn empty_lines_between_requests_are_no_requests() {
    let api = api().await;
    let mut stream = connect(&api).await;
    let text = request("GET /livez", "", "") + "\r\n";
    stream.write_all(text.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().expect(200);
    // Longer than the head of a request may take, and far less than a connection may be idle.
    let mut byte = [0];
    let more = timeout(Duration::from_secs(7), stream.read(&mut byte)).await;
    assert!(more.is_err(), "the server says something, or ends the connection: {more:?}");
}

#[tokio::test]
async fn a_request_names_one_host() {
    let api = api().await;
    for hosts in ["", "Host: a\r\nHost: a\r\n"] {
        let answer = api.exchange(format!("GET /livez HTTP/1.1\r\n{hosts}\r\n").as_bytes()).await;
        assert_eq!(answer.status, 400, "{hosts:?}");
    }
}

/// Sends this, ends nothing, and reads all answers until the server ends the connection.
async fn talk(api: &Api, text: &str) -> String {
    let mut stream = connect(api).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    until_closed(&mut stream).await
}

/// Whoever reads a request in another way than the one before us can be made to see two where we see
/// one, or one where we see two. What can be read in two ways is refused, and nothing after it is read.
#[tokio::test]
async fn what_could_smuggle_a_request_is_refused_and_nothing_after_it_is_done() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let smuggled = add_request(&list, "smuggled");
    let post = |framing: &str, body: &str| format!("POST {list} HTTP/1.1\r\nHost: x\r\n{framing}\r\n{body}{smuggled}");
    let malformed = ("400 Bad Request", "malformed_request");
    let coding = ("501 Not Implemented", "transfer_coding_unsupported");
    let version = ("505 HTTP Version Not Supported", "http_version_unsupported");
    let get = |head: &str| format!("GET {list}{head}{smuggled}");
    for (text, (status, code)) in [
        (post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), malformed),
        (post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), malformed),
        (post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), coding),
        (post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), coding),
        (post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), coding),
        (post("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", "0\r\n\r\n"), coding),
        (post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), malformed),
        (post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), malformed),
        (post("Content-Length: 0\r\nContent-Length: 5\r\n", ""), malformed),
        (post("Content-Length: 0\r\nContent-Length: 0\r\n", ""), malformed),
        (post("Content-Length: 0, 0\r\n", ""), malformed),
        (post("Content-Length: +0\r\n", ""), malformed),
        (post("Content-Length: 0x0\r\n", ""), malformed),
        (post("Content-Length : 0\r\n", ""), malformed),
        (post("X: y\nContent-Length: 0\r\n", ""), malformed),
        (post("X: y\rContent-Length: 0\r\n", ""), malformed),
        (post("X: \0\r\nContent-Length: 0\r\n", ""), malformed),
        (post("X: y\r\n z\r\n", ""), malformed),
        (post("Transfer-Encoding: chunked\r\n", "0\n\n"), malformed),
        (post("Transfer-Encoding: chunked\r\n", "0 \r\n\r\n"), malformed),
        (post("Transfer-Encoding: chunked\r\n", "0x0\r\n\r\n"), malformed),
        (post("Transfer-Encoding: chunked\r\n", "1;a\nb\r\nx\r\n0\r\n\r\n"), malformed),
        (post("Transfer-Encoding: chunked\r\n", "1\r\nxx\r\n0\r\n\r\n"), malformed),
        (post("Transfer-Encoding: chunked\r\n", "1\r\nx0\r\n\r\n"), malformed),
        (post("Transfer-Encoding: chunked\r\n", "ffffffffffffffff1\r\nx\r\n0\r\n\r\n"), malformed),
        (post("Transfer-Encoding: chunked\r\n", "0\r\nX : y\r\n\r\n"), malformed),
        (get(" HTTP/1.1\nHost: x\r\n\r\n"), malformed),
        (get(" HTTP/1.1\r\nHost: x\n\n"), malformed),
        (get(" HTTP/1.1\r\n Host: x\r\n\r\n"), malformed),
        (get(" HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"), malformed),
        (get(" HTTP/1.1\r\nHost: x/y\r\n\r\n"), malformed),
        (get(" HTTP/1.1\r\nHost:\r\n\r\n"), malformed),
        (get(" HTTP/1.1\r\n\r\n"), malformed),
        (get(" HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), malformed),
        (get(" HTTP/1.2\r\nHost: x\r\n\r\n"), version),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), version),
        (format!("GET ftp://x{list} HTTP/1.1\r\nHost: x\r\n\r\n{smuggled}"), malformed),
        (format!("GET http://u:p@x{list} HTTP/1.1\r\nHost: x\r\n\r\n{smuggled}"), malformed),
        (format!("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n{smuggled}"), malformed),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}".to_owned(), malformed),
    ] {
        let told = talk(&api, &text).await;
        assert!(told.starts_with("HTTP/1.1 "), "{text:?}: {told:?}");
        refused_at_once(&told, status, code);
    }
    assert!(api.values(&list).await.is_empty());
    let metrics = api.get("/metrics").await.text();
    let counted = "liststore_http_requests_total{code=\"malformed_request\",operation=\"none\",status=\"400\"}";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn a_connection_that_is_to_close_is_read_no_further() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    for closing in
        [request(&format!("GET {list}"), "Connection: x, Close\r\n", ""), format!("GET {list} HTTP/1.0\r\n\r\n")]
    {
        let told = talk(&api, &(closing + &add_request(&list, "after it"))).await;
        assert_eq!(told.matches("HTTP/1.1 ").count(), 1, "{told}");
        assert!(told.contains("\r\nconnection: close\r\n"), "{told}");
    }
    assert!(api.values(&list).await.is_empty());
}

#[tokio::test]
async fn an_older_client_may_ask_to_go_on() {
    let api = api().await;
    let mut stream = connect(&api).await;
    for _ in 0..3 {
        stream.write_all(b"GET /livez HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").await.unwrap();
        let answer = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        assert_eq!((answer.status, answer.header("connection")), (200, Some("keep-alive")));
    }
}

/// Answers to HEAD have the length of what they leave out: a client that takes it for a body reads the
/// next answer in the wrong place.
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
        request(&format!("GET http://elsewhere{list}"), "TE: trailers\r\n", ""),
    ];
    stream.write_all(together.concat().as_bytes()).await.unwrap();
    for (head_only, status) in [(false, 200), (true, 200), (false, 204), (true, 200), (true, 404), (false, 204)] {
        let answer = timeout(PATIENCE, Answer::read(&mut stream, head_only)).await.unwrap();
        assert_eq!((answer.status, answer.header("connection")), (status, None), "{}", answer.text());
        assert!(!head_only || answer.header("content-length").is_some_and(|length| length != "0"));
    }
    let last = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
    assert_eq!(last.expect(200), json!({"items": []}));
}

/// Once a connection's first request was of a kind, its later ones had no time to end by: 25 bytes held a
/// place for ever.
#[tokio::test]
async fn a_head_that_stops_is_ended_on_a_connection_that_has_served_others_too() {
    let api = api().await;
    let mut waiting = Vec::new();
    for first in [request("HEAD /livez", "", ""), request("GET /livez", "TE: trailers\r\n", "")] {
        let mut stream = connect(&api).await;
        stream.write_all(first.as_bytes()).await.unwrap();
        let answer = timeout(PATIENCE, Answer::read(&mut stream, first.starts_with("HEAD"))).await.unwrap();
        assert_eq!(answer.status, 200);
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost:").await.unwrap();
        waiting.push(stream);
    }
    for mut stream in waiting {
        refused_at_once(&until_closed(&mut stream).await, "408 Request Timeout", "request_timeout");
    }
}

#[tokio::test]
async fn a_body_is_sent_for_only_where_it_will_be_read() {
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

#[tokio::test]
async fn work_whose_client_has_gone_is_not_done() {
    let given = [
        ("items.actors", "1"),
        ("items.permits_per_actor", "1"),
        ("items.permit_wait_ms", "30000"),
        ("items.operation_timeout_ms", "30000"),
    ];
    let (api, faults) = faulty(&given).await;
    api.feature("seen", "string", "30d").await;
    let add = |entity_id: &str| add_request(&items("seen", entity_id), "x").into_bytes();
    faults.stall(true);
    let mut stays = connect(&api).await;
    stays.write_all(&add("stays")).await.unwrap();
    while metric(&api, "liststore_list_permits_in_use").await < 1.0 {}
    let before = metric(&api, "liststore_http_connections").await;
    let mut goes = connect(&api).await;
    goes.write_all(&add("goes")).await.unwrap();
    while metric(&api, "liststore_http_connections").await <= before {}
    drop(goes);
    let noticed = async { while metric(&api, "liststore_http_connections").await > before {} };
    timeout(PATIENCE, noticed).await.expect("the server notices that a client has gone");
    faults.stall(false);
    let mut answer = [0; 15];
    timeout(PATIENCE, stays.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    assert_eq!(api.values(&items("seen", "stays")).await, ["x"]);
    assert!(api.values(&items("seen", "goes")).await.is_empty());
}

/// Who erased what must be told whatever becomes of them.
#[tokio::test]
async fn an_erasure_whose_client_has_gone_goes_on_and_is_in_the_audit_trail() {
    let (api, faults) = faulty(&[]).await;
    for feature in ["bought", "seen"] {
        api.feature(feature, "string", "30d").await;
        api.add(&items(feature, "u"), &[(ago(1), "a".into())]).await;
    }
    faults.hold_clears(true);
    let before = metric(&api, "liststore_http_connections").await;
    let mut goes = connect(&api).await;
    goes.write_all(b"DELETE /v1/entities/user/u HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    while metric(&api, "liststore_list_permits_in_use").await < 1.0 {}
    drop(goes);
    let noticed = async { while metric(&api, "liststore_http_connections").await > before {} };
    timeout(PATIENCE, noticed).await.expect("the server notices that a client has gone");
    faults.hold_clears(false);
    let noted = async {
        loop {
            let audit = api.get("/v1/audit?action=erase_entity").await.expect(200);
            if let Some(entry) = audit["changes"].as_array().unwrap().first() {
                return entry["after"].clone();
            }
        }
    };
    let noted = timeout(PATIENCE, noted).await.expect("the erasure is noted");
    assert_eq!(noted, json!({"lists_cleared": 2, "lists_not_cleared": 0, "not_cleared": []}));
    for feature in ["bought", "seen"] {
        assert!(api.values(&items(feature, "u")).await.is_empty());
    }
}
