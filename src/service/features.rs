//! The control plane: list features, their versions and their history, and entity types, which are kept as features.

use super::operation::Reply;
use super::page_end::{AROUND_BYTES, end_early, json_bytes};
use super::{Caller, Changes, Service, ServiceError, within};
use crate::access::{Permission, Resource, decide};
use crate::domain::page::{FeatureWalk, HistoryWalk};
use crate::domain::{Feature, FeatureId, Limit, VersionLabel};
use crate::metadata::{Applied, Change, FeatureFilter, MetadataError, NewFeature, Page, VersionChanged};
use crate::wire;

impl Service {
    pub(super) async fn list_features(
        &self,
        caller: &Caller,
        filter: FeatureFilter,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
    ) -> Result<Reply, ServiceError> {
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
        Ok(Reply::Features { of_bags, features: page.entries, next_page_token })
    }

    /// A page of the features that the caller may see. Where that is not all of them, those in between are
    /// passed over here: neither a count nor a page token may tell of them.
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
    async fn change(&self, caller: &Caller, change: Change) -> Result<Applied, ServiceError> {
        within(caller, Changes::Definitions, self.metadata.apply(change, caller.author())).await
    }

    /// Creates a feature. Only the body names it, so the permission for it is decided on here.
    pub(super) async fn create_feature(&self, caller: &Caller, new: NewFeature) -> Result<Reply, ServiceError> {
        let FeatureId { entity_type, name } = &new.id;
        let resource = match new.id.is_of_bags() {
            true => Resource::EntityType(entity_type.as_str()),
            false => Resource::Feature { entity_type: entity_type.as_str(), feature: name.as_str() },
        };
        decide(&caller.principal, Permission::FeaturesWrite, resource)?;
        self.change_feature(caller, Change::CreateFeature(new)).await
    }

    /// Creates or updates a feature.
    pub(super) async fn change_feature(&self, caller: &Caller, change: Change) -> Result<Reply, ServiceError> {
        let feature = self.change(caller, change).await?.into_feature()?;
        Ok(Reply::Feature(Box::new(feature)))
    }

    /// Creates or updates a version.
    pub(super) async fn change_version(&self, caller: &Caller, change: Change) -> Result<Reply, ServiceError> {
        let VersionChanged { version, feature } = self.change(caller, change).await?.into_version()?;
        Ok(Reply::Version { feature: feature.id, version })
    }

    /// Deletes a feature or a version.
    pub(super) async fn delete(&self, caller: &Caller, change: Change) -> Result<Reply, ServiceError> {
        let deleted = self.change(caller, change).await?.into_deleted()?;
        let items_expire_by = deleted.items_expire_by(self.clock.now(), self.options.poll_interval);
        Ok(Reply::Deleted { items_expire_by })
    }

    pub(super) async fn get_feature(&self, caller: &Caller, id: FeatureId) -> Result<Reply, ServiceError> {
        self.feature(caller, id).await.map(Box::new).map(Reply::Feature)
    }

    pub(super) async fn get_history(
        &self,
        caller: &Caller,
        id: FeatureId,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
    ) -> Result<Reply, ServiceError> {
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
        Ok(Reply::History { entries: page.entries, next_page_token })
    }

    pub(super) async fn get_version(
        &self,
        caller: &Caller,
        id: FeatureId,
        version: VersionLabel,
    ) -> Result<Reply, ServiceError> {
        let mut feature = self.feature(caller, id).await?;
        let found = feature.versions.iter().position(|known| known.version == version);
        let Some(found) = found else { return Err(MetadataError::VersionNotFound(feature.id, version).into()) };
        Ok(Reply::Version { feature: feature.id, version: feature.versions.swap_remove(found) })
    }

    async fn feature(&self, caller: &Caller, id: FeatureId) -> Result<Feature, ServiceError> {
        let feature = within(caller, Changes::Nothing, self.metadata.feature(id.clone())).await?;
        Ok(feature.ok_or(MetadataError::not_found(id))?)
    }
}
