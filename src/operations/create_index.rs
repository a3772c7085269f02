//! Create an index of bags.

use actix_web::http::header::LOCATION;
use liststore_contract::operations::create_index::{IndexInput, ROW};
use liststore_contract::operations::get_index;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::{EntityType, FeatureId, IndexSpec, VersionLabel};
use crate::metadata::{Change, NewVersion, VersionChanged};
use crate::service::{Caller, Changes, IndexView, Service, ServiceError, within};

/// Create an index of bags.
pub struct CreateIndex {
    entity_type: EntityType,
    name: VersionLabel,
    spec: IndexSpec,
}

impl Operation for CreateIndex {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = IndexView;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let entity_type = call.entity_type()?;
        let (name, spec) = IndexInput::read(&call.body)?.spec()?;
        Ok(Self { entity_type, name, spec })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<IndexView, ServiceError> {
        let Self { entity_type, name, spec } = request;
        let id = FeatureId::of_bags(entity_type);
        let change = Change::CreateVersion { id, new: NewVersion::index(name, spec) };
        let applied = within(caller, Changes::Definitions, service.metadata.apply(change, caller.author())).await?;
        let VersionChanged { version, .. } = applied.into_version()?;
        service.jobs.wake();
        Ok(IndexView::of(version, None, None, None))
    }

    fn reply(call: &Call<'_>, index: IndexView) -> HandlerResult {
        let path = get_index::ROW.path_of(&[&call.segments[0], index.name.as_str()]);
        reply::index(call.response().with_text(LOCATION, path)?, &index)
    }
}
