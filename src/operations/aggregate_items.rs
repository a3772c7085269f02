//! Aggregate List Items.

use liststore_contract::operations::aggregate_items::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::form;
use crate::domain::Int64As;
use crate::service::{Caller, ListName, Service, ServiceError, SharedPlans};
use crate::wire::AggregateInput;

/// Aggregate the items of a list in windows of time.
pub struct AggregateItems<'r> {
    list: ListName<'r>,
    input: AggregateInput,
    int64_as: Option<Int64As>,
}

impl Operation for AggregateItems<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = AggregateItems<'r>;
    /// The aggregates as JSON.
    type Reply = Vec<u8>;

    fn read<'r>(call: &'r Call<'_>) -> Result<AggregateItems<'r>, Problem> {
        let [version, int64_as] = call.query(&QUERY)?;
        let (list, int64_as) = (call.list(version)?, form(int64_as.as_deref())?);
        Ok(AggregateItems { list, input: AggregateInput::read(&call.body)?, int64_as })
    }

    async fn run(service: &Service, caller: &Caller, request: AggregateItems<'_>) -> Result<Vec<u8>, ServiceError> {
        let AggregateItems { list, input, int64_as } = request;
        caller.take_items(1)?;
        let deadline = service.deadline(caller);
        let found = service.resolve(&list, deadline).await?;
        service.aggregate(caller, &list, (found, &input, int64_as), &SharedPlans::default(), deadline).await
    }

    fn reply(call: &Call<'_>, text: Vec<u8>) -> HandlerResult {
        Ok(json_text(call.response(), text))
    }
}
