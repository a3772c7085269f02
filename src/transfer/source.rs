//! The lists of a feature version, read from a server part by part.

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientError, Failure, Request};
use crate::domain::{EntityId, FeatureId, Limit, Timestamp, VersionLabel};
use crate::service::OperationId;
use crate::wire::parameters::{LIMIT, MIN_TIMESTAMP, PAGE_SIZE, PAGE_TOKEN, VERSION};
use crate::wire::{EntityPage, ErrorCode, Item, ProblemBody};

/// Entities of a part.
const PART_ENTITIES: usize = 500;
/// Lists that one call asks for, and the items of each that it does.
const CALL_LISTS: usize = 100;
const CALL_ITEMS: usize = 1_000;

/// What takes the items of lists.
pub(super) trait Sink {
    /// Takes some items of a list, newest first: all that one answer has of it.
    async fn take(&mut self, entity_id: &str, items: &[Item]) -> Result<(), Failure>;
}

/// A feature version of a server.
pub(super) struct Source<'a> {
    pub client: &'a Client,
    pub feature: &'a FeatureId,
    pub version: &'a VersionLabel,
    /// Nothing older is read.
    pub min_timestamp: Option<Timestamp>,
}

#[derive(Serialize)]
struct Asked<'a> {
    requests: Vec<AskedList<'a>>,
}

#[derive(Serialize)]
struct AskedList<'a> {
    entity_type: &'a str,
    feature: &'a str,
    version: &'a str,
    entity_id: &'a str,
    limit: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_timestamp: Option<u64>,
}

#[derive(Deserialize)]
struct BatchResults {
    results: Vec<ListResult>,
}

/// A page, or why there is none.
#[derive(Deserialize)]
struct ListResult {
    problem: Option<ProblemBody>,
    #[serde(default)]
    items: Vec<Item>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Item>,
    next_page_token: Option<String>,
}

impl Source<'_> {
    /// Reads a part: where the walk goes on, if it does.
    pub async fn part(&self, page_token: Option<&str>, sink: &mut impl Sink) -> Result<Option<String>, Failure> {
        let request = Request::of_feature(OperationId::ListEntities, self.feature)
            .query(&VERSION, (!self.version.is_default()).then_some(self.version))
            .query(&PAGE_SIZE, Some(PART_ENTITIES.min(Limit::PAGE_SIZE_MAX)))
            .query(&PAGE_TOKEN, page_token);
        let EntityPage { entities, next_page_token } = self.client.ask(&request).await?;
        for some in entities.chunks(CALL_LISTS) {
            self.lists(some, sink).await?;
        }
        Ok(next_page_token)
    }

    async fn lists(&self, entities: &[String], sink: &mut impl Sink) -> Result<(), Failure> {
        let mut left = entities;
        while !left.is_empty() {
            let body = Asked { requests: left.iter().map(|entity_id| self.asked(entity_id)).collect() };
            let request = Request::new(OperationId::BatchGet, &[]).body(&body)?;
            let BatchResults { results } = self.client.ask(&request).await?;
            if results.len() != left.len() {
                return Err(Failure::failed("the server answered with fewer or more results than it was asked for"));
            }
            let mut taken = 0;
            for (entity_id, ListResult { problem, items, next_page_token }) in left.iter().zip(results) {
                match problem {
                    None => self.list(entity_id, Page { items, next_page_token }, sink).await?,
                    // There was no room for it beside the others: with the next ones there is.
                    Some(problem) if problem.code == ErrorCode::ResponseTooLarge.name() && taken > 0 => break,
                    Some(problem) => return Err(self.failed(entity_id, &problem.detail)),
                }
                taken += 1;
            }
            left = &left[taken..];
        }
        Ok(())
    }

    fn asked<'e>(&'e self, entity_id: &'e str) -> AskedList<'e> {
        AskedList {
            entity_type: self.feature.entity_type.as_str(),
            feature: self.feature.name.as_str(),
            version: self.version.as_str(),
            entity_id,
            limit: CALL_ITEMS,
            min_timestamp: self.min_timestamp.map(Timestamp::as_nanos),
        }
    }

    /// Takes the first page of a list, and reads all others.
    async fn list(&self, entity_id: &str, mut page: Page, sink: &mut impl Sink) -> Result<(), Failure> {
        let entity = EntityId::new(entity_id).map_err(|e| self.failed(entity_id, &e.to_string()))?;
        loop {
            if !page.items.is_empty() {
                sink.take(entity_id, &page.items).await?;
            }
            let Some(token) = page.next_page_token else { return Ok(()) };
            let request = Request::of_list(OperationId::GetItems, self.feature, &entity, self.version)
                .query(&MIN_TIMESTAMP, self.min_timestamp.map(Timestamp::as_nanos))
                .query(&LIMIT, Some(Limit::ITEMS_MAX))
                .query(&PAGE_TOKEN, Some(token));
            let next = self.client.ask(&request).await;
            page = next.map_err(|error: ClientError| self.failed(entity_id, &error.to_string()))?;
        }
    }

    fn failed(&self, entity_id: &str, why: &str) -> Failure {
        Failure::failed(format!("{}, entity {entity_id:?}: {why}", self.feature))
    }
}
