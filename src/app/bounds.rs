//! The largest number of items that a list shows, for stores that free the space of surplus items.

use std::sync::Arc;

use super::unreachable;
use crate::domain::FeatureKey;
use crate::items::{BoundOf, ItemStore};
use crate::metadata::{Catalog, MetadataStore};

/// Lets a store find the items whose space it may free.
pub(super) fn provide(items: &Arc<dyn ItemStore>, catalog: &Catalog, definitions: &Arc<dyn MetadataStore>) {
    let Some(reclaim) = Arc::clone(items).abilities().reclaim else { return };
    reclaim.bound(of_lists(catalog.clone()));
    reclaim.forget(unreachable::lists(catalog.clone(), definitions));
}

/// The bounds in the definitions that reads use now. Definitions that an earlier process stored on disk do not count,
/// because their bounds may have been raised since.
fn of_lists(catalog: Catalog) -> BoundOf {
    Arc::new(move |key| {
        let (id, label, _) = FeatureKey::parse(key)?;
        let snapshot = catalog.snapshot().filter(|snapshot| !snapshot.is_stored())?;
        let found = snapshot.version(id.entity_type.as_str(), id.name.as_str(), label.as_str()).ok()?;
        let retention = (found.feature_key.as_str() == key).then_some(found.properties.retention())?;
        Some((retention.ttl, retention.max_items?))
    })
}
