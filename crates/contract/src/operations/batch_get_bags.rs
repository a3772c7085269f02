//! Get many bags.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, WRITE, json};
use crate::domain::{EntityId, EntityType};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::body::text_of;
use crate::wire::many::{Checks, of_any_form};
use crate::wire::parameters::{INT64_AS, JOINED_LISTS, Parameter};
use crate::wire::{Bag, ErrorCode, Problem, RequestFailed, Requests, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [JOINED_LISTS, INT64_AS];

pub static ROW: Row = Row {
    name: "batch_get_bags",
    summary: "Get many bags",
    description: "Reads each bag as a single get does, and returns the results in the order of the requests. The \
                  status is 200 even if some or all requests failed. With `lists`, the response includes items of \
                  each entity's lists.",
    group: Group::Entities,
    permission: Permission::ListsRead,
    subject: Subject::Body,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/entities:batchGet",
    query: &QUERY,
    request: Some(Type::of::<BatchGetBagsInput>()),
    replies: &[json(200, "One result for each request.", Type::of::<BatchGetBagsResults>())],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::Draining]],
    counts_items: true,
    ..Row::DEFAULT
};

/// Bags to read, of any entity types.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({"requests": [
    {"entity_type": "user", "entity_id": "u-123"},
    {"entity_type": "user", "entity_id": "u-124"},
]}))]
#[serde(deny_unknown_fields)]
pub struct BatchGetBagsInput {
    #[schema(min_items = 1, max_items = 1000)]
    pub requests: Vec<BagRequest>,
}

/// A bag to read. An invalid name or ID is a problem of this request only.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BagRequest {
    #[schema(value_type = String)]
    pub entity_type: EntityType,
    #[schema(value_type = String)]
    pub entity_id: EntityId,
}

impl BatchGetBagsInput {
    pub fn read(body: &[u8]) -> Result<Requests<BagRequest>, Problem> {
        of_any_form(text_of(body)?, Checks::default())
    }
}

/// One result for each request, in order.
#[derive(ToSchema)]
#[expect(dead_code, reason = "rendered from bags as they were kept")]
pub struct BatchGetBagsResults {
    results: Vec<BagResult>,
}

/// A bag, or the problem.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum BagResult {
    Bag(Bag),
    Failed(RequestFailed),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_server_reads_as_the_same() {
        let request = |id: &str| BagRequest {
            entity_type: EntityType::new("user").unwrap(),
            entity_id: EntityId::new(id).unwrap(),
        };
        let input = BatchGetBagsInput { requests: vec![request("u\"1"), request("é/2")] };
        let read = BatchGetBagsInput::read(&serde_json::to_vec(&input).unwrap()).unwrap();
        assert_eq!(read.into_iter().collect::<Result<Vec<_>, _>>(), Ok(input.requests));
        for (body, field) in [
            ("{}", "requests"),
            (r#"{"requests":[]}"#, "requests"),
            (r#"{"requests":[{"entity_type":"user"}]}"#, "requests[0].entity_id"),
            (r#"{"requests":[{"entity_type":"..","entity_id":7}]}"#, "requests[0].entity_id"),
            (r#"{"requests":[{"entity_type":"user","entity_id":"a","x":1}]}"#, "requests[0].x"),
        ] {
            let problem = BatchGetBagsInput::read(body.as_bytes()).unwrap_err();
            assert_eq!(problem.field.as_deref(), Some(field), "{body}");
        }
        let odd = r#"{"requests":[{"entity_type":"user","entity_id":"a"},{"entity_type":"u r","entity_id":"a"},
            {"entity_type":"user","entity_id":""},{"entity_type":"user","entity_id":"\ud800"}]}"#;
        let read = BatchGetBagsInput::read(odd.as_bytes()).unwrap();
        let fields: Vec<_> = read.iter().map(|read| read.as_ref().err().and_then(|e| e.field.as_deref())).collect();
        assert_eq!(fields, [None, Some("entity_type"), Some("entity_id"), Some("entity_id")]);
    }
}
