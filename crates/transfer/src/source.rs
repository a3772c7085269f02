//! The lists of a feature version, read from a server part by part.

use liststore_contract::operations::{get_items, list_entities};

use super::lists::{Asked, CALL_LISTS, Page, first_pages};
use crate::client::{Client, ClientError, Failure, Request};
use crate::domain::{EntityId, FeatureId, Int64As, Limit, Timestamp, VersionLabel};
use crate::wire::parameters::{AS_OF, INT64_AS, LIMIT, MIN_TIMESTAMP, PAGE_SIZE, PAGE_TOKEN, VERSION};
use crate::wire::{EntityPage, Item};

/// Entities of a part.
const PART_ENTITIES: usize = 500;
/// Items of each list in a call for many.
const CALL_ITEMS: usize = 1_000;

/// A receiver of the items of lists.
pub(super) trait Sink {
    /// Takes some items of a list, newest first: the part in one answer.
    async fn take(&mut self, entity_id: &str, items: &[Item]) -> Result<(), Failure>;
}

/// A feature version of a server.
pub(super) struct Source<'a> {
    pub client: &'a Client,
    pub feature: &'a FeatureId,
    pub version: &'a VersionLabel,
    /// Nothing older is read.
    pub min_timestamp: Option<Timestamp>,
    /// Lists are read as of this time, if their items are still stored.
    pub as_of: Option<Timestamp>,
}

impl Source<'_> {
    /// Reads a part. Returns where the walk continues; `None` at its end.
    pub async fn part(&self, page_token: Option<&str>, sink: &mut impl Sink) -> Result<Option<String>, Failure> {
        let request = Request::of_feature(&list_entities::ROW, self.feature)
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
        let asked = |entity_id| Asked {
            min_timestamp: self.min_timestamp.map(Timestamp::as_nanos),
            as_of: self.as_of.map(Timestamp::as_nanos),
            ..Asked::new(self.feature, self.version, entity_id, CALL_ITEMS)
        };
        let asked: Vec<_> = entities.iter().map(|entity_id| asked(entity_id)).collect();
        for (list, page) in asked.iter().zip(first_pages(self.client, &asked).await?) {
            self.list(list, page, sink).await?;
        }
        Ok(())
    }

    /// Takes the first page of a list, and reads the remaining pages.
    async fn list(&self, list: &Asked<'_>, mut page: Page, sink: &mut impl Sink) -> Result<(), Failure> {
        let entity = EntityId::new(list.entity_id).map_err(|e| list.failed(&e.to_string()))?;
        loop {
            if !page.items.is_empty() {
                sink.take(list.entity_id, &page.items).await?;
            }
            let Some(token) = page.next_page_token else { return Ok(()) };
            let request = Request::of_list(&get_items::ROW, self.feature, &entity, self.version)
                .query(&MIN_TIMESTAMP, self.min_timestamp.map(Timestamp::as_nanos))
                .query(&AS_OF, self.as_of.map(Timestamp::as_nanos))
                .query(&LIMIT, Some(Limit::ITEMS_MAX))
                .query(&PAGE_TOKEN, Some(token))
                .query(&INT64_AS, Some(Int64As::Number));
            let next = self.client.ask(&request).await;
            page = next.map_err(|error: ClientError| list.failed(&error.to_string()))?;
        }
    }
}
