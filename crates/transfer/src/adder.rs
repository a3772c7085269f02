//! Adds lists to a server, as many in one call as it accepts.

use liststore_contract::operations::batch_add;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::source::Sink;
use crate::client::{Client, Failure, Request};
use crate::domain::{ADD_ITEMS_MAX, FeatureId, VersionLabel};
use crate::wire::{BATCH_ITEMS_MAX, BATCH_LISTS_MAX, Item, ProblemBody};

/// Bytes of the items of a call: well within the limit of a server.
const CALL_BYTES_MAX: usize = 512 << 10;

pub(super) struct Adder<'a> {
    client: &'a Client,
    feature: &'a FeatureId,
    version: &'a VersionLabel,
    /// Adds that wait for more to come, rendered.
    waiting: Vec<String>,
    items: usize,
    bytes: usize,
    /// Added items, and items that had already expired.
    pub added: u64,
    pub already_expired: u64,
}

#[derive(Serialize)]
struct Add<'a> {
    entity_type: &'a str,
    feature: &'a str,
    version: &'a str,
    entity_id: &'a str,
    items: Vec<AddedItem<'a>>,
}

#[derive(Serialize)]
struct AddedItem<'a> {
    timestamp: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    value: &'a RawValue,
}

#[derive(Deserialize)]
struct BatchResults {
    results: Vec<ListResult>,
}

#[derive(Deserialize)]
struct ListResult {
    problem: Option<ProblemBody>,
    #[serde(default)]
    added: u64,
    #[serde(default)]
    already_expired: u64,
}

impl<'a> Adder<'a> {
    pub fn new(client: &'a Client, feature: &'a FeatureId, version: &'a VersionLabel) -> Self {
        Self { client, feature, version, waiting: Vec::new(), items: 0, bytes: 0, added: 0, already_expired: 0 }
    }

    /// Sends the waiting items.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let body = format!("{{\"requests\":[{}]}}", self.waiting.join(","));
        let request = Request::new(&batch_add::ROW, &[]).json(body.into_bytes()).repeatable();
        let BatchResults { results } = self.client.ask(&request).await?;
        for ListResult { problem, added, already_expired } in results {
            if let Some(problem) = problem {
                return Err(self.client.failed(format!("{}: {} ({})", self.feature, problem.detail, problem.code)));
            }
            self.added += added;
            self.already_expired += already_expired;
        }
        self.waiting.clear();
        (self.items, self.bytes) = (0, 0);
        Ok(())
    }
}

fn added(item: &Item) -> AddedItem<'_> {
    AddedItem { timestamp: &item.timestamp, key: item.key.as_deref(), value: &item.value }
}

impl Sink for Adder<'_> {
    async fn take(&mut self, entity_id: &str, items: &[Item]) -> Result<(), Failure> {
        let mut left = items;
        while !left.is_empty() {
            let mut bytes = 0;
            let fits = left.iter().take(ADD_ITEMS_MAX).take_while(|item| {
                bytes += item.value.get().len() + item.timestamp.len() + item.key.as_ref().map_or(0, String::len);
                bytes <= CALL_BYTES_MAX
            });
            let (some, rest) = left.split_at(fits.count().max(1));
            left = rest;
            let add = Add {
                entity_type: self.feature.entity_type.as_str(),
                feature: self.feature.name.as_str(),
                version: self.version.as_str(),
                entity_id,
                items: some.iter().map(added).collect(),
            };
            let text = serde_json::to_string(&add).map_err(|e| Failure::failed(format!("cannot write an add: {e}")))?;
            let is_full = self.waiting.len() >= BATCH_LISTS_MAX
                || self.items + some.len() > BATCH_ITEMS_MAX
                || self.bytes + text.len() > CALL_BYTES_MAX;
            if is_full {
                self.flush().await?;
            }
            self.items += some.len();
            self.bytes += text.len();
            self.waiting.push(text);
        }
        Ok(())
    }
}
