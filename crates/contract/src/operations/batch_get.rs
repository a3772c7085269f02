//! Get List Items of many lists.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use utoipa::ToSchema;

use super::parts::{ANY, BODY, WRITE, json};
use crate::domain::{EntityId, Invalid, Limit, Order, Timestamp};
use crate::permission::Permission;
use crate::row::{Effect, Group, Method, Row, Subject};
use crate::wire::body::{read_part, text_of};
use crate::wire::many::{Checks, of_any_form};
use crate::wire::members::raw;
use crate::wire::parameters::{INT64_AS, Parameter};
use crate::wire::plain_requests::{Names, count, each_member, once, plain, unquoted};
use crate::wire::refused::{Mistake, Refused, want};
use crate::wire::scanner::Scanner;
use crate::wire::{
    AggregateInput, Aggregated, ErrorCode, ItemPage, Problem, RequestFailed, Requests, Type, body, check_bounds,
    members, texts,
};

/// The parameters of its query, in the order in which the server reads them.
pub const QUERY: [Parameter; 1] = [INT64_AS];

pub static ROW: Row = Row {
    name: "batch_get",
    summary: "Get items of many lists",
    description: "Returns a page or a problem for each request, in order. Identical requests are read once. All \
                  requests share one deadline and the size limit of one response. A list that no longer fits has \
                  the problem `response_too_large`: request it again. An invalid name, ID or timestamp is a \
                  problem of its request only. A malformed `aggregate` refuses the call.",
    group: Group::Lists,
    permission: Permission::ListsRead,
    subject: Subject::Body,
    effect: Effect::Read,
    method: Method::Post,
    path: "/v1/lists:batchGet",
    query: &QUERY,
    request: Some(Type::of::<BatchGetInput<'static>>()),
    replies: &[json(200, "One result for each request.", Type::of::<BatchGetResults>())],
    errors: &[ANY, WRITE, BODY, &[ErrorCode::InvalidTimestamp]],
    counts_items: true,
    ..Row::DEFAULT
};

/// Lists to read, of any features.
#[derive(Debug, PartialEq, Eq, ToSchema)]
#[schema(example = json!({"requests": [
    {"entity_type": "user", "feature": "story_presented", "entity_id": "u-123", "limit": 50},
    {"entity_type": "user", "feature": "story_presented", "entity_id": "u-124", "limit": 50},
]}))]
#[serde(deny_unknown_fields)]
pub struct BatchGetInput<'a> {
    #[schema(value_type = Vec<GetRequest<'a>>, min_items = 1, max_items = 1000)]
    pub requests: Requests<GetRequest<'a>>,
}

/// A list to read, as in Get List Items. Both bounds are inclusive; `as_of` shows the list at a past time. An invalid
/// name, ID or timestamp is a problem of this request only.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRequest<'a> {
    #[serde(borrow, deserialize_with = "members::entity_type")]
    #[schema(value_type = String)]
    pub entity_type: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "members::feature")]
    #[schema(value_type = String)]
    pub feature: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "members::version")]
    #[schema(value_type = String, required = false)]
    pub version: Cow<'a, str>,
    #[schema(value_type = String)]
    pub entity_id: EntityId,
    #[serde(default, deserialize_with = "limit")]
    #[schema(value_type = u32, minimum = 1, maximum = 10000, default = 100, required = false)]
    pub limit: Option<Limit>,
    #[serde(default, deserialize_with = "members::some_timestamp")]
    #[schema(value_type = texts::AnyTimestamp, inline, required = false)]
    pub min_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "members::some_timestamp")]
    #[schema(value_type = texts::AnyTimestamp, inline, required = false)]
    pub max_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "members::some_timestamp")]
    #[schema(value_type = texts::AnyTimestamp, inline, required = false)]
    pub as_of: Option<Timestamp>,
    #[serde(default, deserialize_with = "order")]
    #[schema(value_type = texts::Order, inline, required = false)]
    pub order: Order,
    /// The `next_page_token` of the previous page, with the same bounds and order.
    #[serde(borrow, default, deserialize_with = "page_token")]
    #[schema(value_type = String, required = false)]
    pub page_token: Option<Cow<'a, str>>,
    /// Aggregates of the list, in place of items: without a limit, bounds, `as_of`, order and page token.
    #[serde(default)]
    #[schema(value_type = AggregateInput, required = false)]
    pub aggregate: Option<Box<AggregateInput>>,
}

