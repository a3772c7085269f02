//! Checks every answer against the server's own OpenAPI document.
//!
//! Documented answers are checked more strictly than the document requires of clients: an answer must have no
//! undocumented member.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use liststore::wire::ErrorCode;
use serde_json::{Value, json};

use super::client::Answer;

/// The document, as one server gave it: it is the same for all.
pub struct Contract {
    document: Value,
    /// By JSON pointer of the schema.
    validators: Mutex<HashMap<String, &'static jsonschema::Validator>>,
}

static CONTRACT: LazyLock<Mutex<Option<&'static Contract>>> = LazyLock::new(Mutex::default);

impl Contract {
    /// The contract, made from the document on first use.
    pub fn get_or_init(document: impl FnOnce() -> Value) -> &'static Self {
        let mut contract = CONTRACT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        contract.get_or_insert_with(|| {
            let mut document = document();
            close_objects(&mut document["components"]["schemas"]);
            Box::leak(Box::new(Self { document, validators: Mutex::default() }))
        })
    }

    pub fn known() -> Option<&'static Self> {
        *CONTRACT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Panics if the answer to this request is not as described.
    pub fn check(&self, method: &str, path: &str, sent: &[u8], answer: &Answer) {
        let about = format!("{method} {path} answered {} {}", answer.status, answer.text());
        assert!(!about.contains("os error"), "what the operating system says is not for callers: {about}");
        let id = answer.header("x-request-id").unwrap_or_else(|| panic!("no X-Request-Id: {about}"));
        assert!(!id.is_empty() && id.len() <= 128, "{about}");
        if answer.content_type() == Some("application/problem+json") && method != "HEAD" {
            check_problem(answer, &about);
        }
        let Some((template, item)) = self.find(path) else {
            assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "no such path: {about}");
            return;
        };
        let Some(operation) = item.get(method.to_lowercase()).or_else(|| item.get("get").filter(|_| method == "HEAD"))
        else {
            let expected = if method == "OPTIONS" { 204 } else { 405 };
            assert_eq!(answer.status, expected, "no such method: {about}");
            check_allow(item, answer, &about);
            return;
        };
        if answer.status == 400 && answer.field().as_deref() == Some("path") {
            return;
        }
        let status = answer.status.to_string();
        let described =
            operation["responses"].get(&status).unwrap_or_else(|| panic!("{status} is not described: {about}"));
        // Some codes of a status are not retryable.
        let is_problem = method != "HEAD" && answer.content_type() == Some("application/problem+json");
        let is_final = is_problem && answer.json()["retryable"] == false;
        for (name, _) in described["headers"].as_object().into_iter().flatten() {
            if name == "Retry-After" && is_final {
                continue;
            }
            // There is no definition left to compare with.
            if name == "ETag" && answer.text().contains(r#""state":"dropping""#) {
                continue;
            }
            assert!(answer.header(name).is_some(), "no header {name}: {about}");
        }
        if method == "HEAD" {
            return;
        }
        let pointer = format!("/paths/{}/{}/responses/{status}", escape(template), method.to_lowercase());
        self.check_content(&pointer, described, answer, &about);
        if (200..300).contains(&answer.status) && operation.get("requestBody").is_some() {
            let pointer = format!("/paths/{}/{}/requestBody", escape(template), method.to_lowercase());
            let body: Value = serde_json::from_slice(sent).unwrap();
            self.validate(&format!("{pointer}/content/application~1json/schema"), &body, "the request of ", &about);
        }
    }

    fn check_content(&self, pointer: &str, described: &Value, answer: &Answer, about: &str) {
        let Some(content) = described.get("content").and_then(Value::as_object) else {
            assert!(answer.body.is_empty(), "no content is described: {about}");
            return;
        };
        let content_type = answer.content_type().unwrap_or_else(|| panic!("no Content-Type: {about}"));
        let media = content.get(content_type).unwrap_or_else(|| panic!("{content_type} is not described: {about}"));
        if content_type.starts_with("text/") || content_type == "application/x-ndjson" {
            return;
        }
        let schema = format!("{pointer}/content/{}/schema", escape(content_type));
        self.validate(&schema, &answer.json(), "", about);
        if content_type == "application/problem+json" {
            assert!(media["examples"].get(answer.code()).is_some(), "the code is not described: {about}");
        }
    }

    fn validate(&self, pointer: &str, instance: &Value, what: &str, about: &str) {
        let validator = *self.validators.lock().unwrap().entry(pointer.to_owned()).or_insert_with(|| {
            let schema = self.document.pointer(pointer).unwrap_or_else(|| panic!("no schema at {pointer}"));
            // References into the document's components resolve if the schema includes the components.
            let schema = json!({"allOf": [schema], "components": self.document["components"]});
            Box::leak(Box::new(jsonschema::draft202012::new(&schema).unwrap()))
        });
        let errors: Vec<_> = validator.iter_errors(instance).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{what}{about} is not as described: {errors:?}");
    }

    fn find(&self, path: &str) -> Option<(&str, &Value)> {
        let path = path.split('?').next().unwrap().replace("items%3Aremove", "items:remove");
        let segments: Vec<_> = path.split('/').collect();
        let fits = |template: &str| {
            let template: Vec<_> = template.split('/').collect();
            template.len() == segments.len()
                && template.iter().zip(&segments).all(|(t, s)| t.starts_with('{') || t == s)
        };
        let paths = self.document["paths"].as_object().unwrap();
        paths.iter().find(|(template, _)| fits(template)).map(|(template, item)| (template.as_str(), item))
    }
}

fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

/// No member may be there that is not described.
fn close_objects(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            object.values_mut().for_each(close_objects);
        }
        Value::Array(array) => array.iter_mut().for_each(close_objects),
        _ => {}
    }
}

fn check_problem(answer: &Answer, about: &str) {
    let body = answer.json();
    let row = ErrorCode::table().iter().find(|row| body["code"] == row.name);
    let row = row.unwrap_or_else(|| panic!("an unknown code: {about}"));
    assert_eq!(answer.status, row.status, "{about}");
    assert_eq!(body["status"], answer.status, "{about}");
    assert_eq!(body["title"], row.title, "{about}");
    assert_eq!(body["type"], format!("/docs/errors/{}", row.name), "{about}");
    assert_eq!(body["retryable"], row.retryable, "{about}");
    assert!(body.get("outcome_unknown").is_none_or(|unknown| *unknown == true), "{about}");
    let may_pass = row.retryable && [429, 503].contains(&answer.status);
    assert_eq!(answer.header("retry-after").is_some(), may_pass, "{about}");
    assert_eq!(answer.header("allow").is_some(), answer.status == 405, "{about}");
}

fn check_allow(item: &Value, answer: &Answer, about: &str) {
    let allow = answer.header("allow").unwrap_or_else(|| panic!("no Allow: {about}"));
    let mut allowed: Vec<_> = allow.split(", ").map(str::to_lowercase).collect();
    let mut methods: Vec<_> = item.as_object().unwrap().keys().cloned().collect();
    if methods.iter().any(|method| method == "get") {
        methods.push("head".to_owned());
    }
    methods.push("options".to_owned());
    allowed.sort();
    methods.sort();
    assert_eq!(allowed, methods, "{about}");
}
