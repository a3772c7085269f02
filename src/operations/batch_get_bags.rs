//! Get many bags.

use liststore_contract::operations::batch_get_bags::{BagRequest, BatchGetBagsInput, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::joined_lists;
use crate::api::reply::bag_texts;
use crate::service::{Bag, Caller, EntityName, JoinedLists, Service, ServiceError};
use crate::wire::BATCH_BAGS_MAX;
use crate::wire::parameters::JOINED_LISTS;

/// Get many bags.
pub struct BatchGetBags {
    entities: Vec<Result<EntityName, ServiceError>>,
    joined: JoinedLists,
}

impl Operation for BatchGetBags {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    /// One result for each request, in order.
    type Reply = Vec<Result<Bag, ServiceError>>;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let [lists, int64_as] = call.query(&QUERY)?;
        let mut joined = joined_lists(lists.as_deref(), int64_as.as_deref())?;
        let (requests, aggregates) = BatchGetBagsInput::read(&call.body)?;
        joined.aggregates = aggregates.into_iter().collect();
        if requests.len() * joined.count() > BATCH_BAGS_MAX {
            let detail = format!("a call reads at most {BATCH_BAGS_MAX} lists with its bags: split the request");
            let field = if joined.lists.is_empty() { "aggregates" } else { JOINED_LISTS.name };
            return Err(Problem::argument(field, detail));
        }
        let entity =
            |request: BagRequest| EntityName { entity_type: request.entity_type, entity_id: request.entity_id };
        let entities = requests.into_iter().map(|request| match request {
            Ok(request) => Ok(entity(request)),
            Err(problem) => Err(ServiceError::malformed(&problem)),
        });
        Ok(Self { entities: entities.collect(), joined })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Self::Reply, ServiceError> {
        service.batch_get_bags(caller, request.entities, request.joined).await
    }

    fn reply(call: &Call<'_>, bags: Self::Reply) -> HandlerResult {
        Ok(json_text(call.response(), bag_texts(call, bags)?))
    }
}
