//! Tells the metadata store when API keys were last used.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::access::KeyRing;
use crate::metadata::MetadataStore;

/// How often the store is told of uses. Each key's uses are told to the hour, so that most rounds have
/// nothing to tell.
const TELL_INTERVAL: Duration = Duration::from_secs(60);
/// How long a stopping server goes on telling.
const LAST_TELL_TIME_MAX: Duration = Duration::from_secs(1);

/// Tells the store when keys were last used, for as long as the actor lives.
pub(super) async fn tell_uses(ring: KeyRing, store: Arc<dyn MetadataStore>) {
    loop {
        sleep(TELL_INTERVAL).await;
        tell(&ring, &*store).await;
    }
}

/// The last of it: what cannot be told in a moment is lost, and no more than that.
pub(super) async fn tell_last_uses(ring: &KeyRing, store: &dyn MetadataStore) {
    let _ = timeout(LAST_TELL_TIME_MAX, tell(ring, store)).await;
}

async fn tell(ring: &KeyRing, store: &dyn MetadataStore) {
    let uses = ring.untold_uses();
    if uses.is_empty() {
        return;
    }
    match store.note_uses(&uses).await {
        Ok(()) => ring.note_told(&uses),
        // The next round tells them.
        Err(error) => tracing::debug!(%error, "cannot record when keys were last used"),
    }
}
