//! Look up members of a set.

use liststore_contract::operations::lookup_items::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::domain::{Item, ListKey, ValueType};
use crate::service::members::looked_up;
use crate::service::{Caller, ListName, Service, ServiceError, render};
use crate::wire::LookupInput;

/// Look up members of a set.
pub struct LookupItems<'r> {
    list: ListName<'r>,
    input: LookupInput<'r>,
}

/// The visible item of each member that was looked up.
pub struct MembersFound {
    list: ListKey,
    value_type: ValueType,
    items: Vec<Option<Item>>,
}

impl Operation for LookupItems<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = LookupItems<'r>;
    type Reply = MembersFound;

    fn read<'r>(call: &'r Call<'_>) -> Result<LookupItems<'r>, Problem> {
        let [version] = call.query(&QUERY)?;
        Ok(LookupItems { list: call.list(version)?, input: LookupInput::read(&call.body)? })
    }

    async fn run(service: &Service, caller: &Caller, request: LookupItems<'_>) -> Result<MembersFound, ServiceError> {
        let LookupItems { list, input } = request;
        caller.take_items(input.len())?;
        let deadline = service.deadline(caller);
        let found = service.resolve(&list, deadline).await?;
        let members = looked_up(&found, &input)?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        let items = service.read_members(caller, &list, found.properties.retention(), members, deadline).await?;
        Ok(MembersFound { list, value_type: found.value_type, items })
    }

    fn reply(call: &Call<'_>, found: MembersFound) -> HandlerResult {
        let MembersFound { list, value_type, items } = found;
        let text = render::found(&list, value_type, &items, call.state.service.options.page_bytes_max)?;
        Ok(json_text(call.response(), text))
    }
}
