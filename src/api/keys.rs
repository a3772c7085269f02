//! Reads requests about API keys and the audit trail.

use actix_web::http::StatusCode;
use liststore_contract::operations::{list_audit, list_keys, revoke_key};

use super::call::{Call, HandlerResult};
use super::features::limit;
use super::problem::Problem;
use super::query::moment;
use super::reply::json;
use super::response::Response;
use crate::domain::{KeyId, Ttl};
use crate::metadata::keys::AuditFilter;
use crate::service::{CreateKey, Operation, RotateKey};
use crate::wire::parameters::{CREATED_KEYS, Parameter, SINCE, UNTIL};
use crate::wire::{KeyInput, KeyRotation};

pub(crate) async fn get_me(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetMe).await
}

/// It is about the server alone, and for whoever is nobody yet.
pub(crate) fn get_sign_in(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    // Nothing waits here, but what is no timeout is refused as it is everywhere.
    let _caller = call.caller()?;
    json(Response::new(StatusCode::OK), &call.state.options.sign_in)
}

pub(crate) async fn create_key(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let input = KeyInput::read(&call.body().await?)?;
    let limits = input.limits()?;
    let KeyInput { name, roles, scopes, expires, .. } = input;
    call.execute(&caller, Operation::CreateKey(CreateKey { name, roles, scopes, limits, lifetime: expires })).await
}

pub(crate) async fn list_keys(call: Call<'_>) -> HandlerResult {
    let [page_size, page_token] = call.query(&list_keys::QUERY)?;
    let caller = call.caller()?;
    let page_size = limit(page_size.as_deref())?;
    call.execute(&caller, Operation::ListKeys { page_size, page_token }).await
}

pub(crate) async fn get_key(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    call.execute(&caller, Operation::GetKey(key_id(&call)?)).await
}

pub(crate) async fn rotate_key(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let id = key_id(&call)?;
    let KeyRotation { overlap, expires } = KeyRotation::read(&call.body().await?)?;
    let overlap = overlap.unwrap_or(Ttl::DAY);
    call.execute(&caller, Operation::RotateKey(RotateKey { id, overlap, lifetime: expires })).await
}

pub(crate) async fn revoke_key(call: Call<'_>) -> HandlerResult {
    let [created_keys] = call.query(&revoke_key::QUERY)?;
    let caller = call.caller()?;
    let created_keys = flag(&CREATED_KEYS, created_keys.as_deref())?;
    call.execute(&caller, Operation::RevokeKey { id: key_id(&call)?, created_keys }).await
}

pub(crate) async fn list_audit(call: Call<'_>) -> HandlerResult {
    let [by, target, action, since, until, page_size, page_token] = call.query(&list_audit::QUERY)?;
    let caller = call.caller()?;
    let page_size = limit(page_size.as_deref())?;
    let filter = AuditFilter {
        by: by.map(Into::into),
        target: target.map(Into::into),
        action: action.map(Into::into),
        since: moment(&SINCE, since.as_deref())?,
        until: moment(&UNTIL, until.as_deref())?,
    };
    call.execute(&caller, Operation::ListAudit { filter, page_size, page_token }).await
}

/// `false` if it is left out.
fn flag(parameter: &Parameter, text: Option<&str>) -> Result<bool, Problem> {
    match text {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::argument(parameter.name, format!("{} must be true or false", parameter.name))),
    }
}

fn key_id(call: &Call<'_>) -> Result<KeyId, Problem> {
    KeyId::new(&call.segments[0]).map_err(|invalid| Problem::from(invalid).at("key_id"))
}
