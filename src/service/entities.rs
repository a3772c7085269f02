//! Which entities have lists of a feature version, or bags.

use tokio::time::Instant;

use super::operation::Reply;
use super::{Caller, Service, ServiceError};
use crate::domain::page::EntityWalk;
use crate::domain::{FeatureId, Limit, VersionLabel};
use crate::items::{EntityPage, EntityPlace};
use crate::metadata::catalog::CatalogVersion;

impl Service {
    pub(super) async fn list_entities(
        &self,
        caller: &Caller,
        id: FeatureId,
        version: VersionLabel,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
    ) -> Result<Reply, ServiceError> {
        let deadline = self.deadline(caller);
        let found = self.resolve_version(id.entity_type.as_str(), id.name.as_str(), version.as_str(), deadline).await?;
        self.entities_of(caller, found, page_size, page_token, deadline).await
    }

    pub(super) async fn entities_of(
        &self,
        caller: &Caller,
        found: CatalogVersion,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
        deadline: Instant,
    ) -> Result<Reply, ServiceError> {
        caller.take_items(1)?;
        let walk = EntityWalk(&found.feature_key);
        let from = page_token
            .map(|token| walk.resume(token.as_ref()))
            .transpose()
            .map_err(ServiceError::invalid("page_token"))?
            .map(|(hash, after)| EntityPlace { hash, after });
        let lists = self.lists_of(caller);
        let EntityPage { entities, next } = lists
            .entities(found.feature_key.clone(), found.properties.retention(), from, page_size.get(), deadline)
            .await?;
        caller.owe_items(entities.len().saturating_sub(1));
        let next_page_token = next.map(|next| walk.token_at(next.hash, next.after.as_ref()));
        Ok(Reply::Entities { entities, next_page_token })
    }
}
