//! Look up members of a set.

use liststore_contract::operations::lookup_items::{LookupInput, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::form;
use crate::domain::{Int64As, Item, JsonForm, ListKey};
use crate::service::members::looked_up;
use crate::service::{Caller, ListName, Service, ServiceError, render};

/// Look up members of a set.
pub struct LookupItems<'r> {
    list: ListName<'r>,
    input: LookupInput<'r>,
    int64_as: Option<Int64As>,
}

/// The visible item of each member that was looked up.
pub struct MembersFound {
    list: ListKey,
    form: JsonForm,
    items: Vec<Option<Item>>,
}

impl Operation for LookupItems<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = LookupItems<'r>;
    type Reply = MembersFound;

    fn read<'r>(call: &'r Call<'_>) -> Result<LookupItems<'r>, Problem> {
        let [version, int64_as] = call.query(&QUERY)?;
        let (list, int64_as) = (call.list(version)?, form(int64_as.as_deref())?);
        Ok(LookupItems { list, input: LookupInput::read(&call.body)?, int64_as })
    }

    async fn run(service: &Service, caller: &Caller, request: LookupItems<'_>) -> Result<MembersFound, ServiceError> {
        let LookupItems { list, input, int64_as } = request;
        caller.take_items(input.len())?;
        let deadline = service.deadline(caller);
        let found = service.resolve(&list, deadline).await?;
        let members = looked_up(&found, &input)?;
        let list = ListKey::new(found.feature_key, list.entity_id);
        let items = service.read_members(caller, &list, found.properties.retention(), members, deadline).await?;
        let form = found.properties.json_form(found.value_type, int64_as);
        Ok(MembersFound { list, form, items })
    }

    fn reply(call: &Call<'_>, found: MembersFound) -> HandlerResult {
        let MembersFound { list, form, items } = found;
        let text = render::found(&list, form, &items, call.state.service.options.page_bytes_max)?;
        Ok(json_text(call.response(), text))
    }
}
