//! Which entities have lists of a feature version, or bags.

use tokio::time::Instant;

use super::{Caller, Listed, Service, ServiceError};
use crate::domain::page::EntityWalk;
use crate::domain::{EntityId, Limit};
use crate::items::{EntityPage, EntityPlace};
use crate::metadata::catalog::CatalogVersion;

impl Service {
    pub(crate) async fn entities_of(
        &self,
        caller: &Caller,
        found: CatalogVersion,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
        deadline: Instant,
    ) -> Result<Listed<EntityId>, ServiceError> {
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
        caller.charge_items(entities.len().saturating_sub(1));
        let next_page_token = next.map(|next| walk.token_at(next.hash, next.after.as_ref()));
        Ok((entities, next_page_token))
    }
}
