//! The data plane of bags: one document of properties an entity, beside its lists.
//!
//! A bag is written by reading it, deciding what becomes of it, and swapping it for what was read: if another write
//! came first, that is begun again, for as long as the caller waits. So whatever is decided on, conditions and merges,
//! is decided on the very bag that is replaced.

mod read;
mod write;

use tokio::time::Instant;

use super::{Caller, Service, ServiceError};
use crate::access::ANSWER_BYTES_MIN;
use crate::actors::ResolveError;
use crate::domain::document::DOCUMENT_BYTES_MAX;
use crate::domain::{EntityType, FeatureId};
use crate::metadata::MetadataError;
use crate::metadata::catalog::CatalogVersion;

/// Bags of one call that are read through their actors at once.
const READ_AT_ONCE: usize = 16;

impl Service {
    /// Reserves memory for some bags, however long they are, beside bytes that an answer has already. Returns how many
    /// of so many bags have it, at least one.
    pub(super) fn reserve_bags(&self, caller: &Caller, bytes: usize, bags: usize) -> Result<usize, ServiceError> {
        // Any budget has room for so much.
        let most = self.options.page_bytes_max.max(ANSWER_BYTES_MIN);
        let fitting = most.saturating_sub(bytes) / DOCUMENT_BYTES_MAX;
        let mut part = bags.min(READ_AT_ONCE).min(fitting).max(1);
        while let Err(lack) = self.reserve(caller, (bytes + part * DOCUMENT_BYTES_MAX).min(most)) {
            if part == 1 {
                return Err(lack);
            }
            part /= 2;
        }
        Ok(part)
    }

    /// What there is to know of the bags of an entity type.
    pub(crate) async fn bags_of(
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