fn page_token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    body::text(deserializer).map(Some)
}

/// A limit out of bounds refuses the call, as other mistakes of form do.
fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Limit>, D::Error> {
    let limit = count(raw(deserializer)?).and_then(|limit| Limit::of_items(limit).ok());
    limit.map(Some).ok_or_else(|| want(&format!("a whole number from 1 to {}", Limit::ITEMS_MAX)))
}

fn order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Order, D::Error> {
    Order::parse(&body::text(deserializer)?).map_err(|_| want("newest or oldest"))
}

/// One result for each request, in order.
#[derive(ToSchema)]
#[expect(dead_code, reason = "rendered from pages that are rendered already")]
pub struct BatchGetResults {
    results: Vec<ReadResult>,
}

/// A page of items, or the aggregates that were asked for in place of items, or the problem.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ReadResult {
    Page(ItemPage),
    Aggregates(Aggregated),
    Failed(RequestFailed),
}

impl<'a> BatchGetInput<'a> {
    pub fn read(body: &'a [u8]) -> Result<Self, Problem> {
        gets(body).map(|requests| Self { requests })
    }
}

fn gets(body: &[u8]) -> Result<Requests<GetRequest<'_>>, Problem> {
    let text = text_of(body)?;
    let mut known = Names::default();
    plain(text, |scanner| plain_get(scanner, &mut known).map(Ok)).map_or_else(|| gets_of_any_form(text), Ok)
}

fn gets_of_any_form(text: &str) -> Result<Requests<GetRequest<'_>>, Problem> {
    let strict = &["order", "aggregate"];
    let form = form_of_get;
    of_any_form(text, Checks { strict, form, exclusion: check_aggregate, coherence: coherent, ..Checks::default() })
}

fn plain_get<'a>(scanner: &mut Scanner<'a>, known: &mut Names<'a>) -> Option<GetRequest<'a>> {
    let (mut entity_type, mut feature, mut version, mut entity_id) = (None, None, None, None);
    let (mut limit, mut min_timestamp, mut max_timestamp, mut as_of) = (None, None, None, None);
    let (mut order, mut page_token) = (None, None);
    each_member(scanner, |name, scanner| match name {
        r#""entity_type""# => once(&mut entity_type, unquoted(scanner)?),
        r#""feature""# => once(&mut feature, unquoted(scanner)?),
        r#""version""# => once(&mut version, unquoted(scanner)?),
        r#""entity_id""# => once(&mut entity_id, unquoted(scanner)?),
        r#""limit""# => once(&mut limit, Limit::of_items(count(scanner.scalar()?)?).ok()?),
        r#""min_timestamp""# => once(&mut min_timestamp, Timestamp::from_json(scanner.scalar()?).ok()?),
        r#""max_timestamp""# => once(&mut max_timestamp, Timestamp::from_json(scanner.scalar()?).ok()?),
        r#""as_of""# => once(&mut as_of, Timestamp::from_json(scanner.scalar()?).ok()?),
        r#""order""# => once(&mut order, Order::parse(unquoted(scanner)?).ok()?),
        r#""page_token""# => once(&mut page_token, Cow::Borrowed(unquoted(scanner)?)),
        _ => None,
    })?;
    let (entity_type, feature, version) = (entity_type?, feature?, version.unwrap_or_default());
    known.check(entity_type, feature, version)?;
    if min_timestamp.zip(max_timestamp).is_some_and(|(min, max)| min > max) {
        return None;
    }
    Some(GetRequest {
        entity_type: entity_type.into(),
        feature: feature.into(),
        version: version.into(),
        entity_id: EntityId::new(entity_id?).ok()?,
        limit,
        min_timestamp,
        max_timestamp,
        as_of,
        order: order.unwrap_or_default(),
        page_token,
        aggregate: None,
    })
}

