//! Put the bag of an entity.

use actix_web::http::StatusCode;
use liststore_contract::operations::put_bag::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::bag_conditions;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::Document;
use crate::service::{BagConditions, Caller, EntityName, Service, ServiceError, StoredBag};
use crate::wire::read_document;

/// Put the bag of an entity.
pub struct PutBag {
    entity: EntityName,
    document: Document,
    conditions: BagConditions,
}

impl Operation for PutBag {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = StoredBag;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let (entity, conditions) = (call.entity()?, bag_conditions(call.headers)?);
        Ok(Self { entity, document: read_document(&call.body)?, conditions })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<StoredBag, ServiceError> {
        let Self { entity, document, conditions } = request;
        service.put_bag(caller, entity, document, conditions).await
    }

    fn reply(call: &Call<'_>, stored: StoredBag) -> HandlerResult {
        let mut response = call.response();
        if stored.is_created {
            response.status = StatusCode::CREATED;
        }
        reply::stored(response, &stored)
    }
}
