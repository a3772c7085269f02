//! The control plane: list features, their versions and their history.

use tokio::time::timeout;

use super::operation::Reply;
use super::{Caller, PageRenderer, Service, ServiceError};
use crate::domain::page::{FeatureWalk, HistoryWalk};
use crate::domain::{Feature, FeatureId, Limit, Timestamp, Ttl, VersionLabel};
use crate::metadata::{FeatureFilter, FeaturePatch, MetadataError, NewFeature, NewVersion, Precondition, VersionPatch};

/// What a caller who left too early may believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changes {
    Nothing,
    Definitions,
}

/// Waits for the metadata handle, which has a deadline of its own, or for less if the caller asks so.
async fn within<T>(
    caller: &Caller,
    changes: Changes,
    asked: impl Future<Output = Result<T, MetadataError>>,
) -> Result<T, ServiceError> {
    let Some(time) = caller.timeout else { return Ok(asked.await?) };
    match timeout(time, asked).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(ServiceError::DeadlineExceeded { outcome_unknown: changes == Changes::Definitions }),
    }
}

impl<R: PageRenderer> Service<R> {
    pub(super) async fn list_features(
        &self,
        caller: &Caller,
        filter: FeatureFilter,
        page_size: Limit,
        page_token: Option<impl AsRef<str>>,
    ) -> Result<Reply, ServiceError> {
        let entity_type = filter.entity_type.clone();
        let text = filter.text.clone();
        let walk = FeatureWalk { entity_type: entity_type.as_ref(), text: text.as_deref() };
        let after = page_token
            .map(|token| walk.resume(token.as_ref()))
            .transpose()
            .map_err(ServiceError::invalid("page_token"))?;
        let page = within(caller, Changes::Nothing, self.metadata.features(filter, after, page_size)).await?;
        let last = page.entries.last().filter(|_| page.more);
        let next_page_token = last.map(|feature| walk.token_after(&feature.id));
        Ok(Reply::Features { features: page.entries, next_page_token })
    }

    pub(super) async fn create_feature(&self, caller: &Caller, new: NewFeature) -> Result<Reply, ServiceError> {
        let by = caller.author();
        let created = self.metadata.create_feature(new, by);
        within(caller, Changes::Definitions, created).await.map(Box::new).map(Reply::Feature)
    }

    pub(super) async fn get_feature(&self, caller: &Caller, id: FeatureId) -> Result<Reply, ServiceError> {
        self.feature(caller, id).await.map(Box::new).map(Reply::Feature)
    }

    pub(super) async fn update_feature(
        &self,
        caller: &Caller,
        id: FeatureId,
        patch: FeaturePatch,
        condition: Precondition,
    ) -> Result<Reply, ServiceError> {
        let by = caller.author();
        let updated = self.metadata.update_feature(id, patch, condition, by);
        within(caller, Changes::Definitions, updated).await.map(Box::new).map(Reply::Feature)
    }

    pub(super) async fn delete_feature(
        &self,
        caller: &Caller,
        id: FeatureId,
        condition: Precondition,
    ) -> Result<Reply, ServiceError> {
        let by = caller.author();
        let deleted = self.metadata.delete_feature(id, condition, by);
        let ttl_max = within(caller, Changes::Definitions, deleted).await?;
        Ok(Reply::Deleted { items_expire_by: self.items_expire_by(ttl_max) })
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
        let page = page.ok_or_else(|| MetadataError::FeatureNotFound(id.clone()))?;
        let last = page.entries.last().filter(|_| page.more);
        let next_page_token = last.map(|entry| walk.token_after(entry.revision));
        Ok(Reply::History { entries: page.entries, next_page_token })
    }

    pub(super) async fn create_version(
        &self,
        caller: &Caller,
        id: FeatureId,
        new: NewVersion,
    ) -> Result<Reply, ServiceError> {
        let by = caller.author();
        let created = self.metadata.create_version(id.clone(), new, by);
        let version = within(caller, Changes::Definitions, created).await?;
        Ok(Reply::Version { feature: id, version })
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

    pub(super) async fn update_version(
        &self,
        caller: &Caller,
        id: FeatureId,
        version: VersionLabel,
        patch: VersionPatch,
        condition: Precondition,
    ) -> Result<Reply, ServiceError> {
        let by = caller.author();
        let updated = self.metadata.update_version(id.clone(), version, patch, condition, by);
        let version = within(caller, Changes::Definitions, updated).await?;
        Ok(Reply::Version { feature: id, version })
    }

    pub(super) async fn delete_version(
        &self,
        caller: &Caller,
        id: FeatureId,
        version: VersionLabel,
        condition: Precondition,
    ) -> Result<Reply, ServiceError> {
        let by = caller.author();
        let deleted = self.metadata.delete_version(id, version, condition, by);
        let ttl_max = within(caller, Changes::Definitions, deleted).await?;
        Ok(Reply::Deleted { items_expire_by: self.items_expire_by(ttl_max) })
    }

    async fn feature(&self, caller: &Caller, id: FeatureId) -> Result<Feature, ServiceError> {
        let feature = within(caller, Changes::Nothing, self.metadata.feature(id.clone())).await?;
        Ok(feature.ok_or(MetadataError::FeatureNotFound(id))?)
    }

    /// When the last items of what was deleted just now are gone: other servers may take adds until
    /// their catalogs follow.
    fn items_expire_by(&self, ttl_max: Ttl) -> Timestamp {
        let lifetime = ttl_max.as_duration() + self.options.poll_interval;
        Timestamp::saturating_from_nanos(u128::from(self.clock.now().as_nanos()) + lifetime.as_nanos())
    }
}
