//! Keys on one machine: in the state in memory, with every change in the journal first.

use async_trait::async_trait;

use super::{Inner, Journal, LocalStore};
use crate::domain::{ApiKey, KeyId, Limit, Revision, Timestamp};
use crate::metadata::keys::change::{Decided, decide};
use crate::metadata::keys::erasures::{Erasure, ErasureEntry};
use crate::metadata::keys::server_changes::{ServerChange, ServerChangeEntry};
use crate::metadata::keys::{AccessStore, AuditFilter, AuditPage, KeyChange, Keys};
use crate::metadata::{ChangeContext, MetadataError};

#[async_trait]
impl<J: Journal> AccessStore for LocalStore<J> {
    async fn keys(&self, known: Option<Revision>) -> Result<Option<Keys>, MetadataError> {
        // A journal that cannot recover yet may contain a change that the state lacks.
        let inner = self.lock_recovered()?;
        let Inner { state, recent, .. } = &*inner;
        let keys = || Keys { revision: state.revision, keys: state.keys.values().cloned().collect() };
        let is_news = known != Some(state.revision) || !recent.knows(state.revision);
        Ok(is_news.then(keys))
    }

    async fn change_key(&self, change: KeyChange, context: ChangeContext) -> Result<ApiKey, MetadataError> {
        let mut inner = self.lock_recovered()?;
        let Inner { state, journal, .. } = &mut *inner;
        match decide(state.keys.values(), change, state.next_revision(), context)? {
            Decided::Nothing(key) => Ok(*key),
            Decided::Change(transition) => {
                journal.append_key(&transition)?;
                state.revision = transition.entry.revision;
                state.keys.insert(transition.key.id, transition.key.clone());
                Ok(transition.key)
            }
        }
    }

    async fn note_uses(&self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError> {
        let mut inner = self.lock_recovered()?;
        let Inner { state, journal, .. } = &mut *inner;
        let newer = |(id, at): &&(KeyId, Timestamp)| state.keys.get(id).is_some_and(|key| key.last_used_at < Some(*at));
        let newer: Vec<_> = uses.iter().filter(newer).copied().collect();
        if newer.is_empty() {
            return Ok(());
        }
        journal.note_uses(&newer)?;
        for (id, at) in newer {
            if let Some(key) = state.keys.get_mut(&id) {
                key.last_used_at = Some(at);
            }
        }
        Ok(())
    }

    async fn note_erasure(&self, erasure: Erasure, context: ChangeContext) -> Result<ErasureEntry, MetadataError> {
        self.lock_recovered()?.note(erasure, None, context)
    }

    async fn note_server_change(
        &self,
        change: ServerChange,
        context: ChangeContext,
    ) -> Result<ServerChangeEntry, MetadataError> {
        let mut inner = self.lock_recovered()?;
        let ChangeContext { by, at } = context;
        let entry = ServerChangeEntry { revision: inner.state.next_revision(), at, by, change };
        inner.journal.append_server_change(&entry)?;
        inner.state.revision = entry.revision;
        Ok(entry)
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        self.lock_recovered()?.journal.audit(filter, before, page_size)
    }
}
