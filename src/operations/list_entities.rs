//! List the entities of a feature version.

use std::borrow::Cow;

use liststore_contract::operations::list_entities::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::domain::{EntityId, FeatureId, Limit, VersionLabel};
use crate::service::{Caller, Listed, Service, ServiceError};
use crate::wire::parameters::VERSION;

/// List the entities of a feature version.
pub struct ListEntities<'r> {
    id: FeatureId,
    version: VersionLabel,
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for ListEntities<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListEntities<'r>;
    type Reply = Listed<EntityId>;

    fn read<'r>(call: &'r Call<'_>) -> Result<ListEntities<'r>, Problem> {
        let [version, size, page_token] = call.query(&QUERY)?;
        let page_size = page_size(size.as_deref())?;
        let version = VersionLabel::new(version.as_deref().unwrap_or_default())
            .map_err(|invalid| Problem::from(invalid).at(VERSION.name))?;
        Ok(ListEntities { id: call.feature_id()?, version, page_size, page_token })
    }

    async fn run(
        service: &Service,
        caller: &Caller,
        request: ListEntities<'_>,
    ) -> Result<Listed<EntityId>, ServiceError> {
        let ListEntities { id, version, page_size, page_token } = request;
        let deadline = service.deadline(caller);
        let found =
            service.resolve_version(id.entity_type.as_str(), id.name.as_str(), version.as_str(), deadline).await?;
        service.entities_of(caller, found, page_size, page_token, deadline).await
    }

    fn reply(call: &Call<'_>, entities: Listed<EntityId>) -> HandlerResult {
        call.json(&reply::entities(entities))
    }
}
