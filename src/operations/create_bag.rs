//! Put a bag under a new ID.

use actix_web::http::header::LOCATION;
use liststore_contract::operations::create_bag::ROW;
use liststore_contract::operations::get_bag;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::domain::{Document, EntityType};
use crate::service::{Caller, EntityName, Service, ServiceError, StoredBag};
use crate::wire::read_document;

/// Put a bag under an ID that no entity has.
pub struct CreateBag {
    entity_type: EntityType,
    document: Document,
}

impl Operation for CreateBag {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = StoredBag;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let entity_type = call.entity_type()?;
        Ok(Self { entity_type, document: read_document(&call.body)? })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<StoredBag, ServiceError> {
        service.create_bag(caller, request.entity_type, request.document).await
    }

    fn reply(call: &Call<'_>, stored: StoredBag) -> HandlerResult {
        let EntityName { entity_type, entity_id } = &stored.entity;
        let path = get_bag::ROW.path_of(&[entity_type.as_str(), entity_id.as_str()]);
        reply::stored(call.response().with_text(LOCATION, path)?, &stored)
    }
}
