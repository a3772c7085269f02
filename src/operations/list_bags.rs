//! List the entities that have bags.

use std::borrow::Cow;

use liststore_contract::operations::list_bags::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::domain::{EntityId, EntityType, Limit};
use crate::service::{Caller, Listed, Service, ServiceError};

/// List the entities that have bags.
pub struct ListBags<'r> {
    entity_type: EntityType,
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for ListBags<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListBags<'r>;
    type Reply = Listed<EntityId>;

    fn read<'r>(call: &'r Call<'_>) -> Result<ListBags<'r>, Problem> {
        let [size, page_token] = call.query(&QUERY)?;
        let page_size = page_size(size.as_deref())?;
        Ok(ListBags { entity_type: call.entity_type()?, page_size, page_token })
    }

    async fn run(service: &Service, caller: &Caller, request: ListBags<'_>) -> Result<Listed<EntityId>, ServiceError> {
        let ListBags { entity_type, page_size, page_token } = request;
        let deadline = service.deadline(caller);
        let found = service.bags_of(&entity_type, deadline).await?;
        service.entities_of(caller, found, page_size, page_token, deadline).await
    }

    fn reply(call: &Call<'_>, entities: Listed<EntityId>) -> HandlerResult {
        call.json(&reply::entities(entities))
    }
}
