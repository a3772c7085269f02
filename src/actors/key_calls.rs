//! Calls about API keys and the audit trail.

use std::rc::Rc;

use actix::{Handler, Message, ResponseFuture};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::metadata_actor::MetadataActor;
use super::metadata_handle::{CallEffect, MetadataHandle};
use super::metadata_state::MetadataState;
use crate::access::KeyRing;
use crate::domain::{ApiKey, Author, Limit, Revision};
use crate::metadata::keys::{AuditFilter, AuditPage, KeyChange};
use crate::metadata::{ChangeContext, MetadataError};

impl MetadataHandle {
    /// All keys in memory, by which requests are authenticated.
    pub fn key_ring(&self) -> &KeyRing {
        &self.ring
    }

    /// All keys in the store, including revoked ones, in the order of their IDs.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, MetadataError> {
        self.read(async move |store| store.all_keys().await).await
    }

    /// Changes a key, while no definition changes. When this returns, this server uses the changed key.
    pub async fn change_key(&self, change: KeyChange, by: Author) -> Result<ApiKey, MetadataError> {
        let deadline = Instant::now() + self.options.timeout;
        self.send(CallEffect::Change, |permit| ChangeKey { change, by, deadline, permit }).await
    }

    pub async fn audit(
        &self,
        filter: AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        self.read(async move |store| store.audit(&filter, before, page_size).await).await
    }
}

/// Asks the actor to change a key.
struct ChangeKey {
    change: KeyChange,
    by: Author,
    /// A change that cannot begin by then is not made.
    deadline: Instant,
    /// Released when the change is made, not when the caller leaves.
    permit: OwnedSemaphorePermit,
}

impl Message for ChangeKey {
    type Result = Result<ApiKey, MetadataError>;
}

impl Handler<ChangeKey> for MetadataActor {
    type Result = ResponseFuture<Result<ApiKey, MetadataError>>;

    fn handle(&mut self, ChangeKey { change, by, deadline, permit }: ChangeKey, _: &mut Self::Context) -> Self::Result {
        let state = Rc::clone(&self.state);
        Box::pin(async move {
            let _permit = permit;
            let result = state.change_key(change, by, deadline).await;
            state.note(&result);
            result
        })
    }
}

impl MetadataState {
    async fn change_key(&self, change: KeyChange, by: Author, deadline: Instant) -> Result<ApiKey, MetadataError> {
        let _changing = self.alone(deadline).await?;
        let key = self.store.change_key(change, ChangeContext { by, at: self.clock.now() }).await?;
        self.ring.publish_change(key.clone());
        if let Some(stored) = &self.stored {
            stored.schedule_write();
        }
        // The revision has advanced, and the catalog follows by reading.
        self.refresher.read_news();
        Ok(key)
    }
}
