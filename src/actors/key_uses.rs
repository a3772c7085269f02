//! Records in the metadata store when API keys were last used.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::access::KeyRing;
use crate::metadata::MetadataStore;

/// How often uses are recorded. They are recorded with a resolution of an hour, so that most rounds write nothing.
const TELL_INTERVAL: Duration = Duration::from_secs(60);
/// How long a stopping server records uses.
const LAST_TELL_TIME_MAX: Duration = Duration::from_secs(1);

/// Records uses as long as the actor lives.
pub(super) async fn tell_uses(ring: KeyRing, store: Arc<dyn MetadataStore>) {
    loop {
        sleep(TELL_INTERVAL).await;
        tell(&ring, &*store).await;
    }
}

/// Records the remaining uses when the server stops, within a bound.
pub(super) async fn tell_last_uses(ring: &KeyRing, store: &dyn MetadataStore) {
    let _ = timeout(LAST_TELL_TIME_MAX, tell(ring, store)).await;
}

async fn tell(ring: &KeyRing, store: &dyn MetadataStore) {
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
