//! Find bags by an index, with values in the body.

use std::borrow::Cow;

use liststore_contract::operations::find_bags_by_body::{FindBagsInput, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply::found_text;
use crate::domain::Limit;
use crate::service::{BagsFound, Caller, FindBags, Service, ServiceError};
use crate::wire::parameters::{BAGS_LIMIT, VALUE};

/// The same query as in a URL, in the body.
pub struct FindBagsByBody;

impl Operation for FindBagsByBody {
    const ROW: &'static Row = &ROW;
    type Request<'r> = FindBags<'r>;
    type Reply = BagsFound;

    fn read<'r>(call: &'r Call<'_>) -> Result<FindBags<'r>, Problem> {
        let (entity_type, index) = (call.entity_type()?, call.index_name()?);
        let FindBagsInput { values, min, max, order, limit, page_token } = FindBagsInput::read(&call.body)?;
        let limit = limit.map(Limit::of_found).transpose().map_err(|e| Problem::from(e).at(BAGS_LIMIT.name))?;
        Ok(FindBags {
            entity_type,
            index,
            values: values.into_iter().map(Cow::Owned).collect(),
            min: min.map(Cow::Owned),
            max: max.map(Cow::Owned),
            order: order.unwrap_or_default(),
            limit: limit.unwrap_or(Limit::DEFAULT),
            page_token: page_token.map(Cow::Owned),
        })
    }

    async fn run(service: &Service, caller: &Caller, request: FindBags<'_>) -> Result<BagsFound, ServiceError> {
        service.find_bags(caller, request).await
    }

    fn reply(call: &Call<'_>, found: BagsFound) -> HandlerResult {
        Ok(json_text(call.response(), found_text(&found)?))
    }

    /// A query has one parameter for each of the values.
    fn refused(_call: &Call<'_>, problem: Problem) -> Problem {
        if problem.field.as_deref() == Some(VALUE.name) { problem.at("values") } else { problem }
    }
}
