//! Probes, and the OpenAPI document.

use std::collections::BTreeSet;

use liststore::items::StoreError;
use liststore::metadata::MetadataError;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{ago, api, items, one};
use super::faults::{faulty, faulty_from_the_start, refuse_sessions};
use super::language::banned;
use super::sockets::until;

#[tokio::test]
async fn a_working_server_is_ready() {
    let api = api().await;
    assert_eq!(api.get("/livez").await.expect(200)["status"], "pass");
    let expected = json!({
        "status": "pass",
        "checks": {"item_store": "pass", "catalog": "pass", "metadata_store": "pass", "access": "pass", "accepting": "pass"},
    });
    assert_eq!(api.get("/readyz").await.expect(200), expected);
}

#[tokio::test]
async fn a_server_is_not_ready_before_a_session_and_the_catalog_exist() {
    let away = MetadataError::Unavailable { reason: "no route".to_owned(), outcome_unknown: false };
    let (mut api, faults) = faulty_from_the_start(&[], |faults| {
        refuse_sessions(faults);
        *faults.metadata.lock().unwrap() = Some(away.clone());
    })
    .await;
    let not_ready = api.get("/readyz").await;
    assert!(not_ready.header("retry-after").is_some());
    let body = not_ready.expect(503);
    assert_eq!((&body["status"], &body["checks"]["item_store"]), (&json!("fail"), &json!("fail")));
    assert_eq!((&body["checks"]["catalog"], &body["checks"]["accepting"]), (&json!("fail"), &json!("pass")));
    assert!(body["reasons"]["catalog"].is_string());
    assert_eq!(api.get("/livez").await.expect(200)["status"], "pass");
    *faults.metadata.lock().unwrap() = None;
    faults.allow_sessions();
    api.server.ready().await;
    until("nothing is left to warn of", async || api.get("/readyz").await.expect(200)["status"] == "pass").await;
}

/// Its lists would be refused, and by this server alone.
#[tokio::test]
async fn a_server_is_not_ready_until_every_actor_had_a_session() {
    let (mut api, faults) = faulty_from_the_start(&[("items.actors", "2")], refuse_sessions).await;
    faults.allow_only(1);
    let last_is_missing = async || {
        let body = api.get("/readyz").await.expect(503);
        body["reasons"]["item_store"].as_str().is_some_and(|reason| reason.starts_with("1 of 2 list actors"))
    };
    until("one is live", last_is_missing).await;
    faults.allow_sessions();
    api.server.ready().await;
    assert_eq!(api.get("/readyz").await.expect(200)["status"], "pass");
}

#[tokio::test]
async fn missing_parts_that_are_not_required_cause_a_warning() {
    let (api, faults) = faulty(&[]).await;
    let away = MetadataError::Unavailable { reason: "no route".to_owned(), outcome_unknown: false };
    *faults.metadata.lock().unwrap() = Some(away);
    api.get("/v1/features").await.refused("metadata_unavailable", "");
    let body = api.get("/readyz").await.expect(200);
    assert_eq!((&body["status"], &body["checks"]["metadata_store"]), (&json!("warn"), &json!("warn")));
    *faults.metadata.lock().unwrap() = None;
    api.get("/v1/features").await.expect(200);
    assert_eq!(api.get("/readyz").await.expect(200)["status"], "pass");

    *faults.read_only.lock().unwrap() = Some("the disk is full".to_owned());
    let body = api.get("/readyz").await.expect(200);
    assert_eq!((&body["status"], &body["checks"]["item_store"]), (&json!("warn"), &json!("warn")));
    assert_eq!(body["reasons"]["item_store"], "the item store refuses some writes; see the server's log");
}

/// They name files, and contain the operating system's texts.
#[tokio::test]
async fn texts_of_the_stores_reach_no_caller() {
    const WORDS: &str = "cannot read /srv/data/7.items: Permission denied (os error 13)";
    let (api, faults) = faulty(&[]).await;
    api.feature("seen", "string", "30d").await;
    *faults.read_only.lock().unwrap() = Some(WORDS.to_owned());
    let reason = WORDS.to_owned();
    *faults.items.lock().unwrap() = Some(StoreError::Unavailable { reason, outcome_unknown: false });
    let (list, add) = (items("seen", "u"), one(ago(1), "x"));
    for answer in [api.get("/readyz").await, api.get(&list).await, api.post(&list, add).await] {
        assert!(answer.status != 404 && !answer.text().contains("/srv"), "{}", answer.text());
        assert!(!answer.text().contains("os error"), "{}", answer.text());
    }
}

#[tokio::test]
async fn unknown_parameters_are_refused_on_every_path() {
    let api = api().await;
    let document = api.get("/openapi.json").await.expect(200);
    let mut asked = 0;
    for (template, item) in document["paths"].as_object().unwrap() {
        let mut path = String::new();
        for part in template.split(['{', '}']).enumerate() {
            path += if part.0 % 2 == 0 { part.1 } else { "x" };
        }
        for method in item.as_object().unwrap().keys().filter(|method| *method != "parameters") {
            // The backup's own refusal comes first.
            if template == "/v1/backups" {
                continue;
            }
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let has_body = [Method::POST, Method::PATCH, Method::PUT].contains(&method);
            let body: &[u8] = if has_body { b"{}" } else { b"" };
            let answer = api.send(method, &format!("{path}?surprise=1"), &[], body).await;
            answer.refused("invalid_argument", "surprise");
            asked += 1;
        }
    }
    assert!(asked > 15, "{asked}");
}

#[tokio::test]
async fn the_document_is_complete() {
    let api = api().await;
    let document = api.get("/openapi.json").await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let about = format!("{method} {path}");
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{about}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let named = |place: &str| -> BTreeSet<_> {
                parameters.iter().filter(|p| p["in"] == place).map(|p| p["name"].as_str().unwrap().to_owned()).collect()
            };
            let in_path: BTreeSet<_> =
                path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap().to_owned()).collect();
            assert_eq!(named("path"), in_path, "{about}");
            assert!(parameters.iter().all(|p| p["in"] != "path" || p["required"] == true), "{about}");
            assert!(parameters.iter().all(|p| p["in"] == "path" || p["required"] != true), "{about}");
            if path.starts_with("/v1/") {
                let headers = named("header");
                assert!(headers.contains("X-Request-Id") && headers.contains("Liststore-Timeout-Ms"), "{about}");
                assert!(operation["responses"].get("400").is_some(), "{about}");
            }
        }
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.values().all(Value::is_object));
}

#[tokio::test]
async fn descriptions_of_the_document_are_plain_english() {
    let document = api().await.get("/openapi.json").await.expect(200);
    let mut unclear = Vec::new();
    collect_banned(&document, "", &mut unclear);
    assert!(unclear.is_empty(), "\n{}", unclear.join("\n"));
}

/// Adds the banned phrases in descriptions and summaries, each with its JSON pointer.
fn collect_banned(value: &Value, pointer: &str, unclear: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let pointer = format!("{pointer}/{name}");
                match member {
                    Value::String(text) if ["description", "summary"].contains(&name.as_str()) => {
                        let found = banned(text).into_iter();
                        unclear
                            .extend(found.map(|(phrase, instead)| format!("{pointer}: `{phrase}`: write {instead}")));
                    }
                    member => collect_banned(member, &pointer, unclear),
                }
            }
        }
        Value::Array(entries) => {
            for (i, entry) in entries.iter().enumerate() {
                collect_banned(entry, &format!("{pointer}/{i}"), unclear);
            }
        }
        _ => {}
    }
}
