//! List the lists of an entity.

use std::borrow::Cow;

use liststore_contract::operations::list_lists::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::domain::Limit;
use crate::service::{Caller, EntityName, HeldList, Listed, Service, ServiceError};
use crate::wire;

/// List the lists of an entity.
pub struct ListLists<'r> {
    entity: EntityName,
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for ListLists<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListLists<'r>;
    type Reply = Listed<HeldList>;

    fn read<'r>(call: &'r Call<'_>) -> Result<ListLists<'r>, Problem> {
        let [size, page_token] = call.query(&QUERY)?;
        Ok(ListLists { entity: call.entity()?, page_size: page_size(size.as_deref())?, page_token })
    }

    async fn run(service: &Service, caller: &Caller, request: ListLists<'_>) -> Result<Self::Reply, ServiceError> {
        let ListLists { entity, page_size, page_token } = request;
        service.lists_of_entity(caller, &entity, page_size, page_token.as_deref()).await
    }

    fn reply(call: &Call<'_>, (lists, next_page_token): Self::Reply) -> HandlerResult {
        let list = |list: HeldList| wire::EntityList {
            feature: list.feature,
            version: list.version,
            value_type: list.value_type,
            newest_timestamp: list.newest.to_string(),
        };
        let lists = lists.into_iter().map(list).collect();
        call.json(&wire::EntityLists { lists, next_page_token: reply::text(next_page_token) })
    }
}
