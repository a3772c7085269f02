//! Reads requests about versions of list features.

use super::call::{Call, HandlerResult};
use super::headers::if_match;
use crate::metadata::NewVersion;
use crate::service::Operation;
use crate::wire::{VersionInput, VersionPatch};

pub(crate) async fn create_version(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let id = call.feature_id()?;
    let VersionInput { version, properties, description } = VersionInput::read(&call.body().await?)?;
    let new = NewVersion { version, properties, index: None, description: description.unwrap_or_default() };
    call.execute(&caller, Operation::CreateVersion { id, new }).await
}

pub(crate) async fn get_version(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let (version, id) = (call.version_label()?, call.feature_id()?);
    call.execute(&caller, Operation::GetVersion { id, version }).await
}

pub(crate) async fn update_version(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let condition = if_match(call.headers)?;
    let (id, version) = (call.feature_id()?, call.version_label()?);
    let patch = VersionPatch::read(&call.body().await?)?;
    call.execute(&caller, Operation::UpdateVersion { id, version, patch, condition }).await
}

pub(crate) async fn delete_version(call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    let caller = call.caller()?;
    let condition = if_match(call.headers)?;
    let (id, version) = (call.feature_id()?, call.version_label()?);
    call.execute(&caller, Operation::DeleteVersion { id, version, condition }).await
}
