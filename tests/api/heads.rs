//! Refusals by the head of a request: answered before the body is awaited, and counted once.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::client::{Answer, Api, ago, api_with, items, one};
use super::keys::{admin, key, with_key};
use super::sockets::{PATIENCE, connect, until_closed};

/// Sends a head without its body, and reads the one answer.
async fn answered(api: &Api, head: &str) -> Answer {
    let mut stream = connect(api).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.expect("an answer without a body")
}

async fn counted(api: &Api, token: &str, code: &str, operation: &str, status: u16) -> f64 {
    let headers = [("authorization", &*format!("Bearer {token}"))];
    let text = api.send(Method::GET, "/metrics", &headers, b"").await.text();
    let name =
        format!("liststore_http_requests_total{{code=\"{code}\",operation=\"{operation}\",status=\"{status}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0.0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn the_server_decides_on_a_head_before_it_awaits_the_body() {
    // Waiting for the body would take as long as this test may.
    let api = api_with(&[("http.body_timeout_secs", "3600"), ("http.body_bytes_max", "100000")]).await;
    api.feature("seen", "string", "30d").await;
    let admin = admin(&api).await;
    let (reader, _) = key(&api, Some(&admin), json!({"name": "r", "roles": ["reader"]})).await;
    let few = json!({"name": "f", "roles": ["writer"], "items_per_second": 1, "items_burst": 1});
    let (few, _) = key(&api, Some(&admin), few).await;
    let list = items("seen", "u");
    let authorized = |token: &str, more: &str| format!("Authorization: Bearer {token}\r\n{more}");
    let body = |token: &str| authorized(token, "Content-Length: 100\r\n");
    // It has added more than its limit for the duration of this test.
    let many: Vec<_> = (0..1_000).map(|n| json!({"timestamp": ago(9_000) + n, "value": "x"})).collect();
    with_key(&api, &few, Method::POST, &list, &json!({ "items": many })).await.expect(200);
    let (post, cold) = (format!("POST {list}"), "POST /v1/features".to_owned());
    for (line, headers, operation, status, code) in [
        (&post, "Content-Length: 100\r\n".to_owned(), "add_items", 401, "unauthenticated"),
        (&post, body("ls_nothing"), "add_items", 401, "unauthenticated"),
        (&cold, "Transfer-Encoding: chunked\r\n".to_owned(), "create_feature", 401, "unauthenticated"),
        (&post, body(&reader), "add_items", 403, "permission_denied"),
        (&cold, body(&reader), "create_feature", 403, "permission_denied"),
        (&"POST /nowhere".to_owned(), body(&admin), "none", 404, "not_found"),
        (&format!("PUT {list}"), body(&admin), "none", 405, "method_not_allowed"),
        (&post, authorized(&admin, ""), "add_items", 411, "length_required"),
        (&cold, authorized(&admin, ""), "create_feature", 411, "length_required"),
        (&post, authorized(&admin, "Content-Length: 100001\r\n"), "add_items", 413, "payload_too_large"),
        (&cold, authorized(&admin, "Content-Length: 100001\r\n"), "create_feature", 413, "payload_too_large"),
        (&post, body(&admin) + "Content-Type: text/plain\r\n", "add_items", 415, "unsupported_media_type"),
        (&cold, body(&admin) + "Content-Encoding: gzip\r\n", "create_feature", 415, "unsupported_media_type"),
        (&post, body(&admin) + "Expect: a-miracle\r\n", "add_items", 417, "expectation_failed"),
        (&cold, body(&admin) + "Expect: 100-continue, more\r\n", "create_feature", 417, "expectation_failed"),
        (&post, body(&few), "add_items", 429, "rate_limited"),
    ] {
        let before = counted(&api, &admin, code, operation, status).await;
        for expects in ["", "Expect: 100-continue\r\n"] {
            if headers.contains("Expect") && !expects.is_empty() {
                continue;
            }
            let head = format!("{line} HTTP/1.1\r\nHost: x\r\nX-Request-Id: of-this\r\n{headers}{expects}\r\n");
            let answer = answered(&api, &head).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{head}{}", answer.text());
            assert_eq!(answer.header("x-request-id"), Some("of-this"), "{head}");
        }
        let asked = if headers.contains("Expect") { 1.0 } else { 2.0 };
        assert_eq!(counted(&api, &admin, code, operation, status).await, before + asked, "{line} {code}");
    }
    // The server requests the body of a permitted caller.
    let mut stream = connect(&api).await;
    let add = one(ago(1), "x").to_string();
    let head = format!("{post} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nExpect: 100-continue\r\n", add.len());
    stream.write_all((head + &authorized(&admin, "\r\n")).as_bytes()).await.unwrap();
    let mut word = [0; 25];
    timeout(PATIENCE, stream.read_exact(&mut word)).await.unwrap().unwrap();
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(add.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().expect(200);
}

#[tokio::test]
async fn a_refused_body_is_drained_if_its_end_is_near() {
    let api = api_with(&[]).await;
    let admin = admin(&api).await;
    let add = one(ago(1), "x".repeat(50_000)).to_string();
    let head = format!("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", items("seen", "u"), add.len());
    let mut stream = connect(&api).await;
    for _ in 0..3 {
        stream.write_all(head.as_bytes()).await.unwrap();
        let refused = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        refused.refused("unauthenticated", "");
        assert_eq!(refused.header("connection"), None);
        stream.write_all(add.as_bytes()).await.unwrap();
    }
    let last = format!("GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {admin}\r\n\r\n");
    stream.write_all(last.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap().expect(200);
    // A missing body ends its connection.
    let mut stream = connect(&api).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(until_closed(&mut stream).await.starts_with("HTTP/1.1 401 "));
}

/// A key may be revoked between the head and the end of the body: then it does nothing more, and creates no other key.
#[tokio::test]
async fn a_key_that_is_revoked_while_its_body_arrives_is_refused() {
    let api = api_with(&[("http.body_timeout_secs", "3600")]).await;
    api.feature("seen", "string", "30d").await;
    let admin = admin(&api).await;
    let (writer, id) = key(&api, Some(&admin), json!({"name": "w", "roles": ["admin"]})).await;
    let list = items("seen", "u");
    let mut streams = Vec::new();
    for (path, body) in [(&*list, one(ago(1), "x")), ("/v1/keys", json!({"name": "n", "roles": ["admin"]}))] {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {writer}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
            body.len()
        );
        let mut stream = connect(&api).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        // The caller is admitted, and the server waits for the body.
        let mut word = [0; 25];
        timeout(PATIENCE, stream.read_exact(&mut word)).await.unwrap().unwrap();
        assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
        streams.push((stream, body));
    }
    with_key(&api, &admin, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    for (mut stream, body) in streams {
        stream.write_all(body.as_bytes()).await.unwrap();
        let answer = timeout(PATIENCE, Answer::read(&mut stream, false)).await.unwrap();
        answer.refused("unauthenticated", "");
    }
    let stored = with_key(&api, &admin, Method::GET, &list, &Value::Null).await.expect(200);
    assert_eq!(stored["items"], json!([]));
    let keys = with_key(&api, &admin, Method::GET, "/v1/keys", &Value::Null).await.expect(200);
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2, "{keys}");
}
