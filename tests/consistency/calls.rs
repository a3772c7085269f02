//! Turns a request of the workload into HTTP, and the answer into an outcome.

use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::bags::{self, BagOutcome, BagRequest};
use crate::history::{
    Aggregated, AskedWindow, Item, ListName, NANOS_PER_SEC, Order, Outcome, Request, Special, TOP_MAX, ValueType,
    VersionName,
};
use crate::http::{Answer, Trouble};

pub const ENTITY_TYPE: &str = "user";

pub struct Wire {
    pub method: Method,
    pub path_and_query: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WirePage {
    items: Vec<WireItem>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireItem {
    timestamp: String,
    value: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireAdded {
    added: u64,
    already_expired: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRemoved {
    removed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireCounted {
    count: u64,
    exact: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireContained {
    results: Vec<WireFound>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireLookedUp {
    results: Vec<Option<WireItem>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFound {
    value: Box<RawValue>,
    timestamp: Option<String>,
}

#[derive(Deserialize)]
struct WireAggregated {
    windows: Vec<WireWindow>,
}

#[derive(Deserialize)]
struct WireWindow {
    min_timestamp: String,
    max_timestamp: String,
    results: WireFunctions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFunctions {
    count: u64,
    distinct: u64,
    top: Vec<WireFrequent>,
    first: Option<Box<RawValue>>,
    last: Option<Box<RawValue>>,
    sum: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFrequent {
    value: Box<RawValue>,
    count: u64,
}

#[derive(Deserialize)]
struct WireTtl {
    ttl: String,
}

#[derive(Deserialize)]
pub struct WireProblem {
    pub status: u16,
    pub code: String,
    #[serde(default)]
    pub detail: String,
    #[serde(default)]
    outcome_unknown: bool,
}

pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn list_path(list: &ListName, rest: &str) -> String {
    let label = &list.version.label;
    let version = if label.is_empty() { String::new() } else { format!("?version={}", segment(label)) };
    format!("/v1/lists/{ENTITY_TYPE}/{}/{}/{rest}{version}", list.version.feature, segment(&list.entity))
}

fn version_path(version: &VersionName) -> String {
    let feature = format!("/v1/features/{ENTITY_TYPE}/{}", version.feature);
    if version.label.is_empty() { feature } else { format!("{feature}/versions/{}", segment(&version.label)) }
}

/// A timestamp in one of the API's forms, in turn.
pub fn timestamp_json(nanos: u64) -> String {
    match nanos % 3 {
        0 => nanos.to_string(),
        1 => format!("\"{nanos}\""),
        _ => format!("\"{}\"", rfc3339(nanos)),
    }
}

fn rfc3339(nanos: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(nanos)).expect("within the years of RFC 3339");
    moment.format(&Rfc3339).expect("a moment in UTC")
}

/// An array of items as they are sent.
pub fn items_json(items: &[Item]) -> String {
    let sent: Vec<String> = items
        .iter()
        .map(|Item { timestamp, value }| format!(r#"{{"timestamp":{},"value":{value}}}"#, timestamp_json(*timestamp)))
        .collect();
    format!("[{}]", sent.join(","))
}

/// The body of an aggregation.
pub fn aggregate_json(windows: &[AskedWindow], is_of_numbers: bool) -> String {
    let window = |window: &AskedWindow| match window {
        AskedWindow::Last { secs } => format!("\"{secs}s\""),
        AskedWindow::Between { min, max } => {
            format!(r#"{{"min_timestamp":{},"max_timestamp":{}}}"#, timestamp_json(*min), timestamp_json(*max))
        }
    };
    let mut aggregates = vec![
        json!({"name": "count", "function": "count"}),
        json!({"name": "distinct", "function": "count_distinct"}),
        json!({"name": "top", "function": "top", "k": TOP_MAX}),
        json!({"name": "first", "function": "first"}),
        json!({"name": "last", "function": "last"}),
    ];
    aggregates.extend(is_of_numbers.then(|| json!({"name": "sum", "function": "sum"})));
    let windows: Vec<String> = windows.iter().map(window).collect();
    format!(r#"{{"windows":[{}],"aggregates":{}}}"#, windows.join(","), json!(aggregates))
}

pub fn with_parameters(mut path: String, parameters: &[(&str, Option<String>)]) -> String {
    for (name, value) in parameters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&format!("{name}={}", segment(value)));
    }
    path
}

/// `token` is the one of the previous page, if the request has an `after`.
pub fn wire(request: &Request, value_type: Option<ValueType>, token: Option<&str>) -> Wire {
    let wire = |method, path_and_query, body| Wire { method, path_and_query, headers: Vec::new(), body };
    match request {
        Request::Get { list, min, max, order, limit, .. } => {
            let order = match order {
                // The default is optional.
                Order::Newest => limit.filter(|limit| limit % 2 == 0).map(|_| "newest".to_owned()),
                Order::Oldest => Some("oldest".to_owned()),
            };
            let parameters = [
                ("min_timestamp", min.map(|min| min.to_string())),
                ("max_timestamp", max.map(rfc3339)),
                ("order", order),
                ("limit", limit.map(|limit| limit.to_string())),
                ("page_token", token.map(str::to_owned)),
            ];
            wire(Method::GET, with_parameters(list_path(list, "items"), &parameters), None)
        }
        Request::Count { list, min, max, limit } => {
            let max_items = limit.map(|limit| limit.to_string());
            let parameters = [
                ("min_timestamp", min.map(rfc3339)),
                ("max_timestamp", max.map(|max| max.to_string())),
                ("max", max_items),
            ];
            wire(Method::GET, with_parameters(list_path(list, "items:count"), &parameters), None)
        }
        Request::Contains { list, min, max, values } => {
            let parameters = [("min_timestamp", min.map(rfc3339)), ("max_timestamp", max.map(rfc3339))];
            let path = with_parameters(list_path(list, "items:contains"), &parameters);
            wire(Method::POST, path, Some(format!(r#"{{"values":[{}]}}"#, values.join(","))))
        }
        Request::Aggregate { list, windows, is_of_numbers } => {
            wire(Method::POST, list_path(list, "items:aggregate"), Some(aggregate_json(windows, *is_of_numbers)))
        }
        Request::Lookup { list, values } => {
            let body = format!(r#"{{"values":[{}]}}"#, values.join(","));
            wire(Method::POST, list_path(list, "items:lookup"), Some(body))
        }
        Request::Add { list, items } => {
            let body = format!(r#"{{"items":{}}}"#, items_json(items));
            wire(Method::POST, list_path(list, "items"), Some(body))
        }
        Request::RemoveValue { list, value } => {
            wire(Method::POST, list_path(list, "items:remove"), Some(format!(r#"{{"value":{value}}}"#)))
        }
        Request::RemoveItems { list, items } => {
            let body = format!(r#"{{"items":{}}}"#, items_json(items));
            wire(Method::POST, list_path(list, "items:remove"), Some(body))
        }
        Request::RemoveBetween { list, min, max } => {
            let bound = |name, bound: &Option<u64>| bound.map(|at| format!(r#""{name}":{}"#, timestamp_json(at)));
            let bounds = [bound("min_timestamp", min), bound("max_timestamp", max)];
            let body = format!("{{{}}}", bounds.into_iter().flatten().collect::<Vec<_>>().join(","));
            wire(Method::POST, list_path(list, "items:remove"), Some(body))
        }
        Request::RemoveAll { list } => wire(Method::DELETE, list_path(list, "items"), None),
        Request::CreateFeature { feature, ttl_secs } => {
            let value_type = value_type.map_or("string", ValueType::as_str);
            let body = json!({"entity_type": ENTITY_TYPE, "name": feature, "value_type": value_type,
                              "ttl": format!("{ttl_secs}s")});
            wire(Method::POST, "/v1/features".to_owned(), Some(body.to_string()))
        }
        Request::CreateSpecial { feature, ttl_secs, special } => {
            let mut body = json!({"entity_type": ENTITY_TYPE, "name": feature, "value_type": "string",
                                  "ttl": format!("{ttl_secs}s")});
            match special {
                Special::Sets => body["identity"] = json!("value"),
                Special::Bounded(items) => body["max_items"] = json!(items),
            }
            wire(Method::POST, "/v1/features".to_owned(), Some(body.to_string()))
        }
        Request::DeleteFeature { feature } => {
            wire(Method::DELETE, format!("/v1/features/{ENTITY_TYPE}/{feature}"), None)
        }
        Request::CreateVersion { version, ttl_secs } => {
            let path = format!("/v1/features/{ENTITY_TYPE}/{}/versions", version.feature);
            let body = json!({"version": version.label, "ttl": format!("{ttl_secs}s")});
            wire(Method::POST, path, Some(body.to_string()))
        }
        Request::DeleteVersion { version } => wire(Method::DELETE, version_path(version), None),
        Request::ChangeTtl { version, ttl_secs } => {
            wire(Method::PATCH, version_path(version), Some(json!({"ttl": format!("{ttl_secs}s")}).to_string()))
        }
        Request::ReadTtl { version } => wire(Method::GET, version_path(version), None),
        Request::Bag(request) => bags::calls::wire(request, token),
    }
}

/// The outcome of an exchange, with the token for the next page.
pub fn outcome(request: &Request, exchanged: Result<Answer, Trouble>) -> (Outcome, Option<String>) {
    let answer = match exchanged {
        Ok(answer) => answer,
        Err(Trouble::NotSent(why)) => return (Outcome::NotDone { why }, None),
        // A read without an answer has no outcome and no effect.
        Err(Trouble::Lost(why)) if request.reads() => return (Outcome::NotDone { why }, None),
        Err(Trouble::Lost(why)) => return (Outcome::Unknown { why }, None),
    };
    let forbidden = |why: &dyn std::fmt::Display| {
        let body = String::from_utf8_lossy(&answer.body).chars().take(300).collect::<String>();
        (Outcome::Forbidden { answer: format!("{}: {why}: {body}", answer.status) }, None)
    };
    let is_unless = matches!(request, Request::Bag(BagRequest::Get { unless: Some(_), .. }));
    if answer.status == StatusCode::NOT_MODIFIED && is_unless {
        return (Outcome::Bag(BagOutcome::NotModified), None);
    }
    if !answer.status.is_success() {
        return match serde_json::from_slice::<WireProblem>(&answer.body) {
            Ok(problem) => (refusal(request, &problem).unwrap_or_else(|| forbidden(&"not expected").0), None),
            Err(error) => forbidden(&error),
        };
    }
    match success(request, &answer) {
        Ok(told) => told,
        Err(error) => forbidden(&error),
    }
}

pub fn refusal(request: &Request, problem: &WireProblem) -> Option<Outcome> {
    let why = || format!("{} {}: {}", problem.status, problem.code, problem.detail);
    match (problem.status, problem.code.as_str()) {
        // A part of a call on many lists, or an aggregation of many long values.
        (413, "response_too_large" | "aggregate_too_large") => Some(Outcome::NotDone { why: why() }),
        (404, "feature_not_found") => Some(Outcome::FeatureNotFound),
        (404, "version_not_found") => Some(Outcome::VersionNotFound),
        (409, "feature_exists" | "version_exists") => Some(Outcome::Exists),
        (503, "overloaded" | "store_unavailable" | "metadata_unavailable" | "draining")
        | (504, "deadline_exceeded") => {
            if problem.outcome_unknown && !request.reads() {
                Some(Outcome::Unknown { why: why() })
            } else {
                Some(Outcome::NotDone { why: why() })
            }
        }
        (status, code) if matches!(request, Request::Bag(_)) => bags::calls::refusal(status, code),
        _ => None,
    }
}

pub type Told = (Outcome, Option<String>);

fn success(request: &Request, answer: &Answer) -> Result<Told, Box<dyn std::error::Error>> {
    let expect = |status: u16| match answer.status.as_u16() {
        found if found == status => Ok(()),
        found => Err(format!("expected {status} instead of {found}")),
    };
    match request {
        Request::Get { .. } => {
            expect(200)?;
            page(&answer.body)
        }
        Request::Count { .. } => {
            expect(200)?;
            let WireCounted { count, exact } = serde_json::from_slice(&answer.body)?;
            Ok((Outcome::Counted { count, exact }, None))
        }
        Request::Contains { values, .. } => {
            expect(200)?;
            let WireContained { results } = serde_json::from_slice(&answer.body)?;
            if !results.iter().map(|found| found.value.get()).eq(values.iter().map(String::as_str)) {
                return Err("other values than were asked for".into());
            }
            let newest = results.into_iter().map(|found| found.timestamp.as_deref().map(nanos).transpose());
            Ok((Outcome::Contained(newest.collect::<Result<_, _>>()?), None))
        }
        Request::Aggregate { .. } => {
            expect(200)?;
            Ok((aggregated(&answer.body)?, None))
        }
        Request::Lookup { values, .. } => {
            expect(200)?;
            let WireLookedUp { results } = serde_json::from_slice(&answer.body)?;
            let asked = values.iter().map(String::as_str);
            let is_answer =
                |(found, asked): (&Option<WireItem>, &str)| found.as_ref().is_none_or(|item| item.value.get() == asked);
            if results.len() != values.len() || !results.iter().zip(asked).all(is_answer) {
                return Err("other values than were asked for".into());
            }
            let stand = results.into_iter().map(|found| found.map(|item| nanos(&item.timestamp)).transpose());
            Ok((Outcome::Contained(stand.collect::<Result<_, _>>()?), None))
        }
        Request::Add { .. } => {
            expect(200)?;
            Ok((added(&answer.body)?, None))
        }
        Request::RemoveValue { .. } | Request::RemoveItems { .. } | Request::RemoveBetween { .. } => {
            expect(200)?;
            let WireRemoved { removed } = serde_json::from_slice(&answer.body)?;
            Ok((Outcome::Removed(removed), None))
        }
        Request::RemoveAll { .. } => expect(204).map(|()| (Outcome::Done, None)).map_err(Into::into),
        Request::CreateFeature { .. } | Request::CreateSpecial { .. } | Request::CreateVersion { .. } => {
            expect(201).map(|()| (Outcome::Done, None)).map_err(Into::into)
        }
        Request::DeleteFeature { .. } | Request::DeleteVersion { .. } | Request::ChangeTtl { .. } => {
            expect(200).map(|()| (Outcome::Done, None)).map_err(Into::into)
        }
        Request::ReadTtl { .. } => {
            expect(200)?;
            let WireTtl { ttl } = serde_json::from_slice(&answer.body)?;
            Ok((Outcome::Ttl(ttl_secs(&ttl)?), None))
        }
        Request::Bag(request) => bags::calls::success(request, answer),
    }
}

/// A page, with the token for the next one.
pub fn page(body: &[u8]) -> Result<Told, Box<dyn std::error::Error>> {
    let WirePage { items, next_page_token } = serde_json::from_slice(body)?;
    let items = items.into_iter().map(read_item).collect::<Result<_, _>>()?;
    Ok((Outcome::Page { items, more: next_page_token.is_some() }, next_page_token))
}

pub fn added(body: &[u8]) -> Result<Outcome, Box<dyn std::error::Error>> {
    let WireAdded { added, already_expired } = serde_json::from_slice(body)?;
    Ok(Outcome::Added { added, already_expired })
}

/// The aggregates of each window.
pub fn aggregated(body: &[u8]) -> Result<Outcome, Box<dyn std::error::Error>> {
    let WireAggregated { windows } = serde_json::from_slice(body)?;
    let text = |value: Box<RawValue>| value.get().to_owned();
    let window = |WireWindow { min_timestamp, max_timestamp, results }: WireWindow| {
        let WireFunctions { count, distinct, top, first, last, sum } = results;
        let values = top.into_iter().map(|frequent| (text(frequent.value), frequent.count)).collect();
        let (min, max) = (nanos(&min_timestamp)?, nanos(&max_timestamp)?);
        let (first, last) = (first.map(text), last.map(text));
        Ok::<_, Box<dyn std::error::Error>>(Aggregated { min, max, count, distinct, values, first, last, sum })
    };
    Ok(Outcome::Aggregated(windows.into_iter().map(window).collect::<Result<_, _>>()?))
}

fn read_item(WireItem { timestamp, value }: WireItem) -> Result<Item, Box<dyn std::error::Error>> {
    Ok(Item { timestamp: nanos(&timestamp)?, value: value.get().to_owned() })
}

/// A timestamp as the API writes it.
pub fn nanos(timestamp: &str) -> Result<u64, Box<dyn std::error::Error>> {
    if timestamp.len() != "2024-08-29T16:44:05.430000000Z".len() || !timestamp.ends_with('Z') {
        return Err(format!("{timestamp} does not have nine decimals in UTC").into());
    }
    Ok(u64::try_from(OffsetDateTime::parse(timestamp, &Rfc3339)?.unix_timestamp_nanos())?)
}

/// The seconds of a TTL as the API writes it.
fn ttl_secs(text: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let (mut secs, mut number) = (0, String::new());
    for character in text.chars() {
        let unit = match character {
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            digit => {
                number.push(digit);
                continue;
            }
        };
        secs += number.parse::<u64>()? * unit;
        number.clear();
    }
    if number.is_empty() && secs < NANOS_PER_SEC { Ok(secs) } else { Err(format!("no ttl: {text}").into()) }
}