/// Refuses an aggregate next to members of a page, or with members that do not go together.
fn check_aggregate(request: &GetRequest<'_>) -> Result<(), Problem> {
    let Some(aggregate) = &request.aggregate else { return Ok(()) };
    check_alone(
        aggregate,
        [
            ("limit", request.limit.is_some()),
            ("min_timestamp", request.min_timestamp.is_some()),
            ("max_timestamp", request.max_timestamp.is_some()),
            ("as_of", request.as_of.is_some()),
            ("order", request.order != Order::default()),
            ("page_token", request.page_token.is_some()),
        ],
    )
}

fn check_alone(aggregate: &AggregateInput, given: [(&'static str, bool); 6]) -> Result<(), Problem> {
    if let Some((name, _)) = given.into_iter().find(|(_, given)| *given) {
        let detail = format!("a request with aggregate returns no items: leave {name} out");
        return Err(Problem::argument(name, detail));
    }
    aggregate.check().map_err(|problem| problem.within("aggregate"))
}

/// Refuses the same also next to a refused value, which does not hide it.
fn form_of_get(request: &str) -> Result<(), Refused> {
    let ExclusiveMembers { aggregate, limit, min_timestamp, max_timestamp, as_of, order, page_token } =
        read_part(request, &[])?;
    let Some(aggregate) = aggregate else { return Ok(()) };
    let given = [
        ("limit", limit.is_some()),
        ("min_timestamp", min_timestamp.is_some()),
        ("max_timestamp", max_timestamp.is_some()),
        ("as_of", as_of.is_some()),
        ("order", order != Order::default()),
        ("page_token", page_token.is_some()),
    ];
    check_alone(&aggregate, given).map_err(|problem| Refused {
        place: problem.field.unwrap_or_default().into_owned(),
        mistake: Mistake::Value(Invalid::argument(problem.detail)),
    })
}

/// The members of a request that exclude each other. Its `aggregate` and `order` have been read.
#[derive(Deserialize)]
struct ExclusiveMembers {
    #[serde(default)]
    aggregate: Option<Box<AggregateInput>>,
    #[serde(default)]
    limit: Option<IgnoredAny>,
    #[serde(default)]
    min_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    max_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    as_of: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "order")]
    order: Order,
    #[serde(default)]
    page_token: Option<IgnoredAny>,
}

