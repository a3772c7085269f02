//! Get many bags.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, WRITE, json};
use crate::domain::{EntityId, EntityType, FeatureName};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::body::{read_text, text_of};
use crate::wire::many::{Checks, of_any_form};
use crate::wire::parameters::{INT64_AS, JOINED_LISTS, Parameter};
use crate::wire::refused::Others;
use crate::wire::texts::JOINED_LISTS_MAX;
use crate::wire::{AggregateInput, Bag, ErrorCode, Problem, RequestFailed, Requests, Type};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 2] = [JOINED_LISTS, INT64_AS];

pub static ROW: Row = Row {
    name: "batch_get_bags",
    summary: "Get many bags",
    description: "Reads each bag as a single get does, and returns the results in the order of the requests. The \
                  status is 200 even if some or all requests failed. With `lists`, the response includes items of \
                  each entity's lists, and with `aggregates` their aggregates in windows of time.",
    group: Group::Entities,
    permission: Permission::ListsRead,
    subject: Subject::Body,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/entities:batchGet",
    query: &QUERY,
    request: Some(Type::of::<BatchGetBagsInput>()),
    replies: &[json(200, "One result for each request.", Type::of::<BatchGetBagsResults>())],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::Draining, ErrorCode::InvalidTimestamp]],
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
    /// The aggregates to return with each bag, of its entity's lists of at most 16 features, by feature.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, AggregateInput>, required = false)]
    pub aggregates: JoinedAggregates,
}

/// The aggregates to return with bags, by feature.
pub type JoinedAggregates = BTreeMap<FeatureName, AggregateInput>;

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
    pub fn read(body: &[u8]) -> Result<(Requests<BagRequest>, JoinedAggregates), Problem> {
        let text = text_of(body)?;
        let requests = of_any_form(text, Checks { others: &["aggregates"], ..Checks::default() })?;
        Ok((requests, aggregates(text)?))
    }
}

/// The aggregates of a body whose requests have been read.
fn aggregates(text: &str) -> Result<JoinedAggregates, Problem> {
    #[derive(Deserialize)]
    struct JoinedMember {
        #[serde(default)]
        aggregates: Option<BTreeMap<String, AggregateInput>>,
    }
    const FIELD: &str = "aggregates";
    let JoinedMember { aggregates } = read_text(text, Others { passed: &["requests"], ..Others::default() })?;
    let Some(aggregates) = aggregates else { return Ok(JoinedAggregates::new()) };
    if !(1..=JOINED_LISTS_MAX).contains(&aggregates.len()) {
        return Err(Problem::argument(FIELD, format!("aggregates must have 1 to {JOINED_LISTS_MAX} features")));
    }
    let checked = |(name, input): (String, AggregateInput)| {
        let feature = FeatureName::new(&name).map_err(|invalid| Problem::from(invalid).at(FIELD))?;
        input.check().map_err(|problem| problem.within(&format!("{FIELD}.{feature}")))?;
        Ok((feature, input))
    };
    aggregates.into_iter().map(checked).collect()
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
    use crate::wire::{Aggregate, AggregateFunction, AggregateWindow};

    #[test]
    fn every_refusal_of_aggregates_names_the_member() {
        let hour = r#"{"windows":["1h"],"aggregates":[{"name":"n","function":"count"}]}"#;
        let many: Vec<_> = (0..=JOINED_LISTS_MAX).map(|n| format!(r#""f{n}":{hour}"#)).collect();
        for (aggregates, code, field) in [
            ("null".to_owned(), "invalid_argument", "aggregates"),
            ("[]".to_owned(), "invalid_argument", "aggregates"),
            ("{}".to_owned(), "invalid_argument", "aggregates"),
            (format!("{{{}}}", many.join(",")), "invalid_argument", "aggregates"),
            (format!(r#"{{"":{hour}}}"#), "invalid_argument", "aggregates"),
            (format!(r#"{{"a b":{hour}}}"#), "invalid_argument", "aggregates"),
            (format!(r#"{{"seen":{hour},"seen":{hour}}}"#), "invalid_argument", "aggregates.seen"),
            (r#"{"seen":7}"#.to_owned(), "invalid_argument", "aggregates.seen"),
            (format!(r#"{{"seen":{}}}"#, hour.replace("1h", "0s")), "invalid_argument", "aggregates.seen.windows[0]"),
            (
                format!(r#"{{"seen":{}}}"#, hour.replace("count\"", "count\",\"k\":1")),
                "invalid_argument",
                "aggregates.seen.aggregates[0].k",
            ),
            (
                format!(r#"{{"seen":{}}}"#, hour.replace("[\"1h\"]", r#"["1h"],"as_of":"soon""#)),
                "invalid_timestamp",
                "aggregates.seen.as_of",
            ),
        ] {
            let body =
                format!(r#"{{"requests":[{{"entity_type":"user","entity_id":"a"}}],"aggregates":{aggregates}}}"#);
            let problem = BatchGetBagsInput::read(body.as_bytes()).unwrap_err();
            assert_eq!((problem.code.name(), problem.field.as_deref()), (code, Some(field)), "{body}");
        }
        let fits = format!(
            r#"{{"aggregates":{{{}}},"requests":[{{"entity_type":"user","entity_id":"a"}}]}}"#,
            many[1..].join(",")
        );
        assert_eq!(BatchGetBagsInput::read(fits.as_bytes()).unwrap().1.len(), JOINED_LISTS_MAX);
        let unknown = r#"{"requests":[{"entity_type":"user","entity_id":"a"}],"aggregate":{}}"#;
        let problem = BatchGetBagsInput::read(unknown.as_bytes()).unwrap_err();
        assert_eq!(problem.field.as_deref(), Some("aggregate"));
        assert!(problem.detail.contains("requests, aggregates"), "{}", problem.detail);
    }

    #[test]
    fn the_server_reads_bodies_as_the_client_wrote_them() {
        let request = |id: &str| BagRequest {
            entity_type: EntityType::new("user").unwrap(),
            entity_id: EntityId::new(id).unwrap(),
        };
        let count = Aggregate::new("n", AggregateFunction::Count);
        let hour = AggregateInput::new(vec![AggregateWindow::last("1h").unwrap()], vec![count]);
        for aggregates in [JoinedAggregates::new(), [(FeatureName::new("seen").unwrap(), hour)].into()] {
            let input = BatchGetBagsInput { requests: vec![request("u\"1"), request("é/2")], aggregates };
            let (requests, aggregates) = BatchGetBagsInput::read(&serde_json::to_vec(&input).unwrap()).unwrap();
            assert_eq!(requests.into_iter().collect::<Result<Vec<_>, _>>(), Ok(input.requests));
            assert_eq!(aggregates, input.aggregates);
        }
        for (body, field) in [
            ("{}", "requests"),
            (r#"{"aggregates":{}}"#, "requests"),
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
        let (read, _) = BatchGetBagsInput::read(odd.as_bytes()).unwrap();
        let fields: Vec<_> = read.iter().map(|read| read.as_ref().err().and_then(|e| e.field.as_deref())).collect();
        assert_eq!(fields, [None, Some("entity_type"), Some("entity_id"), Some("entity_id")]);
    }
}
