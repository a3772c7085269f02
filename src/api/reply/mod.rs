//! Shared answers of several operations.

mod bags;
mod batch;
mod definitions;
mod indexes;
mod jobs;
mod keys;
mod pool;

pub(crate) use bags::{bag_text, bag_texts, found_text, stored};
pub(crate) use batch::{added, failed};
pub(crate) use definitions::{entity_type, feature, history, version};
pub(crate) use indexes::{index, index_shown};
pub(crate) use jobs::job;
pub(crate) use keys::key_made;
pub(crate) use pool::{log, pool};

use crate::domain::{EntityId, PageToken};
use crate::service::Listed;
use crate::wire::EntityPage;

pub(crate) fn text(token: Option<PageToken>) -> Option<String> {
    token.map(|token| token.as_str().to_owned())
}

/// A page of the IDs of entities.
pub(crate) fn entities((entities, next_page_token): Listed<EntityId>) -> EntityPage {
    let entities = entities.iter().map(ToString::to_string).collect();
    EntityPage { entities, next_page_token: text(next_page_token) }
}
