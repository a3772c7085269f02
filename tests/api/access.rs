//! Who may do what: every operation of the table with every kind of caller, and API keys.

use liststore::service::{Descriptor, Effect, OPERATIONS, Permission, Segment};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Api, api, api_with, items};
use super::tokens::Issued;

const JSON: (&str, &str) = ("content-type", "application/json");

/// Sends with a key.
async fn with_key(api: &Api, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    let authorization = format!("Bearer {token}");
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    api.send(method, path, &[("authorization", &authorization), JSON], &body).await
}

/// Creates a key with the rights of another, or of nobody while the server is open.
async fn key(api: &Api, by: Option<&str>, body: Value) -> (String, String) {
    let made = match by {
        Some(token) => with_key(api, token, Method::POST, "/v1/keys", &body).await,
        None => api.post("/v1/keys", body).await,
    };
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let made = made.expect(201);
    (made["token"].as_str().unwrap().to_owned(), made["key"]["id"].as_str().unwrap().to_owned())
}

async fn admin(api: &Api) -> String {
    key(api, None, json!({"name": "admin", "roles": ["admin"]})).await.0
}

/// Somebody who asks, and what they have.
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

/// The status and code that somebody is refused with; none where they are not.
fn refusal(who: Who, operation: &Descriptor) -> Option<(u16, &'static str)> {
    let denied = Some((403, "permission_denied"));
    let is_of_a_feature = operation.segments().any(|segment| segment == Segment::Variable("entity_type"));
    let is_of_features = matches!(
        operation.permission,
        Permission::ListsRead | Permission::ListsWrite | Permission::FeaturesRead | Permission::FeaturesWrite
    );
    match (who, operation.permission) {
        (_, Permission::Open) => None,
        (Who::NoKey | Who::Unknown | Who::Expired | Who::Revoked, _) => Some((401, "unauthenticated")),
        (_, Permission::Known) => None,
        (_, Permission::LocalAdministration) => Some((403, "local_only")),
        // What each list of a call is refused with stands in the answer.
        (Who::OtherEntityType, _) if operation.name.starts_with("batch_") => None,
        // Which feature a job is about is known once it was found.
        (Who::OtherEntityType, _) if operation.name.ends_with("_job") => None,
        // A listing shows what they may see.
        (Who::OtherEntityType, _) if is_of_features && !is_of_a_feature && operation.effect == Effect::Read => None,
        (Who::OtherEntityType, _) => denied,
        (Who::ReadOnly, Permission::ListsRead | Permission::FeaturesRead) => None,
        (Who::ReadOnly, _) => denied,
        (Who::Right, _) => None,
    }
}

