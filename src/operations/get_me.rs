//! Get the caller's identity and permissions.

use liststore_contract::operations::get_me::{Me, PrincipalKind, ROW};
use liststore_contract::row::Row;

use crate::access::Principal;
use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::domain::Scope;
use crate::service::{Caller, Service, ServiceError};

pub struct GetMe;

impl Operation for GetMe {
    const ROW: &'static Row = &ROW;
    type Request<'r> = Self;
    type Reply = Principal;

    fn read(_call: &Call<'_>) -> Result<Self, Problem> {
        Ok(Self)
    }

    async fn run(_service: &Service, caller: &Caller, _request: Self) -> Result<Principal, ServiceError> {
        Ok(caller.principal.clone())
    }

    fn reply(call: &Call<'_>, principal: Principal) -> HandlerResult {
        let kind = match &principal {
            Principal::Anonymous => PrincipalKind::Anonymous,
            Principal::Local => PrincipalKind::Local,
            Principal::Known(_) => PrincipalKind::Known,
        };
        let texts = |scopes: Vec<Scope>| scopes.iter().map(ToString::to_string).collect();
        let permissions = principal.permissions().into_iter();
        let permissions =
            permissions.map(|(permission, scopes)| (permission.name().to_owned(), texts(scopes))).collect();
        call.json(&Me { name: principal.to_string(), kind, permissions })
    }
}
