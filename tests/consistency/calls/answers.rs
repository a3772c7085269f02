//! Answers, and their outcomes.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::aggregates::aggregated;
use super::times::{nanos, ttl_secs};
use crate::bags::{self, BagOutcome, BagRequest};
use crate::history::{Item, Outcome, Request};
use crate::http::{Answer, Trouble};

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
        Ok(reported) => reported,
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

pub type Reported = (Outcome, Option<String>);

fn success(request: &Request, answer: &Answer) -> Result<Reported, Box<dyn std::error::Error>> {
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
        Request::Aggregate { group_by, .. } => {
            expect(200)?;
            Ok((aggregated(&answer.body, *group_by)?, None))
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
pub fn page(body: &[u8]) -> Result<Reported, Box<dyn std::error::Error>> {
    let WirePage { items, next_page_token } = serde_json::from_slice(body)?;
    let items = items.into_iter().map(read_item).collect::<Result<_, _>>()?;
    Ok((Outcome::Page { items, more: next_page_token.is_some() }, next_page_token))
}

pub fn added(body: &[u8]) -> Result<Outcome, Box<dyn std::error::Error>> {
    let WireAdded { added, already_expired } = serde_json::from_slice(body)?;
    Ok(Outcome::Added { added, already_expired })
}

fn read_item(WireItem { timestamp, value }: WireItem) -> Result<Item, Box<dyn std::error::Error>> {
    Ok(Item { timestamp: nanos(&timestamp)?, value: value.get().to_owned() })
}
