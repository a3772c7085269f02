//! Count List Items.

use liststore_contract::operations::count_items::{Counted, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::{bounds, count};
use crate::domain::{Limit, ListKey};
use crate::items::{Bounds, Count};
use crate::service::{Caller, ListName, Service, ServiceError};
use crate::wire::parameters::COUNT_MAX;

/// Count the items of a list within bounds.
pub struct CountItems<'r> {
    list: ListName<'r>,
    within: Bounds,
    max: Limit,
}

impl Operation for CountItems<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = CountItems<'r>;
    type Reply = Count;

    fn read<'r>(call: &'r Call<'_>) -> Result<CountItems<'r>, Problem> {
        let [version, min_timestamp, max_timestamp, max] = call.query(&QUERY)?;
        let (min_timestamp, max_timestamp) = bounds(min_timestamp.as_deref(), max_timestamp.as_deref())?;
        let max = match max {
            Some(text) => {
                Limit::of_count(count(COUNT_MAX.name, &text)?).map_err(|e| Problem::from(e).at(COUNT_MAX.name))?
            }
            None => Limit::DEFAULT_COUNT,
        };
        Ok(CountItems { list: call.list(version)?, within: Bounds::of(min_timestamp, max_timestamp), max })
    }

    async fn run(service: &Service, caller: &Caller, request: CountItems<'_>) -> Result<Count, ServiceError> {
        let CountItems { list, within, max } = request;
        caller.take_items(1)?;
        let deadline = service.deadline(caller);
        let found = service.resolve(&list, deadline).await?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        let max = max.get() as u64;
        let counted = service
            .lists_of(caller)
            .read(list, found.properties.retention(), deadline, async move |session, op, list| {
                session.count(op, list, &within, max).await
            })
            .await?;
        caller.charge_items((counted.items as usize).saturating_sub(1));
        Ok(counted)
    }

    fn reply(call: &Call<'_>, Count { items, exact }: Count) -> HandlerResult {
        call.json(&Counted { count: items, exact })
    }
}
