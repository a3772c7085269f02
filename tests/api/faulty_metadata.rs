//! A metadata store in memory with faults on demand.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use async_trait::async_trait;
use liststore::definition::Feature;
use liststore::domain::{ApiKey, EntityType, FeatureId, JobId, KeyId, Limit, Revision, Timestamp};
use liststore::metadata::jobs::Job;
use liststore::metadata::keys::erasures::{Erasure, ErasureEntry};
use liststore::metadata::keys::server_changes::{ServerChange, ServerChangeEntry};
use liststore::metadata::keys::{AuditFilter, AuditPage, KeyChange, Keys};
use liststore::metadata::{
    AccessStore, Applied, Change, ChangeContext, EachDefinition, FeatureFilter, HistoryEntry, JobStore, LastGeneration,
    MetadataError, MetadataStore, Page, Precondition,
};

use super::faults::{Event, Faults};

pub struct FaultyMetadata {
    pub faults: Arc<Faults>,
    pub inner: Box<dyn MetadataStore>,
}

impl FaultyMetadata {
    /// Before an entry of the audit trail is written.
    async fn inject_into_note(&self) -> Result<(), MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.faults.events.lock().unwrap().push(Event::Note);
        match &mut *self.faults.notes_left.lock().unwrap() {
            None => Ok(()),
            Some((0, error)) => Err(error.clone()),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// Once it is written.
    fn answer_note(&self) -> Result<(), MetadataError> {
        self.faults.noted_unheard.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl AccessStore for FaultyMetadata {
    async fn keys(&self, known: Option<Revision>) -> Result<Option<Keys>, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.keys(known).await
    }

    async fn change_key(&self, change: KeyChange, context: ChangeContext) -> Result<ApiKey, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.change_key(change, context).await
    }

    async fn note_uses(&self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.note_uses(uses).await
    }

    async fn note_erasure(&self, erasure: Erasure, context: ChangeContext) -> Result<ErasureEntry, MetadataError> {
        self.inject_into_note().await?;
        let noted = self.inner.note_erasure(erasure, context).await?;
        self.answer_note().map(|()| noted)
    }

    async fn note_server_change(
        &self,
        change: ServerChange,
        context: ChangeContext,
    ) -> Result<ServerChangeEntry, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.note_server_change(change, context).await
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.audit(filter, before, page_size).await
    }
}

#[async_trait]
impl JobStore for FaultyMetadata {
    async fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.jobs().await
    }

    async fn put_job(&self, job: &Job) -> Result<bool, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.faults.events.lock().unwrap().push(Event::Note);
        self.inner.put_job(job).await
    }

    async fn begin_job(&self, job: &Job, note: Erasure, context: ChangeContext) -> Result<(), MetadataError> {
        self.inject_into_note().await?;
        self.inner.begin_job(job, note, context).await?;
        self.answer_note()
    }

    async fn forget_job(&self, id: JobId) -> Result<(), MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.forget_job(id).await
    }
}

#[async_trait]
impl MetadataStore for FaultyMetadata {
    async fn apply(&self, change: Change, context: ChangeContext) -> Result<Applied, MetadataError> {
        self.faults.inject_into_metadata().await?;
        if let Change::FinishIndex { id, index, .. } = &change {
            self.faults.events.lock().unwrap().push(Event::Note);
            self.faults.finishes_held.subscribe().wait_for(|held| !held).await.unwrap();
            let created_again = self.faults.created_again.lock().unwrap().take();
            if let Some(creation) = created_again {
                let (id, version) = (id.clone(), index.version.clone());
                let deletion = Change::DeleteVersion { id, version, condition: Precondition::None };
                self.inner.apply(deletion, context.clone()).await?;
                self.inner.apply(creation, context.clone()).await?;
            }
        }
        self.inner.apply(change, context).await
    }

    async fn apply_together(&self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>> {
        let mut outcomes = Vec::new();
        for (change, context) in changes {
            outcomes.push(self.apply(change, context).await);
        }
        outcomes
    }

    fn together_max(&self) -> usize {
        self.inner.together_max()
    }

    async fn settle(&self) -> Result<(), MetadataError> {
        self.inner.settle().await
    }

    async fn feature(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError> {
        self.faults.inject_into_metadata().await?;
        if self.faults.every_other_reading.load(SeqCst) && self.faults.reading_went_well.swap(false, SeqCst) {
            let key = id.to_string();
            return Err(MetadataError::DatabaseInconsistency { table: "list_feature", column: "labels", key });
        }
        self.faults.reading_went_well.store(true, SeqCst);
        self.inner.feature(id).await
    }

    fn is_shared(&self) -> bool {
        self.faults.shares_definitions.load(SeqCst)
    }

    async fn features(
        &self,
        filter: &FeatureFilter,
        after: Option<&FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.features(filter, after, page_size).await
    }

    async fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.history(id, before, page_size).await
    }

    async fn each_definition(&self, each: &mut EachDefinition<'_>) -> Result<Revision, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.each_definition(each).await
    }

    async fn generations(&self, entity_type: &EntityType) -> Result<Vec<LastGeneration>, MetadataError> {
        self.faults.inject_into_metadata().await?;
        self.inner.generations(entity_type).await
    }

    async fn close(&self) {}
}
