//! Scopes: a caller reaches no feature beyond them, and learns nothing about one.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::api;
use super::keys::{admin, key, with_key};

/// Otherwise a caller without permission for a feature could find out its name.
#[tokio::test]
async fn a_refusal_does_not_reveal_whether_a_feature_exists() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let limited = json!({"name": "o", "roles": ["admin"], "scopes": ["user.other"]});
    let (limited, _) = key(&api, Some(&admin), limited).await;
    for path in ["/v1/features/user/NAME", "/v1/features/user/NAME/versions/v9", "/v1/lists/user/NAME/u/items"] {
        let mut reported = Vec::new();
        for name in ["seen", "none"] {
            let answer = with_key(&api, &limited, Method::GET, &path.replace("NAME", name), &Value::Null).await;
            reported.push((answer.status, answer.text()));
        }
        assert_eq!(reported[0], reported[1]);
        assert_eq!(reported[0].0, 403);
    }
}

/// The ID of a job reveals nothing about its subject, so a caller without permission for the subject learns nothing
/// from it.
#[tokio::test]
async fn a_job_beyond_the_scope_looks_missing() {
    let api = api().await;
    api.feature("seen", "string", "1h").await;
    let admin = admin(&api).await;
    let purge = with_key(&api, &admin, Method::POST, "/v1/features/user/seen/purge", &json!({})).await.expect(202);
    let id = purge["id"].as_str().unwrap();
    let none = format!("{}{}", &id[..id.len() - 1], if id.ends_with('0') { '1' } else { '0' });
    let roles = ["reader", "writer", "editor", "operator"];
    let limited = json!({"name": "o", "roles": roles, "scopes": ["user.other", "customer.*"]});
    let (limited, _) = key(&api, Some(&admin), limited).await;
    for (method, rest, body) in [
        (Method::GET, "", Value::Null),
        (Method::PATCH, "", json!({"lists_per_second": 7})),
        (Method::POST, "/pause", json!({})),
        (Method::POST, "/resume", json!({})),
        (Method::POST, "/cancel", json!({})),
    ] {
        let mut reported = Vec::new();
        for id in [id, &none] {
            let answer = with_key(&api, &limited, method.clone(), &format!("/v1/jobs/{id}{rest}"), &body).await;
            answer.refused("job_not_found", "");
            reported.push(answer.text().replace(id, "ID"));
        }
        assert_eq!(reported[0], reported[1], "{method} {rest}");
    }
    let jobs = with_key(&api, &limited, Method::GET, "/v1/jobs", &Value::Null).await.expect(200);
    assert_eq!(jobs, json!({"jobs": []}));
    // The audit trail shows the request under the job's ID, like any other refusal.
    let audit = with_key(&api, &admin, Method::GET, "/v1/audit?action=refuse&by=key:o", &Value::Null).await;
    let audit = audit.expect(200);
    let refused = audit["changes"].as_array().unwrap().iter();
    let mut refused: Vec<_> = refused.map(|change| (&change["target"], &change["after"]["code"])).collect();
    refused.sort_by_key(|(target, _)| target.to_string());
    let (denied, names) =
        (json!("permission_denied"), ["cancel_job", "get_job", "pause_job", "resume_job", "update_job"]);
    let names = names.map(|name| json!(name));
    assert_eq!(refused, names.iter().map(|name| (name, &denied)).collect::<Vec<_>>());
    let metrics = with_key(&api, &admin, Method::GET, "/metrics", &Value::Null).await.text();
    assert!(metrics.contains("liststore_access_refused_total{reason=\"permission_denied\"} 5\n"), "{metrics}");
    // A caller who may see it, and has no further permission, gets that answer.
    let reader = json!({"name": "r", "roles": ["reader"], "scopes": ["user.seen"]});
    let (reader, _) = key(&api, Some(&admin), reader).await;
    with_key(&api, &reader, Method::GET, &format!("/v1/jobs/{id}"), &Value::Null).await.expect(200);
    let cancel = with_key(&api, &reader, Method::POST, &format!("/v1/jobs/{id}/cancel"), &json!({})).await;
    cancel.refused("permission_denied", "");
}

