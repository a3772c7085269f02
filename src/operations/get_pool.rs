//! Show the pool of list actors.

use liststore_contract::operations::get_pool::ROW;
use liststore_contract::row::Row;

use crate::actors::PoolView;
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::api::reply;
use crate::service::{Caller, Service, ServiceError};

pub struct GetPool;

impl Operation for GetPool {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = PoolView;

    fn read(_call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self)
    }

    async fn run(service: &Service, _caller: &Caller, _request: Self) -> Result<PoolView, ServiceError> {
        Ok(service.lists.view())
    }

    fn reply(call: &Call<'_>, view: PoolView) -> HandlerResult {
        call.json(&reply::pool(&view))
    }
}
