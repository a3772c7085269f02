//! Permissions: every operation of the table with every kind of caller.

use liststore::operations::OPERATIONS;
use liststore_contract::permission::Permission;
use liststore_contract::row::{Row, Segment, Subject};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Api, api, api_with, items};
use super::issuers::Issued;
use super::keys::{JSON, admin, key, with_key};
use super::sockets::until;

/// A kind of caller, and its credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    NoKey,
    Unknown,
    Expired,
    Revoked,
    OtherEntityType,
    ReadOnly,
    Right,
}

/// The status and code of a caller's refusal; none if there is none.
fn refusal(who: Who, operation: &Row) -> Option<(u16, &'static str)> {
    let denied = Some((403, "permission_denied"));
    match (who, operation.permission) {
        (_, Permission::Open) => None,
        (Who::NoKey | Who::Unknown | Who::Expired | Who::Revoked, _) => Some((401, "unauthenticated")),
        (_, Permission::Known) => None,
        (_, Permission::LocalAdministration) => Some((403, "local_only")),
        // The answer contains the refusal of each list of a call.
        (Who::OtherEntityType, _) if operation.name.starts_with("batch_") => None,
        // The feature of a job is known once the job was found, and a listing shows the visible ones.
        (Who::OtherEntityType, _) if operation.subject == Subject::Visible => None,
        (Who::OtherEntityType, _) => denied,
        (Who::ReadOnly, Permission::ListsRead | Permission::FeaturesRead) => None,
        (Who::ReadOnly, _) => denied,
        (Who::Right, _) => None,
    }
}

/// The body that the document shows as an example.
fn example(document: &Value, operation: &Row) -> Value {
    let path = operation.path.replace('/', "~1");
    let method = operation.method.as_str().to_lowercase();
    let pointer = format!("/paths/{path}/{method}/requestBody/content/application~1json/schema/$ref");
    let mut reference = document.pointer(&pointer).and_then(Value::as_str);
    while let Some(found) = reference {
        let schema = document.pointer(found.trim_start_matches('#')).unwrap();
        if let Some(example) = schema.get("example").or_else(|| schema.pointer("/examples/0")) {
            return example.clone();
        }
        // Of several forms any will do.
        reference = schema.pointer("/oneOf/0/$ref").and_then(Value::as_str);
        assert!(reference.is_some(), "{found} has no example");
    }
    Value::Null
}

/// The credentials of a caller: an API key and a token. None for a caller without any.
async fn credentials(api: &Api, issued: &Issued) -> Vec<(Who, Vec<String>)> {
    let by = issued.token("root", &["admins"]);
    let all_roles = ["reader", "writer", "editor", "scaler", "operator", "admin"];
    let (admin, _) = key(api, Some(&by), json!({"name": "admin", "roles": ["admin"]})).await;
    let (expiring, _) = key(api, Some(&by), json!({"name": "e", "roles": ["admin"], "expires": "1s"})).await;
    let (revoked, id) = key(api, Some(&by), json!({"name": "r", "roles": ["admin"]})).await;
    with_key(api, &by, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    let other = json!({"name": "o", "roles": all_roles, "scopes": ["customer.*"]});
    let (other, _) = key(api, Some(&by), other).await;
    let (reader, _) = key(api, Some(&by), json!({"name": "ro", "roles": ["reader"]})).await;
    let unknown = liststore::access::token::Secret::generate().unwrap().expose().to_owned();
    let is_expired = async || with_key(api, &expiring, Method::GET, "/v1/features", &Value::Null).await.status == 401;
    until("it has expired", is_expired).await;
    let token = |groups: &[&str]| issued.token("alice", groups);
    vec![
        (Who::NoKey, vec![]),
        (Who::Unknown, vec![unknown, issued.forged("alice", &["admins"])]),
        (Who::Expired, vec![expiring, issued.expired("alice", &["admins"])]),
        (Who::Revoked, vec![revoked, issued.signed_with_removed_key("alice", &["admins"])]),
        (Who::OtherEntityType, vec![other, token(&["others"])]),
        (Who::ReadOnly, vec![reader, token(&["readers"])]),
        (Who::Right, vec![admin, token(&["admins"])]),
    ]
}

/// It includes new operations automatically.
#[tokio::test]
async fn every_operation_requires_its_permission() {
    let issued = Issued::by_file();
    let api = api_with(&[("access.jwt.issuers", &issued.settings())]).await;
    let document = api.get("/openapi.json").await.expect(200);
    let all = credentials(&api, &issued).await;
    let admin = &all[6].1[0];
    let seen = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "1h"});
    with_key(&api, admin, Method::POST, "/v1/features", &seen).await.expect(201);
    for operation in OPERATIONS.iter().map(|operation| operation.row) {
        let variables: Vec<_> =
            operation.segments().filter(|segment| matches!(segment, Segment::Variable(_))).collect();
        let names = variables.iter().map(|segment| match segment {
            Segment::Variable("entity_type") => "user",
            Segment::Variable("feature" | "name") => "seen",
            Segment::Variable("key_id") => "0123456789ab",
            _ => "v2",
        });
        let path = operation.path_of(&names.collect::<Vec<_>>());
        let method: Method = operation.method.as_str().parse().unwrap();
        let body = example(&document, operation);
        for (who, tokens) in &all {
            let mut answers = Vec::new();
            for token in tokens {
                answers.push(with_key(&api, token, method.clone(), &path, &body).await);
            }
            if tokens.is_empty() {
                let text = if body.is_null() { String::new() } else { body.to_string() };
                let headers = if body.is_null() { &[][..] } else { &[JSON] };
                answers.push(api.send(method.clone(), &path, headers, text.as_bytes()).await);
            }
            for (n, answer) in answers.iter().enumerate() {
                let about = format!("{} as {who:?} {n}: {} {}", operation.name, answer.status, answer.text());
                match refusal(*who, operation) {
                    Some((status, code)) => assert_eq!((answer.status, &*answer.code()), (status, code), "{about}"),
                    None => assert!(![401, 403].contains(&answer.status), "{about}"),
                }
                if answer.status == 401 {
                    assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"liststore\""), "{about}");
                }
            }
        }
    }
}

