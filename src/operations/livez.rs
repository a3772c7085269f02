//! Liveness.

use std::collections::BTreeMap;

use liststore_contract::operations::livez::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::service::{Caller, Service, ServiceError};
use crate::wire::{Check, Health};

pub struct Livez;

impl Operation for Livez {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Self;

    fn read(_call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self)
    }

    async fn run(_service: &Service, _caller: &Caller, request: Self) -> Result<Self, ServiceError> {
        Ok(request)
    }

    fn reply(call: &Call<'_>, _reply: Self) -> HandlerResult {
        call.json(&Health { status: Check::Pass, checks: BTreeMap::new(), reasons: BTreeMap::new() })
    }
}
