//! Changes of this server itself: its pool, its log and its backups. The audit trail has each of them.
//!
//! The entry comes first, and a change that the trail cannot take is not made. If a noted change fails, another entry
//! shows the state that stays in force. A backup is the exception: it is made although the trail is unavailable.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::time::{Instant, timeout_at};

use super::operation::Reply;
use super::{Caller, Service, ServiceError};
use crate::actors::{ListError, PoolSize, Resize};
use crate::domain::{AccessLog, Author, Invalid};
use crate::metadata::MetadataError;
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::telemetry::{LogState, check_filter};

/// The longest wait for a change of the pool: sessions with a cluster take time to open.
const RESIZE_TIMEOUT: Duration = Duration::from_secs(50);
/// The longest wait for a change of the log.
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a change that failed may yet come about.
fn may_come_about(error: &ServiceError) -> bool {
    matches!(error, ServiceError::List(ListError::DeadlineExceeded { .. }))
}

impl Service {
    /// Notes a change, and makes it. Both go on to their end although the caller leaves.
    async fn noted<T: Send + 'static>(
        &self,
        change: ServerChange,
        by: Author,
        deadline: Instant,
        making: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let metadata = self.metadata.clone();
        let work = async move {
            let (mut is_noted, mut noted) = (false, Ok(()));
            if change.before != change.after {
                // The store bounds this wait. A dropped wait would leave the entry of a change that is not made.
                let entry = metadata.note_server_change(change.clone(), by.clone()).await;
                is_noted = entry.as_ref().map_or_else(MetadataError::outcome_unknown, |_| true);
                noted = entry.map(|_| ()).map_err(ServiceError::from);
            }
            let made = match noted {
                Ok(()) if Instant::now() < deadline => making.await,
                Ok(()) => Err(ServiceError::DeadlineExceeded { outcome_unknown: false }),
                Err(error) => Err(error),
            };
            if made.as_ref().is_err_and(|error| !may_come_about(error)) && is_noted {
                let in_force = ServerChange { before: change.after, after: change.before, ..change };
                if let Err(error) = metadata.note_server_change(in_force, by).await {
                    tracing::error!(%error, "the audit trail has an entry for a server change that was not made");
                }
            }
            made
        };
        tokio::spawn(work).await.unwrap_or_else(|_| Err(broke_off()))
    }

    fn pool_shown(&self, size: PoolSize) -> Option<Json> {
        let PoolSize { actors, permits_per_actor } = size;
        Some(json!({"server": self.options.server_name, "actors": actors, "permits_per_actor": permits_per_actor}))
    }

    pub(super) async fn resize_pool(&self, caller: &Caller, resize: Resize) -> Result<Reply, ServiceError> {
        let deadline = Instant::now() + caller.patience(RESIZE_TIMEOUT);
        tracing::info!(by = %caller.principal, ?resize, "list pool resize requested");
        let before = self.lists.view().size;
        let after = PoolSize {
            actors: resize.actors.unwrap_or(before.actors),
            permits_per_actor: resize.permits_per_actor.unwrap_or(before.permits_per_actor),
        };
        let change = ServerChange {
            action: ServerAction::ResizePool,
            target: "pool".to_owned(),
            before: self.pool_shown(before),
            after: self.pool_shown(after),
        };
        let lists = self.lists.clone();
        let making = async move { Ok(lists.resize(resize, deadline).await?) };
        self.noted(change, caller.author(), deadline, making).await?;
        Ok(Reply::Pool(self.lists.view()))
    }

    fn log_shown(&self, LogState { filter, access }: &LogState) -> Option<Json> {
        Some(json!({"server": self.options.server_name, "filter": filter, "access": access.to_string()}))
    }

    pub(super) async fn change_log(
        &self,
        caller: &Caller,
        filter: Option<String>,
        access: Option<AccessLog>,
    ) -> Result<Reply, ServiceError> {
        let invalid = |text: String| ServiceError::Invalid { field: "filter", invalid: Invalid::argument(text) };
        if let Some(filter) = &filter {
            check_filter(filter).map_err(|error| invalid(error.to_string()))?;
        }
        let deadline = Instant::now() + caller.patience(LOG_TIMEOUT);
        // One change at a time, so that the last entry shows the log as it is.
        let late = |_| ServiceError::DeadlineExceeded { outcome_unknown: false };
        let turn = timeout_at(deadline, self.log_turn.clone().lock_owned()).await.map_err(late)?;
        let before = self.log.state();
        let after = LogState {
            filter: filter.clone().unwrap_or_else(|| before.filter.clone()),
            access: access.unwrap_or(before.access),
        };
        let change = ServerChange {
            action: ServerAction::ChangeLog,
            target: "log".to_owned(),
            before: self.log_shown(&before),
            after: self.log_shown(&after),
        };
        let (log, who) = (self.log.clone(), caller.principal.clone());
        let making = async move {
            let _turn = turn;
            let write = |state: &LogState| {
                tracing::info!(by = %who, filter = state.filter, access = %state.access, "log settings changed");
            };
            // Before and after: one of the filters may keep it out of the log.
            write(&before);
            let state = log.change(filter, access).map_err(|error| invalid(error.to_string()))?;
            write(&state);
            Ok(state)
        };
        self.noted(change, caller.author(), deadline, making).await.map(Reply::Log)
    }

    /// Neither a caller's deadline nor its leaving ends a backup: it goes on to its end. The backup has its own entry,
    /// so that the trail of a server that is started on it shows where it comes from.
    pub(super) async fn create_backup(&self, caller: &Caller, dir: PathBuf) -> Result<Reply, ServiceError> {
        let shown = json!({"server": self.options.server_name, "dir": dir.display().to_string()});
        let (metadata, backups, by) = (self.metadata.clone(), self.backups.clone(), caller.author());
        let work = async move {
            let note = async |before: Option<Json>, after: Option<Json>| {
                let (action, target) = (ServerAction::CreateBackup, "backup".to_owned());
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
            Ok(Reply::Backup(made?))
        };
        tokio::spawn(work).await.unwrap_or_else(|_| Err(broke_off()))
    }
}

fn broke_off() -> ServiceError {
    MetadataError::Internal { reason: "the change was interrupted".to_owned(), outcome_unknown: true }.into()
}
