//! The server's exact answers: one call of nearly every operation, some refusals, and the OpenAPI document.
//!
//! The calls are in `snapshots/calls.json`, their answers in `snapshots/bodies.json`, and the document, without its
//! examples, in `snapshots/openapi.json`. A failing test names a file with the current output. Compare both, and copy
//! it over the snapshot if the change is intended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use regex::Regex;
use reqwest::Method;
use serde_json::{Map, Value};

use super::client::{Api, api};

const CALLS: &str = include_str!("snapshots/calls.json");
const BODIES: &str = include_str!("snapshots/bodies.json");
const OPENAPI: &str = include_str!("snapshots/openapi.json");

/// Members that differ from run to run, or from machine to machine.
const UNSETTLED: [&str; 12] = [
    "actors",
    "etag",
    "id",
    "job_id",
    "key_id",
    "lag_seconds",
    "next_page_token",
    "permits",
    "permits_per_actor",
    "server",
    "states",
    "token",
];

/// Texts that differ from run to run. Items of the calls are of 2024.
static TEXTS: LazyLock<[(Regex, &str); 3]> = LazyLock::new(|| {
    let of = |pattern: &str| Regex::new(pattern).unwrap();
    [
        (of(r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT[0-9:.]+Z"), "<time>"),
        (of(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
        (of(r"\b[0-9a-f]{32}\b"), "<job>"),
    ]
});

/// The parts of a reply that a call stores: an ID, and a token if there is one.
type Kept = BTreeMap<String, (String, String)>;

fn settled(value: Value, kept: &Kept) -> Value {
    match value {
        Value::Object(members) => {
            let member = |(name, value): (String, Value)| match UNSETTLED.contains(&name.as_str()) {
                true => (name.clone(), format!("<{name}>").into()),
                false => (name, settled(value, kept)),
            };
            Value::Object(members.into_iter().map(member).collect())
        }
        Value::Array(entries) => entries.into_iter().map(|entry| settled(entry, kept)).collect(),
        Value::String(text) => {
            let text = TEXTS.iter().fold(text, |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned());
            kept.iter().fold(text, |text, (name, (id, _))| text.replace(id, &format!("<{name}>"))).into()
        }
        other => other,
    }
}

/// Makes a call, and shows its answer.
async fn shown(api: &Api, call: &Map<String, Value>, kept: &mut Kept) -> Value {
    let text_of = |name: &str| call.get(name).and_then(Value::as_str);
    let (method, path) = text_of("call").unwrap().split_once(' ').unwrap();
    let path = kept.iter().fold(path.to_owned(), |path, (name, (id, _))| path.replace(&format!("{{{name}}}"), id));
    let body = text_of("text").map(str::to_owned).or(call.get("body").map(Value::to_string)).unwrap_or_default();
    let bearer = text_of("as").map(|name| format!("Bearer {}", kept[name].1));
    let mut headers = Vec::new();
    headers.extend((!body.is_empty()).then_some(("content-type", "application/json")));
    headers.extend(text_of("accept").map(|accepted| ("accept", accepted)));
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let answer = api.send(method.parse::<Method>().unwrap(), &path, &headers, body.as_bytes()).await;
    let is_json = answer.content_type().is_some_and(|kind| kind.ends_with("json") && !kind.ends_with("ndjson"));
    let mut body = if is_json { answer.json() } else { answer.text().into() };
    if let Some(name) = text_of("keep") {
        let made = body.get("key").unwrap_or(&body);
        let token = body["token"].as_str().unwrap_or_default();
        kept.insert(name.to_owned(), (made["id"].as_str().unwrap().to_owned(), token.to_owned()));
    }
    for unsure in call.get("unsure").and_then(Value::as_array).into_iter().flatten() {
        body.as_object_mut().unwrap().remove(unsure.as_str().unwrap());
    }
    let mut shown = Map::new();
    shown.insert("call".to_owned(), call["call"].clone());
    shown.insert("status".to_owned(), answer.status.into());
    shown.insert("body".to_owned(), settled(body, kept));
    if let Some(location) = answer.header("location") {
        shown.insert("location".to_owned(), settled(location.into(), kept));
    }
    shown.into()
}

/// The document by paths and schemas. Of problems it has the codes.
fn outline(document: &Value) -> Value {
    let mut outline = Map::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let mut operation = operation.clone();
            for response in operation["responses"].as_object_mut().unwrap().values_mut() {
                if response["content"].get("application/problem+json").is_some() {
                    *response = response["description"].clone();
                }
            }
            outline.insert(format!("{} {path}", method.to_uppercase()), operation);
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        outline.insert(format!("schema {name}"), schema.clone());
    }
    outline.into()
}

/// Holds each line to the snapshot, and writes all of them to a file where one differs.
fn check(name: &str, snapshot: &str, is_object: bool, lines: Vec<String>) {
    let (open, close) = if is_object { ("{", "}") } else { ("[", "]") };
    let now = format!("{open}\n  {}\n{close}\n", lines.join(",\n  "));
    let (expected, shown): (Value, Value) =
        (serde_json::from_str(snapshot).unwrap(), serde_json::from_str(&now).unwrap());
    if expected != shown {
        let file: PathBuf = std::env::temp_dir().join(format!("liststore-snapshot-{name}"));
        std::fs::write(&file, now).unwrap();
        panic!("not as tests/api/snapshots/{name} has it: compare with {}", file.display());
    }
}

#[tokio::test]
async fn answers_equal_the_snapshot() {
    let api = api().await;
    let (mut kept, mut lines) = (Kept::new(), Vec::new());
    for call in serde_json::from_str::<Vec<Map<String, Value>>>(CALLS).unwrap() {
        match call.get("await").and_then(Value::as_str) {
            Some(path) => {
                let path =
                    kept.iter().fold(path.to_owned(), |path, (name, (id, _))| path.replace(&format!("{{{name}}}"), id));
                api.until_state(&path, call["state"].as_str().unwrap()).await;
            }
            None => lines.push(shown(&api, &call, &mut kept).await.to_string()),
        }
    }
    check("bodies.json", BODIES, false, lines);
}

#[tokio::test]
async fn the_openapi_document_equals_the_snapshot() {
    let document = api().await.get("/openapi.json").await.expect(200);
    let outline = outline(&document);
    let entries = outline.as_object().unwrap().iter();
    let lines = entries.map(|(name, described)| format!("{}: {described}", Value::from(name.as_str())));
    check("openapi.json", OPENAPI, true, lines.collect());
}
