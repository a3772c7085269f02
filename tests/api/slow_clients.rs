//! Slow or endless clients: a bound or a time limit ends them, and they affect no other.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::client::{Answer, Api, ago, api, api_with, items, one};
use super::sockets::{PATIENCE, connect, metric, refused_at_once, request, until, until_closed};

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

/// The kernel's memory for unread answers is outside of the server's budget.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn unread_answers_hold_little_memory_of_the_kernel() {
    const CONNECTIONS: usize = 20;
    const EACH_MAX: usize = 256 << 10;
    let api = api().await;
    let asked = request("GET /openapi.json", "", "").repeat(40);
    let mut unread = Vec::new();
    for _ in 0..CONNECTIONS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut stream = socket.connect(api.server.address().parse().unwrap()).await.unwrap();
        stream.write_all(asked.as_bytes()).await.unwrap();
        unread.push(stream);
    }
    // Without a bound it is megabytes for each of them.
    let at_least = (CONNECTIONS * (16 << 10)) as f64;
    until("all of them wait", async || metric(&api, "liststore_http_unread_bytes").await >= at_least).await;
    let held = metric(&api, "liststore_http_unread_bytes").await;
    assert!(held <= (CONNECTIONS * EACH_MAX) as f64, "{held}");
    drop(unread);
    until("nothing waits", async || metric(&api, "liststore_http_unread_bytes").await == 0.0).await;
}

#[tokio::test]
async fn endless_heads_end_their_connection() {
    let api = api().await;
    let mut idle = Vec::new();
    for number in 0..200 {
        let mut stream = connect(&api).await;
        // Some are silent, some begin.
        if number % 2 == 0 {
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow:").await.unwrap();
        }
        idle.push(stream);
    }
    api.get("/livez").await.expect(200);
    refused_at_once(&drip(connect(&api).await, b"GET").await, "408 Request Timeout", "request_timeout");
    for (number, mut stream) in idle.into_iter().enumerate() {
        if number % 2 == 0 {
            refused_at_once(&until_closed(&mut stream).await, "408 Request Timeout", "request_timeout");
            continue;
        }
        // Clients connect in advance. A silent connection is idle, and its request is served once it arrives.
        stream.write_all(request("GET /livez", "", "").as_bytes()).await.unwrap();
        timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().expect(200);
    }
    api.get("/livez").await.expect(200);
}

/// A connection on which all of this was sent, including the part that the server refused. The server reads that for a
/// second, which may be too short on a busy machine.
async fn sent_in_full(api: &Api, head: &[u8], rest: &[u8]) -> TcpStream {
    for _ in 0..10 {
        let (began, mut stream) = (Instant::now(), connect(api).await);
        stream.write_all(head).await.unwrap();
        match timeout(PATIENCE, stream.write_all(rest)).await.expect("it is taken in, or the connection ends") {
            Ok(()) => return stream,
            Err(error) => assert!(began.elapsed() >= Duration::from_secs(1), "{error}: it takes nothing in"),
        }
    }
    panic!("the server does not take in what it has refused");
}

#[tokio::test]
async fn a_head_of_a_megabyte_is_refused() {
    let api = api().await;
    for head in ["GET /livez HTTP/1.1\r\nHost: x\r\nX-Large: ", "GET /", "X"] {
        // The server has answered before it has read all of it.
        let mut stream = sent_in_full(&api, head.as_bytes(), &vec![b'a'; 1 << 20]).await;
        let answer = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        assert_eq!(answer.status, 431);
        answer.refused("head_too_large", "");
    }
    // Many small headers are not a way around it.
    let headers: String = (0..100_000).map(|number| format!("x-{number}: y\r\n")).collect();
    let mut stream = sent_in_full(&api, b"GET /livez HTTP/1.1\r\nHost: x\r\n", headers.as_bytes()).await;
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().refused("head_too_large", "");
    api.get("/livez").await.expect(200);
}

#[tokio::test]
async fn endless_bodies_end_their_connection() {
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
    // Other clients are served at the same time.
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

/// Once the kind of a connection's first request exempted its later ones from deadlines: 25 bytes held a slot
/// permanently.
#[tokio::test]
async fn a_stalled_head_ends_a_used_connection_too() {
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
async fn a_refusal_reaches_a_client_that_still_sends() {
    let api = api_with(&[("http.body_bytes_max", "100000")]).await;
    api.feature("seen", "string", "30d").await;
    let body = vec![b' '; 8 << 20];
    let head = request(&format!("POST {}", items("seen", "u")), &format!("Content-Length: {}\r\n", body.len()), "");
    // It listens only when all is sent, as simple clients do.
    let mut stream = sent_in_full(&api, head.as_bytes(), &body).await;
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().refused("payload_too_large", "");
}
