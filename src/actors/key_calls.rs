//! Calls about API keys and the audit trail, and the telling of their uses.

use std::rc::Rc;
use std::time::Duration;

use actix::{Handler, Message, ResponseFuture};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};

use super::MetadataHandle;
use super::metadata_actor::{Desk, MetadataActor};
use super::metadata_handle::Effect;
use crate::access::KeyRing;
use crate::domain::{ApiKey, Author, Limit, Revision};
use crate::metadata::keys::{AuditEntry, AuditFilter, KeyChange};
use crate::metadata::{ChangeContext, MetadataError, Page};

/// How often the store is told of uses. Each key's uses are told to the hour, so that most rounds have
/// nothing to tell.
const TELL_INTERVAL: Duration = Duration::from_secs(60);
/// How long a stopping server goes on telling.
const LAST_TELL_TIME_MAX: Duration = Duration::from_secs(1);

impl MetadataHandle {
    /// All keys in memory: what requests are verified by.
    pub fn key_ring(&self) -> &KeyRing {
        &self.ring
    }

    /// All keys as the store has them, revoked ones too, in the order of their ids.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, MetadataError> {
        let keys = self.read(async move |store| store.keys(None).await).await?;
        Ok(keys.map(|keys| keys.keys).unwrap_or_default())
    }

    /// Changes a key, alone: this server knows of it when this returns.
    pub async fn change_key(&self, change: KeyChange, by: Author) -> Result<ApiKey, MetadataError> {
        let deadline = Instant::now() + self.options.timeout;
        self.send(Effect::Change, |permit| ChangeKey { change, by, deadline, permit }).await
    }

    pub async fn audit(
        &self,
        filter: AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Page<AuditEntry>, MetadataError> {
        self.read(async move |store| store.audit(&filter, before, page_size).await).await
    }
}

/// Asks the actor to change a key.
struct ChangeKey {
    change: KeyChange,
    by: Author,
    /// A change that could not begin by then is not made.
    deadline: Instant,
    /// Given back when the change is made, not when the caller leaves.
    permit: OwnedSemaphorePermit,
}

impl Message for ChangeKey {
    type Result = Result<ApiKey, MetadataError>;
}

impl Handler<ChangeKey> for MetadataActor {
    type Result = ResponseFuture<Result<ApiKey, MetadataError>>;

    fn handle(&mut self, ChangeKey { change, by, deadline, permit }: ChangeKey, _: &mut Self::Context) -> Self::Result {
        let desk = Rc::clone(&self.desk);
        Box::pin(async move {
            let _permit = permit;
            let result = desk.change_key(change, by, deadline).await;
            desk.note(&result);
            result
        })
    }
}

impl Desk {
    async fn change_key(&self, change: KeyChange, by: Author, deadline: Instant) -> Result<ApiKey, MetadataError> {
        let _changing = self.alone(deadline).await?;
        let key = self.store.change_key(change, ChangeContext { by, at: self.clock.now() }).await?;
        self.ring.publish_change(key.clone());
        // The count of revisions has gone on, which the catalog follows by reading.
        self.refresher.read_news();
        Ok(key)
    }
}

/// Tells the store when keys were last used, for as long as the actor lives.
pub(super) async fn tell_uses(desk: Rc<Desk>) {
    loop {
        sleep(TELL_INTERVAL).await;
        tell(&desk).await;
    }
}

/// The last of it: what cannot be told in a moment is lost, and no more than that.
pub(super) async fn tell_last_uses(desk: &Desk) {
    let _ = timeout(LAST_TELL_TIME_MAX, tell(desk)).await;
}

async fn tell(desk: &Desk) {
    let uses = desk.ring.untold_uses();
    if uses.is_empty() {
        return;
    }
    match desk.store.note_uses(&uses).await {
        Ok(()) => desk.ring.note_told(&uses),
        // The next round tells them.
        Err(error) => tracing::debug!(%error, "uses of keys cannot be noted"),
    }
}
