//! Delete an index.

use liststore_contract::operations::delete_index::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::if_match;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::domain::{EntityType, FeatureId, VersionLabel};
use crate::metadata::jobs::TaskKind;
use crate::metadata::{Change, Precondition};
use crate::service::{Caller, Changes, Service, ServiceError, StepFailure, to_its_end, within};

/// Delete an index. From then on, nothing is entered into it and nothing is found by it. A job clears its entries.
pub struct DeleteIndex {
    entity_type: EntityType,
    name: VersionLabel,
    condition: Precondition,
}

impl Operation for DeleteIndex {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = ();

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let condition = if_match(call.headers)?;
        Ok(Self { entity_type: call.entity_type()?, name: call.index_name()?, condition })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<(), ServiceError> {
        let Self { entity_type, name, condition } = request;
        let id = FeatureId::of_bags(entity_type);
        let (jobs, metadata, by) = (service.jobs.clone(), service.metadata.clone(), caller.author());
        let deleting = async move {
            // Only the job clears its entries: so the job begins in the same change.
            let job = jobs.id_for(TaskKind::DropIndex).await.map_err(StepFailure::AtFirst)?;
            let change = Change::DeleteIndex { id, name, condition, job };
            metadata.apply(change, by).await.map_err(StepFailure::AtFirst)?;
            jobs.wake();
            Ok(())
        };
        within(caller, Changes::Definitions, to_its_end(deleting)).await?;
        Ok(())
    }

    fn reply(call: &Call<'_>, _deleted: ()) -> HandlerResult {
        Ok(call.response())
    }
}
