//! Request headers: ids, deadlines, authors.

use reqwest::Method;
use serde_json::json;

use super::client::{ago, api, items, one};

#[tokio::test]
async fn every_answer_has_the_requests_id() {
    let api = api().await;
    let longest = "x".repeat(128);
    for (sent, kept) in [("a-1_~!", true), (longest.as_str(), true), ("", false), ("a b", false), ("é", false)] {
        let answer = api.send(Method::GET, "/v1/features", &[("x-request-id", sent)], b"").await;
        assert_eq!(answer.header("x-request-id") == Some(sent), kept, "{sent:?}");
    }
    let too_long = "x".repeat(129);
    let id = async |path: &str| {
        let answer = api.send(Method::GET, path, &[("x-request-id", &too_long)], b"").await;
        answer.header("x-request-id").unwrap().to_owned()
    };
    // Made ones differ, and refusals and health have them too.
    let made = [id("/v1/features").await, id("/nowhere").await, id("/livez").await];
    assert!(made.iter().all(|one| made.iter().filter(|other| *other == one).count() == 1), "{made:?}");
    assert!(!made.contains(&too_long));
}

/// The log has the request's id on every line.
#[tokio::test]
async fn a_request_id_with_a_key_or_token_is_replaced() {
    let api = api().await;
    let key = api.post("/v1/keys", json!({"name": "admin", "roles": ["admin"]})).await.expect(201);
    let key = key["token"].as_str().unwrap().to_owned();
    let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.";
    for secret in [&key, &*format!("trace-{key}"), &key[..40], &key[3..], &key[5..], token, &token[5..]] {
        let answer = api.send(Method::GET, "/livez", &[("x-request-id", secret)], b"").await;
        let id = answer.header("x-request-id").unwrap();
        assert!(id != secret && !id.contains("ls_") && !id.contains("eyJ"), "{id}");
    }
}

#[tokio::test]
async fn a_timeout_must_be_whole_milliseconds_from_1() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    let body = one(ago(1), "x").to_string();
    for bad in ["0", "-1", "1.5", "1s", "", "+1", "0x10"] {
        let headers = [("liststore-timeout-ms", bad)];
        for (method, path) in [
            (Method::GET, list.as_str()),
            (Method::POST, &list),
            (Method::DELETE, &list),
            (Method::GET, "/v1/features"),
            (Method::DELETE, "/v1/features/user/seen"),
        ] {
            let body = if method == Method::POST { body.as_str() } else { "" };
            let answer = api.send(method, path, &headers, body.as_bytes()).await;
            answer.refused("invalid_argument", "Liststore-Timeout-Ms");
        }
    }
    for good in ["60000", "99999999", "99999999999999999999999999"] {
        let answer = api.send(Method::GET, &list, &[("liststore-timeout-ms", good)], b"").await;
        assert_eq!(answer.expect(200), json!({"items": []}));
    }
    let twice = [("liststore-timeout-ms", "1000"), ("liststore-timeout-ms", "2000")];
    api.send(Method::GET, &list, &twice, b"").await.refused("invalid_argument", "Liststore-Timeout-Ms");
}

#[tokio::test]
async fn the_author_of_a_change_is_kept() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let longest = "é".repeat(128);
    for (ttl, user) in [("1d", "alice"), ("2d", "Zoë (feed team)"), ("3d", longest.as_str())] {
        let body = json!({"ttl": ttl}).to_string();
        let headers = [("liststore-user", user)];
        api.send(Method::PATCH, "/v1/features/user/seen", &headers, body.as_bytes()).await.expect(200);
        let history = api.get("/v1/features/user/seen/history").await.expect(200);
        assert_eq!(history["history"][0]["by"], user);
    }
    let too_long = "x".repeat(129);
    for bad in ["", too_long.as_str()] {
        let headers = [("liststore-user", bad)];
        for (method, path) in [
            (Method::POST, "/v1/features"),
            (Method::PATCH, "/v1/features/user/seen"),
            (Method::DELETE, "/v1/features/user/seen"),
            (Method::POST, "/v1/features/user/seen/versions"),
            (Method::PATCH, "/v1/features/user/seen/versions/v2"),
            (Method::DELETE, "/v1/features/user/seen/versions/v2"),
        ] {
            api.send(method, path, &headers, b"{}").await.refused("invalid_argument", "Liststore-User");
        }
    }
    let latin1 =
        b"DELETE /v1/features/user/seen HTTP/1.1\r\nHost: x\r\nConnection: close\r\nListstore-User: Zo\xeb\r\n\r\n";
    api.exchange(latin1).await.refused("invalid_argument", "Liststore-User");
    assert_eq!(api.get("/v1/features/user/seen").await.expect(200)["ttl"], "3d");
}
