//! `GET /openapi.json`: the API's exact form, made from the table of operations and the
//! types of `wire`. Tests hold every answer that they see to it.

mod errors;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::Bytes;
use liststore_contract::operations::openapi::ROW;
use liststore_contract::permission::Permission;
use liststore_contract::row::{Content, Group, Row, Segment};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};

use super::OPERATIONS;
use crate::api::call::{Call, HandlerResult};
use crate::api::document::PackedDocument;
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::{self, ErrorCode, Problem};
use crate::definition::GivenProperties;
use crate::service::{Caller, Service, ServiceError};
use crate::wire::parameters::{self, Parameter};
use crate::wire::{ProblemBody, Type};

/// The document, rendered and compressed once.
static DOCUMENT: LazyLock<PackedDocument> = LazyLock::new(|| PackedDocument::new(Bytes::from(document().to_string())));

pub struct OpenApi;

impl Operation for OpenApi {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Self;

    fn read(_call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self)
    }

    async fn run(_service: &Service, _caller: &Caller, request: Self) -> Result<Self, ServiceError> {
        Ok(request)
    }

    fn reply(call: &Call<'_>, _reply: Self) -> HandlerResult {
        let response = json_text(call.response(), Bytes::new());
        Ok(DOCUMENT.answer(response, call.headers, call.state.options.compression_bytes_min))
    }
}

fn document() -> Value {
    let mut schemas = Schemas::default();
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS.iter().map(|operation| operation.row) {
        let described = describe(operation, &mut schemas);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_lowercase()] = described;
    }
    schemas.join_parts();
    schemas.close_requests();
    let tags = Group::ALL.map(|group| json!({"name": group.name(), "description": group.description()}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Liststore",
            "description": "Time-ordered lists of expiring items that belong to an entity. Paths with GET also support \
                            HEAD, and all paths support OPTIONS. Unknown fields and parameters are refused.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "version": env!("CARGO_PKG_VERSION"),
        },
        "tags": tags,
        // The paths have no order. The table begins with the most frequent operations.
        "x-order": OPERATIONS.iter().map(|operation| operation.row.name).collect::<Vec<_>>(),
        "paths": paths,
        "components": {"schemas": schemas.0, "securitySchemes": security_schemes()},
        "x-errors": errors::table(),
    })
}

fn security_schemes() -> Value {
    json!({
        API_KEY: {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "ls_<id>_<secret>",
            "description": "An API key from `liststore key create`, or a token of a trusted identity provider. Open \
                            servers do not require one.",
        },
        CLIENT_CERTIFICATE: {
            "type": "mutualTLS",
            "description": "A client certificate whose name has roles in the server's settings \
                            (`access.certificates`). If a request has an `Authorization` header, only that header \
                            counts.",
        },
    })
}

/// The schemas that bodies refer to, by name.
#[derive(Default)]
struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// The schema of a body: a reference if it has a name.
    fn reference(&mut self, body: &Type) -> Value {
        let name = (body.name)().into_owned();
        let RefOr::T(schema) = (body.schema)() else { return rendered((body.schema)()) };
        if name == "Value" {
            return json!({});
        }
        self.0.entry(name.clone()).or_insert_with(|| rendered(schema.into()));
        let mut referred = Vec::new();
        (body.referred)(&mut referred);
        for (name, schema) in referred {
            self.0.entry(name).or_insert_with(|| rendered(schema));
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }
}

impl Schemas {
    /// Makes one object of each schema with flattened parts.
    fn join_parts(&mut self) {
        let all = self.0.clone();
        let mut joined = BTreeSet::new();
        for (name, schema) in &mut self.0 {
            let Some(whole) = schema.as_object_mut() else { continue };
            let Some(Value::Array(parts)) = whole.remove("allOf") else { continue };
            for part in parts {
                let referred = part["$ref"].as_str().and_then(|path| path.rsplit('/').next());
                joined.extend(referred.map(str::to_owned));
                let part = referred.and_then(|name| all.get(name)).unwrap_or(&part);
                join(whole, part);
            }
            // The other bodies need no property.
            if name == FEATURE_INPUT {
                join(whole, &json!({"required": ["ttl"]}));
            }
            if name.ends_with("Patch")
                && let Some(properties) = whole.get_mut("properties").and_then(Value::as_object_mut)
            {
                properties.retain(|name, _| GivenProperties::FIXED.iter().all(|(fixed, _)| fixed != name));
            }
        }
        self.0.retain(|name, _| !joined.contains(name));
    }

