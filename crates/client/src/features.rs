//! Definitions of list features.

use liststore_contract::domain::FeatureId;
use liststore_contract::operations::create_feature::FeatureInput;
use liststore_contract::operations::update_feature::FeaturePatch;
use liststore_contract::operations::{create_feature, delete_feature, get_feature, list_features, update_feature};
use liststore_contract::wire::parameters::{ENTITY_TYPE, PAGE_TOKEN};
use liststore_contract::wire::{Deleted, ErrorCode, Feature};
use serde::Deserialize;

use super::error::ClientError;
use super::{Client, Request};

/// A page of features, ordered by entity type, then by name.
#[derive(Debug, Deserialize)]
pub struct FeaturePage {
    pub features: Vec<Feature>,
    /// Present if more features follow.
    pub next_page_token: Option<String>,
}

impl Client {
    /// Creates a feature with its default version.
    pub async fn create_feature(&self, definition: &FeatureInput) -> Result<Feature, ClientError> {
        self.ask(&Request::new(&create_feature::ROW, &[]).body(definition)?).await
    }

    /// A feature with all its versions; none if there is none of that name.
    pub async fn feature(&self, id: &FeatureId) -> Result<Option<Feature>, ClientError> {
        match self.ask(&Request::of_feature(&get_feature::ROW, id)).await {
            Ok(feature) => Ok(Some(feature)),
            Err(error) if error.has_code(ErrorCode::FeatureNotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A page of features, of one entity type or of all.
    pub async fn features(
        &self,
        entity_type: Option<&str>,
        page_token: Option<&str>,
    ) -> Result<FeaturePage, ClientError> {
        let request = Request::new(&list_features::ROW, &[]);
        self.ask(&request.query(&ENTITY_TYPE, entity_type).query(&PAGE_TOKEN, page_token)).await
    }

    /// Changes a feature. Fields that the patch omits stay unchanged.
    pub async fn update_feature(&self, id: &FeatureId, patch: &FeaturePatch) -> Result<Feature, ClientError> {
        self.ask(&Request::of_feature(&update_feature::ROW, id).body(patch)?).await
    }

    /// Deletes a feature with all its versions. Its items expire automatically.
    pub async fn delete_feature(&self, id: &FeatureId) -> Result<Deleted, ClientError> {
        self.ask(&Request::of_feature(&delete_feature::ROW, id)).await
    }
}
