//! Turns a call on bags into HTTP, and the answer into an outcome.

use std::time::{Duration, Instant};

use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use super::{BagIndex, BagOutcome, BagRequest, BagState, Condition, FoundBag, Properties};
use crate::calls::{Reported, Wire, nanos, segment, with_parameters};
use crate::history::{Order, Outcome};
use crate::http::{Answer, Connection, Endpoint, Trouble};

/// The time for creating the entity type and its indexes, on a busy machine.
const CREATION_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireBag {
    entity_type: String,
    entity_id: String,
    updated_at: String,
    etag: String,
    properties: Properties,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireStored {
    entity_type: String,
    entity_id: String,
    updated_at: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFound {
    entities: Vec<WireBag>,
    next_page_token: Option<String>,
}

fn header(condition: &Option<Condition>) -> Vec<(&'static str, String)> {
    match condition {
        None => Vec::new(),
        Some(Condition::Absent) => vec![("if-none-match", "*".to_owned())],
        Some(Condition::Tag(tag)) => vec![("if-match", tag.clone())],
    }
}

/// `token` is the token of the previous page of a walk.
pub fn wire(request: &BagRequest, token: Option<&str>) -> Wire {
    let path = request.bag().map(|bag| format!("/v1/entities/{}/{}", bag.entity_type, segment(&bag.entity)));
    let path = path.unwrap_or_default();
    match request {
        BagRequest::Get { unless, .. } => {
            let headers = unless.iter().map(|tag| ("if-none-match", tag.clone())).collect();
            Wire { method: Method::GET, path_and_query: path, headers, body: None }
        }
        BagRequest::Put { properties, condition, .. } => {
            let body = Some(json!(properties).to_string());
            Wire { method: Method::PUT, path_and_query: path, headers: header(condition), body }
        }
        BagRequest::Patch { by, property, value, condition, .. } => {
            let body = Some(json!({"by": by, (property.as_str()): value}).to_string());
            Wire { method: Method::PATCH, path_and_query: path, headers: header(condition), body }
        }
        BagRequest::Delete { condition, .. } => {
            let path_and_query = format!("{path}/bag");
            Wire { method: Method::DELETE, path_and_query, headers: header(condition), body: None }
        }
        BagRequest::Find { entity_type, index, city, order, limit, .. } => {
            let parameters = [
                ("value", Some(city.to_string())),
                ("order", (*order == Order::Oldest).then(|| "oldest".to_owned())),
                ("limit", Some(limit.to_string())),
                ("page_token", token.map(str::to_owned)),
            ];
            let path = format!("/v1/entity-types/{entity_type}/indexes/{}/entities", index.as_str());
            let path_and_query = with_parameters(path, &parameters);
            Wire { method: Method::GET, path_and_query, headers: Vec::new(), body: None }
        }
    }
}

/// The outcome of a problem that only bags have.
pub fn refusal(status: u16, code: &str) -> Option<Outcome> {
    match (status, code) {
        (404, "bag_not_found") => Some(Outcome::Bag(BagOutcome::NotFound)),
        (412, "etag_mismatch") => Some(Outcome::Bag(BagOutcome::ConditionFailed)),
        _ => None,
    }
}

type Error = Box<dyn std::error::Error>;

/// The outcome of an answer with a 2xx status, with the token of the next page of a walk.
pub fn success(request: &BagRequest, answer: &Answer) -> Result<Reported, Error> {
    let status = answer.status.as_u16();
    let is_expected = match request {
        BagRequest::Put { .. } => matches!(status, 200 | 201),
        BagRequest::Delete { .. } => status == 204,
        _ => status == 200,
    };
    if !is_expected {
        return Err(format!("unexpected status {status}").into());
    }
    let tag = || answer.etag.clone().ok_or("no ETag");
    let outcome = match request {
        BagRequest::Get { .. } | BagRequest::Patch { .. } => {
            let found = read(serde_json::from_slice(&answer.body)?, request)?;
            if found.state.tag != tag()? {
                return Err("the ETag is not that of the body".into());
            }
            BagOutcome::Shown(found.state)
        }
        BagRequest::Put { .. } => {
            let WireStored { entity_type, entity_id, updated_at } = serde_json::from_slice(&answer.body)?;
            is_asked_for(request, &entity_type, &entity_id)?;
            nanos(&updated_at)?;
            BagOutcome::Stored { tag: tag()?, created: status == 201 }
        }
        BagRequest::Delete { .. } => BagOutcome::Deleted,
        BagRequest::Find { .. } => {
            let WireFound { entities, next_page_token } = serde_json::from_slice(&answer.body)?;
            let found = entities.into_iter().map(|bag| read(bag, request)).collect::<Result<_, _>>()?;
            return Ok((Outcome::Bag(BagOutcome::Found(found)), next_page_token));
        }
    };
    Ok((Outcome::Bag(outcome), None))
}

fn read(bag: WireBag, request: &BagRequest) -> Result<FoundBag, Error> {
    let WireBag { entity_type, entity_id, updated_at, etag, properties } = bag;
    is_asked_for(request, &entity_type, &entity_id)?;
    let state = BagState { tag: etag, properties };
    Ok(FoundBag { entity: entity_id, updated_at: nanos(&updated_at)?, state })
}

fn is_asked_for(request: &BagRequest, entity_type: &str, entity: &str) -> Result<(), Error> {
    let is_asked_for = match request {
        BagRequest::Find { entity_type: asked, .. } => asked == entity_type,
        _ => request.bag().is_some_and(|bag| bag.entity_type == entity_type && bag.entity == entity),
    };
    if is_asked_for { Ok(()) } else { Err(format!("the bag of {entity_type} {entity} was not asked for").into()) }
}

/// Creates an entity type and its indexes. Queries find the bags that are written from then on.
pub async fn create(connection: &mut Connection, endpoint: &Endpoint, entity_type: &str) -> Result<(), String> {
    let mut creations = vec![("/v1/entity-types".to_owned(), json!({"entity_type": entity_type}))];
    for index in BagIndex::ALL {
        let mut body = json!({"name": index.as_str(), "properties": ["/city"]});
        if index == BagIndex::Ranked {
            body["order_by"] = json!("/rank");
        }
        creations.push((format!("/v1/entity-types/{entity_type}/indexes"), body));
    }
    for (path, body) in creations {
        let (began, mut is_perhaps_created) = (Instant::now(), false);
        loop {
            let answer = connection.exchange(endpoint, Method::POST, &path, Some(body.to_string())).await;
            let is_late = began.elapsed() > CREATION_TIMEOUT;
            match answer {
                Ok(answer) if answer.status == 201 || (answer.status == 409 && is_perhaps_created) => break,
                Ok(answer) if matches!(answer.status.as_u16(), 503 | 504) && !is_late => is_perhaps_created = true,
                Err(Trouble::Lost(_)) if !is_late => is_perhaps_created = true,
                Err(Trouble::NotSent(_)) if !is_late => {}
                Ok(answer) => {
                    let text = String::from_utf8_lossy(&answer.body).into_owned();
                    return Err(format!("cannot create {body}: {} {text}", answer.status));
                }
                Err(trouble) => return Err(format!("cannot create {body}: {trouble:?}")),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}
