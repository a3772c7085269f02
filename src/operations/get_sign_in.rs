//! Get the console's sign-in options.

use liststore_contract::operations::get_sign_in::ROW;
use liststore_contract::row::Row;

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::service::{Caller, Service, ServiceError};

/// About the server alone, and for callers who have not signed in yet.
pub struct GetSignIn;

impl Operation for GetSignIn {
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
        call.json(&call.state.options.sign_in)
    }
}
