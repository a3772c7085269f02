//! Backups of the server's own data directory, for operators on its machine.

use super::call::{Call, HandlerResult};
use crate::service::Operation;
use crate::wire::BackupInput;

pub(crate) async fn create_backup(mut call: Call<'_>) -> HandlerResult {
    let [] = call.query(&[])?;
    // What it asks for does not end a backup, but is to be well-formed as everywhere.
    let caller = call.caller()?;
    let BackupInput { dir } = BackupInput::read(&call.body().await?)?;
    call.execute(&caller, Operation::CreateBackup { dir }).await
}
