//! `GET /openapi.json`: the API's exact form, generated from its handlers.
//!
//! What an operation takes and returns stands with its handler; which errors it may be answered
//! with stands in `routes.rs`. Tests hold that every route is described, and that every answer they
//! see is as described.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use actix_web::HttpResponse;
use bytes::Bytes;
use serde_json::json;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::Operation as Described;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{OpenApi as Document, Ref, RefOr};
use utoipa::{Modify, OpenApi};

use super::call::{Answer, Call};
use super::problem::{self, ErrorCode};
use super::routes::{Operation, ROUTES};
use super::{backups, features, health, lists, versions};

pub(super) mod bodies;
pub(super) mod parameters;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Liststore",
        description = "Time-ordered lists of expiring items that belong to an entity. HEAD and OPTIONS are answered \
                       wherever they make sense. Unknown fields and parameters are refused. A GET may be sent as HEAD.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "lists", description = "The data plane: items of lists."),
        (name = "features", description = "The control plane: list features and their history."),
        (name = "versions", description = "The control plane: versions of list features."),
        (name = "operations", description = "For operators, on the server's own machine."),
        (name = "health", description = "For probes and scrapers."),
    ),
    paths(
        lists::get_items,
        lists::add_items,
        lists::remove_all_items,
        lists::remove_items_with_value,
        features::list_features,
        features::create_feature,
        features::get_feature,
        features::update_feature,
        features::delete_feature,
        features::get_history,
        versions::create_version,
        versions::get_version,
        versions::update_version,
        versions::delete_version,
        backups::create_backup,
        health::livez,
        health::readyz,
        health::metrics,
        self::openapi,
    ),
    components(schemas(bodies::Problem)),
    modifiers(&Common),
)]
struct Api;

/// The document, rendered once.
static DOCUMENT: LazyLock<Result<Bytes, String>> =
    LazyLock::new(|| Api::openapi().to_json().map(Bytes::from).map_err(|error| error.to_string()));

/// The OpenAPI document
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    tag = "health",
    responses((status = 200, description = "This document.", body = serde_json::Value, content_type = "application/json")),
)]
pub(super) fn openapi(_: Call<'_>) -> Answer {
    match &*DOCUMENT {
        Ok(document) => Ok(HttpResponse::Ok().content_type("application/json").body(document.clone())),
        Err(error) => Err(problem::Problem::internal(format!("cannot render the OpenAPI document: {error}"))),
    }
}

/// What all operations have in common: the errors of the table, and the request's id.
struct Common;

impl Modify for Common {
    fn modify(&self, document: &mut Document) {
        for item in document.paths.paths.values_mut() {
            let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete]
                .into_iter()
                .filter_map(Option::as_mut);
            for described in operations {
                describe_errors(described);
                for response in described.responses.responses.values_mut() {
                    if let RefOr::T(response) = response {
                        response.headers.insert("X-Request-Id".to_owned(), header(Type::String, "The request's id."));
                    }
                }
            }
        }
    }
}

fn describe_errors(described: &mut Described) {
    let id = described.operation_id.as_deref();
    let Some(route) = ROUTES.iter().find(|route| Some(route.operation.name()) == id) else { return };
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in route.operation.errors() {
        by_status.entry(code.status().as_u16()).or_default().push(code);
    }
    for (status, codes) in by_status {
        described.responses.responses.insert(status.to_string(), RefOr::T(error_response(&codes)));
    }
    if route.operation == Operation::Readyz
        && let Some(RefOr::T(response)) = described.responses.responses.get_mut("503")
    {
        response.headers.insert("Retry-After".to_owned(), retry_after());
    }
}

/// The answer of some codes that share a status, with an example of each.
fn error_response(codes: &[ErrorCode]) -> Response {
    let names: Vec<_> = codes.iter().map(|code| format!("`{}`", code.name())).collect();
    let examples = codes.iter().map(|code| {
        let row = code.row();
        let example = json!({
            "type": format!("urn:liststore:problem:{}", row.name),
            "title": row.title,
            "status": row.status.as_u16(),
            "code": row.name,
            "detail": "what to do about it",
            "retryable": row.retryable,
        });
        (row.name, RefOr::T(ExampleBuilder::new().summary(row.title).value(Some(example)).build()))
    });
    let content =
        ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).examples_from_iter(examples).build();
    let mut response =
        ResponseBuilder::new().description(names.join(", ")).content(problem::CONTENT_TYPE, content).build();
    if codes.iter().any(|code| code.row().retry_after_secs.is_some()) {
        response.headers.insert("Retry-After".to_owned(), retry_after());
    }
    response
}

fn retry_after() -> RefOr<Header> {
    header(Type::Integer, "Seconds to wait before the request is sent again.")
}

fn header(schema_type: Type, description: &str) -> RefOr<Header> {
    let schema = ObjectBuilder::new().schema_type(SchemaType::Type(schema_type));
    RefOr::T(HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let document = serde_json::to_value(Api::openapi()).unwrap();
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap().to_owned();
                described.insert((method.to_uppercase(), path.clone(), id));
            }
        }
        let routes: BTreeSet<_> = ROUTES
            .iter()
            .map(|route| (route.method.to_owned(), route.path.to_owned(), route.operation.name().to_owned()))
            .collect();
        assert_eq!(described, routes);
        assert_eq!(document["openapi"], "3.1.0");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = serde_json::to_value(Api::openapi()).unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(document.pointer(reference).is_some(), "{reference}");
        }
    }
}
