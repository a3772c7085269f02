//! Get a version.

use liststore_contract::operations::get_version::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::FeatureVersion;
use crate::domain::{FeatureId, VersionLabel};
use crate::metadata::MetadataError;
use crate::service::{Caller, Service, ServiceError};

/// Get a version of a feature.
pub struct GetVersion {
    id: FeatureId,
    version: VersionLabel,
}

impl Operation for GetVersion {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = FeatureVersion;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let (version, id) = (call.version_label()?, call.feature_id()?);
        Ok(Self { id, version })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<FeatureVersion, ServiceError> {
        let Self { id, version } = request;
        let mut feature = service.feature(caller, id).await?;
        let found = feature.versions.iter().position(|known| known.version == version);
        let Some(found) = found else { return Err(MetadataError::VersionNotFound(feature.id, version).into()) };
        Ok(feature.versions.swap_remove(found))
    }

    fn reply(call: &Call<'_>, version: FeatureVersion) -> HandlerResult {
        reply::version(call.response(), &version)
    }
}
