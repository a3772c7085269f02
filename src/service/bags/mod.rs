//! The data plane of bags: one document of properties an entity, beside its lists.
//!
//! A bag is written by reading it, deciding what becomes of it, and swapping it for what was read: if another write
//! came first, that is begun again, for as long as the caller waits. So whatever is decided on, conditions and merges,
//! is decided on the very bag that is replaced.

mod read;
mod write;

use tokio::time::Instant;

use super::bag::BagOperation;
use super::operation::Reply;
use super::{Caller, PageRenderer, Service, ServiceError};
use crate::actors::ResolveError;
use crate::domain::{EntityType, FeatureId};
use crate::metadata::MetadataError;
use crate::metadata::catalog::CatalogVersion;

impl<R: PageRenderer> Service<R> {
    pub(super) async fn execute_bag(&self, caller: &Caller, operation: BagOperation) -> Result<Reply, ServiceError> {
        match operation {
            BagOperation::Get { entity, lists } => self.get_bag(caller, entity, lists).await,
            BagOperation::Put { entity, document, conditions } => {
                self.put_bag(caller, entity, document, conditions).await
            }
            BagOperation::Patch { entity, patch, conditions } => {
                self.patch_bag(caller, entity, patch, conditions).await
            }
            BagOperation::Delete { entity, conditions } => self.delete_bag(caller, entity, conditions).await,
            BagOperation::Create { entity_type, document } => self.create_bag(caller, entity_type, document).await,
            BagOperation::List { entity_type, page_size, page_token } => {
                self.list_bags(caller, entity_type, page_size, page_token).await
            }
            BagOperation::BatchGet { entities, lists } => self.batch_get_bags(caller, entities, lists).await,
        }
    }

    /// What there is to know of the bags of an entity type.
    pub(super) async fn bags_of(
        &self,
        entity_type: &EntityType,
        deadline: Instant,
    ) -> Result<CatalogVersion, ServiceError> {
        let bags = FeatureId::of_bags(entity_type.clone());
        let found = self.metadata.resolve(entity_type.as_str(), bags.name.as_str(), "", deadline).await;
        found.map_err(|error| match error {
            ResolveError::FeatureNotFound | ResolveError::VersionNotFound => MetadataError::not_found(bags).into(),
            ResolveError::Unavailable { reason } => ServiceError::CatalogUnavailable { reason },
        })
    }
}
