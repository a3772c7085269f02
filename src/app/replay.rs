//! Repeats erasures, purges and revocations that a restore undid, before the restored server listens. A file in the
//! data directory lists them: the former store's audit trail, as `liststore audit -o ndjson` prints it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use liststore_contract::operations::list_audit::Audited;
use tokio::time::{Instant, sleep};

use super::{READY_CHECK_INTERVAL, StartError};
use crate::actors::{ListPool, MetadataHandle};
use crate::api::{self, ApiState};
use crate::service::Repeated;

/// The file's name in the data directory.
const NAME: &str = "replay.ndjson";
/// The file's name after all entries are repeated.
const DONE_NAME: &str = "replay.ndjson.done";
/// How long the stores may take to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Repeats the entries of the file, if it exists. A failure refuses the start: no client may read an erased entity or
/// use a revoked key.
pub(super) async fn repeat(
    dir: &Path,
    state: &Arc<ApiState>,
    lists: &ListPool,
    metadata: &MetadataHandle,
) -> Result<(), StartError> {
    let path = dir.join(NAME);
    let failed = |line: usize, reason: String| StartError::Replay { path: path.clone(), line, reason };
    let lines = match File::open(&path) {
        Ok(file) => BufReader::new(file).lines(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(0, error.to_string())),
    };
    if !await_ready(lists, metadata).await {
        return Err(failed(0, "the stores are not ready".to_owned()));
    }
    let (mut done, mut left_out) = (0, 0);
    for (number, line) in (1..).zip(lines) {
        let line = line.map_err(|error| failed(number, error.to_string()))?;
        let entry: Audited = serde_json::from_str(&line).map_err(|error| failed(number, error.to_string()))?;
        match state.repeat(&entry).await.map_err(|error| failed(number, error.to_string()))? {
            Repeated::Done => done += 1,
            Repeated::LeftOut => left_out += 1,
            Repeated::Nothing => {}
        }
    }
    // Other users may have permission to read the file.
    let renamed = fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
    let renamed =
        renamed.and_then(|()| fs::rename(&path, dir.join(DONE_NAME))).and_then(|()| File::open(dir)?.sync_all());
    renamed.map_err(|error| failed(0, error.to_string()))?;
    tracing::info!(file = %path.display(), done, left_out, "replayed the audit trail of the former store");
    Ok(())
}

/// Waits until the stores can be used. False if they cannot after some time.
pub(super) async fn await_ready(lists: &ListPool, metadata: &MetadataHandle) -> bool {
    let give_up = Instant::now() + READY_TIMEOUT;
    while !api::is_ready(lists, metadata) {
        if Instant::now() > give_up {
            return false;
        }
        sleep(READY_CHECK_INTERVAL).await;
    }
    true
}
