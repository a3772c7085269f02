//! Change a version.

use liststore_contract::operations::update_version::{ROW, VersionPatch};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::if_match;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::definition::FeatureVersion;
use crate::domain::{FeatureId, VersionLabel};
use crate::metadata::{self, Change, Precondition};
use crate::service::{Caller, Service, ServiceError};

/// Change a version of a feature.
pub struct UpdateVersion {
    id: FeatureId,
    version: VersionLabel,
    patch: metadata::VersionPatch,
    condition: Precondition,
}

impl Operation for UpdateVersion {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = FeatureVersion;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let condition = if_match(call.headers)?;
        let (id, version) = (call.feature_id()?, call.version_label()?);
        let patch = VersionPatch::read(&call.body)?;
        Ok(Self { id, version, patch, condition })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<FeatureVersion, ServiceError> {
        let Self { id, version, patch, condition } = request;
        let change = Change::UpdateVersion { id, version, patch, condition };
        Ok(service.change(caller, change).await?.into_version()?.version)
    }

    fn reply(call: &Call<'_>, version: FeatureVersion) -> HandlerResult {
        reply::version(call.response(), &version)
    }
}