/// Refuses bounds that contain no moment.
fn coherent(request: GetRequest<'_>) -> Result<GetRequest<'_>, Problem> {
    check_bounds(request.min_timestamp, request.max_timestamp)?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::operations::batch_add::{AddRequest, BatchAddInput};
    use crate::wire::BATCH_LISTS_MAX;

    fn adds(body: &[u8]) -> Result<Requests<AddRequest<'_>>, Problem> {
        BatchAddInput::read(body).map(|input| input.requests)
    }

    fn refusal(body: &str) -> (&'static str, String) {
        let problem = gets(body.as_bytes()).unwrap_err();
        (problem.code.name(), problem.field.unwrap_or_default().into_owned())
    }

    /// The body of a call with one request, which has these members next to a list's name.
    fn one(members: &str) -> String {
        format!(r#"{{"requests":[{{"entity_type":"user","feature":"seen","entity_id":"u"{members}}}]}}"#)
    }

    #[test]
    fn requests_are_read_in_any_form() {
        let plain = one(
            r#","version":"v2","limit":7,"min_timestamp":1,"max_timestamp":"2","as_of":3,"order":"oldest","page_token":"x""#,
        );
        let escaped = plain.replace("user", r"us\u0065r").replace('{', " { ").replace(',', " ,\n");
        assert!(super::plain(&plain, |scanner| plain_get(scanner, &mut Names::default())).is_some());
        assert!(super::plain(&escaped, |scanner| plain_get(scanner, &mut Names::default())).is_none());
        let (read, expected) = (gets(escaped.as_bytes()).unwrap(), gets(plain.as_bytes()).unwrap());
        assert_eq!(read, expected);
        let at = |nanos| Timestamp::from_nanos(nanos).ok();
        let expected = GetRequest {
            entity_type: "user".into(),
            feature: "seen".into(),
            version: "v2".into(),
            entity_id: EntityId::new("u").unwrap(),
            limit: Limit::of_items(7).ok(),
            min_timestamp: at(1),
            max_timestamp: at(2),
            as_of: at(3),
            order: Order::Oldest,
            page_token: Some("x".into()),
            aggregate: None,
        };
        assert_eq!(read, [Ok(expected)]);
        let bare = one("");
        let default = gets(bare.as_bytes()).unwrap().remove(0).unwrap();
        assert_eq!((default.limit, default.order, default.as_of), (None, Order::Newest, None));
    }

    #[test]
    fn aggregates_replace_items() {
        let aggregate = r#""aggregate":{"windows":["1h"],"aggregates":[{"name":"n","function":"count"}]}"#;
        let body = one(&format!(",{aggregate}"));
        let read = gets(body.as_bytes()).unwrap().remove(0).unwrap();
        assert_eq!(read.aggregate.unwrap().aggregates.len(), 1);
        for (members, field) in [
            (format!(r#","limit":100,{aggregate}"#), "limit"),
            (format!(r#","order":"oldest",{aggregate}"#), "order"),
            (format!(r#","as_of":1,{aggregate}"#), "as_of"),
            (format!(r#",{}"#, aggregate.replace(r#"count""#, r#"count","k":1"#)), "aggregate.aggregates[0].k"),
            (format!(r#",{}"#, aggregate.replace("1h", "0s")), "aggregate.windows[0]"),
        ] {
            assert_eq!(refusal(&one(&members)), ("invalid_argument", format!("requests[0].{field}")), "{members}");
        }
        let timestamp = format!(r#","version":"..",{}"#, aggregate.replace("[\"1h\"]", r#"["1h"],"as_of":"soon""#));
        assert_eq!(refusal(&one(&timestamp)), ("invalid_timestamp", "requests[0].aggregate.as_of".to_owned()));
        assert_eq!(refusal(&one(r#","aggregate":{"windows":["1h"]}"#)).1, "requests[0].aggregate.aggregates");
        assert_eq!(refusal(&one(r#","aggregate":7"#)).1, "requests[0].aggregate");
        let open = format!(",{}", aggregate.replace(r#""1h""#, r#"{"min_timestamp":1}"#));
        assert_eq!(refusal(&one(&open)).1, "requests[0].aggregate.windows[0].max_timestamp");
    }

    #[test]
    fn a_malformed_aggregate_refuses_the_call_even_next_to_a_refused_value() {
        let count = r#"{"name":"n","function":"count"}"#;
        let aggregate = |of: &str| format!(r#""aggregate":{{"windows":["1h"],"aggregates":[{of}]}}"#);
        for (members, field) in [
            (format!(r#""limit":5,{}"#, aggregate(count)), "limit"),
            (format!(r#""order":"oldest",{}"#, aggregate(count)), "order"),
            (format!(r#""page_token":"x",{}"#, aggregate(count)), "page_token"),
            (format!(r#""as_of":"soon",{}"#, aggregate(count)), "as_of"),
            (aggregate(&format!("{count},{count}")), "aggregate.aggregates[1].name"),
        ] {
            let body = one(&format!(r#","version":"..",{members}"#));
            assert_eq!(refusal(&body), ("invalid_argument", format!("requests[0].{field}")), "{members}");
        }
        for members in [aggregate(count), r#""limit":5,"as_of":"soon""#.to_owned()] {
            let body = one(&format!(r#","version":"..",{members}"#));
            let read = gets(body.as_bytes()).unwrap();
            assert!(read[0].is_err(), "{members}");
        }
    }

    #[test]
    fn every_refusal_names_the_request_and_the_member() {
        for (members, field) in [
            (r#","limit":0"#, "limit"),
            (r#","limit":10001"#, "limit"),
            (r#","limit":99999999999999999999999"#, "limit"),
            (r#","limit":-1"#, "limit"),
            (r#","limit":"5""#, "limit"),
            (r#","limit":null"#, "limit"),
            (r#","limits":5"#, "limits"),
            (r#","entity_id":"v""#, "entity_id"),
            (r#","version":1"#, "version"),
            (r#","page_token":1"#, "page_token"),
            (r#","order":"up""#, "order"),
            (r#","order":"\ud800""#, "order"),
            (r#","order":"\ud800","version":".""#, "order"),
            (r#","order":null"#, "order"),
            (r#","as_of":[]"#, "as_of"),
            (r#","min_timestamp":true,"version":".""#, "min_timestamp"),
        ] {
            assert_eq!(refusal(&one(members)), ("invalid_argument", format!("requests[0].{field}")), "{members}");
        }
        for (body, field) in [
            ("[]", ""),
            ("{}", "requests"),
            (r#"{"requests":{}}"#, "requests"),
            (r#"{"requests":[]}"#, "requests"),
            (r#"{"requests":[7]}"#, "requests[0]"),
            (r#"{"requests":[{}]}"#, "requests[0].entity_type"),
            (r#"{"requests":[{"entity_type":"a/b"}]}"#, "requests[0].feature"),
            (r#"{"requests":[{"entity_type":"a","feature":"b"}]}"#, "requests[0].entity_id"),
            (r#"{"requests":[{"entity_type":"a","feature":"b","entity_id":7}]}"#, "requests[0].entity_id"),
        ] {
            assert_eq!(refusal(body), ("invalid_argument", field.to_owned()), "{body}");
        }
        assert_eq!(refusal(&one(",")).0, "invalid_json");
    }

    /// The problem of the second of three requests, whose neighbours are read.
    fn own<T>(requests: Result<Requests<T>, Problem>) -> (&'static str, String) {
        let requests = requests.unwrap();
        assert!(requests.len() == 3 && requests[0].is_ok() && requests[2].is_ok());
        let problem = requests.into_iter().nth(1).unwrap().err().unwrap();
        (problem.code.name(), problem.field.unwrap_or_default().into_owned())
    }

    #[test]
    fn a_name_or_id_that_cannot_exist_is_a_problem_of_its_request_alone() {
        let id = |id: &str| format!(r#""entity_type":"a","feature":"b","entity_id":{id}"#);
        let long = format!("\"{}\"", "x".repeat(513));
        let ids = [r#""""#, r#"".""#, r#""..""#, r#""a\u0000b""#, r#""\ud800""#, &long];
        let mut gets_of = ids.map(|bad| (id(bad), "invalid_argument", "entity_id")).to_vec();
        for (members, code, field) in [
            (r#""entity_type":"a/b","feature":"b","entity_id":"u""#, "invalid_argument", "entity_type"),
            (r#""entity_type":"a","feature":"","entity_id":"u""#, "invalid_argument", "feature"),
            (r#""entity_type":"a","feature":"b","entity_id":"u","version":"..""#, "invalid_argument", "version"),
            (r#""entity_type":"a","feature":"b","entity_id":"u","as_of":-1"#, "invalid_timestamp", "as_of"),
            (
                r#""entity_type":"a","feature":"b","entity_id":"u","page_token":"\udc00""#,
                "invalid_argument",
                "page_token",
            ),
            (
                r#""entity_type":"a","feature":"b","entity_id":"u","max_timestamp":"soon""#,
                "invalid_timestamp",
                "max_timestamp",
            ),
            (
                r#""entity_type":"a","feature":"b","entity_id":"u","min_timestamp":2,"max_timestamp":1"#,
                "invalid_argument",
                "min_timestamp",
            ),
        ] {
            gets_of.push((members.to_owned(), code, field));
        }
        for (members, code, field) in &gets_of {
            let body = format!(r#"{{"requests":[{{{0}}},{{{members}}},{{{0}}}]}}"#, id("\"u\""));
            assert_eq!(own(gets(body.as_bytes())), (*code, (*field).to_owned()), "{members}");
        }
        let good = r#"{"timestamp":1,"value":"x"}"#;
        let item = |members: &str| (id("\"u\""), format!(r#"[{good},{{"value":1,{members}}}]"#));
        for ((list, items), code, field) in [
            ((id("\"..\""), format!("[{good}]")), "invalid_argument", "entity_id"),
            (item(r#""timestamp":"soon""#), "invalid_timestamp", "items[1].timestamp"),
            (item(r#""timestamp":-1"#), "invalid_timestamp", "items[1].timestamp"),
            (item(r#""timestamp":1,"key":"""#), "invalid_argument", "items[1].key"),
            (item(r#""timestamp":1,"key":"a\u0000b""#), "invalid_argument", "items[1].key"),
        ] {
            let of = |list: &str, items: &str| format!(r#"{{{list},"items":{items}}}"#);
            let neighbour = of(&id("\"u\""), &format!("[{good}]"));
            let body = format!(r#"{{"requests":[{neighbour},{},{neighbour}]}}"#, of(&list, &items));
            assert_eq!(own(adds(body.as_bytes())), (code, field.to_owned()), "{body}");
        }
    }

    #[test]
    fn malformed_items_refuse_the_call_even_next_to_a_refused_value() {
        for (items, field) in [
            (r#"[{"timestamp":"soon"}]"#, "items[0].value"),
            (r#"[{"timestamp":"soon","value":1,"x":1}]"#, "items[0].x"),
            (r#"[{"timestamp":"soon","value":1,"value":2}]"#, "items[0].value"),
            (r#"[{"timestamp":"soon","value":1,"key":7}]"#, "items[0].key"),
            (r#"[{"timestamp":"soon","value":1},{"value":1}]"#, "items[1].timestamp"),
            (r#"[{"timestamp":1,"value":1,"key":""},7]"#, "items[1]"),
        ] {
            let list = r#""entity_type":"a","feature":"b","entity_id":"u""#;
            let body = format!(r#"{{"requests":[{{{list},"items":{items}}}]}}"#);
            let problem = adds(body.as_bytes()).unwrap_err();
            assert_eq!(problem.code.name(), "invalid_argument", "{items}");
            assert_eq!(problem.field.as_deref(), Some(format!("requests[0].{field}").as_str()), "{items}");
        }
    }

    #[test]
    fn the_number_of_requests_and_of_items_is_bounded() {
        let get = r#"{"entity_type":"user","feature":"seen","entity_id":"u"}"#;
        let body = |request: &str, n: usize| format!(r#"{{"requests":[{}]}}"#, vec![request; n].join(","));
        assert_eq!(gets(body(get, BATCH_LISTS_MAX).as_bytes()).unwrap().len(), BATCH_LISTS_MAX);
        assert_eq!(refusal(&body(get, BATCH_LISTS_MAX + 1)), ("invalid_argument", "requests".to_owned()));
        let add = |items: usize| {
            let items = vec![r#"{"timestamp":1,"value":"x"}"#; items].join(",");
            format!(r#"{{"entity_type":"user","feature":"seen","entity_id":"u","items":[{items}]}}"#)
        };
        let refused = |body: &str| adds(body.as_bytes()).unwrap_err().field.unwrap_or_default().into_owned();
        assert_eq!(adds(body(&add(1_000), 10).as_bytes()).unwrap().len(), 10);
        assert_eq!(refused(&body(&add(1_000), 11)), "requests");
        assert_eq!(refused(&body(&add(1_001), 1)), "requests[0].items");
        assert_eq!(refused(&body(&add(1).replace("\"x\"", "x"), 1)), "");
        assert_eq!(refused(&body(&add(2).replacen('1', "null", 1), 1)), "requests[0].items[0].timestamp");
        assert_eq!(refused(&body(get, 1)), "requests[0].items");
    }

    proptest! {
        /// The fast reader reads a body as the careful one does.
        #[test]
        fn both_readers_read_a_body_alike(
            requests in prop::collection::vec(
                (
                    "entity_type|feature|limit|x", "\"[a.]{1,2}\"|[0-9]{1,2}|-1|\"\\\\n\"",
                    "feature|version|limit|min_timestamp|as_of|order|page_token",
                    "\"[a/]{0,2}\"|\"oldest\"|[0-9]{0,3}|\"[0-9]\"|true|1e1",
                ),
                0..3,
            ),
            cut in 0_usize..200,
            junk in "[\\]\\[{}:,\" \\\\a0]?",
        ) {
            let request = |(a, b, c, d): &(String, String, String, String)| {
                format!(r#"{{"entity_type":"e","{a}":{b},"{c}":{d},"entity_id":"u"}}"#)
            };
            let body = format!(r#"{{"requests":[{}]}}"#, requests.iter().map(request).collect::<Vec<_>>().join(","));
            for text in [body.clone(), [&body[..cut.min(body.len())], &junk, &body[cut.min(body.len())..]].concat()] {
                if let Some(requests) = plain(&text, |scanner| plain_get(scanner, &mut Names::default()).map(Ok)) {
                    prop_assert_eq!(gets_of_any_form(&text), Ok(requests));
                }
            }
        }
    }
}