/// Regardless of the number of connections, and of the lists in one call.
#[tokio::test]
async fn limits_hold_for_any_number_of_connections_and_batched_calls() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let limits = json!({"name": "n", "roles": ["writer"], "requests_per_second": 1, "requests_burst": 10});
    let (noisy, _) = key(&api, Some(&admin), limits).await;
    let began = std::time::Instant::now();
    let all = (0..60).map(async |_| {
        let head = format!("GET /v1/lists/user/seen/u/items HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {noisy}\r\n");
        api.exchange(format!("{head}Connection: close\r\n\r\n").as_bytes()).await.status
    });
    let statuses = futures_util::future::join_all(all).await;
    let let_in = statuses.iter().filter(|status| **status == 200).count() as u64;
    assert!((10..=11 + began.elapsed().as_secs()).contains(&let_in), "{let_in} of 60: {statuses:?}");
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    let limits = json!({"name": "m", "roles": ["writer"], "items_per_second": 1, "items_burst": 10});
    let (greedy, _) = key(&api, Some(&admin), limits).await;
    let at = super::client::ago(60);
    let items: Vec<_> = (0..30).map(|n| json!({"timestamp": at + n, "value": format!("{n}")})).collect();
    with_key(&api, &admin, Method::POST, "/v1/lists/user/seen/u/items", &json!({ "items": items })).await.expect(200);
    // One call is let through, and owed are the lists that it named with all of their items.
    let one = json!({"entity_type": "user", "feature": "seen", "entity_id": "u"});
    let requests: Vec<_> = (0..100).map(|_| one.clone()).collect();
    let body = json!({ "requests": requests });
    with_key(&api, &greedy, Method::POST, "/v1/lists:batchGet", &body).await.expect(200);
    let refused = with_key(&api, &greedy, Method::POST, "/v1/lists:batchGet", &body).await;
    refused.refused("rate_limited", "");
    let waits: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(waits > 2_900, "100 times 30 items are owed: {waits}");
}

#[tokio::test]
async fn metrics_are_open_if_configured() {
    let api = api_with(&[("access.metrics", "open")]).await;
    let admin = admin(&api).await;
    api.get("/metrics").await.expect_text();
    let closed = super::client::api().await;
    let operator = super::keys::admin(&closed).await;
    closed.get("/metrics").await.refused("unauthenticated", "");
    with_key(&closed, &operator, Method::GET, "/metrics", &Value::Null).await.expect_text();
    drop(admin);
}

impl Answer {
    fn expect_text(&self) {
        assert_eq!(self.status, 200, "{}", self.text());
    }
}

