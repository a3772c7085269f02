//! Read the audit trail of a feature.

use std::borrow::Cow;

use liststore_contract::operations::get_history::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::domain::{FeatureId, Limit};
use crate::metadata::HistoryEntry;
use crate::service::{Caller, Listed, Service, ServiceError};

/// Read the audit trail of a feature.
pub struct GetHistory<'r> {
    id: FeatureId,
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for GetHistory<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = GetHistory<'r>;
    type Reply = Listed<HistoryEntry>;

    fn read<'r>(call: &'r Call<'_>) -> Result<GetHistory<'r>, Problem> {
        let [size, page_token] = call.query(&QUERY)?;
        let page_size = page_size(size.as_deref())?;
        Ok(GetHistory { id: call.feature_id()?, page_size, page_token })
    }

    async fn run(
        service: &Service,
        caller: &Caller,
        request: GetHistory<'_>,
    ) -> Result<Listed<HistoryEntry>, ServiceError> {
        service.get_history(caller, request.id, request.page_size, request.page_token.as_deref()).await
    }

    fn reply(call: &Call<'_>, history: Listed<HistoryEntry>) -> HandlerResult {
        call.json(&reply::history(history))
    }
}
