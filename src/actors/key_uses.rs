//! Records in the metadata store when API keys were last used.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::access::KeyRing;
use crate::metadata::MetadataStore;

/// How often uses are recorded. They are recorded with a resolution of an hour, so that most rounds write nothing.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);
/// How long a stopping server records uses.
const LAST_RECORD_TIME_MAX: Duration = Duration::from_secs(1);

/// Records uses as long as the actor lives.
pub(super) async fn record_uses(ring: KeyRing, store: Arc<dyn MetadataStore>) {
    loop {
        sleep(RECORD_INTERVAL).await;
        record(&ring, &*store).await;
    }
}

/// Records the remaining uses when the server stops, within a bound.
pub(super) async fn record_last_uses(ring: &KeyRing, store: &dyn MetadataStore) {
    let _ = timeout(LAST_RECORD_TIME_MAX, record(ring, store)).await;
}

async fn record(ring: &KeyRing, store: &dyn MetadataStore) {
    let uses = ring.unreported_uses();
    if uses.is_empty() {
        return;
    }
    match store.note_uses(&uses).await {
        Ok(()) => ring.note_reported(&uses),
        // The next round records them.
        Err(error) => tracing::debug!(%error, "cannot record when keys were last used"),
    }
}
