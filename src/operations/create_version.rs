//! Create List Feature Version.

use actix_web::http::header::LOCATION;
use liststore_contract::operations::create_version::{ROW, VersionInput};
use liststore_contract::operations::get_version;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::FeatureId;
use crate::metadata::{Change, NewVersion, VersionChanged};
use crate::service::{Caller, Service, ServiceError};

/// Create a version of a feature.
pub struct CreateVersion {
    id: FeatureId,
    new: NewVersion,
}

impl Operation for CreateVersion {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = VersionChanged;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let id = call.feature_id()?;
        let VersionInput { version, properties, description } = VersionInput::read(&call.body)?;
        let new = NewVersion { version, properties, index: None, description: description.unwrap_or_default() };
        Ok(Self { id, new })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<VersionChanged, ServiceError> {
        let Self { id, new } = request;
        Ok(service.change(caller, Change::CreateVersion { id, new }).await?.into_version()?)
    }

    fn reply(call: &Call<'_>, changed: VersionChanged) -> HandlerResult {
        let FeatureId { entity_type, name } = &changed.feature.id;
        let names = [entity_type.as_str(), name.as_str(), changed.version.version.as_str()];
        reply::version(call.response().with_text(LOCATION, get_version::ROW.path_of(&names))?, &changed.version)
    }
}
