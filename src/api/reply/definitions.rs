//! Definitions as answers: features, their versions, and entity types, which are stored as features.

use actix_web::http::header::ETAG;

use super::super::call::HandlerResult;
use super::super::headers::etag;
use super::super::json::json;
use super::super::response::Response;
use super::text;
use crate::definition::{Feature, FeatureVersion};
use crate::metadata::{self, HistoryEntry};
use crate::service::Listed;
use crate::wire;

pub(crate) fn feature(response: Response, feature: &Feature) -> HandlerResult {
    json(response.with_text(ETAG, etag(feature.revision))?, &wire::Feature::from(feature))
}

pub(crate) fn entity_type(response: Response, feature: &Feature) -> HandlerResult {
    json(response.with_text(ETAG, etag(feature.revision))?, &wire::EntityType::from(feature))
}

pub(crate) fn version(response: Response, version: &FeatureVersion) -> HandlerResult {
    json(response.with_text(ETAG, etag(version.revision))?, &wire::FeatureVersion::from(version))
}

/// A page of changes.
pub(crate) fn history((entries, next_page_token): Listed<HistoryEntry>) -> wire::HistoryPage {
    wire::HistoryPage { history: entries.into_iter().map(change).collect(), next_page_token: text(next_page_token) }
}

fn change(entry: HistoryEntry) -> wire::Change {
    let label = entry.version.map(|label| label.to_string());
    let (version, index) = if entry.action.is_of_index() { (None, label) } else { (label, None) };
    wire::Change {
        at: entry.at.to_string(),
        by: entry.by.as_str().to_owned(),
        on_behalf_of: entry.by.behalf().map(str::to_owned),
        action: action(entry.action).as_str().to_owned(),
        version,
        index,
        before: entry.before,
        after: entry.after,
    }
}

fn action(action: metadata::Action) -> wire::Action {
    match action {
        metadata::Action::CreateFeature => wire::Action::CreateFeature,
        metadata::Action::UpdateFeature => wire::Action::UpdateFeature,
        metadata::Action::DeleteFeature => wire::Action::DeleteFeature,
        metadata::Action::CreateVersion => wire::Action::CreateVersion,
        metadata::Action::UpdateVersion => wire::Action::UpdateVersion,
        metadata::Action::DeleteVersion => wire::Action::DeleteVersion,
        metadata::Action::CreateEntityType => wire::Action::CreateEntityType,
        metadata::Action::UpdateEntityType => wire::Action::UpdateEntityType,
        metadata::Action::DeleteEntityType => wire::Action::DeleteEntityType,
        metadata::Action::CreateIndex => wire::Action::CreateIndex,
        metadata::Action::UpdateIndex => wire::Action::UpdateIndex,
        metadata::Action::DeleteIndex => wire::Action::DeleteIndex,
    }
}
