//! The data plane of bags: one document of properties for an entity, next to its lists.
//!
//! A write reads the bag, decides by it, and swaps the bag that it read. If another write came first, it starts again,
//! as long as the caller waits. So conditions and merges are decided on the bag that is replaced.

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

/// Bags of one call that are read concurrently through their actors.
const READ_AT_ONCE: usize = 16;

impl Service {
    /// Reserves memory for some bags of the maximum length, in addition to the bytes that an answer already has.
    /// Returns how many of the bags have memory, at least one.
    pub(super) fn reserve_bags(&self, caller: &Caller, bytes: usize, bags: usize) -> Result<usize, ServiceError> {
        // Any budget has room for this.
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

    /// The definition of the bags of an entity type.
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
