//! Request bodies: their media type, their size, their JSON.

use reqwest::Method;
use serde_json::json;

use super::client::{ago, api, api_with, items, one};

#[tokio::test]
async fn a_missing_content_type_is_json_and_others_are_refused() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let body = one(ago(1), "x").to_string();
    for content_type in ["", "application/json", "APPLICATION/JSON", "application/json; charset=utf-8"] {
        let headers = [("content-type", content_type)];
        let headers = if content_type.is_empty() { &headers[1..] } else { &headers[..] };
        api.send(Method::POST, &list, headers, body.as_bytes()).await.expect(200);
    }
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "x"] {
        let answer = api.send(Method::POST, &list, &[("content-type", content_type)], body.as_bytes()).await;
        answer.refused("unsupported_media_type", "");
    }
    let compressed = api.send(Method::POST, &list, &[("content-encoding", "gzip")], body.as_bytes()).await;
    compressed.refused("unsupported_media_type", "");
    let patch = api.send(Method::PATCH, "/v1/features/user/seen", &[("content-type", "text/plain")], b"{}").await;
    patch.refused("unsupported_media_type", "");
}

#[tokio::test]
async fn malformed_json_and_wrong_members_are_distinguished() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let calls = [
        (Method::POST, list.clone()),
        (Method::POST, format!("{list}:remove")),
        (Method::POST, "/v1/features".to_owned()),
        (Method::PATCH, "/v1/features/user/seen".to_owned()),
        (Method::POST, "/v1/features/user/seen/versions".to_owned()),
        (Method::PATCH, "/v1/features/user/seen/versions/v2".to_owned()),
    ];
    for (method, path) in &calls {
        for body in [
            &b" "[..],
            b"{",
            b"nope",
            b"{\"a\":}",
            b"{} {}",
            b"{}x",
            b"[1,]",
            b"{'a':1}",
            b"\xff",
            b"{\"a\":\"\xff\"}",
            b"NaN",
        ] {
            let answer = api.send(method.clone(), path, &[], body).await;
            answer.refused("invalid_json", "");
        }
        let none = api.send(method.clone(), path, &[], b"").await;
        none.refused("length_required", "");
        let empty = api.raw(&format!("{method} {path} HTTP/1.1\r\nContent-Length: 0"), b"").await;
        empty.refused("invalid_json", "");
        for body in [&b"[]"[..], b"null", b"1", b"\"x\""] {
            let answer = api.send(method.clone(), path, &[], body).await;
            answer.refused("invalid_argument", "");
        }
        let answer = api.send(method.clone(), path, &[], br#"{"surprise":1}"#).await;
        answer.refused("invalid_argument", "surprise");
        for (body, field) in [(&br#"{"":1}"#[..], r#"[""]"#), (br#"{"[0]":1}"#, r#"["[0]"]"#)] {
            api.send(method.clone(), path, &[], body).await.refused("invalid_argument", field);
        }
    }
    assert!(api.values(&list).await.is_empty());
}

#[tokio::test]
async fn members_given_twice_are_refused() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let post = async |path: &str, body: String| api.send(Method::POST, path, &[], body.as_bytes()).await;
    let item = format!(r#"{{"timestamp":{},"value":"x"}}"#, ago(1));
    let twice = post(&list, format!(r#"{{"items":[{item}],"items":[{item}]}}"#)).await;
    twice.refused("invalid_argument", "items");
    let twice = post(&list, format!(r#"{{"items":[{item},{{"timestamp":1,"value":"x","v\u0061lue":"y"}}]}}"#)).await;
    twice.refused("invalid_argument", "items[1].value");
    let twice = post(&format!("{list}:remove"), r#"{"value":"x","value":"y"}"#.to_owned()).await;
    twice.refused("invalid_argument", "value");
    let twice = post("/v1/features/user/seen/versions", r#"{"version":"a","version":"b"}"#.to_owned()).await;
    twice.refused("invalid_argument", "version");
    assert!(api.values(&list).await.is_empty());
}

#[tokio::test]
async fn a_body_above_the_bound_is_refused_in_every_framing() {
    let api = api_with(&[("http.body_bytes_max", "10000")]).await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let fitting = one(ago(1), "x".repeat(9_900)).to_string();
    assert!(fitting.len() <= 10_000);
    api.send(Method::POST, &list, &[], fitting.as_bytes()).await.expect(200);
    let large = one(ago(1), "y".repeat(10_001)).to_string();
    api.send(Method::POST, &list, &[], large.as_bytes()).await.refused("payload_too_large", "");

    let chunk = vec![b' '; 4_000];
    let mut chunked = Vec::new();
    for _ in 0..3 {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(&chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let head = format!("POST {list} HTTP/1.1\r\nTransfer-Encoding: chunked");
    api.raw(&head, &chunked).await.refused("payload_too_large", "");

    // A body whose announced length is beyond the bound is refused before it is sent.
    let head = format!("POST {list} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4000000000\r\n\r\n");
    api.exchange(head.as_bytes()).await.refused("payload_too_large", "");
    assert_eq!(api.values(&list).await.len(), 1);
}

#[tokio::test]
async fn large_bodies_up_to_the_bound_are_accepted() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let (list, now) = (items("seen", "u"), ago(100));
    let items: Vec<_> =
        (0..32).map(|n| json!({"timestamp": now + n, "value": format!("{n}{}", "x".repeat(60_000))})).collect();
    api.post(&list, json!({ "items": items })).await.expect(200);
    let too_much: Vec<_> = (0..40).map(|n| json!({"timestamp": n, "value": "x".repeat(60_000)})).collect();
    api.post(&list, json!({ "items": too_much })).await.refused("payload_too_large", "");
}

#[tokio::test]
async fn nesting_does_not_exhaust_the_server() {
    let api = api().await;
    api.feature("seen", "json", "30d").await;
    let list = items("seen", "u");
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let (deep, deepest) = (nested(10_000), nested(500_000));
    let body = format!(r#"{{"items":[{{"timestamp":{},"value":{deep}}}]}}"#, ago(1));
    api.send(Method::POST, &list, &[], body.as_bytes()).await.refused("invalid_argument", "items[0].value");
    api.send(Method::POST, &list, &[], deepest.as_bytes()).await.refused("invalid_argument", "");
    api.send(Method::PATCH, "/v1/features/user/seen", &[], deepest.as_bytes()).await.refused("invalid_argument", "");
}
