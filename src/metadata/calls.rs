//! Each change as a separate call with its result, for callers that hold a store and not the actor, such as the
//! conformance suite.

use async_trait::async_trait;

use super::{
    Change, ChangeContext, Deleted, FeaturePatch, MetadataError, MetadataStore, NewFeature, NewVersion, Precondition,
    VersionChanged, VersionPatch,
};
use crate::definition::Feature;
use crate::domain::{FeatureId, VersionLabel};

#[async_trait]
pub trait Calls {
    async fn create_feature(&self, new: NewFeature, context: ChangeContext) -> Result<Feature, MetadataError>;

    async fn update_feature(
        &self,
        id: &FeatureId,
        patch: FeaturePatch,
        condition: Precondition,
        context: ChangeContext,
    ) -> Result<Feature, MetadataError>;

    async fn delete_feature(
        &self,
        id: &FeatureId,
        condition: Precondition,
        context: ChangeContext,
    ) -> Result<Deleted, MetadataError>;

    async fn create_version(
        &self,
        id: &FeatureId,
        new: NewVersion,
        context: ChangeContext,
    ) -> Result<VersionChanged, MetadataError>;

    async fn update_version(
        &self,
        id: &FeatureId,
        version: &VersionLabel,
        patch: VersionPatch,
        condition: Precondition,
        context: ChangeContext,
    ) -> Result<VersionChanged, MetadataError>;

    async fn delete_version(
        &self,
        id: &FeatureId,
        version: &VersionLabel,
        condition: Precondition,
        context: ChangeContext,
    ) -> Result<Deleted, MetadataError>;
}

#[async_trait]
impl<S: MetadataStore + ?Sized> Calls for S {
    async fn create_feature(&self, new: NewFeature, context: ChangeContext) -> Result<Feature, MetadataError> {
        self.apply(Change::CreateFeature(new), context).await?.into_feature()
    }

    async fn update_feature(
        &self,
        id: &FeatureId,
        patch: FeaturePatch,
        condition: Precondition,
        context: ChangeContext,
    ) -> Result<Feature, MetadataError> {
        let change = Change::UpdateFeature { id: id.clone(), patch, condition };
        self.apply(change, context).await?.into_feature()
    }

    async fn delete_feature(
        &self,
        id: &FeatureId,
        condition: Precondition,
        context: ChangeContext,
    ) -> Result<Deleted, MetadataError> {
        self.apply(Change::DeleteFeature { id: id.clone(), condition }, context).await?.into_deleted()
    }

    async fn create_version(
        &self,
        id: &FeatureId,
        new: NewVersion,
        context: ChangeContext,
    ) -> Result<VersionChanged, MetadataError> {
        self.apply(Change::CreateVersion { id: id.clone(), new }, context).await?.into_version()
    }

    async fn update_version(
        &self,
        id: &FeatureId,
        version: &VersionLabel,
        patch: VersionPatch,
        condition: Precondition,
        context: ChangeContext,
    ) -> Result<VersionChanged, MetadataError> {
        let change = Change::UpdateVersion { id: id.clone(), version: version.clone(), patch, condition };
        self.apply(change, context).await?.into_version()
    }

    async fn delete_version(
        &self,
        id: &FeatureId,
        version: &VersionLabel,
        condition: Precondition,
        context: ChangeContext,
    ) -> Result<Deleted, MetadataError> {
        let change = Change::DeleteVersion { id: id.clone(), version: version.clone(), condition };
        self.apply(change, context).await?.into_deleted()
    }
}
