//! Get the bag of an entity.

use actix_web::http::StatusCode;
use actix_web::http::header::ETAG;
use liststore_contract::operations::get_bag::{QUERY, ROW};
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::headers::{bag_tag, has_already};
use crate::api::json::json_text;
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::query::joined_lists;
use crate::api::reply::bag_text;
use crate::api::response::Response;
use crate::service::{Bag, Caller, EntityName, JoinedLists, Service, ServiceError, render};

/// Get the bag of an entity.
pub struct GetBag {
    entity: EntityName,
    joined: JoinedLists,
}

impl Operation for GetBag {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Bag;

    fn read(call: &Call<'_>) -> Result<Self, Problem> {
        let [lists, int64_as] = call.query(&QUERY)?;
        Ok(Self { entity: call.entity()?, joined: joined_lists(lists.as_deref(), int64_as.as_deref())? })
    }

    async fn run(service: &Service, caller: &Caller, request: Self) -> Result<Bag, ServiceError> {
        service.get_bag(caller, request.entity, request.joined).await
    }

    /// With lists the reply is more than a state of the bag. Its tag identifies the text, like the tag of a page, and
    /// no write can use it.
    fn reply(call: &Call<'_>, bag: Bag) -> HandlerResult {
        let (updated_at, has_lists) = (bag.updated_at, !bag.lists.is_empty());
        let text = bag_text(call, bag)?;
        let tag = if has_lists { render::tag_of_text(&text) } else { bag_tag(updated_at) };
        if has_already(call.headers, tag.as_bytes())? {
            return Response::new(StatusCode::NOT_MODIFIED).with_text(ETAG, tag);
        }
        Ok(json_text(call.response().with_text(ETAG, tag)?, text))
    }
}