/// A dot in a name parts nothing: `user.*` is about the entity type `user`, and about no other.
#[tokio::test]
async fn a_scope_of_an_entity_type_includes_no_other_with_dots() {
    let api = api().await;
    for (entity_type, name) in [("user", "x.y"), ("user.x", "y"), ("user.", "y"), ("user..", "y"), ("use", "r.y")] {
        let feature = json!({"entity_type": entity_type, "name": name, "value_type": "string", "ttl": "1h"});
        api.post("/v1/features", feature).await.expect(201);
        if entity_type != "use" {
            api.post("/v1/entity-types", json!({"entity_type": entity_type})).await.expect(201);
            let path = format!("/v1/entities/{entity_type}/u");
            api.send(Method::PUT, &path, &[("content-type", "application/json")], b"{}").await.expect(201);
        }
    }
    let admin = admin(&api).await;
    let roles = ["reader", "writer", "editor"];
    let of_user = json!({"name": "n", "roles": roles, "scopes": ["user.*"]});
    let (of_user, _) = key(&api, Some(&admin), of_user).await;
    let of_one = json!({"name": "m", "roles": roles, "scopes": ["user.seen", "user/x.y"]});
    let (of_one, _) = key(&api, Some(&admin), of_one).await;
    let status = async |token: &str, path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
        api.exchange(request.as_bytes()).await.status
    };
    for path in ["/v1/lists/user/x.y/u/items", "/v1/lists/user/x%2Ey/u/items", "/v1/features/user/x.y"] {
        assert_eq!((status(&of_user, path).await, status(&of_one, path).await), (200, 200), "{path}");
    }
    // Bags are of the whole type: a key of some of its features has none.
    for path in ["/v1/entities/user/u", "/v1/entities/user", "/v1/entity-types/user/indexes", "/v1/entity-types/user"] {
        assert_eq!((status(&of_user, path).await, status(&of_one, path).await), (200, 403), "{path}");
    }
    for path in [
        "/v1/lists/user.x/y/u/items",
        "/v1/lists/user%2Ex/y/u/items",
        "/v1/lists/user./y/u/items",
        "/v1/lists/user../y/u/items",
        "/v1/lists/user%2e%2e/y/u/items",
        "/v1/lists/use/r.y/u/items",
        "/v1/lists/%2A/y/u/items",
        "/v1/lists/*/y/u/items",
        "/v1/features/user.x/y",
        "/v1/features/user.x/y/history",
        "/v1/features/user.x/y/entities",
        "/v1/entities/user.x/u",
        "/v1/entities/user%2Ex/u",
        "/v1/entities/user./u",
        "/v1/entities/User/u",
        "/v1/entities/none/u",
        "/v1/entity-types/user.x",
        "/v1/entity-types/user.x/indexes",
        "/v1/entity-types/user.x/history",
        "/v1/audit",
        "/v1/audit?target=user.x.y",
        "/v1/keys",
    ] {
        assert_eq!((status(&of_user, path).await, status(&of_one, path).await), (403, 403), "{path}");
    }
    // An invalid name is also invalid within a scope.
    for path in ["/v1/lists/user/%2e%2e/u/items", "/v1/lists/user/x.y/%2e%2e/items", "/v1/lists/user/x.y/%2E/items"] {
        assert_eq!(status(&of_user, path).await, 400, "{path}");
    }
    let request = |entity_type: &str| json!({"entity_type": entity_type, "entity_id": "u"});
    let body = json!({"requests": [request("user"), request("user.x"), request("none")]});
    let answer = with_key(&api, &of_user, Method::POST, "/v1/entities:batchGet", &body).await.expect(200);
    assert!(answer["results"][0].get("properties").is_some(), "{answer}");
    assert_eq!(answer["results"][1], answer["results"][2]);
    assert_eq!(answer["results"][1]["problem"]["code"], "permission_denied", "{answer}");
    let types = with_key(&api, &of_user, Method::GET, "/v1/entity-types", &Value::Null).await.expect(200);
    assert_eq!(types["entity_types"].as_array().unwrap().len(), 1, "{types}");
}

#[tokio::test]
async fn a_listing_and_its_pages_show_only_permitted_entries() {
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
    assert_eq!(exactly["next_page_token"], Value::Null, "a token must not reveal a hidden feature");
}

/// A scope is compared with the names that the server uses, in any encoding of the request.
#[tokio::test]
async fn no_spelling_of_a_path_leaves_a_scope() {
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
    // Calls for several lists: each is decided separately, and equally for existing and missing features.
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
    // A value of another type reveals nothing, either.
    let body = json!({"requests": [adding("customer", "seen"), adding("customer", "none")]});
    let answer = with_key(&api, &token, Method::POST, "/v1/lists:batchAdd", &body).await.expect(200);
    assert_eq!(answer["results"][0], answer["results"][1]);
    assert_eq!(answer["results"][0]["problem"]["code"], "permission_denied", "{answer}");
}
