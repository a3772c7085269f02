//! Change the bag of an entity.

use actix_web::http::header::ETAG;
use liststore_contract::operations::patch_bag::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::{bag_conditions, bag_tag};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply::bag_text;
use crate::domain::Document;
use crate::service::{Bag, BagConditions, Caller, EntityName, Service, ServiceError};
use crate::wire::read_document;

/// Change the bag of an entity.
pub struct PatchBag {
    entity: EntityName,
    patch: Document,
    conditions: BagConditions,
}

impl Operation for PatchBag {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Bag;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let (entity, conditions) = (call.entity()?, bag_conditions(call.headers)?);
        Ok(Self { entity, patch: read_document(&call.body)?, conditions })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Bag, ServiceError> {
        let Self { entity, patch, conditions } = request;
        service.patch_bag(caller, entity, patch, conditions).await
    }

    fn reply(call: &Call<'_>, bag: Bag) -> HandlerResult {
        let tag = bag_tag(bag.updated_at);
        let text = bag_text(call, bag)?;
        Ok(json_text(call.response().with_text(ETAG, tag)?, text))
    }
}
