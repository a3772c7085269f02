//! Backups of the server's own data directory, for operators on its machine.

use super::call::{Call, HandlerResult};
use super::problem::{ErrorCode, Problem};
use super::request::Peer;
use crate::service::{Operation, queries};
use crate::wire::BackupInput;

pub(super) async fn create_backup(mut call: Call<'_>) -> HandlerResult {
    if call.client.peer != Peer::Local {
        let detail = "backups are made over the socket in the server's data directory: run `liststore backup` there";
        return Err(Problem::new(ErrorCode::LocalOnly, detail));
    }
    let [] = call.query(&queries::NONE)?;
    // What it asks for does not end a backup, but is to be well-formed as everywhere.
    let caller = call.caller()?;
    let BackupInput { dir } = BackupInput::read(&call.body().await?)?;
    call.execute(&caller, Operation::CreateBackup { dir }).await
}
