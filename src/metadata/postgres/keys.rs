//! API keys and the complete audit trail, in the same database with the same revisions.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::PostgresStore;
use super::error::Failure;
use super::key_queries as queries;
use super::options::{BEGIN, BEGIN_SNAPSHOT, CALL_TIME_MAX};
use super::queries::{next_revision, notify, put_job, revision};
use super::transaction::{self, Work, Worked};
use crate::domain::{ApiKey, KeyId, Limit, Revision, Timestamp};
use crate::metadata::jobs::Job;
use crate::metadata::keys::change::{Decided, decide};
use crate::metadata::keys::erasures::{Erasure, ErasureEntry};
use crate::metadata::keys::server_changes::{ServerChange, ServerChangeEntry};
use crate::metadata::keys::{AccessStore, AuditFilter, AuditPage, KeyChange, Keys};
use crate::metadata::{ChangeContext, MetadataError};

#[async_trait]
impl AccessStore for PostgresStore {
    async fn keys(&self, known: Option<Revision>) -> Result<Option<Keys>, MetadataError> {
        let read = async {
            let mut lease = self.connections.lease_in_background().await?;
            let keys = read_keys(&mut lease, known).await;
            self.connections.conclude(lease, keys)
        };
        self.connections.within_in_background(CALL_TIME_MAX, read).await
    }

    async fn all_keys(&self) -> Result<Vec<ApiKey>, MetadataError> {
        let read = async {
            let mut lease = self.connections.lease().await?;
            let keys = read_keys(&mut lease, None).await;
            self.connections.conclude(lease, keys)
        };
        let keys = self.connections.within(CALL_TIME_MAX, read).await?;
        Ok(keys.map(|keys| keys.keys).unwrap_or_default())
    }

    async fn change_key(&self, change: KeyChange, context: ChangeContext) -> Result<ApiKey, MetadataError> {
        let work = KeyWork { change, context };
        transaction::carry_out(&self.connections, &self.collisions, &work).await
    }

    async fn note_uses(&self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError> {
        let write = async {
            let mut lease = self.connections.lease().await?;
            let noted = note_uses(&mut lease, uses).await;
            self.connections.conclude(lease, noted)
        };
        self.connections.within(CALL_TIME_MAX, write).await
    }

    async fn note_erasure(&self, erasure: Erasure, context: ChangeContext) -> Result<ErasureEntry, MetadataError> {
        let work = ErasureWork { erasure, job: None, context };
        transaction::carry_out(&self.connections, &self.collisions, &work).await
    }

    async fn note_server_change(
        &self,
        change: ServerChange,
        context: ChangeContext,
    ) -> Result<ServerChangeEntry, MetadataError> {
        let work = ServerWork { change, context };
        transaction::carry_out(&self.connections, &self.collisions, &work).await
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        // No text of the trail contains NUL, and Postgres rejects a query with one.
        let texts = [&filter.by, &filter.target, &filter.action];
        if texts.into_iter().flatten().any(|text| text.contains('\0')) {
            return Ok(AuditPage::default());
        }
        let read = async {
            let mut lease = self.connections.lease().await?;
            let page = read_audit(&mut lease, filter, before, page_size).await;
            self.connections.conclude(lease, page)
        };
        self.connections.within(CALL_TIME_MAX, read).await
    }
}

/// A change of a key. It reads all keys under the lock of all changes, so that names stay unique and the count exact.
struct KeyWork {
    change: KeyChange,
    context: ChangeContext,
}

#[async_trait]
impl Work for KeyWork {
    type Outcome = ApiKey;

    async fn carry_out(&self, connection: &mut PgConnection) -> Result<Worked<ApiKey>, Failure> {
        let revision = next_revision(connection).await?;
        let keys = queries::keys(connection).await?;
        let decided = decide(keys.iter(), self.change.clone(), revision, self.context.clone());
        match decided.map_err(Failure::Refused)? {
            Decided::Nothing(key) => Ok(Worked { outcome: *key, changed: false }),
            Decided::Change(transition) => {
                queries::put_key(connection, &transition.key).await?;
                queries::add_key_history(connection, &transition.entry).await?;
                notify(connection, revision).await?;
                Ok(Worked { outcome: transition.key, changed: true })
            }
        }
    }
}

/// An entry of the audit trail of erasures, and its job.
pub(super) struct ErasureWork<'j> {
    pub erasure: Erasure,
    pub job: Option<&'j Job>,
    pub context: ChangeContext,
}

#[async_trait]
impl Work for ErasureWork<'_> {
    type Outcome = ErasureEntry;

    async fn carry_out(&self, connection: &mut PgConnection) -> Result<Worked<ErasureEntry>, Failure> {
        let revision = next_revision(connection).await?;
        let ChangeContext { by, at } = self.context.clone();
        let outcome = ErasureEntry { revision, at, by, erasure: self.erasure.clone() };
        queries::add_erasure(connection, &outcome).await?;
        if let Some(job) = self.job
            && !put_job(connection, job).await?
        {
            let reason = "a job with this ID already exists".to_owned();
            return Err(Failure::Refused(MetadataError::Internal { reason, outcome_unknown: false }));
        }
        notify(connection, revision).await?;
        Ok(Worked { outcome, changed: true })
    }
}

/// An entry of the audit trail of servers.
struct ServerWork {
    change: ServerChange,
    context: ChangeContext,
}

#[async_trait]
impl Work for ServerWork {
    type Outcome = ServerChangeEntry;

    async fn carry_out(&self, connection: &mut PgConnection) -> Result<Worked<ServerChangeEntry>, Failure> {
        let revision = next_revision(connection).await?;
        let ChangeContext { by, at } = self.context.clone();
        let outcome = ServerChangeEntry { revision, at, by, change: self.change.clone() };
        queries::add_server_change(connection, &outcome).await?;
        notify(connection, revision).await?;
        Ok(Worked { outcome, changed: true })
    }
}

async fn read_keys(connection: &mut PgConnection, known: Option<Revision>) -> Result<Option<Keys>, Failure> {
    let mut snapshot = connection.begin_with(BEGIN_SNAPSHOT).await?;
    let revision = revision(&mut snapshot).await?;
    let keys = if known == Some(revision) { None } else { Some(queries::keys(&mut snapshot).await?) };
    snapshot.commit().await?;
    Ok(keys.map(|keys| Keys { revision, keys }))
}

async fn note_uses(connection: &mut PgConnection, uses: &[(KeyId, Timestamp)]) -> Result<(), Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    queries::note_key_uses(&mut transaction, uses).await?;
    Ok(transaction.commit().await?)
}

async fn read_audit(
    connection: &mut PgConnection,
    filter: &AuditFilter,
    before: Option<Revision>,
    page_size: Limit,
) -> Result<AuditPage, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let page = queries::audit(&mut transaction, filter, before, page_size).await?;
    transaction.commit().await?;
    Ok(page)
}
