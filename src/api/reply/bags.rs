//! Bags as answers.

use actix_web::http::header::ETAG;
use serde::Serialize;

use super::super::call::{Call, HandlerResult};
use super::super::headers::{bag_tag, write_in_bag_tag};
use super::super::json::json;
use super::super::problem::Problem;
use super::super::response::Response;
use super::batch::{failed, failed_for_all};
use crate::domain::{EntityType, Rfc3339Writer, Timestamp, ValueType};
use crate::service::{Bag, BagsFound, EntityName, FoundBag, ReadLists, ServiceError, StoredBag};
use crate::wire::{self, RequestFailed};

/// The approximate size of the text around a document, and of a problem.
const AROUND_BYTES: usize = 256;

/// A bag as JSON, with its lists.
pub(crate) fn bag_text(call: &Call<'_>, bag: Bag) -> Result<Vec<u8>, Problem> {
    let mut text = Vec::with_capacity(AROUND_BYTES + bag.document.len());
    BagWriter::of(call).write(0, bag, &mut text)?;
    Ok(text)
}

/// A stored bag, by its entity and its tag.
pub(crate) fn stored(response: Response, stored: &StoredBag) -> HandlerResult {
    let StoredBag { entity: EntityName { entity_type, entity_id }, updated_at, .. } = stored;
    let response = response.with_text(ETAG, bag_tag(*updated_at))?;
    let body = wire::BagStored {
        entity_type: entity_type.to_string(),
        entity_id: entity_id.as_str().to_owned(),
        updated_at: updated_at.to_string(),
    };
    json(response, &body)
}

/// The outcome of each request of a call.
pub(crate) fn bag_texts(call: &Call<'_>, bags: Vec<Result<Bag, ServiceError>>) -> Result<Vec<u8>, Problem> {
    let bytes = bags.iter().map(|bag| AROUND_BYTES + bag.as_ref().map_or(0, |bag| bag.document.len()));
    let mut text = Vec::with_capacity(bytes.sum());
    text.extend_from_slice(b"{\"results\":[");
    let mut writer = BagWriter::of(call);
    for (index, bag) in bags.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        match bag {
            Ok(bag) => writer.write(index, bag, &mut text)?,
            Err(error) => write_json(&failed(call, index, error), &mut text)?,
        }
    }
    text.extend_from_slice(b"]}");
    Ok(text)
}

/// A page of the bags that a query found.
pub(crate) fn found_text(found: &BagsFound) -> Result<Vec<u8>, Problem> {
    let BagsFound { entity_type, bags, next_page_token } = found;
    let bytes = bags.iter().map(|bag| AROUND_BYTES + bag.document.len());
    let mut text = Vec::with_capacity(bytes.sum());
    text.extend_from_slice(b"{\"entities\":[");
    let mut moments = Rfc3339Writer::default();
    // The same text precedes every ID. Between two bags, the end of the previous bag precedes it.
    let mut between = b"},".to_vec();
    write_entity_type(entity_type, &mut between);
    let mut before = &between[b"},".len()..];
    for FoundBag { entity_id, updated_at, document } in bags {
        text.extend_from_slice(before);
        before = &between;
        write_state(&mut moments, entity_id, *updated_at, document, &mut text)?;
    }
    if !bags.is_empty() {
        text.push(b'}');
    }
    text.push(b']');
    if let Some(token) = next_page_token {
        text.extend_from_slice(b",\"next_page_token\":");
        write_json(&token.as_str(), &mut text)?;
    }
    text.push(b'}');
    Ok(text)
}

/// Writes bags, one after the other.
struct BagWriter<'c, 'r> {
    call: &'c Call<'r>,
    moments: Rfc3339Writer,
}

impl<'c, 'r> BagWriter<'c, 'r> {
    fn of(call: &'c Call<'r>) -> Self {
        Self { call, moments: Rfc3339Writer::default() }
    }

    /// Writes the document as stored, and what was read of lists as rendered.
    fn write(&mut self, index: usize, bag: Bag, text: &mut Vec<u8>) -> Result<(), Problem> {
        let Bag { entity: EntityName { entity_type, entity_id }, updated_at, document, lists, aggregates } = bag;
        write_entity_type(&entity_type, text);
        write_state(&mut self.moments, entity_id.as_str().as_bytes(), updated_at, &document, text)?;
        self.write_lists(b",\"lists\":{", lists, |error| failed(self.call, index, error), text)?;
        self.write_lists(b",\"aggregates\":{", aggregates, |error| failed_for_all(self.call, error), text)?;
        text.push(b'}');
        Ok(())
    }

    /// Writes a member with what was read of lists, if anything was.
    fn write_lists(
        &self,
        begin: &[u8],
        lists: ReadLists,
        failed: impl Fn(ServiceError) -> RequestFailed,
        text: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        if lists.is_empty() {
            return Ok(());
        }
        let mut before = begin;
        for (feature, read) in lists {
            text.extend_from_slice(before);
            before = b",";
            write_json(&feature.as_str(), text)?;
            text.push(b':');
            match read {
                Ok(page) => {
                    self.call.state.metrics.items_read.inc_by(page.items as u64);
                    text.extend_from_slice(&page.text);
                }
                Err(error) => write_json(&failed(error), text)?,
            }
        }
        text.push(b'}');
        Ok(())
    }
}

/// Writes the part between the type of a bag's entity and its lists.
fn write_state(
    moments: &mut Rfc3339Writer,
    entity_id: &[u8],
    updated_at: Timestamp,
    document: &[u8],
    text: &mut Vec<u8>,
) -> Result<(), Problem> {
    let written = ValueType::String.write_json(entity_id, text);
    written.map_err(|error| Problem::internal(format!("cannot render the response: {error}")))?;
    // Written together, because each write has a cost.
    const MOMENT_AT: usize = b",\"updated_at\":\"".len();
    const MOMENT_END: usize = MOMENT_AT + Timestamp::RFC3339_LEN;
    // The tag includes quotation marks.
    let mut around = *b",\"updated_at\":\"1970-01-01T00:00:00.000000000Z\",\"etag\":\"\\\"";
    around[MOMENT_AT..MOMENT_END].copy_from_slice(moments.text(updated_at));
    text.extend_from_slice(&around);
    write_in_bag_tag(updated_at, text);
    text.extend_from_slice(b"\\\"\",\"properties\":");
    text.extend_from_slice(document);
    Ok(())
}

/// Writes the beginning of a bag of a type, up to the entity's ID.
fn write_entity_type(entity_type: &EntityType, text: &mut Vec<u8>) {
    text.extend_from_slice(b"{\"entity_type\":\"");
    // It contains no character that needs escaping.
    text.extend_from_slice(entity_type.as_str().as_bytes());
    text.extend_from_slice(b"\",\"entity_id\":");
}

fn write_json(value: &impl Serialize, text: &mut Vec<u8>) -> Result<(), Problem> {
    serde_json::to_writer(text, value)
        .map_err(|error| Problem::internal(format!("cannot render the response: {error}")))
}
