//! The first start on a restored store. Before it listens, the server writes the restore to the audit trail, and
//! repeats erasures. `liststore restore` works without a server, and leaves a file with the entry.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::StartError;
use super::replay::{self, await_ready};
use crate::access::Principal;
use crate::actors::{ListPool, MetadataHandle};
use crate::api::ApiState;
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::service::Caller;

/// The file's name in the data directory.
pub const NAME: &str = "restored.json";

/// A restore, as the file and the entry have it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Restored {
    /// RFC 3339.
    pub at: String,
    /// The path of the backup, or `standard input`.
    pub from: String,
}

/// Completes a restore. Other starts have nothing to do here.
pub(super) async fn complete(
    dir: &Path,
    state: &Arc<ApiState>,
    lists: &ListPool,
    metadata: &MetadataHandle,
) -> Result<(), StartError> {
    note(dir, lists, metadata).await;
    replay::repeat(dir, state, lists, metadata).await
}

/// Writes the entry, and removes the file. After a failure the file stays, and the next start tries again.
async fn note(dir: &Path, lists: &ListPool, metadata: &MetadataHandle) {
    let path = dir.join(NAME);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return tracing::warn!(%error, file = %path.display(), "cannot read the note of a restore"),
    };
    let restored: Restored = match serde_json::from_slice(&text) {
        Ok(restored) => restored,
        Err(error) => return tracing::warn!(%error, file = %path.display(), "the note of a restore is damaged"),
    };
    if !await_ready(lists, metadata).await {
        return tracing::warn!("the stores are not ready: the next start writes the audit entry of the restore");
    }
    let after = Some(serde_json::json!({"restored_at": restored.at, "from": restored.from}));
    let change =
        ServerChange { action: ServerAction::RESTORE_BACKUP, target: "backup".to_owned(), before: None, after };
    let by = Caller { principal: Principal::Local, ..Caller::default() }.author();
    if let Err(error) = metadata.note_server_change(change, by).await {
        return tracing::error!(%error, "cannot write the audit entry of the restore: the next start tries again");
    }
    if let Err(error) = fs::remove_file(&path).and_then(|()| File::open(dir)?.sync_all()) {
        tracing::warn!(%error, file = %path.display(), "cannot remove the note of a restore");
    }
}
