//! Read the audit trail of an entity type.

use std::borrow::Cow;

use liststore_contract::operations::get_entity_type_history::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::domain::{EntityType, FeatureId, Limit};
use crate::metadata::HistoryEntry;
use crate::service::{Caller, Listed, Service, ServiceError};

/// Read the audit trail of an entity type.
pub struct GetEntityTypeHistory<'r> {
    entity_type: EntityType,
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for GetEntityTypeHistory<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = GetEntityTypeHistory<'r>;
    type Reply = Listed<HistoryEntry>;

    fn read<'r>(call: &'r Call<'_>) -> Result<GetEntityTypeHistory<'r>, Problem> {
        let [size, page_token] = call.query(&QUERY)?;
        let page_size = page_size(size.as_deref())?;
        Ok(GetEntityTypeHistory { entity_type: call.entity_type()?, page_size, page_token })
    }

    async fn run(
        service: &Service,
        caller: &Caller,
        request: GetEntityTypeHistory<'_>,
    ) -> Result<Listed<HistoryEntry>, ServiceError> {
        let GetEntityTypeHistory { entity_type, page_size, page_token } = request;
        service.get_history(caller, FeatureId::of_bags(entity_type), page_size, page_token.as_deref()).await
    }

    fn reply(call: &Call<'_>, history: Listed<HistoryEntry>) -> HandlerResult {
        call.json(&reply::history(history))
    }
}
