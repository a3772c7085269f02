//! API keys: creation, rotation and revocation, and invalid keys.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Answer, Api, api, api_with};

pub const JSON: (&str, &str) = ("content-type", "application/json");

/// Sends with a key.
pub async fn with_key(api: &Api, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    let authorization = format!("Bearer {token}");
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    api.send(method, path, &[("authorization", &authorization), JSON], &body).await
}

/// Creates a key with the rights of another, or without a key while the server is open.
pub async fn key(api: &Api, by: Option<&str>, body: Value) -> (String, String) {
    let made = match by {
        Some(token) => with_key(api, token, Method::POST, "/v1/keys", &body).await,
        None => api.post("/v1/keys", body).await,
    };
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let made = made.expect(201);
    (made["token"].as_str().unwrap().to_owned(), made["key"]["id"].as_str().unwrap().to_owned())
}

pub async fn admin(api: &Api) -> String {
    key(api, None, json!({"name": "admin", "roles": ["admin"]})).await.0
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
async fn anything_but_a_key_is_refused_in_every_form() {
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
async fn invalid_keys_are_refused() {
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
async fn a_server_that_requires_keys_refuses_all_callers_without_keys() {
    let api = api_with(&[("access.mode", "required")]).await;
    api.get("/v1/features").await.refused("unauthenticated", "");
    api.post("/v1/keys", json!({"name": "a", "roles": ["admin"]})).await.refused("unauthenticated", "");
}

/// An unavailable definitions store removes no key, and restores none.
#[tokio::test]
async fn keys_are_valid_while_the_metadata_store_is_unavailable() {
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

#[tokio::test]
async fn a_revocation_includes_created_keys_on_request() {
    let api = api().await;
    let root = admin(&api).await;
    let made = async |by: &str, name: &str| key(&api, Some(by), json!({"name": name, "roles": ["admin"]})).await;
    let (ops, id) = made(&root, "ops").await;
    let (child, child_id) = made(&ops, "child").await;
    let (grandchild, _) = made(&child, "grandchild").await;
    let (other, _) = made(&root, "other").await;
    let path = format!("/v1/keys/{id}");
    let call = async |method, path: &str| with_key(&api, &root, method, path, &Value::Null).await;
    let names = |key: &Value| {
        let created = key["created_keys"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<_> = created.iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&call(Method::GET, &path).await.expect(200)), ["child", "grandchild"]);
    call(Method::DELETE, &format!("{path}?created_keys=yes")).await.refused("invalid_argument", "created_keys");
    let revoked = call(Method::DELETE, &path).await.expect(200);
    assert_eq!((&revoked["state"], names(&revoked)), (&json!("revoked"), vec!["child".into(), "grandchild".into()]));
    let lists = async |token: &str| with_key(&api, token, Method::GET, "/v1/features", &Value::Null).await.status;
    assert_eq!((lists(&ops).await, lists(&child).await, lists(&grandchild).await), (401, 200, 200));
    // Another key with the same name did not create them.
    let (_, again) = made(&root, "ops").await;
    assert!(names(&call(Method::GET, &format!("/v1/keys/{again}")).await.expect(200)).is_empty());
    let revoked = call(Method::DELETE, &format!("{path}?created_keys=true")).await.expect(200);
    assert!(names(&revoked).is_empty(), "{revoked}");
    assert_eq!((lists(&child).await, lists(&grandchild).await, lists(&other).await), (401, 401, 200));
    let page = call(Method::GET, "/v1/audit?target=key:child&action=revoke_key").await.expect(200);
    assert_eq!(
        (&page["changes"][0]["by"], &page["changes"][0]["before"]["id"]),
        (&json!("key:admin"), &json!(child_id))
    );
}

/// Otherwise a caller with a token for an hour could create a permanent key.
#[tokio::test]
async fn keys_of_an_expiring_caller_are_bounded_by_the_setting() {
    let issued = super::issuers::Issued::by_file();
    let settings = issued.settings();
    let given = [("access.jwt.issuers", &*settings), ("access.keys.lifetime_max_secs", "3600")];
    let api = api_with(&given).await;
    let person = issued.token("root", &["admins"]);
    super::sockets::until("the issuer's keys are read", async || {
        with_key(&api, &person, Method::GET, "/v1/features", &Value::Null).await.status == 200
    })
    .await;
    let create = async |by: &str, name: &str, expires: Value| {
        let mut body = json!({"name": name, "roles": ["admin"]});
        if !expires.is_null() {
            body["expires"] = expires;
        }
        with_key(&api, by, Method::POST, "/v1/keys", &body).await
    };
    let lifetime = |key: &Value| {
        let at =
            |name: &str| key[name].as_str().map(|text| liststore::domain::Timestamp::parse(text).unwrap().as_nanos());
        at("expires_at").map(|expires| (expires - at("created_at").unwrap()) / 1_000_000_000)
    };
    let hour = |key: &Value| lifetime(key).is_some_and(|secs| (3_590..=3_600).contains(&secs));
    create(&person, "long", json!("61m")).await.refused("invalid_argument", "expires");
    let made = create(&person, "made", Value::Null).await.expect(201);
    assert!(hour(&made["key"]), "{made}");
    let short = create(&person, "short", json!("10m")).await.expect(201);
    assert!(lifetime(&short["key"]).is_some_and(|secs| secs <= 600), "{short}");
    // A key that expires is bound by it too, for keys and for itself.
    let token = made["token"].as_str().unwrap();
    create(token, "next", json!("2h")).await.refused("invalid_argument", "expires");
    assert!(hour(&create(token, "next", Value::Null).await.expect(201)["key"]));
    let rotate = async |body: Value| {
        let path = format!("/v1/keys/{}/rotate", made["key"]["id"].as_str().unwrap());
        with_key(&api, token, Method::POST, &path, &body).await
    };
    rotate(json!({"expires": "1d"})).await.refused("invalid_argument", "expires");
    assert!(hour(&rotate(json!({})).await.expect(200)["key"]));
}

#[tokio::test]
async fn a_rotation_by_an_expiring_caller_sets_an_expiry() {
    let api = api_with(&[("access.keys.lifetime_max_secs", "3600")]).await;
    let root = admin(&api).await;
    let (_, id) = key(&api, Some(&root), json!({"name": "feed", "roles": ["reader"]})).await;
    let (deputy, _) = key(&api, Some(&root), json!({"name": "deputy", "roles": ["admin"], "expires": "1d"})).await;
    let path = format!("/v1/keys/{id}/rotate");
    let by_root = with_key(&api, &root, Method::POST, &path, &json!({})).await.expect(200);
    assert_eq!(by_root["key"].get("expires_at"), None);
    let by_deputy = with_key(&api, &deputy, Method::POST, &path, &json!({})).await.expect(200);
    assert!(by_deputy["key"]["expires_at"].is_string(), "{by_deputy}");
}

/// A client that is generated from the document accepts the values of the server.
#[tokio::test]
async fn the_document_lists_roles_and_scopes() {
    let api = api().await;
    let document = api.get("/openapi.json").await.expect(200);
    let admin = admin(&api).await;
    let is_described = |name: &str, text: &str| {
        let schema = &document["components"]["schemas"][name];
        jsonschema::draft202012::new(schema).unwrap().is_valid(&text.into())
    };
    let status = async |role: &str, scope: &str, number: usize| {
        let body = json!({"name": format!("k{number}"), "roles": [role], "scopes": [scope]}).to_string();
        let authorization = format!("Bearer {admin}");
        let headers = [("authorization", &*authorization), JSON];
        // Not held to the document here.
        let url = format!("{}/v1/keys", api.server.url);
        let request = headers.iter().fold(reqwest::Client::new().post(url), |r, (name, value)| r.header(*name, *value));
        request.body(body).send().await.unwrap().status().as_u16()
    };
    let long = format!("{0}*/{0}*", "n".repeat(128));
    let scopes = [
        "*",
        "user.*",
        "*.seen",
        "us*.st*",
        "*.*",
        "*/*",
        "a.b/c",
        "a/b",
        "user.story_*",
        "a-b.c_d",
        &long,
        "",
        "user",
        ".",
        "user.",
        ".seen",
        "a.b.c",
        "a.*.c",
        "user.*x",
        "us*er.x",
        "a/b/c",
        "a b.c",
        "**",
        "a#.b",
        "/",
        "é.b",
    ];
    for (number, scope) in scopes.iter().enumerate() {
        let made = status("reader", scope, number).await;
        assert_eq!(made == 201, is_described("Scope", scope), "{scope}: {made}");
        assert!(matches!(made, 201 | 400), "{scope}: {made}");
    }
    for (number, role) in
        ["reader", "writer", "editor", "scaler", "operator", "admin", "", "Reader", "root"].iter().enumerate()
    {
        let made = status(role, "*", 100 + number).await;
        assert_eq!(made == 201, is_described("Role", role), "{role}: {made}");
    }
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(schemes["client_certificate"]["type"], "mutualTLS");
    for (_, operations) in document["paths"].as_object().unwrap() {
        for (_, operation) in operations.as_object().unwrap() {
            let named =
                operation["security"].as_array().into_iter().flatten().flat_map(|way| way.as_object().unwrap().keys());
            let is_open = operation["x-permission"] == "open";
            let named: Vec<_> = named.collect();
            assert!(named.iter().all(|name| schemes.get(name.as_str()).is_some()), "{operation}");
            assert_eq!(named.is_empty(), is_open, "{operation}");
        }
    }
}
