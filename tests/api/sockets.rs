//! Requests as bytes on a separate connection, and their answers.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{Api, ago, one};

/// Far more than any of this takes, and less than a hanging test should.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub async fn connect(api: &Api) -> TcpStream {
    TcpStream::connect(api.server.address()).await.unwrap()
}

/// All that comes until the server ends the connection.
pub async fn until_closed(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // Unread bytes of a request turn the end into a reset.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server ends the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Checks the one answer of a connection without a request: a problem with an ID.
#[track_caller]
pub fn refused_at_once(answer: &str, status: &str, code: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
    for line in ["connection: close", "content-type: application/problem+json"] {
        assert!(head.lines().any(|sent| sent == line), "no {line}: {answer}");
    }
    assert!(head.contains("\r\nx-request-id: "), "{answer}");
    let problem: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("more than one: {answer}"));
    assert_eq!(problem["code"], code, "{answer}");
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let held = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, held).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// The value of a metric, which is named with its labels if it has some.
pub async fn metric(api: &Api, name: &str) -> f64 {
    let text = api.get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {name}")).parse().unwrap()
}

/// A request of one client, to be put together with others.
pub fn request(line: &str, framing: &str, body: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: x\r\n{framing}\r\n{body}")
}

pub fn add_request(list: &str, value: &str) -> String {
    let body = one(ago(1), value).to_string();
    request(&format!("POST {list}"), &format!("Content-Length: {}\r\n", body.len()), &body)
}

/// Sends this, ends nothing, and reads all answers until the server ends the connection.
pub async fn talk(api: &Api, text: &str) -> String {
    let mut stream = connect(api).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    until_closed(&mut stream).await
}