/// The body that the document shows as an example.
fn example(document: &Value, operation: &Descriptor) -> Value {
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

/// What somebody may send to be who they are: an API key and a token. Nothing for those who send none.
async fn credentials(api: &Api, issued: &Issued) -> Vec<(Who, Vec<String>)> {
    let by = issued.token("root", &["admins"]);
    let all_roles = ["reader", "writer", "editor", "operator", "admin"];
    let (admin, _) = key(api, Some(&by), json!({"name": "admin", "roles": ["admin"]})).await;
    let (expiring, _) = key(api, Some(&by), json!({"name": "e", "roles": ["admin"], "expires": "1s"})).await;
    let (revoked, id) = key(api, Some(&by), json!({"name": "r", "roles": ["admin"]})).await;
    with_key(api, &by, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    let other = json!({"name": "o", "roles": all_roles, "scopes": ["customer.*"]});
    let (other, _) = key(api, Some(&by), other).await;
    let (reader, _) = key(api, Some(&by), json!({"name": "ro", "roles": ["reader"]})).await;
    let unknown = liststore::access::token::Secret::generate().unwrap().expose().to_owned();
    while with_key(api, &expiring, Method::GET, "/v1/features", &Value::Null).await.status != 401 {
        tokio::task::yield_now().await;
    }
    let token = |groups: &[&str]| issued.token("alice", groups);
    vec![
        (Who::NoKey, vec![]),
        (Who::Unknown, vec![unknown, issued.forged("alice", &["admins"])]),
        (Who::Expired, vec![expiring, issued.expired("alice", &["admins"])]),
        (Who::Revoked, vec![revoked, issued.rotated_away("alice", &["admins"])]),
        (Who::OtherEntityType, vec![other, token(&["others"])]),
        (Who::ReadOnly, vec![reader, token(&["readers"])]),
        (Who::Right, vec![admin, token(&["admins"])]),
    ]
}

/// New operations are in here by themselves.
#[tokio::test]
async fn every_operation_is_for_those_alone_who_may() {
    let issued = Issued::by_file();
    let api = api_with(&[("access.jwt.issuers", &issued.settings())]).await;
    let document = api.get("/openapi.json").await.expect(200);
    let all = credentials(&api, &issued).await;
    let admin = &all[6].1[0];
    let seen = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "1h"});
    with_key(&api, admin, Method::POST, "/v1/features", &seen).await.expect(201);
    for operation in &OPERATIONS {
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

/// Else whoever may not see a feature could find out its name.
#[tokio::test]
async fn a_refusal_does_not_tell_whether_a_feature_exists() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let limited = json!({"name": "o", "roles": ["admin"], "scopes": ["user.other"]});
    let (limited, _) = key(&api, Some(&admin), limited).await;
    for path in ["/v1/features/user/NAME", "/v1/features/user/NAME/versions/v9", "/v1/lists/user/NAME/u/items"] {
        let mut told = Vec::new();
        for name in ["seen", "none"] {
            let answer = with_key(&api, &limited, Method::GET, &path.replace("NAME", name), &Value::Null).await;
            told.push((answer.status, answer.text()));
        }
        assert_eq!(told[0], told[1]);
        assert_eq!(told[0].0, 403);
    }
}

#[tokio::test]
async fn a_listing_shows_what_its_caller_may_see_and_its_pages_tell_no_more() {
    let api = api().await;
    for name in ["a1", "b1", "a2", "b2", "a3", "b3"] {
        api.feature(name, "string", "1h").await;
    }
    let admin = admin(&api).await;
    let limited = json!({"name": "o", "roles": ["reader"], "scopes": ["user.a*"]});
    let (limited, _) = key(&api, Some(&admin), limited).await;
    let (mut names, mut path) = (Vec::new(), "/v1/features?page_size=2".to_owned());
    loop {
        let page = with_key(&api, &limited, Method::GET, &path, &Value::Null).await.expect(200);
        names.extend(page["features"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap().to_owned()));
        match page["next_page_token"].as_str() {
            Some(token) => path = format!("/v1/features?page_size=2&page_token={token}"),
            None => break,
        }
    }
    assert_eq!(names, ["a1", "a2", "a3"]);
    let exactly = with_key(&api, &limited, Method::GET, "/v1/features?page_size=3", &Value::Null).await.expect(200);
    assert_eq!(exactly["next_page_token"], Value::Null, "no hidden feature may be told of by a token");
}

#[tokio::test]
async fn a_server_is_open_until_its_first_key_and_never_again() {
    let api = api().await;
    api.get("/v1/features").await.expect(200);
    let admin = admin(&api).await;
    api.get("/v1/features").await.refused("unauthenticated", "");
    let keys = with_key(&api, &admin, Method::GET, "/v1/keys", &Value::Null).await.expect(200);
    let id = keys["keys"][0]["id"].as_str().unwrap();
    with_key(&api, &admin, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    with_key(&api, &admin, Method::GET, "/v1/features", &Value::Null).await.refused("unauthenticated", "");
    api.get("/v1/features").await.refused("unauthenticated", "");
    api.get("/livez").await.expect(200);
    api.get("/readyz").await.expect(200);
}

#[tokio::test]
async fn what_is_no_key_is_refused_however_it_is_sent() {
    let api = api().await;
    let admin = admin(&api).await;
    let huge = "x".repeat(20_000);
    for bad in ["", "Bearer", "Bearer ", "Basic YWRtaW46YWRtaW4=", &admin, &format!("Bearer {huge}"), "Bearer ls_!!"] {
        let answer = api.send(Method::GET, "/v1/features", &[("authorization", bad)], b"").await;
        answer.refused("unauthenticated", "");
    }
    let authorization = format!("bearer  {admin}");
    api.send(Method::GET, "/v1/features", &[("authorization", &authorization)], b"").await.expect(200);
    let twice = [("authorization", &*authorization), ("authorization", &*authorization)];
    api.send(Method::GET, "/v1/features", &twice, b"").await.refused("unauthenticated", "");
}

#[tokio::test]
async fn a_rotated_key_has_two_tokens_for_a_while() {
    let api = api().await;
    let admin = admin(&api).await;
    let (old, id) = key(&api, Some(&admin), json!({"name": "feed", "roles": ["reader"]})).await;
    let path = format!("/v1/keys/{id}/rotate");
    let rotated = with_key(&api, &admin, Method::POST, &path, &json!({"overlap": "1h"})).await.expect(200);
    let new = rotated["token"].as_str().unwrap();
    assert_eq!(rotated["key"]["id"], json!(id));
    for token in [&*old, new] {
        with_key(&api, token, Method::GET, "/v1/features", &Value::Null).await.expect(200);
    }
    let again = with_key(&api, &admin, Method::POST, &path, &json!({})).await.expect(200);
    with_key(&api, &old, Method::GET, "/v1/features", &Value::Null).await.refused("unauthenticated", "");
    with_key(&api, new, Method::GET, "/v1/features", &Value::Null).await.expect(200);
    with_key(&api, &admin, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    for token in [&*old, new, again["token"].as_str().unwrap()] {
        with_key(&api, token, Method::GET, "/v1/features", &Value::Null).await.refused("unauthenticated", "");
    }
    with_key(&api, &admin, Method::POST, &path, &json!({})).await.refused("key_revoked", "");
}

#[tokio::test]
async fn keys_are_refused_that_could_not_be() {
    let api = api().await;
    for (body, field) in [
        (json!({"roles": ["reader"]}), "name"),
        (json!({"name": "a b", "roles": ["reader"]}), "name"),
        (json!({"name": "a"}), "roles"),
        (json!({"name": "a", "roles": []}), "roles"),
        (json!({"name": "a", "roles": ["god"]}), "roles"),
        (json!({"name": "a", "roles": "reader"}), "roles"),
        (json!({"name": "a", "roles": ["reader"], "scopes": ["user"]}), "scopes"),
        (json!({"name": "a", "roles": ["reader"], "expires": "soon"}), "expires"),
    ] {
        api.post("/v1/keys", body).await.refused("invalid_argument", field);
    }
    let admin = admin(&api).await;
    let again = json!({"name": "admin", "roles": ["reader"]});
    with_key(&api, &admin, Method::POST, "/v1/keys", &again).await.refused("key_exists", "");
    let unknown = with_key(&api, &admin, Method::GET, "/v1/keys/0123456789ab", &Value::Null).await;
    unknown.refused("key_not_found", "");
    with_key(&api, &admin, Method::GET, "/v1/keys/X", &Value::Null).await.refused("invalid_argument", "key_id");
}

#[tokio::test]
async fn the_audit_trail_tells_who_did_what_and_for_whom() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let (editor, _) = key(&api, Some(&admin), json!({"name": "ui", "roles": ["editor"], "scopes": ["user.*"]})).await;
    let authorization = format!("Bearer {editor}");
    let headers = [("authorization", &*authorization), ("liststore-user", "alice"), JSON];
    api.send(Method::PATCH, "/v1/features/user/seen", &headers, br#"{"ttl":"2h"}"#).await.expect(200);
    let history =
        with_key(&api, &editor, Method::GET, "/v1/features/user/seen/history", &Value::Null).await.expect(200);
    let first = &history["history"][0];
    assert_eq!((&first["by"], &first["on_behalf_of"]), (&json!("key:ui"), &json!("alice")));
    assert_eq!(history["history"][1]["by"], "anonymous");

    let read = async |query: &str| {
        let page = with_key(&api, &admin, Method::GET, &format!("/v1/audit{query}"), &Value::Null).await.expect(200);
        let changes = page["changes"].as_array().unwrap().clone();
        let text =
            |change: &Value| format!("{} {}", change["action"].as_str().unwrap(), change["target"].as_str().unwrap());
        (changes.iter().map(text).collect::<Vec<_>>(), page["next_page_token"].as_str().map(str::to_owned), page)
    };
    let (all, none, whole) = read("").await;
    assert_eq!(
        all,
        ["update_feature user.seen", "create_key key:ui", "create_key key:admin", "create_feature user.seen"]
    );
    assert_eq!(none, None);
    assert_eq!(whole["changes"][1]["by"], "key:admin");
    for token in [&editor, &admin] {
        assert!(!whole.to_string().contains(&token[16..]), "the trail has a secret");
    }
    assert_eq!(read("?by=alice").await.0, ["update_feature user.seen"]);
    assert_eq!(read("?by=key:ui").await.0, ["update_feature user.seen"]);
    assert_eq!(read("?target=key:ui").await.0, ["create_key key:ui"]);
    assert_eq!(read("?action=create_feature").await.0, ["create_feature user.seen"]);
    let at = whole["changes"][2]["at"].as_str().unwrap();
    assert_eq!(read(&format!("?until={at}")).await.0.len(), 2);
    assert_eq!(read(&format!("?since={at}")).await.0.len(), 3);
    let (first, token, _) = read("?page_size=3").await;
    let (second, end, _) = read(&format!("?page_size=3&page_token={}", token.unwrap())).await;
    assert_eq!((first.len(), second, end), (3, vec!["create_feature user.seen".to_owned()], None));
}

/// In pages like those of changes, and with nothing in them that callers make up.
#[tokio::test]
async fn the_audit_trail_tells_who_was_refused_what() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let reader = json!({"name": "ro", "roles": ["reader"], "requests_per_second": 1, "requests_burst": 30});
    let (reader, id) = key(&api, Some(&admin), reader).await;
    let list = "/v1/lists/user/seen/u/items";
    let item = json!({"items": [{"timestamp": super::client::ago(1), "value": "x"}]});
    for _ in 0..3 {
        with_key(&api, &reader, Method::POST, list, &item).await.refused("permission_denied", "");
    }
    let request = json!({"entity_type": "user", "feature": "seen", "entity_id": "u", "items": item["items"]});
    let batch = json!({"requests": [request, request]});
    let (elsewhere, _) =
        key(&api, Some(&admin), json!({"name": "e", "roles": ["writer"], "scopes": ["customer.*"]})).await;
    with_key(&api, &elsewhere, Method::POST, "/v1/lists:batchAdd", &batch).await.expect(200);
    while with_key(&api, &reader, Method::GET, list, &Value::Null).await.status != 429 {}
    with_key(&api, &admin, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    with_key(&api, &reader, Method::GET, list, &Value::Null).await.refused("unauthenticated", "");
    // Whatever strangers send is not what is kept.
    for n in 0..50 {
        api.get(&format!("/v1/features/user/made-up-{n}")).await.refused("unauthenticated", "");
    }
    let read = async |query: &str| {
        with_key(&api, &admin, Method::GET, &format!("/v1/audit{query}"), &Value::Null).await.expect(200)
    };
    let told = |page: &Value| {
        let changes = page["changes"].as_array().unwrap();
        let told = changes.iter().map(|change| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (by, target, after) = (text(&change["by"]), text(&change["target"]), &change["after"]);
            match change["action"].as_str() {
                Some("refuse") => format!("{by} {target} {} {}", text(&after["code"]), after["count"]),
                other => format!("{by} {target} {}", other.unwrap()),
            }
        });
        told.collect::<Vec<_>>()
    };
    let refusals = read("?action=refuse").await;
    let expected = [
        "anonymous get_feature unauthenticated 50",
        "anonymous get_items unauthenticated 1",
        "key:ro get_items rate_limited 1",
        "key:e batch_add permission_denied 2",
        "key:ro add_items permission_denied 3",
    ];
    assert_eq!(told(&refusals), expected);
    let reasons: Vec<_> =
        refusals["changes"].as_array().unwrap().iter().map(|r| r["after"]["reason"].clone()).collect();
    assert_eq!((&reasons[0], &reasons[1]), (&json!("no key"), &json!("a revoked key")));
    assert!(!refusals.to_string().contains("made-up") && !refusals.to_string().contains(&reader[16..]));
    assert_eq!(told(&read("?action=refuse&by=key:ro").await), [expected[2], expected[4]]);
    assert_eq!(told(&read("?action=refuse&target=batch_add").await), [expected[3]]);
    assert_eq!(told(&read("").await)[0], "key:admin key:ro revoke_key", "changes stand by themselves");
    let (mut paged, mut token) = (Vec::new(), String::new());
    loop {
        let page = read(&format!("?action=refuse&page_size=2{token}")).await;
        assert!(page["changes"].as_array().unwrap().len() <= 2);
        paged.extend(told(&page));
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(paged, expected);
}

#[tokio::test]
async fn metrics_are_open_where_that_is_set() {
    let api = api_with(&[("access.metrics", "open")]).await;
    let admin = admin(&api).await;
    api.get("/metrics").await.expect_text();
    let closed = super::client::api().await;
    let operator = self::admin(&closed).await;
    closed.get("/metrics").await.refused("unauthenticated", "");
    with_key(&closed, &operator, Method::GET, "/metrics", &Value::Null).await.expect_text();
    drop(admin);
}

impl Answer {
    fn expect_text(&self) {
        assert_eq!(self.status, 200, "{}", self.text());
    }
}

#[tokio::test]
async fn a_server_that_needs_keys_lets_nobody_in_before_there_are_some() {
    let api = api_with(&[("access.mode", "required")]).await;
    api.get("/v1/features").await.refused("unauthenticated", "");
    api.post("/v1/keys", json!({"name": "a", "roles": ["admin"]})).await.refused("unauthenticated", "");
}

/// A definition's store that is away takes no key away, and takes none back.
#[tokio::test]
async fn keys_hold_while_the_metadata_store_is_away() {
    use liststore::metadata::MetadataError;
    let (api, faults) = super::faults::faulty(&[]).await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let away = MetadataError::Unavailable { reason: "no route".to_owned(), outcome_unknown: false };
    *faults.metadata.lock().unwrap() = Some(away);
    with_key(&api, &admin, Method::GET, "/v1/lists/user/seen/u/items", &Value::Null).await.expect(200);
    api.get("/v1/lists/user/seen/u/items").await.refused("unauthenticated", "");
    let revocation = with_key(&api, &admin, Method::DELETE, "/v1/keys/0123456789ab", &Value::Null).await;
    revocation.refused("metadata_unavailable", "");
}

/// So that nobody has to try what they may.
#[tokio::test]
async fn everybody_is_told_who_they_are_and_what_they_may() {
    let api = api().await;
    let open = api.get("/v1/me").await.expect(200);
    assert_eq!((&open["name"], &open["kind"]), (&json!("anonymous"), &json!("anonymous")));
    assert_eq!(open["permissions"]["keys:write"], json!(["*"]));
    let admin = admin(&api).await;
    let limited = json!({"name": "ops", "roles": ["operator", "reader"], "scopes": ["user.*", "customer.seen"]});
    let (limited, _) = key(&api, Some(&admin), limited).await;
    let me = with_key(&api, &limited, Method::GET, "/v1/me", &Value::Null).await.expect(200);
    // What is about the whole server is not for whoever is limited to a part.
    let scopes = ["customer.seen", "user.*"];
    let expected = json!({"name": "key:ops", "kind": "known",
        "permissions": {"lists:read": scopes, "features:read": scopes}});
    assert_eq!(me, expected);
    assert_eq!(api.get("/v1/me").await.status, 401);
}

/// In a bucket that fills so slowly that no test sees it.
#[tokio::test]
async fn a_key_has_as_many_requests_and_items_as_it_says() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let limited = json!({"name": "n", "roles": ["writer"], "requests_per_second": 1, "requests_burst": 5});
    let (noisy, id) = key(&api, Some(&admin), limited).await;
    let shown = with_key(&api, &admin, Method::GET, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    assert_eq!((&shown["requests_burst"], &shown["items_burst"]), (&json!(5), &Value::Null));
    let list = "/v1/lists/user/seen/u/items";
    let mut answer = with_key(&api, &noisy, Method::GET, list, &Value::Null).await;
    assert_eq!(answer.header("ratelimit-policy"), Some("\"requests\";q=5;w=5;qu=\"requests\""));
    assert!(answer.header("ratelimit").unwrap().starts_with("\"requests\";r="));
    // A machine may be so slow that some come back.
    for _ in 0..100 {
        answer = with_key(&api, &noisy, Method::GET, list, &Value::Null).await;
        if answer.status == 429 {
            break;
        }
    }
    answer.refused("rate_limited", "");
    assert!(answer.header("ratelimit").unwrap().starts_with("\"requests\";r=0;"), "{:?}", answer.headers);
    // Whatever becomes of a limit, others are not bound by it.
    for _ in 0..20 {
        let other = with_key(&api, &admin, Method::GET, list, &Value::Null).await;
        other.expect(200);
        assert_eq!(other.header("ratelimit"), None);
    }

    let limited = json!({"name": "i", "roles": ["writer"], "items_per_second": 1, "items_burst": 3});
    let (greedy, _) = key(&api, Some(&admin), limited).await;
    let items: Vec<_> = (0..50).map(|n| json!({"timestamp": super::client::ago(60) + n, "value": "x"})).collect();
    let (add, one) = (json!({ "items": items }), json!({ "items": &items[..1] }));
    with_key(&api, &greedy, Method::POST, list, &add).await.expect(200);
    let refused = with_key(&api, &greedy, Method::POST, list, &one).await;
    refused.refused("rate_limited", "");
    let waits: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((20..=48).contains(&waits), "the fifty are owed: {waits}");
    with_key(&api, &greedy, Method::GET, list, &Value::Null).await.refused("rate_limited", "");
    // What is about no item is not bound by that.
    with_key(&api, &greedy, Method::GET, "/v1/features", &Value::Null).await.expect(200);
    let batch = json!({"requests": [{"entity_type": "user", "feature": "seen", "entity_id": "u"}]});
    with_key(&api, &greedy, Method::POST, "/v1/lists:batchGet", &batch).await.refused("rate_limited", "");
    // Items that are read count too.
    let reading = json!({"name": "r", "roles": ["reader"], "items_per_second": 1, "items_burst": 3});
    let (reader, _) = key(&api, Some(&admin), reading).await;
    with_key(&api, &reader, Method::GET, list, &Value::Null).await.expect(200);
    with_key(&api, &reader, Method::GET, list, &Value::Null).await.refused("rate_limited", "");
    let metrics = with_key(&api, &admin, Method::GET, "/metrics", &Value::Null).await.text();
    assert!(metrics.contains("liststore_access_refused_total{reason=\"rate_limited\"}"), "{metrics}");
}

/// Else whoever may nothing could ask without end.
#[tokio::test]
async fn what_is_refused_counts_among_the_requests() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let elsewhere = json!({"name": "n", "roles": ["writer"], "scopes": ["customer.*"], "requests_per_second": 1, "requests_burst": 4});
    let (noisy, _) = key(&api, Some(&admin), elsewhere).await;
    let list = "/v1/lists/user/seen/u/items";
    let first = with_key(&api, &noisy, Method::GET, list, &Value::Null).await;
    first.refused("permission_denied", "");
    assert!(first.header("ratelimit").is_some(), "{:?}", first.headers);
    let mut last = first;
    for _ in 0..100 {
        if last.status == 429 {
            break;
        }
        last = with_key(&api, &noisy, Method::GET, list, &Value::Null).await;
    }
    last.refused("rate_limited", "");
    let told: u64 = last.header("ratelimit").unwrap().split_once(";t=").unwrap().1.parse().unwrap();
    let retry_after: u64 = last.header("retry-after").unwrap().parse().unwrap();
    assert!(told <= retry_after, "whoever comes again then is let in: {last:?}");
}

/// Whatever way somebody looks at items or removes them.
#[tokio::test]
async fn items_that_are_counted_asked_after_and_removed_are_items_too() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let list = "/v1/lists/user/seen/u/items";
    let at = super::client::ago(60);
    let items: Vec<_> = (0..50).map(|n| json!({"timestamp": at + n, "value": format!("{n}")})).collect();
    let values: Vec<_> = (0..50).map(|n| n.to_string()).collect();
    let requests: Vec<_> =
        (0..50).map(|n| json!({"entity_type": "user", "feature": "seen", "entity_id": n.to_string()})).collect();
    for (number, (method, path, body)) in [
        (Method::GET, format!("{list}:count"), Value::Null),
        (Method::POST, format!("{list}:contains"), json!({ "values": values })),
        (Method::POST, "/v1/lists:batchGet".to_owned(), json!({ "requests": requests })),
        (Method::POST, format!("{list}:remove"), json!({ "items": items })),
        (Method::POST, format!("{list}:remove"), json!({"min_timestamp": "1970-01-02T00:00:00Z"})),
    ]
    .into_iter()
    .enumerate()
    {
        with_key(&api, &admin, Method::POST, list, &json!({ "items": items })).await.expect(200);
        let limited =
            json!({"name": format!("k{number}"), "roles": ["writer"], "items_per_second": 1, "items_burst": 3});
        let (greedy, _) = key(&api, Some(&admin), limited).await;
        with_key(&api, &greedy, method, &path, &body).await.expect(200);
        let refused = with_key(&api, &greedy, Method::GET, list, &Value::Null).await;
        refused.refused("rate_limited", "");
        let waits: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((20..=48).contains(&waits), "the fifty are owed: {waits}, {path}");
    }
}

/// What a scope says is compared with the names that the server uses, however they were sent.
#[tokio::test]
async fn no_way_of_writing_a_path_leads_out_of_a_scope() {
    let api = api().await;
    for (entity_type, name) in [("user", "seen"), ("user.seen", "all"), ("customer", "seen")] {
        let feature = json!({"entity_type": entity_type, "name": name, "value_type": "string", "ttl": "1h"});
        api.post("/v1/features", feature).await.expect(201);
    }
    let admin = admin(&api).await;
    let scoped = json!({"name": "n", "roles": ["writer", "editor"], "scopes": ["user.seen"]});
    let (token, _) = key(&api, Some(&admin), scoped).await;
    let status = async |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
        api.exchange(request.as_bytes()).await.status
    };
    for path in ["/v1/lists/user/seen/u/items", "/v1/lists/%75ser/s%65en/u/items", "/v1/features/user/seen"] {
        assert_eq!(status(path).await, 200, "{path}");
    }
    for path in [
        "/v1/lists/customer/seen/u/items",
        "/v1/lists/user%2Eseen/all/u/items",
        "/v1/lists/user.seen/all/u/items",
        "/v1/lists/User/seen/u/items",
        "/v1/lists/user/SEEN/u/items",
        "/v1/lists/user/seen%00/u/items",
        "/v1/lists/user/seen%20/u/items",
        "/v1/lists/user%2Fseen/x/u/items",
        "/v1/lists/user/../u/items",
        "/v1/lists/user/seen%2F..%2F..%2Fcustomer/u/items",
        "/v1/features/customer/seen",
        "/v1/features/customer/seen/history",
    ] {
        let status = status(path).await;
        assert!(status == 403, "{path}: {status}");
    }
    for path in [
        "/v1/lists/user/seen/../../../customer/seen/u/items",
        "/v1/lists/user/seen/..%2F..%2F..%2Fcustomer%2Fseen/u/items/x",
        "/v1/lists//customer/seen/u/items",
        "/v1/./lists/customer/seen/u/items",
        "/v1/lists/user/seen/u/items/..",
        "//v1/lists/customer/seen/u/items",
    ] {
        let status = status(path).await;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    // Calls for several lists: each by itself, and the same whether or not there is such a feature.
    let request =
        |entity_type: &str, feature: &str| json!({"entity_type": entity_type, "feature": feature, "entity_id": "u"});
    let body = json!({"requests": [request("user", "seen"), request("customer", "seen"), request("customer", "none")]});
    let answer = with_key(&api, &token, Method::POST, "/v1/lists:batchGet", &body).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    assert!(results[0].get("items").is_some(), "{answer}");
    assert_eq!(results[1], results[2]);
    assert_eq!(results[1]["problem"]["code"], "permission_denied", "{answer}");
    let item = json!([{"timestamp": super::client::ago(1), "value": 7}]);
    let adding = |entity_type: &str, feature: &str| {
        let mut request = request(entity_type, feature);
        request["items"] = item.clone();
        request
    };
    // A value of another type does not tell either.
    let body = json!({"requests": [adding("customer", "seen"), adding("customer", "none")]});
    let answer = with_key(&api, &token, Method::POST, "/v1/lists:batchAdd", &body).await.expect(200);
    assert_eq!(answer["results"][0], answer["results"][1]);
    assert_eq!(answer["results"][0]["problem"]["code"], "permission_denied", "{answer}");
}

#[tokio::test]
async fn limits_of_the_settings_are_those_of_keys_without_their_own() {
    let limits = [("access.rate_limits.requests_per_second", "1"), ("access.rate_limits.requests_burst", "3")];
    let api = api_with(&limits).await;
    // Nobody is known here yet, and so nobody is limited.
    for _ in 0..10 {
        api.get("/v1/features").await.expect(200);
    }
    let free = json!({"name": "free", "roles": ["admin"], "requests_per_second": 1_000_000});
    let (free, _) = key(&api, None, free).await;
    let (bound, id) = key(&api, Some(&free), json!({"name": "bound", "roles": ["reader"]})).await;
    let refused = async || {
        for _ in 0..100 {
            let answer = with_key(&api, &bound, Method::GET, "/v1/features", &Value::Null).await;
            if answer.status == 429 {
                return answer.refused("rate_limited", "");
            }
        }
        panic!("it is not limited");
    };
    refused().await;
    for _ in 0..20 {
        with_key(&api, &free, Method::GET, "/v1/features", &Value::Null).await.expect(200);
    }
    // What it has used stays used when keys are published anew.
    with_key(&api, &free, Method::POST, "/v1/keys", &json!({"name": "other", "roles": ["reader"]})).await.expect(201);
    refused().await;
    with_key(&api, &free, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await.expect(200);
    for (body, field) in [
        (json!({"name": "a", "roles": ["reader"], "requests_per_second": 0}), "requests_per_second"),
        (json!({"name": "a", "roles": ["reader"], "items_per_second": "7"}), "items_per_second"),
        (json!({"name": "a", "roles": ["reader"], "items_burst": 7}), "items_burst"),
        (json!({"name": "a", "roles": ["reader"], "items_per_second": 1, "items_burst": 100_000_001}), "items_burst"),
    ] {
        with_key(&api, &free, Method::POST, "/v1/keys", &body).await.refused("invalid_argument", field);
    }
}

/// Else one caller could hold all permits of a list actor; also by leaving early, while the store goes on.
#[tokio::test]
async fn one_caller_has_a_share_of_the_operations_at_work() {
    let settings =
        [("items.permits_per_actor", "4"), ("items.actors", "1"), ("access.rate_limits.operations_percent", "50")];
    let (api, faults) = super::faults::faulty(&settings).await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let (noisy, _) = key(&api, Some(&admin), json!({"name": "n", "roles": ["writer"]})).await;
    faults.stall(true);
    let list = "/v1/lists/user/seen/u/items";
    let leave_early = async |token: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", &*authorization), ("liststore-timeout-ms", "100")];
        api.send(Method::GET, list, &headers, b"").await
    };
    for _ in 0..2 {
        leave_early(&noisy).await.refused("deadline_exceeded", "");
    }
    for _ in 0..3 {
        leave_early(&noisy).await.refused("rate_limited", "");
    }
    // Others have the rest.
    leave_early(&admin).await.refused("deadline_exceeded", "");
    faults.stall(false);
    while with_key(&api, &noisy, Method::GET, list, &Value::Null).await.status == 429 {
        tokio::task::yield_now().await;
    }
    for _ in 0..10 {
        with_key(&api, &noisy, Method::GET, list, &Value::Null).await.expect(200);
    }
}

#[tokio::test]
async fn a_name_that_is_not_the_servers_is_refused_where_anybody_may_do_anything() {
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
    let probe = b"GET /livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    api.exchange(probe).await.expect(200);
    let authorization = format!("Authorization: Bearer {}\r\n", admin(&api).await);
    // No page of another site has the key.
    ask(&api, "lists.example.org", &authorization).await.expect(200);
    let named = api_with(&[("http.allowed_hosts", "Lists.example.org,other.example.org")]).await;
    ask(&named, "lists.example.org:443", "").await.expect(200);
    let authorization = format!("Authorization: Bearer {}\r\n", admin(&named).await);
    ask(&named, "lists.example.org", &authorization).await.expect(200);
    ask(&named, "elsewhere.example.org", &authorization).await.refused("unknown_host", "Host");
}
