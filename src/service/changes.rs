//! Changes of this server itself: its pool, its log and its backups. The audit trail has each of them.
//!
//! The entry comes first, and a change that the trail cannot take is not made. If a noted change fails, another entry
//! shows the state that stays in force. A backup is the exception: it is made although the trail is unavailable.

use tokio::time::Instant;

use super::{Service, ServiceError};
use crate::actors::ListError;
use crate::domain::Author;
use crate::metadata::MetadataError;
use crate::metadata::keys::server_changes::ServerChange;

/// Whether a failed change may still be made.
fn may_still_be_made(error: &ServiceError) -> bool {
    matches!(error, ServiceError::List(ListError::DeadlineExceeded { .. }))
}

impl Service {
    /// Notes a change, and makes it. Both continue after the caller has left.
    pub(crate) async fn noted<T: Send + 'static>(
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
            if made.as_ref().is_err_and(|error| !may_still_be_made(error)) && is_noted {
                let in_force = ServerChange { before: change.after, after: change.before, ..change };
                if let Err(error) = metadata.note_server_change(in_force, by).await {
                    tracing::error!(%error, "the audit trail has an entry for a server change that was not made");
                }
            }
            made
        };
        tokio::spawn(work).await.unwrap_or_else(|_| Err(broke_off()))
    }
}

pub(crate) fn broke_off() -> ServiceError {
    MetadataError::Internal { reason: "the change was interrupted".to_owned(), outcome_unknown: true }.into()
}