    /// Bodies of requests have only the named members.
    fn close_requests(&mut self) {
        for (name, schema) in &mut self.0 {
            let is_request = name.ends_with("Input") || name.ends_with("Patch");
            if let Some(schema) = schema.as_object_mut()
                && is_request
                && schema.contains_key("properties")
            {
                schema.entry("additionalProperties").or_insert(json!(false));
            }
        }
    }
}

const FEATURE_INPUT: &str = "FeatureInput";

/// Adds a part to an object's schema, whose own description and example stay.
fn join(whole: &mut Map<String, Value>, part: &Value) {
    for (key, of_part) in part.as_object().into_iter().flatten() {
        match (whole.get_mut(key), of_part) {
            (Some(Value::Object(members)), Value::Object(of_part)) => members.extend(of_part.clone()),
            (Some(Value::Array(entries)), Value::Array(of_part)) => entries.extend(of_part.iter().cloned()),
            (Some(_), _) => {}
            (None, _) => {
                whole.insert(key.clone(), of_part.clone());
            }
        }
    }
}

/// Schemas hold texts and numbers: they always have a JSON form.
fn rendered(schema: RefOr<Schema>) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

fn describe(operation: &Row, schemas: &mut Schemas) -> Value {
    let mut described = json!({
        "tags": [operation.group.name()],
        "summary": operation.summary,
        "operationId": operation.name,
        "x-permission": operation.permission.name(),
        "responses": responses(operation, schemas),
    });
    if !operation.description.is_empty() {
        described["description"] = json!(operation.description);
    }
    let parameters = describe_parameters(operation);
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if operation.permission != Permission::Open {
        described["security"] = json!([{API_KEY: []}, {CLIENT_CERTIFICATE: []}]);
    }
    if let Some(body) = &operation.request {
        let schema = schemas.reference(body);
        let mut content = json!({"application/json": {"schema": schema}});
        if operation.takes_merge_patch {
            content["application/merge-patch+json"] = json!({"schema": schema});
        }
        described["requestBody"] = json!({"required": true, "content": content});
    }
    described
}

fn describe_parameters(operation: &Row) -> Vec<Value> {
    let in_path = operation.segments().filter_map(|segment| match segment {
        Segment::Variable(name) => parameters::PATH.iter().find(|parameter| parameter.name == name),
        Segment::Fixed(_) => None,
    });
    let in_path = in_path.map(|parameter| describe_parameter(parameter, "path"));
    let in_query = operation.query.iter().map(|parameter| describe_parameter(parameter, "query"));
    let in_header = operation.headers.iter().map(|parameter| describe_parameter(parameter, "header"));
    in_path.chain(in_query).chain(in_header).collect()
}

fn describe_parameter(parameter: &Parameter, place: &str) -> Value {
    let schema = rendered((parameter.schema)());
    let mut described = json!({
        "name": parameter.name,
        "in": place,
        "description": parameter.description,
        "required": place == "path",
    });
    if let Some(example) = parameter.example {
        let number = example.parse::<u64>().ok().filter(|_| schema["type"] == "integer");
        described["example"] = number.map_or_else(|| json!(example), |number| json!(number));
    }
    described["schema"] = schema;
    described
}

fn responses(operation: &Row, schemas: &mut Schemas) -> Map<String, Value> {
    let mut responses = Map::new();
    for reply in operation.replies {
        let mut headers = json!({"X-Request-Id": header("string", "The request's id.")});
        for (name, description) in reply.headers {
            let kind = if *name == RETRY_AFTER { "integer" } else { "string" };
            headers[*name] = header(kind, description);
        }
        let mut described = json!({"description": reply.description, "headers": headers});
        match &reply.content {
            Some(Content::Json(body)) => {
                described["content"] = json!({"application/json": {"schema": schemas.reference(body)}});
            }
            Some(Content::JsonOrLines(body)) => {
                described["content"] = json!({
                    "application/json": {"schema": schemas.reference(body)},
                    "application/x-ndjson": {"schema": {"type": "string"}},
                });
            }
            Some(Content::Text(media_type)) => {
                described["content"] = json!({*media_type: {"schema": {"type": "string"}}});
            }
            None => {}
        }
        responses.insert(reply.status.to_string(), described);
    }
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in operation.errors() {
        by_status.entry(code.status()).or_default().push(code);
    }
    for (status, codes) in by_status {
        responses.insert(status.to_string(), error_response(&codes, schemas));
    }
    responses
}

