//! Find bags by an index.

use liststore_contract::operations::find_bags::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::{about_plus, count};
use crate::api::reply::found_text;
use crate::domain::{Limit, Order};
pub(super) use crate::service::FindBags;
use crate::service::{BagsFound, Caller, Service, ServiceError};
use crate::wire::parameters::{BAGS_LIMIT, MAX, MIN, ORDER, VALUE};

impl Operation for FindBags<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = FindBags<'r>;
    type Reply = BagsFound;

    fn read<'r>(call: &'r Call<'_>) -> Result<FindBags<'r>, Problem> {
        let [values, min, max, order, limit, page_token] = call.repeated_query(&QUERY)?;
        let [min, max, order, limit, page_token] =
            [min, max, order, limit, page_token].map(|given| given.into_iter().next());
        let order = order.map(|text| Order::parse(&text)).transpose();
        let limit = match limit {
            Some(text) => {
                Limit::of_found(count(BAGS_LIMIT.name, &text)?).map_err(|e| Problem::from(e).at(BAGS_LIMIT.name))?
            }
            None => Limit::DEFAULT,
        };
        Ok(FindBags {
            entity_type: call.entity_type()?,
            index: call.index_name()?,
            values,
            min,
            max,
            order: order.map_err(|invalid| Problem::from(invalid).at(ORDER.name))?.unwrap_or_default(),
            limit,
            page_token,
        })
    }

    async fn run(service: &Service, caller: &Caller, request: FindBags<'_>) -> Result<BagsFound, ServiceError> {
        service.find_bags(caller, request).await
    }

    fn reply(call: &Call<'_>, found: BagsFound) -> HandlerResult {
        Ok(json_text(call.response(), found_text(&found)?))
    }

    /// Only the index determines how a text is read, so this detects a plus that was not encoded.
    fn refused(call: &Call<'_>, problem: Problem) -> Problem {
        let given = call.repeated_query(&QUERY).unwrap_or_default();
        let given = QUERY.iter().zip(&given).find(|(parameter, _)| problem.field.as_deref() == Some(parameter.name));
        let about = given.filter(|(parameter, _)| [VALUE.name, MIN.name, MAX.name].contains(&parameter.name));
        match about.and_then(|(_, texts)| texts.iter().find(|text| text.contains(' '))) {
            Some(text) => about_plus(problem, text),
            None => problem,
        }
    }
}
