//! Remove All List Items.

use liststore_contract::operations::remove_all_items::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::domain::ListKey;
use crate::service::{Caller, ListName, Service, ServiceError};

pub struct RemoveAllItems;

impl Operation for RemoveAllItems {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListName<'r>;
    type Reply = ();

    fn read<'r>(call: &'r Call<'_>) -> Result<ListName<'r>, Problem> {
        let [version] = call.query(&QUERY)?;
        call.list(version)
    }

    async fn run(service: &Service, caller: &Caller, list: ListName<'_>) -> Result<(), ServiceError> {
        caller.take_items(1)?;
        let deadline = service.deadline(caller);
        let found = service.resolve(&list, deadline).await?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        service.lists_of(caller).remove_all(list, found.properties.retention(), deadline).await?;
        Ok(())
    }

    fn reply(call: &Call<'_>, _removed: ()) -> HandlerResult {
        Ok(call.response())
    }
}