const API_KEY: &str = "api_key";
const CLIENT_CERTIFICATE: &str = "client_certificate";
const RETRY_AFTER: &str = "Retry-After";

/// The answer of some codes that share a status, with an example of each.
fn error_response(codes: &[ErrorCode], schemas: &mut Schemas) -> Value {
    let names: Vec<_> = codes.iter().map(|code| format!("`{}`", code.name())).collect();
    let mut examples = Map::new();
    for code in codes {
        let row = code.row();
        let example = problem::Problem::new(*code, "how to fix it").body();
        examples.insert(row.name.to_owned(), json!({"summary": row.title, "value": example}));
    }
    let mut headers = json!({"X-Request-Id": header("string", "The request's id.")});
    if codes.iter().any(|code| code.row().retry_after_secs.is_some()) {
        headers[RETRY_AFTER] = header("integer", "Seconds to wait before the request is sent again.");
    }
    if codes.contains(&ErrorCode::Unauthenticated) {
        headers["WWW-Authenticate"] = header("string", "The authentication scheme: Bearer.");
    }
    let schema = schemas.reference(&Type::of::<ProblemBody>());
    let content = json!({problem::CONTENT_TYPE: {"schema": schema, "examples": examples}});
    json!({"description": names.join(", "), "headers": headers, "content": content})
}

fn header(kind: &str, description: &str) -> Value {
    json!({"description": description, "schema": {"type": kind}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(value: &Value, key: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get(key).and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|value| strings(value, key, found));
            }
            Value::Array(array) => array.iter().for_each(|value| strings(value, key, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_resolves() {
        let document = document();
        let mut references = Vec::new();
        strings(&document, "$ref", &mut references);
        assert!(references.len() > 20, "{references:?}");
        for reference in references {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_variable_segment_is_described() {
        for operation in OPERATIONS.iter().map(|operation| operation.row) {
            let variables = operation.segments().filter(|segment| matches!(segment, Segment::Variable(_))).count();
            let described = describe_parameters(operation);
            assert_eq!(described.iter().filter(|p| p["in"] == "path").count(), variables, "{}", operation.path);
        }
    }

    /// Generated clients compile patterns with the engine of their language; RE2 knows least.
    #[test]
    fn every_pattern_does_without_look_around_and_back_references() {
        let mut patterns = Vec::new();
        strings(&document(), "pattern", &mut patterns);
        assert!(patterns.len() > 10, "{patterns:?}");
        for pattern in patterns {
            for foreign in ["(?", r"\u", r"\1", r"\k"] {
                assert!(!pattern.contains(foreign), "{pattern}");
            }
        }
    }

    /// openapi-generator 7.14 escapes a backslash twice in Go, and then refuses replies that match.
    #[test]
    fn no_pattern_of_a_schema_has_a_backslash_except_against_nul() {
        let mut patterns = Vec::new();
        strings(&document()["components"]["schemas"], "pattern", &mut patterns);
        assert!(patterns.len() > 10, "{patterns:?}");
        for pattern in patterns {
            assert!(!pattern.contains('\\') || pattern == r"^[^\x00]*$", "{pattern}");
        }
    }

    /// Generators make a class of a choice with null that does not compile.
    #[test]
    fn no_schema_is_a_choice_of_one_with_null() {
        fn check(value: &Value) {
            if let Some(choices) = value["oneOf"].as_array() {
                assert!(choices.iter().all(|choice| choice["type"] != "null"), "{value}");
            }
            match value {
                Value::Object(members) => members.values().for_each(check),
                Value::Array(entries) => entries.iter().for_each(check),
                _ => {}
            }
        }
        let document = document();
        check(&document);
        assert!(document["components"]["schemas"]["Timestamp"]["pattern"].is_string());
        let forms = document["components"]["schemas"]["RemoveItemsInput"]["anyOf"].as_array().unwrap();
        let required = forms.iter().map(|form| {
            let name = form["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
            document["components"]["schemas"][name]["required"].to_string()
        });
        assert_eq!(required.collect::<BTreeSet<_>>().len(), forms.len());
    }

    /// In Go, a constructor of `Item` is called `NewItem`.
    #[test]
    fn no_schema_has_the_name_of_a_constructor_of_another() {
        let document = document();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in schemas.keys() {
            let constructed = name.strip_prefix("New").unwrap_or_default();
            assert!(!schemas.contains_key(constructed), "{name}");
        }
    }
}
