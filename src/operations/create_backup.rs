//! Make a backup of the embedded stores.

use std::path::PathBuf;

use liststore_contract::operations::create_backup::{self, BackupInput, ROW};
use liststore_contract::row::Row;
use serde_json::{Value as Json, json};

use crate::api::call::{Call, HandlerResult};
use crate::api::operation::Operation;
use crate::api::problem::Problem;
use crate::backup::Backup;
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::service::{Caller, Service, ServiceError, broke_off};

pub struct CreateBackup;

impl Operation for CreateBackup {
    const ROW: &'static Row = &ROW;
    type Request<'r> = PathBuf;
    type Reply = Backup;

    fn read(call: &Call<'_>) -> Result<PathBuf, Problem> {
        let BackupInput { dir } = BackupInput::read(&call.body)?;
        Ok(dir)
    }

    /// Neither a caller's deadline nor its leaving ends a backup: it runs to its end. The backup has its own entry,
    /// so that the trail of a server that is started on it shows its origin.
    async fn run(service: &Service, caller: &Caller, dir: PathBuf) -> Result<Backup, ServiceError> {
        let shown = json!({"server": service.options.server_name, "dir": dir.display().to_string()});
        let (metadata, backups, by) = (service.metadata.clone(), service.backups.clone(), caller.author());
        let work = async move {
            let note = async |before: Option<Json>, after: Option<Json>| {
                let (action, target) = (ServerAction::of(&ROW), "backup".to_owned());
                let change = ServerChange { action, target, before, after };
                if let Err(error) = metadata.note_server_change(change, by.clone()).await {
                    tracing::error!(%error, "cannot write the audit entry of a backup");
                }
            };
            note(None, Some(shown.clone())).await;
            let made = backups.make(dir).await;
            if made.is_err() {
                note(Some(shown), None).await;
            }
            Ok(made?)
        };
        tokio::spawn(work).await.unwrap_or_else(|_| Err(broke_off()))
    }

    fn reply(call: &Call<'_>, backup: Backup) -> HandlerResult {
        let items = backup.items;
        call.json(&create_backup::Backup {
            dir: backup.dir.display().to_string(),
            data_files: items.data_files,
            data_bytes: items.data_bytes,
            copied_files: items.copied_files,
            log_segments: items.log_segments,
            log_bytes: items.log_bytes,
            definitions: backup.definitions,
            seconds: backup.took.as_secs_f64(),
        })
    }
}
