//! Finds the lists that no client can read, because their feature or version was deleted.
//!
//! Two sources must agree. The metadata store must report that the generation existed and was deleted. A store with
//! shared definitions never reports that, because it may be behind other servers or restored to an earlier state. The
//! catalog must show no list under this key. Alone it is not enough, because it may be older.

use std::sync::Arc;

use crate::domain::FeatureKey;
use crate::items::IsUnreachable;
use crate::metadata::{Catalog, MetadataStore};

/// Holds only a weak reference to the metadata store: a thread of the item store may hold this value after the server
/// has stopped.
pub(super) fn lists(catalog: Catalog, metadata: &Arc<dyn MetadataStore>) -> IsUnreachable {
    let metadata = Arc::downgrade(metadata);
    Arc::new(move |key| {
        let Some(metadata) = metadata.upgrade() else { return false };
        let Some((id, label, generation)) = FeatureKey::parse(key) else { return false };
        let Some(snapshot) = catalog.snapshot().filter(|snapshot| !snapshot.is_stored()) else { return false };
        let present = snapshot.version(id.entity_type.as_str(), id.name.as_str(), label.as_str());
        let is_shown = present.is_ok_and(|present| present.feature_key.as_str() == key);
        !is_shown && !metadata.is_shared() && metadata.is_past(&id, &label, generation)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::VersionProperties;
    use crate::domain::{Author, EntityType, FeatureId, FeatureName, Timestamp, Ttl, ValueType};
    use crate::metadata::memory::memory_store;
    use crate::metadata::{Calls, ChangeContext, NewFeature, Precondition};

    #[tokio::test]
    async fn only_deleted_generations_outside_the_catalog_are_unreachable() {
        let metadata: Arc<dyn MetadataStore> = Arc::new(memory_store());
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let context = || ChangeContext { by: Author::anonymous(), at: Timestamp::MIN };
        let new = || NewFeature {
            id: id.clone(),
            value_type: ValueType::String,
            properties: VersionProperties { ttl: Ttl::from_secs(60).unwrap(), ..VersionProperties::default() },
            description: Default::default(),
            owner: Default::default(),
            labels: Default::default(),
        };
        let catalog = Catalog::default();
        let unreachable = lists(catalog.clone(), &metadata);
        let publish = async || catalog.publish(&metadata.definitions().await.unwrap(), Timestamp::MIN);
        let keys = ["user#seen|", "user#seen|~2", "user#seen|~3", "user#seen|v", "user#other|", "?"];
        let reported = || keys.map(|key| unreachable(key));

        metadata.create_feature(new(), context()).await.unwrap();
        metadata.delete_feature(&id, Precondition::None, context()).await.unwrap();
        assert_eq!(reported(), [false; 6], "before there is a catalog");
        publish().await;
        assert_eq!(reported(), [true, false, false, false, false, false]);
        metadata.create_feature(new(), context()).await.unwrap();
        assert_eq!(reported(), [true, false, false, false, false, false], "the catalog does not know it yet");
        publish().await;
        assert_eq!(reported(), [true, false, false, false, false, false]);
        metadata.delete_feature(&id, Precondition::None, context()).await.unwrap();
        assert_eq!(reported(), [true, false, false, false, false, false], "the catalog still shows it");
        publish().await;
        assert_eq!(reported(), [true, true, false, false, false, false]);
    }
}
