//! Paths: decoded strictly, segment by segment; missing paths, and methods that a path does not have.

use reqwest::Method;
use serde_json::json;

use super::client::{ago, api, items, one};

#[tokio::test]
async fn an_entity_id_may_hold_any_character() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let ids = ["a/b", "a b", "a+b", "a%2Fb", "é😀", "#?&=|~", "items", "...", "\u{1}\u{7f}", &"x".repeat(512)];
    for id in ids {
        api.add(&items("seen", id), &[(ago(1), id.into())]).await;
    }
    for id in ids {
        assert_eq!(api.values(&items("seen", id)).await, [id], "{id:?}");
    }
    // A slash in an ID is data, with digits in either case. Other encoded characters equal their unencoded form.
    assert_eq!(api.values("/v1/lists/user/seen/a%2fb/items").await, ["a/b"]);
    assert_eq!(api.values("/v1/lists/user/seen/a+b/items").await, ["a+b"]);
    assert_eq!(api.values("/v1/lists/%75ser/seen/a%20b/items").await, ["a b"]);
}

#[tokio::test]
async fn entity_ids_are_bounded() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let path = |id: &str| format!("GET /v1/lists/user/seen/{id}/items HTTP/1.1");
    for id in ["", "%00", "a%00b", ".", "..", "%2E", "%2e%2E", &"x".repeat(513), &"%C3%A9".repeat(257)] {
        api.raw(&path(id), b"").await.refused("invalid_argument", "entity_id");
    }
    api.raw(&path("..."), b"").await.expect(200);
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_is_refused() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    for id in ["%FF", "%C3", "%C0%AF", "%ED%A0%80", "%", "%4", "%zz"] {
        let head = format!("GET /v1/lists/user/seen/{id}/items HTTP/1.1");
        api.raw(&head, b"").await.refused("invalid_argument", "path");
    }
}

#[tokio::test]
async fn names_of_features_are_bounded() {
    let api = api().await;
    api.get("/v1/features/us%20er/seen").await.refused("invalid_argument", "entity_type");
    api.get("/v1/features/user/se~en").await.refused("invalid_argument", "name");
    api.get(&format!("/v1/features/user/{}", "x".repeat(129))).await.refused("invalid_argument", "name");
    api.get("/v1/features/user/%C3%A9").await.refused("invalid_argument", "name");
    api.get("/v1/features/user/seen/versions/a%20b").await.refused("invalid_argument", "version");
    api.get("/v1/lists/user/se%7Cen/u/items").await.refused("invalid_argument", "feature");
    api.get("/v1/lists/us%23er/seen/u/items").await.refused("invalid_argument", "entity_type");
    api.raw("GET /v1/features//seen HTTP/1.1", b"").await.refused("invalid_argument", "entity_type");
    api.raw("GET /v1/features/user/.. HTTP/1.1", b"").await.refused("invalid_argument", "name");
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let api = api().await;
    for path in [
        "/",
        "/v1",
        "/v1/features/",
        "/v1/features/user",
        "/v1/features/user/seen/",
        "/v1/features/user/seen/versions/a/b",
        "/v1/lists/user/seen/u",
        "/v1/lists/user/seen/u/items/",
        "/v1/lists/user/seen/u/items:drop",
        "/v1//features",
        "/v2/features",
        "/favicon.ico",
        "/livez/",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let answer = api.send(method, path, &[], b"").await;
            answer.refused("not_found", "");
        }
    }
}

/// Code that reads a path before it is decoded would find another operation.
#[tokio::test]
async fn a_fixed_segment_is_not_encoded() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    for path in [
        "/%6Civez",
        "/%6divez",
        "/openapi%2Ejson",
        "/v1/%6Cists/user/seen/u/items",
        "/%761/lists/user/seen/u/items",
        "/v1/lists/user/seen/u/item%73",
        "/v1/entity-types/user/indexes/i/%65ntities",
    ] {
        api.raw(&format!("GET {path} HTTP/1.1"), b"").await.refused("not_found", "");
    }
    // A colon needs no encoding and may be encoded. Clients differ in that.
    for path in [
        "/v1/lists/user/seen/u/items:count",
        "/v1/lists/user/seen/u/items%3Acount",
        "/v1/lists/%75ser/seen/u/items:count",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(api.exchange(request.as_bytes()).await.expect(200)["count"], 0, "{path}");
    }
}

#[tokio::test]
async fn options_of_the_server_itself_names_all_methods() {
    let api = api().await;
    let answer = api.exchange(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").await;
    answer.expect(204);
    assert_eq!(answer.header("allow"), Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    let refused = api.exchange(b"GET * HTTP/1.1\r\nHost: x\r\n\r\n").await;
    refused.refused("malformed_request", "");
}

#[tokio::test]
async fn other_methods_are_refused_with_the_allowed_ones() {
    let api = api().await;
    for (method, path, allow) in [
        (Method::PUT, "/v1/lists/user/seen/u/items", "GET, POST, DELETE, HEAD, OPTIONS"),
        (Method::GET, "/v1/lists/user/seen/u/items:remove", "POST, OPTIONS"),
        (Method::DELETE, "/v1/features", "GET, POST, HEAD, OPTIONS"),
        (Method::POST, "/v1/features/user/seen", "GET, PATCH, DELETE, HEAD, OPTIONS"),
        (Method::GET, "/v1/features/user/seen/versions", "POST, OPTIONS"),
        (Method::HEAD, "/v1/features/user/seen/versions", "POST, OPTIONS"),
        (Method::POST, "/livez", "GET, HEAD, OPTIONS"),
        (Method::TRACE, "/metrics", "GET, HEAD, OPTIONS"),
        (Method::from_bytes(b"BREW").unwrap(), "/openapi.json", "GET, HEAD, OPTIONS"),
    ] {
        let answer = api.send(method.clone(), path, &[], b"").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
        if method != Method::HEAD {
            answer.refused("method_not_allowed", "");
        }
    }
}

#[tokio::test]
async fn options_names_the_methods_and_head_omits_the_content() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let list = items("seen", "u");
    api.post(&list, one(ago(1), "x")).await.expect(200);
    let options = api.send(Method::OPTIONS, &list, &[], b"").await;
    assert_eq!(options.expect(204), serde_json::Value::Null);
    for path in [list.as_str(), "/v1/features/user/seen", "/livez", "/metrics", "/openapi.json"] {
        let (get, head) = (api.get(path).await, api.send(Method::HEAD, path, &[], b"").await);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.content_type(), get.content_type(), "{path}");
    }
    let unknown = api.send(Method::HEAD, "/v1/features/user/unknown", &[], b"").await;
    assert_eq!((unknown.status, unknown.body.len()), (404, 0));
}

#[tokio::test]
async fn the_target_may_be_absolute() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let answer = api.exchange(
        b"GET http://elsewhere/v1/features/user/seen HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(answer.await.expect(200)["name"], json!("seen"));
}
