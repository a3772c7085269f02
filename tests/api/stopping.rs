//! While a server stops: not ready, yet every request that it has accepted is answered.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::client::{ago, items, one};
use super::faults::faulty;
use super::sockets::{metric, until, until_closed};

#[tokio::test]
async fn requests_in_flight_are_answered_and_their_connections_closed() {
    let (api, faults) = faulty(&[("items.operation_timeout_ms", "30000"), ("http.shutdown_grace_secs", "30")]).await;
    api.feature("seen", "string", "30d").await;
    faults.stall(true);
    let body = one(ago(1), "x").to_string();
    let head = format!("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", items("seen", "u"), body.len());
    let mut stream = TcpStream::connect(api.server.address()).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    // It is in flight once it holds a permit.
    let is_at_work = async || metric(&api, "liststore_list_permits_in_use").await == 1.0;
    until("it is at work", is_at_work).await;
    api.server.begin_stop();
    // No new connections are accepted from here on.
    until("it takes no connection", async || TcpStream::connect(api.server.address()).await.is_err()).await;
    faults.stall(false);
    let answer = until_closed(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.ends_with(&json!({"added": 1, "already_expired": 0}).to_string()), "{answer}");
}
