//! Add List Items to many lists.

use std::borrow::Cow;

use liststore_contract::operations::batch_add::{AddRequest, AddResult, BatchAddInput, BatchAddResults, ROW};
use liststore_contract::row::Row;

use crate::actors::AddOutcome;
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply::{self, failed};
use crate::service::{AddItems, Caller, ListName, Service, ServiceError};

pub struct BatchAdd;

impl Operation for BatchAdd {
    const ROW: &'static Row = &ROW;
    type Request<'r> = BatchAddInput<'r>;
    /// One result for each request, in order.
    type Reply = Vec<Result<AddOutcome, ServiceError>>;

    fn read<'r>(call: &'r Call<'_>) -> Result<BatchAddInput<'r>, Problem> {
        BatchAddInput::read(&call.body)
    }

    async fn run(service: &Service, caller: &Caller, input: BatchAddInput<'_>) -> Result<Self::Reply, ServiceError> {
        let mut requests = input.requests;
        let requests = requests.iter_mut().map(|request| {
            let AddRequest { entity_type, feature, version, entity_id, items } =
                request.as_mut().map_err(|problem| ServiceError::malformed(problem))?;
            let version = Cow::Borrowed(&**version);
            let list = ListName { entity_type, feature, version, entity_id: entity_id.clone() };
            Ok(AddItems { list, items: std::mem::take(items) })
        });
        service.batch_add(caller, requests.collect()).await
    }

    fn reply(call: &Call<'_>, outcomes: Self::Reply) -> HandlerResult {
        let result = |(index, outcome): (usize, Result<AddOutcome, ServiceError>)| match outcome {
            Ok(outcome) => AddResult::Added(reply::added(call, &outcome)),
            Err(error) => AddResult::Failed(failed(call, index, error)),
        };
        let results = outcomes.into_iter().enumerate().map(result).collect();
        call.json(&BatchAddResults { results })
    }
}
