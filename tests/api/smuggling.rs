//! The end of a request: no other reader may find it elsewhere.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::client::{Answer, api, items};
use super::sockets::{PATIENCE, add_request, connect, refused_at_once, request, talk};

#[tokio::test]
async fn a_request_names_one_host() {
    let api = api().await;
    for hosts in ["", "Host: a\r\nHost: a\r\n"] {
        let answer = api.exchange(format!("GET /livez HTTP/1.1\r\n{hosts}\r\n").as_bytes()).await;
        assert_eq!(answer.status, 400, "{hosts:?}");
    }
}

/// If a reader in front of the server reads a request differently, it can see two requests where the server sees one,
/// or the opposite. Requests that can be read in two ways are refused, and nothing after them is read.
#[tokio::test]
async fn a_smuggling_attempt_is_refused_with_everything_after_it() {
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
        (post("Transfer-Encoding: chunked\r\n", "0;a=\"\r\n\r\n"), malformed),
        (post("Transfer-Encoding: chunked\r\n", "0;a=\"\\\"\r\n\r\n"), malformed),
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
        let reported = talk(&api, &text).await;
        assert!(reported.starts_with("HTTP/1.1 "), "{text:?}: {reported:?}");
        refused_at_once(&reported, status, code);
    }
    assert!(api.values(&list).await.is_empty());
    let metrics = api.get("/metrics").await.text();
    let counted = "liststore_http_requests_total{code=\"malformed_request\",operation=\"none\",status=\"400\"}";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn a_closing_connection_is_not_read_further() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    for closing in
        [request(&format!("GET {list}"), "Connection: x, Close\r\n", ""), format!("GET {list} HTTP/1.0\r\n\r\n")]
    {
        let reported = talk(&api, &(closing + &add_request(&list, "after it"))).await;
        assert_eq!(reported.matches("HTTP/1.1 ").count(), 1, "{reported}");
        assert!(reported.contains("\r\nconnection: close\r\n"), "{reported}");
    }
    assert!(api.values(&list).await.is_empty());
}

#[tokio::test]
async fn empty_lines_between_requests_are_ignored() {
    let api = api().await;
    let mut stream = connect(&api).await;
    let text = request("GET /livez", "", "") + "\r\n";
    stream.write_all(text.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().expect(200);
    // Longer than the time of a head, and far less than the idle time of a connection.
    let mut byte = [0];
    let more = timeout(Duration::from_secs(7), stream.read(&mut byte)).await;
    assert!(more.is_err(), "the server says something, or ends the connection: {more:?}");
}
