//! Add List Items.

use liststore_contract::operations::add_items::{AddItemsInput, QUERY, ROW};
use liststore_contract::row::Row;

use crate::actors::AddOutcome;
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::ListKey;
pub(super) use crate::service::AddItems;
use crate::service::members::encode;
use crate::service::{Caller, Service, ServiceError};

impl Operation for AddItems<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = AddItems<'r>;
    type Reply = AddOutcome;

    fn read<'r>(call: &'r Call<'_>) -> Result<AddItems<'r>, Problem> {
        let [version] = call.query(&QUERY)?;
        let list = call.list(version)?;
        let AddItemsInput { items } = AddItemsInput::read(&call.body)?;
        Ok(AddItems { list, items })
    }

    async fn run(service: &Service, caller: &Caller, request: AddItems<'_>) -> Result<AddOutcome, ServiceError> {
        let deadline = service.deadline(caller);
        let AddItems { list, items } = request;
        caller.take_items(items.len())?;
        let found = service.resolve(&list, deadline).await?;
        let items = encode(&found, &items)?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        let added = service
            .lists_of(caller)
            .add(list, found.properties.retention(), found.properties.timestamp_ahead_max, items, deadline)
            .await?;
        Ok(added)
    }

    fn reply(call: &Call<'_>, outcome: AddOutcome) -> HandlerResult {
        call.json(&reply::added(call, &outcome))
    }
}
