//! List the indexes of an entity type.

use liststore_contract::operations::list_indexes::{IndexList, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::EntityType;
use crate::service::{Caller, IndexView, Service, ServiceError};

pub struct ListIndexes;

impl Operation for ListIndexes {
    const ROW: &'static Row = &ROW;
    type Request<'r> = EntityType;
    type Reply = Vec<IndexView>;

    fn read(call: &Call<'_>) -> Result<EntityType, Problem> {
        call.entity_type()
    }

    async fn run(service: &Service, caller: &Caller, of: EntityType) -> Result<Vec<IndexView>, ServiceError> {
        service.indexes(caller, of).await
    }

    fn reply(call: &Call<'_>, indexes: Vec<IndexView>) -> HandlerResult {
        call.json(&IndexList { indexes: indexes.iter().map(reply::index_shown).collect() })
    }
}
