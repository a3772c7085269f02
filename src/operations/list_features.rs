//! List features.

use std::borrow::Cow;

use liststore_contract::operations::list_features::{FeaturePage, QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::page_size;
use crate::api::reply;
use crate::definition::Feature;
use crate::domain::{EntityType, Limit};
use crate::metadata::FeatureFilter;
use crate::service::{Caller, Listed, Service, ServiceError};
use crate::wire::parameters::ENTITY_TYPE;
use crate::wire::{self};

/// List features.
pub struct ListFeatures<'r> {
    filter: FeatureFilter,
    page_size: Limit,
    page_token: Option<Cow<'r, str>>,
}

impl Operation for ListFeatures<'_> {
    const ROW: &'static Row = &ROW;
    type Request<'r> = ListFeatures<'r>;
    type Reply = Listed<Feature>;

    fn read<'r>(call: &'r Call<'_>) -> Result<ListFeatures<'r>, Problem> {
        let [entity_type, text, size, page_token] = call.query(&QUERY)?;
        let page_size = page_size(size.as_deref())?;
        let entity_type = entity_type
            .map(|text| EntityType::new(&text))
            .transpose()
            .map_err(|invalid| Problem::from(invalid).at(ENTITY_TYPE.name))?;
        let filter = FeatureFilter { of_bags: false, entity_type, text: text.map(Into::into) };
        Ok(ListFeatures { filter, page_size, page_token })
    }

    async fn run(
        service: &Service,
        caller: &Caller,
        request: ListFeatures<'_>,
    ) -> Result<Listed<Feature>, ServiceError> {
        service.list_features(caller, request.filter, request.page_size, request.page_token.as_deref()).await
    }

    fn reply(call: &Call<'_>, (features, next_page_token): Listed<Feature>) -> HandlerResult {
        let features = features.iter().map(wire::Feature::from).collect();
        call.json(&FeaturePage { features, next_page_token: reply::text(next_page_token) })
    }
}