/// So that a caller need not try their permissions.
#[tokio::test]
async fn every_caller_can_read_its_identity_and_permissions() {
    let api = api().await;
    let open = api.get("/v1/me").await.expect(200);
    assert_eq!((&open["name"], &open["kind"]), (&json!("anonymous"), &json!("anonymous")));
    assert_eq!(open["permissions"]["keys:write"], json!(["*"]));
    let admin = admin(&api).await;
    let limited = json!({"name": "ops", "roles": ["operator", "reader"], "scopes": ["user.*", "customer.seen"]});
    let (limited, _) = key(&api, Some(&admin), limited).await;
    let me = with_key(&api, &limited, Method::GET, "/v1/me", &Value::Null).await.expect(200);
    // A caller with access to only a part cannot use operations on the whole server.
    let scopes = ["customer.seen", "user.*"];
    let expected = json!({"name": "key:ops", "kind": "known",
        "permissions": {"lists:read": scopes, "features:read": scopes}});
    assert_eq!(me, expected);
    assert_eq!(api.get("/v1/me").await.status, 401);
}

#[tokio::test]
async fn an_open_server_refuses_a_foreign_host() {
    let api = api().await;
    api.feature("seen", "string", "30d").await;
    let ask_for = async |api: &Api, path: &str, host: &str, rest: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{rest}Connection: close\r\n\r\n");
        api.exchange(request.as_bytes()).await
    };
    let ask = async |api: &Api, host: &str, rest: &str| ask_for(api, "/v1/features", host, rest).await;
    for host in ["localhost:8080", "127.0.0.1", "[::1]:80", "10.0.0.7", "liststore", "a.localhost"] {
        ask(&api, host, "").await.expect(200);
    }
    ask(&api, "evil.example:8080", "").await.refused("unknown_host", "Host");
    // List operations see fewer headers than others do.
    let list = items("seen", "u");
    ask_for(&api, &list, "localhost:8080", "").await.expect(200);
    ask_for(&api, &list, "evil.example:8080", "").await.refused("unknown_host", "Host");
    ask_for(&api, &list, "evil.example", "Sec-Fetch-Site: same-origin\r\n").await.refused("unknown_host", "Host");
    // The host of an absolute target counts in place of the header.
    let absolute = async |api: &Api, authority: &str, host: &str, rest: &str| {
        ask_for(api, &format!("http://{authority}/v1/features"), host, rest).await.expect(200);
        ask_for(api, &format!("http://{authority}{list}?limit=1"), host, rest).await.expect(200);
    };
    let refused = async |api: &Api, authority: &str, host: &str, rest: &str| {
        for path in ["/v1/features", &*list] {
            let answer = ask_for(api, &format!("http://{authority}{path}"), host, rest).await;
            answer.refused("unknown_host", "Host");
        }
    };
    for (authority, host) in [("localhost", "evil.example"), ("[::1]:80", "evil.example"), ("10.0.0.7:1", "localhost")]
    {
        absolute(&api, authority, host, "").await;
    }
    for host in ["localhost", "evil.example", "127.0.0.1:8080"] {
        refused(&api, "evil.example:8080", host, "").await;
        refused(&api, "127.0.0.1.evil.example", host, "Sec-Fetch-Site: none\r\n").await;
    }
    for target in ["http://u@localhost/v1/features", "http://localhost:x/v1/features", "http:///v1/features"] {
        ask_for(&api, target, "localhost", "").await.refused("malformed_request", "");
    }
    let methods = api.exchange(b"OPTIONS http://localhost HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(methods.status == 204 && methods.header("allow").unwrap().contains("PATCH"), "{methods:?}");
    let probe = b"GET /livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    api.exchange(probe).await.expect(200);
    let authorization = format!("Authorization: Bearer {}\r\n", admin(&api).await);
    // No page of another site has the key.
    ask(&api, "lists.example.org", &authorization).await.expect(200);
    let named = api_with(&[("http.allowed_hosts", "Lists.example.org,other.example.org")]).await;
    named.feature("seen", "string", "30d").await;
    ask(&named, "lists.example.org:443", "").await.expect(200);
    let authorization = format!("Authorization: Bearer {}\r\n", admin(&named).await);
    ask(&named, "lists.example.org", &authorization).await.expect(200);
    ask(&named, "elsewhere.example.org", &authorization).await.refused("unknown_host", "Host");
    absolute(&named, "lists.example.org", "elsewhere.example.org", &authorization).await;
    refused(&named, "elsewhere.example.org", "lists.example.org", &authorization).await;
    // Beyond loopback there are more pages that could do it.
    let beyond = [("http.listen", "0.0.0.0:0"), ("access.insecure", "true")];
    let open = api_with(&beyond).await;
    ask(&open, "liststore:8080", "").await.expect(200);
    ask(&open, "evil.example:8080", "").await.refused("unknown_host", "Host");
    refused(&open, "evil.example:8080", "localhost", "").await;
    let any = api_with(&[&beyond[..], &[("http.allowed_hosts", "*")]].concat()).await;
    ask(&any, "evil.example:8080", "").await.expect(200);
}
