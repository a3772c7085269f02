//! Calls on many lists at once: a request for each list in one call, and the answer for each.

use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::calls::{
    ENTITY_TYPE, Wire, WireProblem, added, aggregate_json, aggregated, items_json, outcome, page, refusal,
    timestamp_json,
};
use crate::history::{Outcome, Request};
use crate::http::{Answer, Trouble};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireResults {
    results: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct WireFailed {
    problem: WireProblem,
}

/// Gets, or adds, in one request.
pub fn wire(requests: &[Request]) -> Wire {
    let operation = if requests.iter().all(Request::reads) { "batchGet" } else { "batchAdd" };
    let parts: Vec<String> = requests.iter().map(part).collect();
    Wire {
        method: Method::POST,
        path_and_query: format!("/v1/lists:{operation}"),
        headers: Vec::new(),
        body: Some(format!(r#"{{"requests":[{}]}}"#, parts.join(","))),
    }
}

fn part(request: &Request) -> String {
    let list = request.list().expect("only calls on lists are put together");
    let text = |text: &str| json!(text).to_string();
    let mut members = vec![
        ("entity_type", text(ENTITY_TYPE)),
        ("feature", text(&list.version.feature)),
        ("entity_id", text(&list.entity)),
    ];
    if !list.version.label.is_empty() {
        members.push(("version", text(&list.version.label)));
    }
    match request {
        Request::Get { min, max, limit, .. } => {
            members.extend(min.map(|min| ("min_timestamp", timestamp_json(min))));
            members.extend(max.map(|max| ("max_timestamp", timestamp_json(max))));
            members.extend(limit.map(|limit| ("limit", limit.to_string())));
        }
        Request::Aggregate { windows, is_of_numbers, group_by, .. } => {
            members.push(("aggregate", aggregate_json(windows, *is_of_numbers, *group_by)));
        }
        Request::Add { items, .. } => members.push(("items", items_json(items))),
        other => unreachable!("not put together with others: {other:?}"),
    }
    let members: Vec<String> = members.into_iter().map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
    format!("{{{}}}", members.join(","))
}

/// The outcome of each request in an exchange.
pub fn outcomes(requests: &[Request], exchanged: Result<Answer, Trouble>) -> Vec<Outcome> {
    let answer = match exchanged {
        Ok(answer) if answer.status == 200 => answer,
        // It is the outcome of all of them.
        Ok(Answer { status, etag, body }) => {
            let of_all = |request| outcome(request, Ok(Answer { status, etag: etag.clone(), body: body.clone() })).0;
            return requests.iter().map(of_all).collect();
        }
        Err(Trouble::NotSent(why)) => return requests.iter().map(|_| Outcome::NotDone { why: why.clone() }).collect(),
        Err(Trouble::Lost(why)) => {
            let of_each = |request: &Request| match request.reads() {
                true => Outcome::NotDone { why: why.clone() },
                false => Outcome::Unknown { why: why.clone() },
            };
            return requests.iter().map(of_each).collect();
        }
    };
    let forbidden = |answer: &str| Outcome::Forbidden { answer: answer.chars().take(300).collect() };
    let text = String::from_utf8_lossy(&answer.body);
    match serde_json::from_str::<WireResults>(&text) {
        Ok(WireResults { results }) if results.len() == requests.len() => {
            let reported = requests.iter().zip(&results);
            reported
                .map(|(request, result)| result_of(request, result.get()).unwrap_or_else(|| forbidden(result.get())))
                .collect()
        }
        _ => requests.iter().map(|_| forbidden(&text)).collect(),
    }
}

fn result_of(request: &Request, result: &str) -> Option<Outcome> {
    if let Ok(WireFailed { problem }) = serde_json::from_str(result) {
        return refusal(request, &problem);
    }
    match request {
        Request::Get { .. } => page(result.as_bytes()).ok().map(|(page, _)| page),
        Request::Aggregate { group_by, .. } => aggregated(result.as_bytes(), *group_by).ok(),
        _ => added(result.as_bytes()).ok(),
    }
}
