//! Requests of a browser for a page: only pages of the server's site, and named ones, can change anything.

use reqwest::Method;
use serde_json::json;

use super::client::{ago, api_with, items, one};

#[tokio::test]
async fn a_page_of_another_site_cannot_write() {
    let api = api_with(&[("http.allowed_origins", "https://Lists.example.org:443,http://localhost:3000")]).await;
    api.feature("seen", "string", "30d").await;
    let (list, add) = (items("seen", "u"), one(ago(1), "x").to_string());
    let feature = json!({"entity_type": "user", "name": "new", "value_type": "string", "ttl": "1d"}).to_string();
    let writes = [
        (Method::POST, list.clone(), add.as_str()),
        (Method::POST, format!("{list}:remove"), r#"{"value":"x"}"#),
        (Method::DELETE, list.clone(), ""),
        (Method::POST, "/v1/features".to_owned(), &feature),
        (Method::PATCH, "/v1/features/user/seen".to_owned(), r#"{"ttl":"1d"}"#),
        (Method::DELETE, "/v1/features/user/seen".to_owned(), ""),
        (Method::POST, "/v1/backups".to_owned(), r#"{"dir":"/x"}"#),
    ];
    for headers in [
        &[("origin", "https://evil.example.org")][..],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        // Forms can send these without a preflight request.
        &[("origin", "https://evil.example.org"), ("content-type", "text/plain")],
    ] {
        for (method, path, body) in &writes {
            let answer = api.send(method.clone(), path, headers, body.as_bytes()).await;
            answer.refused("cross_site", "Origin");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
        api.send(Method::GET, &list, headers, b"").await.expect(200);
    }
    let own = api.server.url.clone();
    for origin in [own.as_str(), "https://lists.example.org", "http://localhost:3000"] {
        let headers = [("origin", origin), ("sec-fetch-site", "same-origin")];
        api.send(Method::POST, &list, &headers, add.as_bytes()).await.expect(200);
        let patch = api.send(Method::PATCH, "/v1/features/user/seen", &headers, br#"{"ttl":"2d"}"#).await;
        patch.expect(200);
    }
    assert_eq!(api.values(&list).await, ["x"]);
}
