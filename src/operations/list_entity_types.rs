//! List entity types.

use std::borrow::Cow;

use liststore_contract::operations::list_entity_types::{EntityTypePage, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::definition::Feature;
use crate::domain::Limit;
use crate::metadata::FeatureFilter;
use crate::service::{Caller, Listed, Service, ServiceError};
use crate::wire::{self};

/// List entity types.
pub struct ListEntityTypes<'r> {
    filter: FeatureFilter,
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for ListEntityTypes<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListEntityTypes<'r>;
    type Reply = Listed<Feature>;

    fn read<'r>(call: &'r Call<'_>) -> Result<ListEntityTypes<'r>, Problem> {
        let [text, size, page_token] = call.query(&QUERY)?;
        let page_size = page_size(size.as_deref())?;
        let filter = FeatureFilter { of_bags: true, entity_type: None, text: text.map(Into::into) };
        Ok(ListEntityTypes { filter, page_size, page_token })
    }

    async fn run(
        service: &Service,
        caller: &Caller,
        request: ListEntityTypes<'_>,
    ) -> Result<Listed<Feature>, ServiceError> {
        service.list_features(caller, request.filter, request.page_size, request.page_token.as_deref()).await
    }

    fn reply(call: &Call<'_>, (entity_types, next_page_token): Listed<Feature>) -> HandlerResult {
        let entity_types = entity_types.iter().map(wire::EntityType::from).collect();
        call.json(&EntityTypePage { entity_types, next_page_token: reply::text(next_page_token) })
    }
}
