//! The control plane: list features, their versions and their history, and entity types, which are kept as features.

use super::page_end::{AROUND_BYTES, end_early, json_bytes};
use super::{Caller, Changes, Listed, Service, ServiceError, within};
use crate::access::{Permission, Resource, decide};
use crate::definition::Feature;
use crate::domain::page::{FeatureWalk, HistoryWalk};
use crate::domain::{FeatureId, Limit, Timestamp};
use crate::metadata::{Applied, Change, FeatureFilter, HistoryEntry, MetadataError, Page};
use crate::wire;

impl Service {
    pub(crate) async fn list_features(
        &self,
        caller: &Caller,
        filter: FeatureFilter,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
    ) -> Result<Listed<Feature>, ServiceError> {
        let entity_type = filter.entity_type.clone();
        let text = filter.text.clone();
        let of_bags = filter.of_bags;
        let walk = FeatureWalk { of_bags, entity_type: entity_type.as_ref(), text: text.as_deref() };
        let after = page_token
            .map(|token| walk.resume(token.as_ref()))
            .transpose()
            .map_err(ServiceError::invalid("page_token"))?;
        let mut page =
            within(caller, Changes::Nothing, self.visible_features(caller, filter, after, page_size)).await?;
        page.more |= end_early(&mut page.entries, self.options.page_bytes_max, |feature| {
            if of_bags {
                json_bytes(&wire::EntityType::from(feature))
            } else {
                json_bytes(&wire::Feature::from(feature))
            }
        });
        let last = page.entries.last().filter(|_| page.more);
        let next_page_token = last.map(|feature| walk.token_after(&feature.id));
        Ok((page.entries, next_page_token))
    }

    /// A page of the features that the caller may see. Other features are filtered here, so that neither a count nor a
    /// page token reveals them.
    async fn visible_features(
        &self,
        caller: &Caller,
        filter: FeatureFilter,
        mut after: Option<FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        if decide(&caller.principal, Permission::FeaturesRead, Resource::Whole).is_ok() {
            return self.metadata.features(filter, after, page_size).await;
        }
        let is_visible = |feature: &Feature| {
            let (entity_type, name) = (feature.id.entity_type.as_str(), feature.id.name.as_str());
            let resource = Resource::Feature { entity_type, feature: name };
            decide(&caller.principal, Permission::FeaturesRead, resource).is_ok()
        };
        let mut entries = Vec::new();
        loop {
            let page = self.metadata.features(filter.clone(), after, Limit::LARGEST_PAGE).await?;
            after = page.entries.last().map(|feature| feature.id.clone());
            entries.extend(page.entries.into_iter().filter(&is_visible));
            if !page.more || entries.len() > page_size.get() {
                let more = entries.len() > page_size.get();
                entries.truncate(page_size.get());
                return Ok(Page { entries, more });
            }
        }
    }

    /// Makes a change of a definition.
    pub(crate) async fn change(&self, caller: &Caller, change: Change) -> Result<Applied, ServiceError> {
        within(caller, Changes::Definitions, self.metadata.apply(change, caller.author())).await
    }

    /// Deletes a feature or a version. Returns about when the last items will have expired.
    pub(crate) async fn delete(&self, caller: &Caller, change: Change) -> Result<Timestamp, ServiceError> {
        let deleted = self.change(caller, change).await?.into_deleted()?;
        Ok(deleted.items_expire_by(self.clock.now(), self.options.poll_interval))
    }

    pub(crate) async fn get_history(
        &self,
        caller: &Caller,
        id: FeatureId,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
    ) -> Result<Listed<HistoryEntry>, ServiceError> {
        let walk = HistoryWalk(&id);
        let before = page_token
            .map(|token| walk.resume(token.as_ref()))
            .transpose()
            .map_err(ServiceError::invalid("page_token"))?;
        let page = within(caller, Changes::Nothing, self.metadata.history(id.clone(), before, page_size)).await?;
        let mut page = page.ok_or_else(|| MetadataError::not_found(id.clone()))?;
        page.more |= end_early(&mut page.entries, self.options.page_bytes_max, |entry| {
            AROUND_BYTES + json_bytes(&(&entry.before, &entry.after))
        });
        let last = page.entries.last().filter(|_| page.more);
        let next_page_token = last.map(|entry| walk.token_after(entry.revision));
        Ok((page.entries, next_page_token))
    }

    pub(crate) async fn feature(&self, caller: &Caller, id: FeatureId) -> Result<Feature, ServiceError> {
        let feature = within(caller, Changes::Nothing, self.metadata.feature(id.clone())).await?;
        Ok(feature.ok_or(MetadataError::not_found(id))?)
    }
}
