//! The data plane: the four list operations.
//!
//! Every value is encoded before anything is stored. These are the hot paths: nothing is allocated
//! here that an answer can do without.

use tokio::time::Instant;

use super::operation::{AddItems, GetItems, ListName, Reply};
use super::page_cache::RenderedPage;
use super::{Caller, Service, ServiceError};
use crate::actors::ResolveError;
use crate::domain::page::ItemWalk;
use crate::domain::{EntityType, FeatureId, FeatureName, ListKey, Timestamp, ValueType, VersionLabel};
use crate::items::{ItemPage, Range};
use crate::metadata::MetadataError;
use crate::metadata::catalog::CatalogVersion;

/// How pages of items are written for those who ask.
pub trait PageRenderer: Send + Sync + 'static {
    /// The page ends early before it exceeds `bytes_max`, with at least one item, and has a token
    /// exactly if at least one more item was there.
    fn render(
        &self,
        page: &ItemPage,
        value_type: ValueType,
        walk: &ItemWalk<'_>,
        bytes_max: usize,
    ) -> Result<RenderedPage, ServiceError>;
}

impl<R: PageRenderer> Service<R> {
    pub(super) async fn get_items(&self, caller: &Caller, request: GetItems<'_>) -> Result<Reply, ServiceError> {
        let deadline = self.deadline(caller);
        let GetItems { list, min_timestamp, max_timestamp, limit, page_token } = request;
        let found = self.resolve(&list, deadline).await?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        let walk = ItemWalk { list: &list, min_timestamp, max_timestamp };
        let after =
            page_token.map(|token| walk.resume(token)).transpose().map_err(ServiceError::invalid("page_token"))?;
        let bytes_max = self.options.page_bytes_max;
        let range = Range {
            min_timestamp: min_timestamp.unwrap_or(Timestamp::MIN),
            max_timestamp: max_timestamp.unwrap_or(Timestamp::MAX),
            after,
            limit: limit.get(),
            // No value renders to much less than it is stored in: what the store leaves out would not
            // have fitted the answer.
            value_bytes_max: bytes_max,
        };
        // A page's token is bound to the bounds as they were given: where any are, it is another one.
        let is_first_page = min_timestamp.is_none() && max_timestamp.is_none() && after.is_none();
        let (limit, ttl) = (limit.get(), found.ttl);
        if is_first_page
            && let Some(state) = self.lists.state(&list)
            && let Some(page) = self.pages.get(&list, limit, ttl, self.clock.now(), state)
        {
            return Ok(Reply::Items(page));
        }
        let (page, validity) = self.lists.get(&list, ttl, range, deadline).await?;
        let rendered = self.renderer.render(&page, found.value_type, &walk, bytes_max)?;
        if is_first_page && let Some(validity) = validity {
            self.pages.keep(&list, limit, ttl, validity, &rendered);
        }
        Ok(Reply::Items(rendered))
    }

    pub(super) async fn add_items(&self, caller: &Caller, request: AddItems<'_>) -> Result<Reply, ServiceError> {
        let deadline = self.deadline(caller);
        let AddItems { list, items: unread } = request;
        let found = self.resolve(&list, deadline).await?;
        let mut items = Vec::with_capacity(unread.len());
        for (index, item) in unread.into_iter().enumerate() {
            let value =
                found.value_type.encode(item.value).map_err(|invalid| ServiceError::InvalidItem { index, invalid })?;
            items.push((item.timestamp, value));
        }
        let list = ListKey::new(found.feature_key, list.entity_id);
        Ok(Reply::Added(self.lists.add(list, found.ttl, items, deadline).await?))
    }

    pub(super) async fn remove_items_with_value(
        &self,
        caller: &Caller,
        list: ListName<'_>,
        value: &str,
    ) -> Result<Reply, ServiceError> {
        let deadline = self.deadline(caller);
        let found = self.resolve(&list, deadline).await?;
        let value = found.value_type.encode(value).map_err(ServiceError::invalid("value"))?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        Ok(Reply::Removed(self.lists.remove_value(list, found.ttl, value, deadline).await?))
    }

    pub(super) async fn remove_all_items(&self, caller: &Caller, list: ListName<'_>) -> Result<Reply, ServiceError> {
        let deadline = self.deadline(caller);
        let found = self.resolve(&list, deadline).await?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        self.lists.remove_all(list, found.ttl, deadline).await?;
        Ok(Reply::AllRemoved)
    }

    /// Finds the feature version that a list belongs to.
    async fn resolve(&self, list: &ListName<'_>, deadline: Instant) -> Result<CatalogVersion, ServiceError> {
        let ListName { entity_type, feature, version, .. } = *list;
        if let Ok(found) = self.metadata.catalog().version(entity_type, feature, version) {
            return Ok(found);
        }
        let id = FeatureId {
            entity_type: EntityType::new(entity_type).map_err(ServiceError::invalid("entity_type"))?,
            name: FeatureName::new(feature).map_err(ServiceError::invalid("feature"))?,
        };
        let label = VersionLabel::new(version).map_err(ServiceError::invalid("version"))?;
        self.metadata.resolve(entity_type, feature, version, deadline).await.map_err(|error| match error {
            ResolveError::FeatureNotFound => MetadataError::FeatureNotFound(id).into(),
            ResolveError::VersionNotFound => MetadataError::VersionNotFound(id, label).into(),
            ResolveError::Unavailable { reason } => ServiceError::CatalogUnavailable { reason },
        })
    }
}
