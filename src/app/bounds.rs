//! How many items lists show at most, for stores that give back the room of the others.

use crate::domain::FeatureKey;
use crate::items::BoundOf;
use crate::metadata::Catalog;

/// By the definitions that reads go by at present. Those that an earlier process has kept on disk do not
/// count: what they bound may have been raised since.
pub(super) fn of_lists(catalog: Catalog) -> BoundOf {
    std::sync::Arc::new(move |key| {
        let (id, label, _) = FeatureKey::parse(key)?;
        let snapshot = catalog.snapshot().filter(|snapshot| !snapshot.is_stored())?;
        let found = snapshot.version(id.entity_type.as_str(), id.name.as_str(), label.as_str()).ok()?;
        let retention = (found.feature_key.as_str() == key).then_some(found.retention)?;
        Some((retention.ttl, retention.max_items?))
    })
}
